"""What is known of the sites of a federation: their lives, their groups, and whose order counts.

A site is in the groups that its last graph says (`open`). A life of it that crashed, was put out or
has fallen behind may have delivered what the others then ordered otherwise (PROP §5.2.1). With the
non-atomic recovery its order counts only if a later life was told what to roll back (`resume`), and
without that. With the atomic one nobody goes on without it, and all lives of a site are one.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final, NamedTuple

from semcast.journal import Header, key_text, keys_in, parse_node

# Events of sites that are no messages', and are known before anything is judged.
OF_SITES: Final = ("open", "out", "resume", "recall")


class Opened(NamedTuple):
    """A graph that counted at a node from here on, and the groups that the node was in."""

    at: int
    number: int
    groups: tuple[str, ...]


class Resumed(NamedTuple):
    """A node was told what to roll back of a former life: so many deliveries."""

    node: str
    former: str
    undone: int
    at: int
    time_ns: int


@dataclass
class SitesSeen:
    """What nodes reported, by their names."""

    opens: dict[str, list[Opened]] = field(default_factory=dict)
    outs: set[str] = field(default_factory=set)
    resumes: list[Resumed] = field(default_factory=list)
    # By node: the former life whose memory it begins with.
    recalls: dict[str, str] = field(default_factory=dict)
    # The groups of messages, in the order of their numbers.
    groups: list[str] = field(default_factory=list)

    def note(
        self,
        node: str,
        event: str,
        at: int,
        time_ns: int,
        sender: str | None,
        seq: int | None,
        key: str | None,
    ) -> None:
        """Add one of `OF_SITES`."""
        if event == "open":
            groups = tuple(keys_in(key)) if key else ()
            self.opens.setdefault(node, []).append(Opened(at, seq or 0, groups))
        elif event == "out":
            self.outs.add(node)
        elif event == "recall":
            self.recalls[node] = sender or ""
        else:
            self.resumes.append(Resumed(node, sender or "", seq or 0, at, time_ns))


@dataclass
class Sites:
    """The sites of one run. Nodes are numbers, and sets of them bits."""

    # By number of a group: its name.
    groups: list[str]
    # By node: the graphs that it opened; with the atomic recovery, those of former lives too.
    opens: list[list[Opened]]
    # By site: its lives in order, and those whose order counts. By node: the last life of its site.
    lives: list[list[int]]
    judged: list[list[int]]
    final: list[int]
    # The lives that crashed, were put out or have fallen behind; none if the recovery is atomic.
    lost: int
    # By life: the lives that it was told about, and how many deliveries to undo.
    resumed: dict[int, dict[int, Resumed]]
    atomic: bool
    # The lives that crashed, or learned that the others went on without them.
    failed: int = 0
    # By life: the former ones that it remembers.
    remembers: list[int] = field(default_factory=list)
    _members: dict[int, dict[str, int]] = field(default_factory=dict)
    _staying: dict[tuple[int, int], int] = field(default_factory=dict)

    def members(self, gid: int, graph: int) -> int:
        """The nodes that are in a group by the last graph that they opened up to this one."""
        found = self._members.get(graph)
        if found is None:
            found = self._members[graph] = {}
            for n, opens in enumerate(self.opens):
                place = bisect_right(opens, graph, key=_number)
                for group in opens[place - 1].groups if place else ():
                    found[group] = found.get(group, 0) | 1 << n
        return found.get(self._text(gid), 0)

    def opened(self, gid: int, graph: int) -> int:
        """The nodes that opened a graph in which they are in a group. After a failure a site may go
        over a graph, and then nobody can tell whether it was in a group there.
        """
        text = self._text(gid)
        return sum(
            1 << n
            for n, opens in enumerate(self.opens)
            if any(one.number == graph and text in one.groups for one in opens)
        )

    def staying(self, gid: int, graph: int) -> int:
        """The members of a group in a graph that have been in it ever since."""
        found = self._staying.get((gid, graph))
        if found is None:
            text, found = self._text(gid), 0
            for n, opens in enumerate(self.opens):
                place = bisect_right(opens, graph, key=_number)
                if place and all(text in one.groups for one in opens[place - 1 :]):
                    found |= 1 << n
            self._staying[gid, graph] = found
        return found

    def always(self, gid: int) -> int:
        """The nodes that have been in a group ever since the first graph."""
        text = self._text(gid)
        first = min((opens[0].number for opens in self.opens if opens), default=0)
        return sum(
            1 << n
            for n, opens in enumerate(self.opens)
            if opens and opens[0].number == first and all(text in one.groups for one in opens)
        )

    def left_at(self, n: int) -> int:
        """The last graph that the lives of a site before this one have opened; -1 if there are
        none.
        """
        lives = next(some for some in self.lives if n in some)
        before = lives[: lives.index(n)]
        return max((self.opens[one][-1].number for one in before if self.opens[one]), default=-1)

    @property
    def newest(self) -> int:
        """The largest number of a graph that anybody opened."""
        return max((one.number for opens in self.opens for one in opens), default=0)

    def _text(self, gid: int) -> str:
        return key_text(self.groups[gid].encode()) if gid >= 0 else ""


def _number(one: Opened) -> int:
    return one.number


def sites_of(
    header: Header,
    nodes: Sequence[str],
    seen: SitesSeen,
    crashed: Iterable[str],
    gone: Iterable[str],
) -> Sites:
    """`gone` are the nodes that left or ended by themselves."""
    numbers = {name: n for n, name in enumerate(nodes)}
    by_site: dict[int, list[tuple[int, int]]] = {}
    for n, name in enumerate(nodes):
        sender, life = parse_node(name)
        by_site.setdefault(sender, []).append((life, n))
    lives = [[n for _, n in sorted(some)] for _, some in sorted(by_site.items())]
    final = [0] * len(nodes)
    for some in lives:
        for n in some:
            final[n] = some[-1]
    opens = [seen.opens.get(name, []) for name in nodes]
    resumed: dict[int, dict[int, Resumed]] = {}
    for one in seen.resumes:
        if one.former in numbers:
            told = resumed.setdefault(numbers[one.node], {})
            n = numbers[one.former]
            # It may be told more than once; what it owes from before is not told again.
            before = told[n].undone if n in told else 0
            told[n] = one._replace(undone=before + one.undone)
    atomic = header.recovery == "atomic"
    if atomic:
        opens = _joined(opens, lives)
    sites = Sites(seen.groups, opens, lives, lives, final, 0, resumed, atomic)
    if not atomic:
        lost = {numbers[name] for name in (*crashed, *seen.outs) if name in numbers}
        sites.failed = sum(1 << n for n in lost)
        sites.remembers = _remembered(lives, seen.recalls, nodes)
        stayed = set(range(len(nodes))) - {numbers[name] for name in gone if name in numbers}
        lost |= {n for n in stayed if final[n] != n or _is_behind(sites, n)}
        told_of = {former for formers in resumed.values() for former in formers}
        sites.lost = sum(1 << n for n in lost)
        sites.judged = [[n for n in some if n not in lost or n in told_of] for some in lives]
    return sites


def _remembered(lives: list[list[int]], recalls: dict[str, str], nodes: Sequence[str]) -> list[int]:
    """By life: the former ones that it remembers. Whoever begins with the memory of one has that
    of all since, and of all that that one remembered.
    """
    found = [0] * len(nodes)
    for some in lives:
        for place, n in enumerate(some):
            former = next((at for at in some[:place] if nodes[at] == recalls.get(nodes[n])), -1)
            if former >= 0:
                since = some[some.index(former) : place]
                found[n] = found[former] | sum(1 << one for one in since)
    return found


def _is_behind(sites: Sites, n: int) -> bool:
    """Whether others have opened a later graph, although this node is in some group: perhaps they
    went on without it, and it does not know yet.
    """
    opens = sites.opens[n]
    return bool(opens) and bool(opens[-1].groups) and opens[-1].number < sites.newest


def _joined(opens: list[list[Opened]], lives: list[list[int]]) -> list[list[Opened]]:
    """By node: the graphs of its former lives and its own."""
    found = list(opens)
    for some in lives:
        for before, n in pairwise(some):
            found[n] = [*found[before], *opens[n]]
    return [sorted(one, key=_number) for one in found]
