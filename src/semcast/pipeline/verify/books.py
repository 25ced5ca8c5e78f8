"""What became of each message at one node: its events in, in their order; faults out.

A byte for each message says what the node did with it last. Knows nothing of covers but whether
they had come.
"""

from collections import defaultdict
from typing import Any, Final, final

import numpy as np

from semcast.check.accounting import PROPERTY
from semcast.pipeline.verify.columns import Columns, Longs, keys_of, slices_of, starts_of
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import (
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGE_RETRANSMIT,
    RECEIVE,
    SKIP,
    STABLE,
)
from semcast.pipeline.verify.tables import SeqTable

CRASHED, _STATE, NO_COVER, BAD_COVER, _NOT_HERE = range(5)
# What became of a message at a node, in the low bits of its byte; the text ends a sentence.
_UNKNOWN, _HELD, _DELIVERED, _PURGED, _SKIPPED = range(5)
_TEXTS: Final = (
    "it was never received there",
    "is held there",
    "was delivered there",
    "was purged there",
    "was skipped there",
)
_STATES: Final = 7
# It was multicast or received there; it was purged from retransmission.
_ENTERED: Final = 8
_RETAINED_PURGED: Final = 16


def _by_kind(values: dict[int, int]) -> Longs:
    """A number for each kind of event; 0 where none is given."""
    return np.array([values.get(kind, 0) for kind in range(STABLE + 1)], np.int64)


# By kind of event: the state that it makes, whether the message came with it or left
# retransmission, whether it needs a cover, and one that is here.
_SETS: Final = _by_kind(
    {RECEIVE: _HELD, DELIVER: _DELIVERED, PURGE_DELIVERY: _PURGED, SKIP: _SKIPPED}
)
_ENTERS: Final = _by_kind({RECEIVE: 1, MULTICAST: 1})
_LEAVES: Final = _by_kind({PURGE_RETRANSMIT: 1})
_COVERED: Final = _by_kind({PURGE_DELIVERY: 1, PURGE_RETRANSMIT: 1, PURGE_OTHER: 1, SKIP: 1})
_LOCAL: Final = _by_kind({PURGE_DELIVERY: 1, PURGE_RETRANSMIT: 1})
# By kind of event and by state: whether the one may follow on the other.
_ALLOWED: Final = np.ones((STABLE + 1, _STATES + 1), bool)
for _kind, _states in (
    (RECEIVE, (_UNKNOWN,)),
    (SKIP, (_UNKNOWN,)),
    (DELIVER, (_HELD, _DELIVERED)),
    (PURGE_DELIVERY, (_HELD,)),
):
    _ALLOWED[_kind] = [state in _states for state in range(_STATES + 1)]


def _pages() -> SeqTable:
    return SeqTable(0, np.uint8)


def _before(values: Longs, first: Longs, booked: Longs) -> Longs:
    """For each row the last value but 0 before it, from `first` on; else what is booked."""
    rows = np.arange(len(values))
    last = np.append(-1, np.maximum.accumulate(np.where(values != 0, rows, -1))[:-1])
    return np.where(last >= first, values[last], booked)


def _after(values: Longs, starts: Longs, ends: Longs, booked: Longs) -> Longs:
    """For each message the last value but 0 of its rows; else what is booked."""
    last = np.maximum.accumulate(np.where(values != 0, np.arange(len(values)), -1))[ends]
    return np.where(last >= starts, values[last], booked)


@final
class BooksKernel:
    """The messages at one node, whose events come in their order."""

    def __init__(self, facts: Facts, nid: int) -> None:
        number, n = facts.nodes[nid]
        self._facts: Final = facts
        self._nid: Final = nid
        self._run: Final = facts.runs[number]
        self._node: Final = self._run.nodes[n]
        self._crash_at: Final = self._run.crash_at[n]
        # By sender: a byte for each message.
        self._books: Final[defaultdict[int, SeqTable]] = defaultdict(_pages)
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Keep the books of this node."""
        if rows.numbers("at")[-1] > self._crash_at or not self._feed_many(rows):
            self._feed_each(rows)

    # -- all rows at once --------------------------------------------------------------------------

    def _feed_many(self, rows: Columns) -> bool:
        """Book all rows; False, and nothing booked, if one of them looks wrong."""
        sid, seq = rows.numbers("sid"), rows.numbers("seq")
        keys = keys_of(sid, seq)
        if keys is None:
            return False
        order = rows.by_message
        kind, keys, sid, seq = rows.numbers("kind")[order], keys[order], sid[order], seq[order]
        starts = starts_of(sid, seq)
        sizes = np.diff(np.append(starts, len(order)))
        first = np.repeat(starts, sizes)
        booked = self._many(sid[starts], seq[starts])
        byte = np.repeat(booked, sizes)
        state = _before(_SETS[kind], first, byte & _STATES)
        entered = _before(_ENTERS[kind], first, byte & _ENTERED) != 0
        purged = _before(_LEAVES[kind], first, byte & _RETAINED_PURGED) != 0
        fine = _ALLOWED[kind, state] & ((_LEAVES[kind] == 0) | (entered & ~purged))
        fine &= (_COVERED[kind] == 0) | (rows.numbers("bsid")[order] >= 0)
        if not fine.all() or not self._covers_are_here(rows, kind, keys, starts, booked):
            return False
        ends = starts + sizes - 1
        state = _after(_SETS[kind], starts, ends, booked & _STATES)
        entered = _after(_ENTERS[kind], starts, ends, booked & _ENTERED) != 0
        purged = _after(_LEAVES[kind], starts, ends, booked & _RETAINED_PURGED) != 0
        byte = state | np.where(entered, _ENTERED, 0) | np.where(purged, _RETAINED_PURGED, 0)
        for number, part in slices_of(sid[starts]):
            self._books[number].set_many(seq[starts][part], byte[part])
        return True

    def _covers_are_here(
        self, rows: Columns, kind: Longs, keys: Longs, starts: Longs, booked: Longs
    ) -> bool:
        """Whether covers had come before what was purged for them; arrays are by message."""
        order = rows.by_message
        purges = np.flatnonzero(_LOCAL[kind])
        sid, seq = (rows.numbers(name)[order[purges]] for name in ("bsid", "bseq"))
        wanted = keys_of(sid, seq)
        if wanted is None:
            return False
        came = np.full(len(starts), len(order))
        enters = np.flatnonzero(_ENTERS[kind])[::-1]
        # Of several that enter, the first is put down last.
        came[np.searchsorted(starts, enters, "right") - 1] = order[enters]
        place = np.minimum(np.searchsorted(keys[starts], wanted), len(starts) - 1)
        there = keys[starts][place] == wanted
        here = there & ((came[place] < order[purges]) | (booked[place] & _ENTERED != 0))
        away = np.flatnonzero(~there)
        by_sender = away[np.argsort(sid[away], kind="stable")]
        here[by_sender] = self._many(sid[by_sender], seq[by_sender]) & _ENTERED != 0
        return bool(here.all())

    def _many(self, sid: Longs, seq: Longs) -> Longs:
        """What is booked of messages, which are by sender."""
        found = np.zeros(len(sid), np.int64)
        for number, part in slices_of(sid):
            found[part] = self._books[number].many(seq[part])
        return found

    # -- row by row --------------------------------------------------------------------------------

    def _feed_each(self, rows: Columns) -> None:
        books = self._books
        for row in zip(
            rows["kind"], rows["sid"], rows["seq"], rows["bsid"], rows["bseq"], rows["at"],
            rows["time_ns"], strict=True,
        ):  # fmt: skip
            kind, sid, seq = row[:3]
            if row[5] > self._crash_at:
                return
            if kind == STABLE:
                continue
            page = books[sid]
            byte = page[seq]
            state = byte & _STATES
            if kind == RECEIVE:
                page[seq] = byte & ~_STATES | _HELD | _ENTERED
                if state:
                    self._fault(row, _STATE, f"receives {{}} again: it {_TEXTS[state]}")
            elif kind == DELIVER:
                page[seq] = byte & ~_STATES | _DELIVERED
                # A second delivery is Integrity's business.
                if state not in (_HELD, _DELIVERED):
                    self._fault(
                        row, _STATE, f"delivers {{}}, which it does not hold: {_why(state)}"
                    )
            elif kind == MULTICAST:
                page[seq] = byte | _ENTERED
            elif kind == SKIP:
                page[seq] = byte & ~_STATES | _SKIPPED
                if state:
                    self._fault(row, _STATE, f"skips {{}}, which {_TEXTS[state]}")
                elif row[3] < 0:
                    self._fault(row, NO_COVER, "skips {} for no other message")
            else:
                page[seq] = self._purge(row, byte)

    def end(self) -> None:
        """Everything was said."""

    def _purge(self, row: tuple[int, ...], byte: int) -> int:
        """The byte of a message after its purge."""
        kind, bsid, bseq = row[0], row[3], row[4]
        state = byte & _STATES
        if kind == PURGE_DELIVERY:
            if state != _HELD:
                fault = f"purges {{}} from delivery, which does not hold it: {_why(state)}"
                self._fault(row, _STATE, fault)
            byte = byte & ~_STATES | _PURGED
        elif kind == PURGE_RETRANSMIT:
            twice = byte & _RETAINED_PURGED
            if twice or not byte & _ENTERED:
                why = "it was purged there" if twice else "it was never received there"
                fault = f"purges {{}} from retransmission, which does not hold it: {why}"
                self._fault(row, _STATE, fault)
            byte |= _RETAINED_PURGED
        if bsid < 0:
            self._fault(row, NO_COVER, "purges {} for no other message")
        elif kind != PURGE_OTHER:
            # A message that is purged for itself is here or not like any other.
            own = row[1] == bsid and row[2] == bseq
            there = byte if own else self._books[bsid][bseq]
            if not there & _ENTERED:
                cover = self._facts.message(bsid, bseq)
                fault = f"purges {{}} for {cover}, which it has not received"
                self._fault(row, _NOT_HERE, fault)
        return byte

    def _fault(self, row: tuple[int, ...], precedence: int, fault: str) -> None:
        _, sid, seq, bsid, bseq, at, time_ns = row
        name = self._facts.message(sid, seq)
        about = [tuple(name)]
        if bsid >= 0:
            about.append(tuple(self._facts.message(bsid, bseq)))
        text = f"{self._node} {fault.format(name)}"
        run = self._run.header.run
        violation = (run, PROPERTY, self._node, about, time_ns, text)
        self.found.append((*violation, self._nid, at, precedence))


def _why(state: int) -> str:
    return _TEXTS[state] if state == _UNKNOWN else f"it {_TEXTS[state]}"
