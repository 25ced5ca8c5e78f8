"""Accounting: what a node received it delivers once, purges once for a cover, or still holds.

A cover must really replace what is purged, by the whole relation, must have been multicast, and
must be here (SRM §4.3: purge m while m, m' are in the queue and m ⊏ m'), also where messages wait
to be passed on (PSRM §3.1). A message that is skipped, never having been here, needs such a cover
too, wherever that is. A message that came and is not wanted (`ignore`) is never delivered; one that
a newcomer gets as part of what stands (`state`) never comes a second time. A crashed node does
nothing any more. In a federation what was undone is as if it had never come, and what is purged
from retransmission may be another's, which the site only passes on. Holds on every prefix.

Two kernels judge it: one keeps the books of a node, a byte for each message that says what the node
did with it last; the other asks of each cover of a sender whether it covers what was purged for it.
Of an event with several faults the first is reported.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.facts import NEVER, source_of
from semcast.check.kernel import BY_NODE, BY_SENDER, Group, Kernel
from semcast.check.property import EVERY, Property
from semcast.check.rows import (
    ABOUT_MESSAGES,
    DELIVER,
    IGNORE,
    MULTICAST,
    OTHER,
    PURGE_DELIVERY,
    PURGE_LINK,
    PURGE_OTHER,
    PURGE_RELAY,
    PURGE_RETRANSMIT,
    PURGES,
    RECEIVE,
    RELAY,
    SKIP,
    STABLE,
    STATE,
    UNDO,
    Longs,
    Row,
    Rows,
    keys_of,
    slices_of,
    starts_of,
)
from semcast.check.tables import SeqTable

# Faults, in the order in which they are reported.
_CRASHED, _STATE, _NO_COVER, _BAD_COVER, _NOT_HERE = range(5)
# What became of a message at a node, in the low bits of its byte; the text ends a sentence.
_UNKNOWN, _HELD, _DELIVERED, _PURGED, _SKIPPED, _IGNORED = range(6)
_TEXTS: Final = (
    "it was never received there",
    "is held there",
    "was delivered there",
    "was purged there",
    "was skipped there",
    "was ignored there",
)
_STATES: Final = 7
# Two more bits: it was multicast or received there; it was purged from retransmission.
_ENTERED: Final = 8
_RETAINED_PURGED: Final = 16


def _by_kind(values: dict[int, int]) -> Longs:
    """A number for each kind of event; 0 where none is given."""
    return np.array([values.get(kind, 0) for kind in range(OTHER + 1)], np.int64)


# By kind of event: the state that it makes, whether the message came with it or left
# retransmission, whether it needs a cover, and one that is here.
_SETS: Final = _by_kind(
    {
        RECEIVE: _HELD,
        DELIVER: _DELIVERED,
        STATE: _DELIVERED,
        IGNORE: _IGNORED,
        PURGE_DELIVERY: _PURGED,
        SKIP: _SKIPPED,
    }
)
_ENTERS: Final = _by_kind({RECEIVE: 1, IGNORE: 1, MULTICAST: 1})
_LEAVES: Final = _by_kind({PURGE_RETRANSMIT: 1})
_COVERED: Final = _by_kind(dict.fromkeys((*PURGES, SKIP), 1))
_LOCAL: Final = _by_kind(
    dict.fromkeys((PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_RELAY, PURGE_LINK), 1)
)
# By kind of event and by state: whether the one may follow on the other.
_ALLOWED: Final = np.ones((OTHER + 1, _STATES + 1), bool)
for _kind, _states in (
    (RECEIVE, (_UNKNOWN,)),
    (SKIP, (_UNKNOWN,)),
    (IGNORE, (_UNKNOWN,)),
    (DELIVER, (_HELD, _DELIVERED)),
    (STATE, (_UNKNOWN, _DELIVERED)),
    (PURGE_DELIVERY, (_HELD,)),
):
    _ALLOWED[_kind] = [state in _states for state in range(_STATES + 1)]


def _bytes() -> SeqTable:
    return SeqTable(0, np.uint8)


def _before(values: Longs, first: Longs, booked: Longs) -> Longs:
    """For each row: the last value other than 0 before it, from `first` on; else what is booked."""
    rows = np.arange(len(values))
    last = np.append(-1, np.maximum.accumulate(np.where(values != 0, rows, -1))[:-1])
    return np.where(last >= first, values[last], booked)


def _after(values: Longs, starts: Longs, ends: Longs, booked: Longs) -> Longs:
    """For each message: the last value other than 0 of its rows; else what is booked."""
    last = np.maximum.accumulate(np.where(values != 0, np.arange(len(values)), -1))[ends]
    return np.where(last >= starts, values[last], booked)


@final
class BooksKernel(Kernel):
    """The messages at one node, whose events come in their order."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        self._crash_at: Final = self.run.crash_at[group.n]
        self._federated: Final = self.run.header.federated
        # By sender: a byte for each message.
        self._books: Final[defaultdict[int, SeqTable]] = defaultdict(_bytes)

    # -- all rows at once --------------------------------------------------------------------------

    def feed_many(self, rows: Rows) -> bool:
        """Book all rows."""
        sid, seq = rows.numbers("sid"), rows.numbers("seq")
        keys = keys_of(sid, seq)
        if keys is None or rows.numbers("at")[-1] > self._crash_at:
            return False
        order = rows.by_message
        kind, keys, sid, seq = rows.numbers("kind")[order], keys[order], sid[order], seq[order]
        if self._federated:
            if (kind == UNDO).any():
                return False
            kind = np.where(kind == PURGE_RETRANSMIT, PURGE_OTHER, kind)
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
        self, rows: Rows, kind: Longs, keys: Longs, starts: Longs, booked: Longs
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
        # Where several enter, the first is written last, so that it counts.
        came[np.searchsorted(starts, enters, "right") - 1] = order[enters]
        place = np.minimum(np.searchsorted(keys[starts], wanted), len(starts) - 1)
        there = keys[starts][place] == wanted
        here = there & ((came[place] < order[purges]) | (booked[place] & _ENTERED != 0))
        away = np.flatnonzero(~there)
        by_sender = away[np.argsort(sid[away], kind="stable")]
        here[by_sender] = self._many(sid[by_sender], seq[by_sender]) & _ENTERED != 0
        return bool(here.all())

    def _many(self, sid: Longs, seq: Longs) -> Longs:
        """What is booked for these messages, which are grouped by sender."""
        found = np.zeros(len(sid), np.int64)
        for number, part in slices_of(sid):
            found[part] = self._books[number].many(seq[part])
        return found

    # -- row by row --------------------------------------------------------------------------------

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Book row by row."""
        books = self._books
        for row in rows:
            kind, _, sid, seq = row[:4]
            if row[6] > self._crash_at:
                self._after_crash(row)
                continue
            if kind in (STABLE, RELAY):
                continue
            page = books[sid]
            byte = page.get(seq) or page[seq]
            state = byte & _STATES
            if kind == RECEIVE:
                page[seq] = byte & ~_STATES | _HELD | _ENTERED
                if state:
                    self._fault(row, _STATE, f"receives {{}} again: it {_TEXTS[state]}")
            elif kind == DELIVER:
                page[seq] = byte & ~_STATES | _DELIVERED
                # A second delivery is Integrity's business.
                if state not in (_HELD, _DELIVERED):
                    why = f"delivers {{}}, which it does not hold: {_why(state)}"
                    self._fault(row, _STATE, why)
            elif kind == MULTICAST:
                page[seq] = byte | _ENTERED
            else:
                page[seq] = self._other(row, byte)
        for page in books.values():
            page.trim()

    def _other(self, row: Row, byte: int) -> int:
        """The byte of a message after what happens less often."""
        kind, state = row[0], byte & _STATES
        if kind == SKIP:
            return self._skip(row, byte)
        if kind == UNDO:
            return byte & ~_STATES if state == _DELIVERED else byte
        if kind == IGNORE:
            if state:
                self._fault(row, _STATE, f"ignores {{}}, which {_TEXTS[state]}")
            return byte & ~_STATES | _IGNORED | _ENTERED
        if kind == STATE:
            if state not in (_UNKNOWN, _DELIVERED):
                why = f"gets {{}} as part of what stands, though it {_TEXTS[state]}"
                self._fault(row, _STATE, why)
            return byte & ~_STATES | _DELIVERED
        return self._purge(row, byte)

    def _skip(self, row: Row, byte: int) -> int:
        """The byte of a message after it was skipped."""
        state = byte & _STATES
        if state:
            self._fault(row, _STATE, f"skips {{}}, which {_TEXTS[state]}")
        elif row[4] < 0:
            self._fault(row, _NO_COVER, "skips {} for no other message")
        return byte & ~_STATES | _SKIPPED

    def _purge(self, row: Row, byte: int) -> int:
        """The byte of a message after its purge."""
        kind, _, sid, seq, bsid, bseq = row[:6]
        if self._federated and kind == PURGE_RETRANSMIT:
            kind = PURGE_OTHER
        state = byte & _STATES
        if kind == PURGE_DELIVERY:
            if state != _HELD:
                fault = f"purges {{}} from delivery, which does not hold it: {_why(state)}"
                self._fault(row, _STATE, fault)
            byte = byte & ~_STATES | _PURGED
        elif kind == PURGE_RETRANSMIT:
            # What is stable may be purged just before it is released: neither loses anything.
            twice = byte & _RETAINED_PURGED
            if twice or not byte & _ENTERED:
                why = "it was purged there" if twice else "it was never received there"
                fault = f"purges {{}} from retransmission, which does not hold it: {why}"
                self._fault(row, _STATE, fault)
            byte |= _RETAINED_PURGED
        if bsid < 0:
            self._fault(row, _NO_COVER, "purges {} for no other message")
        elif kind != PURGE_OTHER:
            # A message that is purged for itself is here or not like any other.
            there = byte if (sid, seq) == (bsid, bseq) else self._books[bsid][bseq]
            if not there & _ENTERED:
                cover = self.message(bsid, bseq)
                self._fault(row, _NOT_HERE, f"purges {{}} for {cover}, which it has not received")
        return byte

    def _after_crash(self, row: Row) -> None:
        event = row[13]
        fault = f"crashed, and yet there is a later event of it: {event}"
        self._fault(row, _CRASHED, fault, event in ABOUT_MESSAGES)

    def _fault(self, row: Row, precedence: int, fault: str, named: bool = True) -> None:
        _, n, sid, seq, bsid, bseq, at, time_ns, *_ = row
        about = []
        if named:
            about = [self.message(sid, seq)]
            about += [self.message(bsid, bseq)] if bsid >= 0 else []
            fault = fault.format(about[0])
        more = {"at": at, "precedence": precedence}
        self.report(PROPERTY.name, n, list(about), time_ns, fault, **more)


def _why(state: int) -> str:
    return _TEXTS[state] if state == _UNKNOWN else f"it {_TEXTS[state]}"


@final
class CoversKernel(Kernel):
    """The covers of one sender: what it multicast is known, and what was purged for it comes.

    Whether a cover replaces a message is followed down the untruncated relation. A message skipped
    for itself must have been replaced by something: whoever said so had forgotten by what.
    """

    def feed_many(self, rows: Rows) -> bool:
        """Whether every cover had been multicast and names what was purged for it."""
        kind = rows.numbers("kind")
        asks = (kind >= PURGE_DELIVERY) & (kind <= SKIP)
        kind, sid, seq, bseq, at = (
            rows.numbers(name)[asks] for name in ("kind", "sid", "seq", "bseq", "at")
        )
        sent = self.group.sent
        cover, older = sent.index.many(bseq), sent.index.many(seq)
        if (sid != self.group.number).any() or (cover < 0).any() or (older < 0).any():
            return False
        itself = (kind == SKIP) & (seq == bseq)
        from_at = np.frombuffer(sent.ats, np.int64)[cover]
        replaced_at = np.frombuffer(sent.covered_at, np.int64)[cover]
        from_at = np.where(itself, replaced_at, from_at)
        there = from_at < at if self.run.header.one_order else from_at != NEVER
        return bool(there.all()) and sent.name_all(cover[~itself], older[~itself])

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Check the cover of every purge and skip."""
        for row in rows:
            if PURGE_DELIVERY <= row[0] <= SKIP:
                self._ask(row)

    def _ask(self, row: Row) -> None:
        kind, _, sid, seq, _, bseq, at, _, _, _, key, rank, *_ = row
        sent, own = self.group.sent, sid == self.group.number
        cover = sent.index[bseq]
        itself = kind == SKIP and own and seq == bseq
        covers = True
        from_at = NEVER
        if cover >= 0 and itself:
            from_at = sent.covered_at[cover]
        elif cover >= 0:
            from_at = sent.ats[cover]
            ranked = None
            if rank is not None:
                source = source_of(self.group.facts.senders[sid][1])
                ranked = (key or "", (rank, *source, seq))
            covers = sent.covers(cover, sent.index[seq] if own else -1, ranked)
        there = from_at < at if self.run.header.one_order else from_at != NEVER
        unknown = not there or (own and sent.index[seq] < 0)
        if unknown and not self.run.wrote_all(self.group.sender):
            return  # what a sender replaced before it was ever sent only its own log knows
        if not (there and covers):
            self._fault(row, itself, there)

    def _fault(self, row: Row, itself: bool, there: bool) -> None:
        kind, n, sid, seq, bsid, bseq, at, time_ns, *_ = row
        message, cover = self.message(sid, seq), self.message(bsid, bseq)
        text = f"{'skips' if kind == SKIP else 'purges'} {message}"
        if itself:
            text += ", and nothing that was multicast replaces it"
        else:
            why = "which does not replace it" if there else "which nobody had multicast"
            text += f" for {cover}, {why}"
        more = {"at": at, "precedence": _BAD_COVER}
        self.report(PROPERTY.name, n, [message, cover], time_ns, text, **more)


PROPERTY: Final = Property(
    "Accounting",
    {BY_NODE: BooksKernel, BY_SENDER: CoversKernel},
    ("receive", "deliver", "state", "ignore", "purge", "skip"),
    reliability=EVERY,
)
