"""Journals of federations, written by hand or at random; no protocol is needed for them.

`Federation` writes what sites report, in few words: `fed.send("p1", "alpha")` gives the name of the
message, `p1#1`; `fed.take("p2", "p1#1")`. Sites are named as nodes are (`tests/check/log.py`). Each
event happens a nanosecond after the one before. `federations()` is a Hypothesis strategy: runs of a
toy with one global order, in which now and then something is wrong.
"""

import random
from collections.abc import Callable, Mapping, Sequence

from hypothesis import strategies as st
from tests.check.log import message, node

from semcast.journal import Header, Journal, keys_text

Choose = Callable[[int], int]


class Federation:
    def __init__(
        self,
        groups: Mapping[str, Sequence[str]],
        recovery: str = "non-atomic",
        sources: Sequence[str] = (),
        one_order: bool = True,
    ) -> None:
        """Sites are those of the groups, and sources that are in none."""
        sites = sorted({node(site) for some in groups.values() for site in some} | {*sources})
        header = Header(
            run="a federation",
            members=tuple(node(site) for site in sites),
            reliability="federation",
            recovery=recovery,
            one_order=one_order,
        )
        self.journal = Journal(header)
        self.sent: dict[str, int] = {}
        self.group_of: dict[str, str] = {}
        self.graph: dict[str, int] = {}
        self.open(1, groups, sites)

    # -- what sites report -------------------------------------------------------------------------

    def event(
        self,
        at: str,
        event: str,
        about: str,
        *,
        by: str | None = None,
        where: str | None = None,
        obsoletes: tuple[int, ...] | None = None,
        key: str | None = None,
        graph: int | None = None,
        group: str | None = None,
    ) -> None:
        name, cover = message(about), None if by is None else message(by)
        self.journal.record(
            len(self.journal) + 1,
            node(at),
            event,
            name.sender,
            name.seq,
            obsoletes,
            key,
            size=10,
            where=where,
            by_sender=None if cover is None else cover.sender,
            by_seq=None if cover is None else cover.seq,
            view=self.graph.get(node(at)) if graph is None else graph,
            group=group or self.group_of.get(f"{name.sender}#{name.seq}", "alpha"),
        )

    def open(
        self, number: int, groups: Mapping[str, Sequence[str]], sites: Sequence[str] | None = None
    ) -> None:
        """Sites open a graph: those named, or all that are in a group."""
        members = {name: {node(one) for one in some} for name, some in groups.items()}
        for site in sites or sorted(set().union(*members.values())):
            own = [name.encode() for name in sorted(members) if node(site) in members[name]]
            self.graph[node(site)] = number
            self.journal.record(
                len(self.journal) + 1, node(site), "open", seq=number, key=keys_text(own),
                view=number,
            )  # fmt: skip

    def send(self, source: str, group: str, *distances: int, key: str | None = None) -> str:
        """Multicast a message; its name comes back."""
        self.sent[node(source)] = self.sent.get(node(source), 0) + 1
        name = f"{node(source)}#{self.sent[node(source)]}"
        self.group_of[name] = group
        self.event(source, "multicast", name, obsoletes=distances, key=key)
        return name

    def receive(self, at: str, *about: str, graph: int | None = None) -> None:
        for one in about:
            self.event(at, "receive", one, graph=graph)

    def deliver(self, at: str, *about: str) -> None:
        for one in about:
            self.event(at, "deliver", one)

    def take(self, at: str, *about: str, graph: int | None = None) -> None:
        """Receive and deliver."""
        for one in about:
            self.receive(at, one, graph=graph)
            self.deliver(at, one)

    def purge(self, at: str, about: str, by: str, where: str = "delivery") -> None:
        self.event(at, "purge", about, by=by, where=where)

    def skip(self, at: str, about: str, by: str) -> None:
        self.event(at, "skip", about, by=by)

    def undo(self, at: str, *about: str) -> None:
        for one in about:
            self.event(at, "undo", one)

    def resume(self, at: str, former: str, undone: int) -> None:
        self.journal.record(
            len(self.journal) + 1, node(at), "resume", node(former), undone,
            view=self.graph.get(node(at)),
        )  # fmt: skip

    def recall(self, at: str, former: str, owed: int = 0) -> None:
        self.journal.record(len(self.journal) + 1, node(at), "recall", node(former), owed)

    def world(self, event: str, *sites: str) -> None:
        """crash, leave, settled, out or end."""
        for site in sites:
            seq = 0 if event == "end" else None
            self.journal.record(len(self.journal) + 1, node(site), event, seq=seq)


# -- random runs -----------------------------------------------------------------------------------

GROUPS = ("alpha", "beta", "gamma")


class Run:
    """Sites deliver what they should in one global order, with mischief in between."""

    def __init__(self, choose: Choose) -> None:
        self.choose = choose
        self.sites = ["p1.1", "p2.1", "p3.1", "p4.1"]
        self.groups = {name: self.some(self.sites, 2) for name in GROUPS}
        self.recovery = ("atomic", "non-atomic", "non-atomic", "")[choose(4)]
        one_order = bool(choose(4))
        self.fed = Federation(self.groups, self.recovery, self.sites, one_order)
        self.number = 1
        # The one order; and how far each site is in it.
        self.order: list[str] = []
        self.ordered_in: dict[str, int] = {}
        self.place = dict.fromkeys(self.sites, 0)
        self.held: dict[str, list[str]] = {site: [] for site in self.sites}
        self.taken: dict[str, list[str]] = {site: [] for site in self.sites}
        self.keys: dict[tuple[str, str], str] = {}
        self.covers: dict[str, str] = {}

    def some(self, of: Sequence[str], least: int) -> list[str]:
        chosen = [one for one in of if self.choose(2)]
        return chosen if len(chosen) >= least else list(of[:least])

    def rarely(self, n: int = 20) -> bool:
        return not self.choose(n)

    def run(self, steps: int) -> Journal:
        for _ in range(steps):
            kind = self.choose(16)
            if kind < 4:
                self.send()
            elif kind < 14:
                self.step(self.sites[self.choose(len(self.sites))])
            elif kind == 14 and self.rarely(3):
                self.change()
            elif kind == 15 and self.rarely(2):
                self.crash()
            elif kind == 15 and self.rarely(3):
                self.take_back(self.sites[self.choose(len(self.sites))])
        for site in list(self.sites):
            while self.place[site] < len(self.order) or self.held[site]:
                self.step(site)
        if self.choose(8):
            self.fed.world("end", *self.sites)
        return self.fed.journal

    def send(self) -> None:
        source = self.sites[self.choose(len(self.sites))]
        group = GROUPS[self.choose(3)]
        if self.choose(3):
            name = self.fed.send(source, group)
        else:
            name = self.fed.send(source, group, 0, key="k")
            older = self.keys.get((source, group))
            if older is not None:
                self.covers[older] = name
            self.keys[source, group] = name
        if self.rarely(25):
            return  # lost
        self.order.append(name)
        self.ordered_in[name] = self.number
        if len(self.order) > 1 and self.rarely(12):
            self.order[-2:] = self.order[:-3:-1]

    def step(self, site: str) -> None:
        """Receive the next message, or deliver what waits."""
        held = self.held[site]
        if self.place[site] >= len(self.order) or (held and self.choose(2)):
            if held:
                name = held.pop(self.choose(len(held)) if self.rarely(10) else 0)
                self.fed.deliver(site, name)
                self.taken[site].append(name)
            return
        name = self.order[self.place[site]]
        self.place[site] += 1
        graph = self.ordered_in[name]
        if site not in self.groups[self.fed.group_of[name]] or self.rarely():
            if self.rarely(40):
                self.fed.receive(site, name)
            return
        if name in self.covers and self.rarely(4):
            self.fed.skip(site, name, self.covers[name])
            return
        self.fed.receive(site, name, graph=min(graph, self.number))
        for victim in [one for one in held if self.covers.get(one) == name]:
            held.remove(victim)
            self.fed.purge(site, victim, name)
        held.append(name)

    def take_back(self, site: str) -> None:
        """A site undoes what it delivered last, or anything, and perhaps delivers it again."""
        if not self.order:
            return
        taken = self.taken[site] if self.choose(4) else self.order
        for name in taken[-1 - self.choose(2) :]:
            self.fed.undo(site, name)
            if self.choose(3):
                self.fed.take(site, name)

    def change(self) -> None:
        """Everybody goes through what was ordered, and then opens another graph."""
        for site in self.sites:
            while self.place[site] < len(self.order):
                self.step(site)
        self.number += 1
        self.groups = {name: self.some(self.sites, 2) for name in GROUPS}
        late = self.sites[-1] if self.rarely(6) else ""
        self.fed.open(self.number, self.groups, [one for one in self.sites if one != late])

    def crash(self) -> None:
        """A site crashes or is put out, and mostly comes back."""
        at = self.choose(len(self.sites))
        site = self.sites[at]
        sender, life = site.split(".")
        self.fed.world(("crash", "out", "leave")[self.choose(5) // 2], site)
        if life != "1" or self.rarely(4):
            if len(self.sites) > 2:
                self.sites.pop(at)
            return
        again = self.sites[at] = f"{sender}.2"
        self.place[again] = self.place[site]
        self.taken[again], self.held[again] = (
            [],
            self.held[site] if self.recovery == "atomic" else [],
        )
        self.groups = {
            name: [again if one == site else one for one in some]
            for name, some in self.groups.items()
        }
        undone: list[str] = []
        if self.recovery != "atomic":
            self.number += 1
            undone = self.taken[site][len(self.taken[site]) - self.choose(3) :]
            undone = undone[: self.choose(3)] if self.rarely(5) else undone
            self.order += undone if self.rarely(3) else []
        if self.choose(4):
            self.fed.recall(again, site)
        self.fed.open(self.number, self.groups, [again] if self.recovery == "atomic" else None)
        self.fed.undo(again, *undone)
        if self.choose(5):
            self.fed.resume(again, site, len(undone) + (1 if self.rarely(10) else 0))
        for name in undone:
            if self.choose(4):
                self.fed.take(again, name)


@st.composite
def federations(draw: st.DrawFn, steps_max: int = 60) -> Journal:
    """Any run of at most so many steps. The choices come from a seed, as in `runs`."""
    stream = random.Random(draw(st.integers(0, 2**32 - 1)))
    return Run(stream.randrange).run(draw(st.integers(10, steps_max)))
