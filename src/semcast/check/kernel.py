"""Kernels: rows of one group in, in order; findings out. What judges, in one process or on Spark.

A kernel judges one property of one group (one node, one sender) and sees its rows batch by batch,
so that it needs no more memory than its own state. All kernels of a group are fed the same rows.
Most rows are as they should be, which NumPy can check for many at once (`feed_many`); only small or
odd batches are looked at row by row (`feed_each`). Knows nothing of the properties.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias, final

import numpy as np

from semcast.check.delivered import Delivered
from semcast.check.facts import Facts
from semcast.check.rows import (
    DELIVER,
    IGNORE,
    JOIN,
    MULTICAST,
    OTHER,
    PURGE_RETRANSMIT,
    PURGES,
    RECEIVE,
    RELAY,
    SKIP,
    STABLE,
    STATE,
    UNDO,
    VIEW,
    Row,
    Rows,
)
from semcast.check.sent import Order, Sent
from semcast.check.violation import MessageId, Violation

# How rows are sorted and grouped. By node: what it did. By sender: what it multicast; then what was
# delivered of it and who joined it, and what was purged or skipped for a message of it. Views go by
# their origin, as if that had sent them. By lives: of a sender that came back, what it multicast in
# all of its lives, then what nodes received and delivered of it. In order: what is known of a
# sender's messages; of all senders of a run, if messages of one replace those of another. Two more
# are of federations alone. By stream: what a site multicast, then what sites received, delivered
# and undid of it. Of a run: what all of its sites delivered and undid.
BY_NODE: Final = "by node"
BY_SENDER: Final = "by sender"
BY_LIVES: Final = "by lives"
IN_ORDER: Final = "in order"
BY_STREAM: Final = "by stream"
OF_RUN: Final = "of run"
FEDERATED: Final = (BY_STREAM, OF_RUN)
# Fewer rows than this are looked at one by one.
MANY_ROWS: Final = 256
FLUSH_FINDINGS: Final = 10_000
# By sorting: the kinds of events that belong there; and where what was multicast goes first.
KINDS_OF: Final = {
    BY_NODE: (
        MULTICAST,
        RECEIVE,
        DELIVER,
        STATE,
        IGNORE,
        *PURGES,
        SKIP,
        STABLE,
        RELAY,
        UNDO,
        OTHER,
    ),
    BY_SENDER: (MULTICAST, DELIVER, STATE, IGNORE, JOIN, VIEW, *PURGES, SKIP, UNDO),
    BY_LIVES: (MULTICAST, RECEIVE, DELIVER),
    IN_ORDER: (MULTICAST, RECEIVE, IGNORE, PURGE_RETRANSMIT, SKIP, STABLE, JOIN),
    BY_STREAM: (MULTICAST, RECEIVE, DELIVER, UNDO),
    OF_RUN: (DELIVER, UNDO),
}
SENT_FIRST: Final = (BY_SENDER, BY_LIVES, BY_STREAM)


class Finding(NamedTuple):
    """A broken promise, or what decides with others whether one is broken (`standing`)."""

    run_no: int
    # None: this finding breaks nothing; it says what a node has, by `key` and `place`.
    property: str | None
    n: int
    messages: list[tuple[str, int]] | None = None
    time_ns: int = 0
    text: str = ""
    # Of an event that may have several faults: where it stands, and which fault is reported.
    at: int | None = None
    precedence: int = 0
    # Of a ranked message: its key, and where it stands in the key's order.
    key: str | None = None
    place: Order | None = None
    # Of a property of chance (`tally`): how often it held in this group, of how often it could.
    tally: tuple[int, int] | None = None

    def violation(self, facts: Facts) -> Violation:
        """The finding in the form that people read."""
        about = tuple(MessageId(*one) for one in self.messages or ())
        node = facts.runs[self.run_no].nodes[self.n]
        return Violation(self.property or "", self.text, node, about, self.time_ns)


def standing(found: Sequence[Finding]) -> list[bool]:
    """All findings about the same events and keys in; which of them stand, out.

    Of an event with several faults the first is reported. A node lacks a ranked message only if it
    has none of the same key that is higher.
    """
    first: dict[tuple[Any, ...], int] = {}
    highest: dict[tuple[Any, ...], Order] = {}
    for one in found:
        if one.at is not None:
            event = (one.run_no, one.n, one.at)
            first[event] = min(one.precedence, first.get(event, one.precedence))
        elif one.property is None and one.place is not None:
            cell = (one.run_no, one.n, one.key)
            highest[cell] = max(one.place, highest.get(cell, one.place))
    return [_stands(one, first, highest) for one in found]


def _stands(one: Finding, first: dict[Any, int], highest: dict[Any, Order]) -> bool:
    if one.property is None:
        return False
    if one.at is not None:
        return one.precedence == first[one.run_no, one.n, one.at]
    if one.place is None:
        return True
    return highest.get((one.run_no, one.n, one.key), one.place) <= one.place


@final
class Group:
    """What the kernels of one group share."""

    def __init__(self, facts: Facts, sorting: str, number: int) -> None:
        self.facts: Final = facts
        self.number: Final = number
        self.sorting: Final = sorting
        # The node by its number in the run, or the sender by its name.
        self.n = -1
        self.sender = ""
        if sorting == BY_NODE:
            self.run_no, self.n = facts.nodes[number]
        elif sorting == OF_RUN:
            self.run_no = number
        else:
            self.run_no, self.sender = facts.senders[number]
        self.run: Final = facts.runs[self.run_no]

    @cached_property
    def sent(self) -> Sent:
        """What was multicast, of a sender's group."""
        return Sent(self.run, self.sender)

    @cached_property
    def delivered(self) -> Delivered:
        """What all sites of a run delivered, of a run's group."""
        return Delivered(self.run)


class Kernel:
    """Judges one property of one group."""

    def __init__(self, group: Group) -> None:
        self.group: Final = group
        self.run: Final = group.run
        self.found: list[Finding] = []

    def feed(self, rows: Rows) -> None:
        """Judge some more rows of the group. By sender, multicasts are in `sent` instead; of a run,
        all rows are in `delivered`.
        """
        if len(rows) < MANY_ROWS or not self.feed_many(rows):
            self.feed_each(rows.each)

    def feed_many(self, rows: Rows) -> bool:  # noqa: ARG002  (most kernels look at every row)
        """Judge all rows at once; False, and nothing judged, if one of them may be wrong."""
        return False

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Judge row by row; kernels of whole runs are never asked."""
        raise NotImplementedError(f"{type(self).__name__} must define feed_each")

    def end(self) -> None:
        """Judge what can only be judged when there are no more rows."""

    def report(
        self, name: str, n: int, about: list[tuple[str, int]], time_ns: int, text: str, **more: Any
    ) -> None:
        """Report that something is broken at a node; `text` goes on after the node's name."""
        node = self.run.nodes[n]
        self.found.append(
            Finding(self.group.run_no, name, n, about, time_ns, f"{node} {text}", **more)
        )

    def message(self, sid: int, seq: int) -> MessageId:
        """A message by the number of its sender."""
        return MessageId(self.group.facts.senders[sid][1], seq)


# Makes the kernel of one property for a group; None if there is nothing to judge in it.
Maker: TypeAlias = Callable[[Group], Kernel | None]
# By run: who judges its groups.
Makers: TypeAlias = Sequence[Sequence[Maker]]


@final
class GroupJudge:
    """Feeds one group to its kernels."""

    def __init__(self, facts: Facts, sorting: str, number: int, makers: Makers) -> None:
        self._group: Final = Group(facts, sorting, number)
        made = (make(self._group) for make in makers[self._group.run_no])
        self._kernels: Final = [kernel for kernel in made if kernel is not None]

    def feed(self, rows: Rows) -> None:
        """Feed some more rows to every kernel."""
        if not self._kernels or not len(rows):
            return
        if self._group.sorting == OF_RUN:
            self._group.delivered.feed(rows)
            return
        if self._group.sorting in (BY_SENDER, BY_STREAM):
            rows = self._send(rows)
        if len(rows):
            for kernel in self._kernels:
                kernel.feed(rows)

    def _send(self, rows: Rows) -> Rows:
        """Keep the multicasts, which come first, for all kernels; returns the other rows."""
        sent = rows.multicasts
        if sent:
            self._group.sent.feed(rows if sent == len(rows) else rows.slice(0, sent))
        return rows.slice(sent, len(rows)) if sent else rows

    def taken(self) -> list[Finding]:
        """What was found since the last time."""
        found: list[Finding] = []
        for kernel in self._kernels:
            if kernel.found:
                found += kernel.found
                kernel.found = []
        return found

    def end(self) -> list[Finding]:
        """All rows were fed: what was found since the last time."""
        for kernel in self._kernels:
            kernel.end()
        return self.taken()


def feed_all(
    batches: Iterable[Any], column: str, facts: Facts, sorting: str, makers: Makers
) -> Iterator[list[Finding]]:
    """Arrow's batches, in which the rows of a group stand together, in; what is found, out."""
    current = -1
    judge: GroupJudge | None = None
    found: list[Finding] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        numbers = batch.column(column).to_numpy(zero_copy_only=False)
        inner = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
        for first, last in pairwise([0, *inner.tolist(), len(numbers)]):
            number = int(numbers[first])
            if judge is None or number != current:
                found += [] if judge is None else judge.end()
                current, judge = number, GroupJudge(facts, sorting, number, makers)
            judge.feed(Rows(batch=batch.slice(first, last - first)))
            found += judge.taken()
            if len(found) >= FLUSH_FINDINGS:
                yield found
                found = []
    found += [] if judge is None else judge.end()
    if found:
        yield found
