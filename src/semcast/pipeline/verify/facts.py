"""What is known of whole runs before any event is judged: who was there, when, and who is correct.

Counts by node and kind of event go in, which is little whatever the journal's size; names become
numbers, as in `check.history`. Goes to every task, so it knows nothing of Spark.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple

from semcast.check.relation import NEVER
from semcast.check.violation import MessageId
from semcast.errors import InputError
from semcast.journal import Header, parse_node
from semcast.journal.lives import END

GONE: Final = ("crash", "leave")


class Seen(NamedTuple):
    """How often and when a node did one thing."""

    run: str
    node: str
    event: str
    times: int
    first_at: int
    last_at: int
    # When the last of them was, and the latest of them; clocks may go back.
    last_ns: int
    latest_ns: int
    # The largest seq that it named: of an `end`, how many messages waited.
    newest: int | None = None


@dataclass
class RunFacts:
    """One run."""

    header: Header
    nodes: list[str]
    # By node: where its first event stands, its first crash, and its first crash or leave.
    first_at: list[int]
    crash_at: list[int]
    gone_at: list[int]
    # Sets of nodes, as bits.
    initial: int
    correct: int
    # Those whose log says that they ended by themselves.
    ended: int
    # Those that are owed what they delivered or sent: also who left settled.
    trusted: int
    end_ns: int
    counts: dict[str, int]
    numbers: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.numbers = {name: n for n, name in enumerate(self.nodes)}

    def only(self, name: str) -> int:
        """The set of this node alone; empty if no such node is known."""
        n = self.numbers.get(name)
        return 0 if n is None else 1 << n


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
    # Where the last event of all runs stands; NEVER if some have a place below 0.
    at_max: int = 0

    @cached_property
    def lives(self) -> dict[int, int]:
        """Of senders with several lives in a run with order "key": the number of the first."""
        groups: dict[tuple[int, int], list[int]] = {}
        for sid, (no, name) in enumerate(self.senders):
            if self.runs[no].header.order == "key":
                groups.setdefault((no, source_of(name)[0]), []).append(sid)
        return {sid: sids[0] for sids in groups.values() if len(sids) > 1 for sid in sids}

    def message(self, sid: int, seq: int) -> MessageId:
        """A message by the number of its sender."""
        return MessageId(self.senders[sid][1], seq)


def facts_of(
    headers: dict[str, Header], seen: Iterable[Seen], senders: Iterable[tuple[str, str]]
) -> Facts:
    """Number everything, run by run."""
    by_run: dict[str, list[Seen]] = {run: [] for run in headers}
    at_max = 0
    for one in seen:
        by_run[one.run].append(one)
        at_max = max(at_max, one.last_at if one.first_at >= 0 else NEVER)
    runs = [_run_facts(headers[run], by_run[run]) for run in sorted(headers)]
    numbers = {run.header.run: number for number, run in enumerate(runs)}
    return Facts(
        runs,
        [(number, n) for number, run in enumerate(runs) for n in range(len(run.nodes))],
        sorted((numbers[run], name) for run, name in senders),
        at_max=at_max,
    )


def _run_facts(header: Header, seen: list[Seen]) -> RunFacts:
    first_at: dict[str, int] = {}
    for one in seen:
        first_at[one.node] = min(one.first_at, first_at.get(one.node, NEVER))
    later = [node for node in first_at if node not in header.members]
    nodes = [*header.members, *sorted(later, key=lambda node: (first_at[node], node))]
    crash_at, gone_at = dict.fromkeys(nodes, NEVER), dict.fromkeys(nodes, NEVER)
    counts: dict[str, int] = {}
    for one in seen:
        counts[one.event] = counts.get(one.event, 0) + one.times
        if one.event in GONE:
            gone_at[one.node] = min(gone_at[one.node], one.first_at)
        if one.event == "crash":
            crash_at[one.node] = one.first_at
    ends = {one.node: one for one in seen if one.event == END}
    early = _ended_early(header, seen, ends)
    correct = _correct(nodes, {node for node in nodes if gone_at[node] != NEVER or node in early})
    settled = {one.node for one in seen if one.event == "settled"}
    return RunFacts(
        header,
        nodes,
        [first_at.get(node, NEVER) for node in nodes],
        [crash_at[node] for node in nodes],
        [gone_at[node] for node in nodes],
        (1 << len(header.members)) - 1,
        correct,
        sum(1 << n for n, node in enumerate(nodes) if node in ends),
        correct | sum(1 << n for n, name in enumerate(nodes) if name in settled),
        _end_ns(header, seen),
        counts,
    )


def _ended_early(header: Header, seen: list[Seen], ends: dict[str, Seen]) -> set[str]:
    """Who ended while others went on, or with messages waiting; as in `check.history`."""
    if not header.one_order:
        return set()
    sent = {one.node: one.last_at for one in seen if one.event == "multicast"}
    return {
        node
        for node, end in ends.items()
        if end.newest or any(at > end.last_at for other, at in sent.items() if other != node)
    }


def _correct(nodes: list[str], gone: set[str]) -> int:
    """Those that neither crashed nor left, and of which no later life is known."""
    newest: dict[int, int] = {}
    for name in nodes:
        sender, incarnation = parse_node(name)
        newest[sender] = max(newest.get(sender, 0), incarnation)
    mask = 0
    for n, name in enumerate(nodes):
        sender, incarnation = parse_node(name)
        if name not in gone and incarnation == newest[sender]:
            mask |= 1 << n
    return mask


def _end_ns(header: Header, seen: list[Seen]) -> int:
    if not seen:
        return 0
    if header.one_order:
        return max(seen, key=lambda one: one.last_at).last_ns
    return max(one.latest_ns for one in seen)


def source_of(name: str) -> tuple[int, int]:
    """A sender's number and life; of names that are none, as of nobody."""
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
