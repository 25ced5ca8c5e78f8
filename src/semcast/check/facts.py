"""What is known of whole runs before any event is judged: who was there, when, and who is correct.

What was seen of each node goes in, which is little whatever the journal's size; names become
numbers. The facts are sent to every task of a job, so this file knows nothing of Spark.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from semcast.check.sites import Sites, SitesSeen, sites_of
from semcast.errors import InputError
from semcast.journal import Event, Header, keys_in, parse_node
from semcast.journal.lives import END

GONE: Final = ("crash", "leave")
# The place of an event that never happened: later than all others.
NEVER: Final = 1 << 62


class ViewSeen(NamedTuple):
    """A view that a node reported: where, of which group, and who is there."""

    at: int
    origin: str
    number: int
    members: tuple[str, ...]


@dataclass
class Seen:
    """What was seen in one run. Nodes go by their names, and events by their places."""

    # By kind of event: how often it was seen.
    counts: dict[str, int] = field(default_factory=dict)
    # By node: its first event, its first crash, its first crash or leave, its last multicast.
    first_at: dict[str, int] = field(default_factory=dict)
    crash_at: dict[str, int] = field(default_factory=dict)
    gone_at: dict[str, int] = field(default_factory=dict)
    sent_at: dict[str, int] = field(default_factory=dict)
    # By node that ended by itself: where, and with how many messages waiting.
    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    # The nodes that left when what they sent and took was safe at the others.
    settled: set[str] = field(default_factory=set)
    # By node: the views that it reported, in order.
    views: dict[str, list[ViewSeen]] = field(default_factory=dict)
    # Of a federation: what its sites reported.
    sites: SitesSeen = field(default_factory=SitesSeen)
    # When the journal ends.
    end_ns: int = 0

    def note_view(self, node: str, at: int, origin: str, number: int, key: str | None) -> None:
        """Add a view that a node reported; `key` names its members."""
        members = tuple(keys_in(key)) if key else ()
        self.views.setdefault(node, []).append(ViewSeen(at, origin, number, members))

    def note_one(self, event: Event, at: int) -> None:
        """Add a multicast, or a view that a node reported."""
        if event.event == "multicast":
            self.sent_at[event.node] = at
        else:
            self.note_view(event.node, at, event.sender or "", event.seq or 0, event.key)

    def note(self, node: str, event: str, first_at: int, last_at: int, seq: int | None) -> None:
        """Add some events of one kind; `seq` is the largest that they name."""
        if event in GONE:
            self.gone_at[node] = min(first_at, self.gone_at.get(node, first_at))
        if event == "crash":
            self.crash_at.setdefault(node, first_at)
        elif event == "multicast":
            self.sent_at[node] = last_at
        elif event == END:
            self.ends[node] = (last_at, max(seq or 0, self.ends.get(node, (0, 0))[1]))
        elif event == "settled":
            self.settled.add(node)


class Waiting(NamedTuple):
    """What a node did with messages of a sender, as far as that says whether more is to come."""

    node: str
    sender: str
    received: int
    # Delivered, or purged from delivery.
    gone: int
    # The largest seq that it multicast, received, and took for stable; 0 for none.
    sent_newest: int
    received_newest: int
    stable_newest: int


@dataclass
class RunFacts:
    """One run."""

    header: Header
    # Those that were there from the start, and the others in the order in which they came.
    nodes: list[str]
    # By node: where its first event stands, its first crash, and its first crash or leave.
    first_at: list[int]
    crash_at: list[int]
    gone_at: list[int]
    # Sets of nodes, as bits: who was there from the start; who neither crashed nor left, with no
    # later life known; who ended by itself; who left settled; and who is owed something for what
    # it delivered or sent, the correct and the settled. The settled owe nothing any more.
    initial: int
    correct: int
    ended: int
    settled: int
    trusted: int
    end_ns: int
    counts: dict[str, int]
    # Those that only receive, as bits.
    readers: int = 0
    # Of an open group, by node: the views that it reported.
    views: list[list[ViewSeen]] = field(default_factory=list)
    # Of a federation: its sites.
    sites: Sites | None = None
    numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {name: n for n, name in enumerate(self.nodes)}

    def those_known(self, names: Iterable[str]) -> int:
        """The set of those of these nodes of which there is any event."""
        return self.those(name for name in set(names) if name in self.numbers)

    def has_all_of(self, n: int, sender: str) -> bool:
        """Whether a node was there before a sender multicast anything, so that it owes all of it.

        In an open group it was if the sender came in with the same view as the node, or later.
        """
        if (self.initial >> n) & 1 or self.nodes[n] == sender:
            return True
        other = self.numbers.get(sender)
        if other is None or not self.views or not (self.views[n] and self.views[other]):
            return False
        own, first = self.views[n][0], self.views[other][0]
        return own.origin == first.origin and first.number >= own.number

    def view_at(self, n: int, at: int) -> ViewSeen | None:
        """The view that counted at a node when something happened there."""
        views = self.views[n] if self.views else []
        found = bisect_right(views, at, key=lambda one: one.at)
        return views[found - 1] if found else None

    def forgotten_by(self, sender: str) -> int:
        """The nodes that a sender of an open group had forgotten when it left: its last view does
        not have them. One that stays would have found them again.
        """
        n = self.numbers.get(sender)
        if n is None or not self.header.open or (self.correct >> n) & 1 or not self.views:
            return 0
        last = self.views[n][-1].members if self.views[n] else ()
        return ((1 << len(self.nodes)) - 1) & ~self.those_known(last) & ~self.only(sender)

    def wrote_all(self, name: str) -> bool:
        """Whether the log of a sender is whole. A live process that was killed had no time to write
        down what it did last, and some write no log. If a journal was not put together from the
        logs of lives, it has everything.
        """
        if self.header.one_order or not self.header.names:
            return True
        n = self.numbers.get(name)
        return n is not None and self.crash_at[n] == NEVER and name in self._writers

    @cached_property
    def _writers(self) -> set[str]:
        return {one.partition(" ")[0] for one in self.header.names}

    def only(self, name: str) -> int:
        """The set of this node alone; empty if no such node is known."""
        n = self.numbers.get(name)
        return 0 if n is None else 1 << n

    def those(self, names: Iterable[str]) -> int:
        """The set of these nodes."""
        return sum(1 << self.numbers[name] for name in names)


@dataclass
class Facts:
    """All runs; nodes and senders have numbers that no other run has."""

    runs: list[RunFacts]
    # By number of a node: its run, and its number there.
    nodes: list[tuple[int, int]]
    # By number of a sender: its run, and its name.
    senders: list[tuple[int, str]]
    # Whether anything was multicast with a rank, and in which runs covers are of other senders.
    ranked: bool = False
    crossing: frozenset[int] = frozenset()

    @cached_property
    def lives(self) -> dict[int, int]:
        """Of senders with several lives in a run with order "key": the number of the first life."""
        groups: dict[tuple[int, int], list[int]] = {}
        for sid, (no, name) in enumerate(self.senders):
            if self.runs[no].header.order == "key":
                groups.setdefault((no, source_of(name)[0]), []).append(sid)
        return {sid: sids[0] for sids in groups.values() if len(sids) > 1 for sid in sids}

    @cached_property
    def group_of(self) -> dict[int, int]:
        """By sender: whose group its messages are judged in, in the order of the run; itself,
        unless covers are of other senders there.
        """
        first: dict[int, int] = {}
        for sid, (no, _) in enumerate(self.senders):
            first.setdefault(no, sid)
        return {
            sid: first[no] if no in self.crossing else sid
            for sid, (no, _) in enumerate(self.senders)
        }


def facts_of(
    headers: Mapping[str, Header],
    seen: Mapping[str, Seen],
    senders: Iterable[tuple[str, str]],
    ranked: bool = False,
    crossing: Iterable[str] = (),
) -> Facts:
    """Give numbers to nodes and senders, run by run. `senders` are pairs of run and name."""
    runs = [run_facts(headers[run], seen.get(run, Seen())) for run in sorted(headers)]
    numbers = {run.header.run: number for number, run in enumerate(runs)}
    return Facts(
        runs,
        [(number, n) for number, run in enumerate(runs) for n in range(len(run.nodes))],
        sorted((numbers[run], name) for run, name in senders),
        ranked,
        frozenset(numbers[run] for run in crossing),
    )


def run_facts(header: Header, seen: Seen) -> RunFacts:
    """Who was there, and who is correct."""
    later = seen.first_at.keys() - set(header.members)
    nodes = [*header.members, *sorted(later, key=lambda node: (seen.first_at[node], node))]
    gone = {*seen.gone_at, *_ended_early(header, seen), *seen.sites.outs}
    run = RunFacts(
        header,
        nodes,
        first_at=[seen.first_at.get(node, NEVER) for node in nodes],
        crash_at=[seen.crash_at.get(node, NEVER) for node in nodes],
        gone_at=[seen.gone_at.get(node, NEVER) for node in nodes],
        initial=(1 << len(header.members)) - 1,
        correct=0,
        ended=0,
        settled=0,
        trusted=0,
        end_ns=seen.end_ns,
        counts=seen.counts,
        views=[seen.views.get(node, []) for node in nodes] if seen.views else [],
    )
    newest: dict[int, int] = {}
    for name in nodes:
        sender, incarnation = parse_node(name)
        newest[sender] = max(newest.get(sender, 0), incarnation)
    run.correct = run.those(
        name
        for name in nodes
        if name not in gone and newest[parse_node(name)[0]] == parse_node(name)[1]
    )
    readers = set(header.readers)
    run.readers = run.those(
        name for name in nodes if name in readers or name.partition(".")[0] in readers
    )
    run.ended = run.those(seen.ends)
    run.settled = run.those(seen.settled)
    run.trusted = run.correct | run.settled
    if header.federated:
        left = {*seen.gone_at, *seen.ends} - seen.crash_at.keys()
        run.sites = sites_of(header, nodes, seen.sites, seen.crash_at, left)
    return run


def _ended_early(header: Header, seen: Seen) -> set[str]:
    """Who ended while others went on, or with messages waiting; as in `journal.lives`, where the
    logs of single lives are through with it.
    """
    if not header.one_order:
        return set()
    return {
        node
        for node, (end_at, waiting) in seen.ends.items()
        if waiting or any(at > end_at for other, at in seen.sent_at.items() if other != node)
    }


def source_of(name: str) -> tuple[int, int]:
    """A sender's number and life; a name that is not a sender's counts as nobody's."""
    try:
        return parse_node(name)
    except InputError:
        return (-1, -1)


def nodes_in(mask: int) -> list[int]:
    """The numbers in a set, in order."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return found
