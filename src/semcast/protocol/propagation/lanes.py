"""The lanes of a link: records in, numbered pieces out; and pieces in, records out, in order.

PROP Appendix I numbers the messages of each sender to each receiver; so does each lane, and what
arrives too early waits. Beside the paper, a receiver says what it has and how much it may be sent:
nothing is kept for longer than needed, and one that is full holds its sender back. A record that is
too large for a datagram goes in pieces.

A record is asked for (`Feed`) only when it can be sent, so that it may be purged until then.

Knows nothing of what records mean, nor of when the two sites tell each other how things stand.
"""

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.outbox import Outbox
from semcast.wire.families.propagation import ROWS_MAX, Piece

# The lanes. What managers and sources need for themselves never waits for messages (CONTROL); what
# sources send to a primary destination (SOURCE) never holds up what comes down the tree (TREE).
CONTROL: Final = 0
SOURCE: Final = 1
TREE: Final = 2

# How many pieces may be under way on a lane.
WINDOW_PIECES: Final = 256
# Before what is missing is asked for: it may only be late.
ASK_NS: Final = 2_000_000
# What was sent is sent again if nothing is heard of it for so long; longer each time.
RESEND_NS_MIN: Final = 20_000_000
RESEND_NS_MAX: Final = 1_000_000_000
# How many pieces are sent again at once.
BURST_PIECES: Final = 32


@mypyc_attr(allow_interpreted_subclasses=True)
class Feed(ABC):
    """What waits to be sent on a lane."""

    @abstractmethod
    def next_record(self) -> bytes:
        """The next record, which leaves the queue; nothing if there is none."""

    @abstractmethod
    def waits(self) -> bool:
        """Whether there is one."""


@mypyc_attr(allow_interpreted_subclasses=True)
class Sink(ABC):
    """What takes the records of a lane."""

    @abstractmethod
    def room(self) -> i64:
        """How many more it takes now."""

    @abstractmethod
    def put(self, record: bytes, now_ns: i64) -> None:
        """Take a record; a RemoteProtocolError says that it makes no sense."""


@final
@mypyc_attr(acyclic=True)
class _Sent:
    """A piece that is under way."""

    def __init__(self, begins: bool, ends: bool, data: bytes, sent_ns: i64) -> None:
        self.begins: Final = begins
        self.ends: Final = ends
        self.data: Final = data
        self.sent_ns: i64 = sent_ns


@final
class OutLane:
    """One lane to the other site."""

    def __init__(self, feed: Feed, limit: i64) -> None:
        self.feed: Final = feed
        # The number of the next piece; all up to `acked` came; up to `limit` may be sent.
        self.next: i64 = 1
        self.acked: i64 = 0
        self.limit: i64 = limit
        self._sent: Final[dict[int, _Sent]] = {}
        # What is left of a record of which some pieces were sent.
        self._rest: Final[deque[bytes]] = deque()
        self._again: Final[dict[int, None]] = {}
        # The last piece that was acknowledged. It is sent once more if all that may be sent was
        # sent, and more waits: the other answers how much it takes by now, which may have been
        # lost.
        self._last: _Sent | None = None
        self._probes = False
        self.wait_ns: i64 = RESEND_NS_MIN
        self.due_ns: i64 = NEVER

    @property
    def unsent(self) -> bool:
        """Whether there is something to send that may be sent."""
        return bool(self._again) or (self._open() and (bool(self._rest) or self.feed.waits()))

    @property
    def busy(self) -> bool:
        """Whether anything waits, or is under way."""
        return bool(self._sent) or bool(self._rest) or self.feed.waits()

    def _open(self) -> bool:
        return self.next <= self.limit and self.next - self.acked <= WINDOW_PIECES

    def _held_back(self) -> bool:
        """Whether something waits that may not be sent."""
        return not self._open() and (bool(self._rest) or self.feed.waits())

    def heard(self, acked: i64, limit: i64, now_ns: i64) -> None:
        """The other site has everything up to `acked`, and takes more up to `limit`."""
        if acked >= self.next:
            raise RemoteProtocolError(f"{acked} was acknowledged, {self.next - 1} was the last")
        if limit > self.limit:
            self.limit = limit
            self.wait_ns = RESEND_NS_MIN
        if acked <= self.acked:
            return
        for number in range(self.acked + 1, acked + 1):
            self._last = self._sent.pop(int(number))
            self._again.pop(int(number), None)
        self.acked = acked
        self.wait_ns = RESEND_NS_MIN
        self.due_ns = now_ns + self.wait_ns if self._sent else NEVER

    def asked(self, first: i64, last: i64, now_ns: i64) -> None:
        """The other site lacks these. What was sent again just now is on its way."""
        for number in range(max(first, self.acked + 1), min(last, first + BURST_PIECES) + 1):
            sent = self._sent.get(int(number))
            if sent is not None and now_ns - sent.sent_ns >= ASK_NS:
                self._again[int(number)] = None

    def on_timer(self, now_ns: i64) -> None:
        """Nothing was heard for long: send the oldest again."""
        if now_ns < self.due_ns:
            return
        if not self._sent and not self._held_back():
            self.due_ns = NEVER
            return
        for number in list(self._sent)[:BURST_PIECES]:
            self._again[number] = None
        self._probes = not self._sent
        self.wait_ns = min(2 * self.wait_ns, RESEND_NS_MAX)
        self.due_ns = now_ns + self.wait_ns

    def pack(
        self, lane: i64, to: Source, outbox: Outbox, room_bytes: i64, pieces_max: i64, now_ns: i64
    ) -> i64:
        """Put what may be sent into datagrams; says how many pieces that were."""
        packed: i64 = 0
        for number in list(self._again):
            sent = self._sent[number]
            self._put(lane, to, outbox, number, sent, now_ns)
            packed += 1
        self._again.clear()
        while packed < pieces_max and self._open():
            piece = self._next_piece(room_bytes, now_ns)
            if piece is None:
                break
            number = int(self.next)
            self._sent[number] = piece
            self._put(lane, to, outbox, number, piece, now_ns)
            self.next += 1
            packed += 1
        if self._probes and self._last is not None:
            self._put(lane, to, outbox, self.acked, self._last, now_ns)
        self._probes = False
        if self.due_ns == NEVER and (packed > 0 or self._held_back()):
            self.due_ns = now_ns + self.wait_ns
        return packed

    def _next_piece(self, room_bytes: i64, now_ns: i64) -> _Sent | None:
        if self._rest:
            data = self._rest.popleft()
            return _Sent(False, not self._rest, data, now_ns)
        record = self.feed.next_record()
        if not record:
            return None
        if len(record) <= room_bytes:
            return _Sent(True, True, record, now_ns)
        for at in range(room_bytes, len(record), room_bytes):
            self._rest.append(record[at : at + room_bytes])
        return _Sent(True, False, record[:room_bytes], now_ns)

    def _put(
        self, lane: i64, to: Source, outbox: Outbox, number: i64, sent: _Sent, now_ns: i64
    ) -> None:
        sent.sent_ns = now_ns
        piece = Piece(to.incarnation, lane, number, sent.begins, sent.ends, sent.data)
        outbox.frame(int(to.sender), piece)


@final
class InLane:
    """One lane from the other site."""

    def __init__(self, sink: Sink, record_bytes_max: i64, limit: i64) -> None:
        self.sink: Final = sink
        self._record_bytes_max: Final = record_bytes_max
        # INV-WAIT: all before `next` came; what waits is after it and within the limit. [PROP I]
        self.next: i64 = 1
        self.limit: i64 = limit
        self._waiting: Final[dict[int, Piece]] = {}
        # The pieces so far of a record whose end has not come.
        self._parts: list[bytes] = []
        self._parts_bytes: i64 = 0
        # Up to where the other has sent, as far as we know; and since when something is missing.
        self.known: i64 = 0
        self.missing_ns: i64 = NEVER
        self.fresh: i64 = 0

    def on_piece(self, piece: Piece, now_ns: i64) -> None:
        """Take a piece; one that came before is dropped, or it would block the queue."""
        self.fresh += 1
        number = piece.number
        if number < self.next or number > self.limit or int(number) in self._waiting:
            return
        self.known = max(self.known, number)
        self._waiting[int(number)] = piece
        while self._waiting:
            waiting = self._waiting.pop(int(self.next), None)
            if waiting is None:
                break
            self.next += 1
            self._append(waiting, now_ns)
        self._look(now_ns)

    def announced(self, following: i64, now_ns: i64) -> None:
        """The other site says which number it will use next."""
        if following - 1 > self.limit:
            raise RemoteProtocolError(f"{following - 1} was sent, and {self.limit} was allowed")
        self.known = max(self.known, following - 1)
        self._look(now_ns)

    def _look(self, now_ns: i64) -> None:
        """Note since when something is missing."""
        if self.known < self.next:
            self.missing_ns = NEVER
        elif self.missing_ns == NEVER:
            self.missing_ns = now_ns

    def missing(self) -> list[tuple[int, int]]:
        """The numbers that are known to be sent and have not come."""
        found: list[tuple[int, int]] = []
        first = int(self.next)
        for number in sorted(self._waiting):
            if number > first and len(found) < ROWS_MAX:
                found.append((first, number - 1))
            first = number + 1
        if first <= self.known and len(found) < ROWS_MAX:
            found.append((first, int(self.known)))
        return found

    def _append(self, piece: Piece, now_ns: i64) -> None:
        if piece.begins != (not self._parts):
            raise RemoteProtocolError("a piece neither begins a record nor goes on with one")
        if piece.begins and piece.ends:
            self.sink.put(piece.data, now_ns)
            return
        self._parts_bytes += len(piece.data)
        if self._parts_bytes > self._record_bytes_max:
            raise RemoteProtocolError(f"a record has more than {self._record_bytes_max} bytes")
        self._parts.append(piece.data)
        if piece.ends:
            record = b"".join(self._parts)
            self._parts = []
            self._parts_bytes = 0
            self.sink.put(record, now_ns)

    def grant(self) -> i64:
        """Up to which number the other may send now. It never becomes less."""
        room = min(self.sink.room(), WINDOW_PIECES)
        self.limit = max(self.limit, self.next - 1 + room)
        return self.limit
