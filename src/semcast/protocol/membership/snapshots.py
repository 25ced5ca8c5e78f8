"""Snapshots: what an application saves for newcomers in, pieces of it out, and put together again.

A snapshot must cover the newcomer's cut: the application that saves it has taken everything up to
the cut of every source. The cut is stable, so a member that is asked has handed on all of it to its
application's queue by then; it waits until that was taken. With the snapshot goes, for each source,
how far its application had got. The newcomer begins each stream after that.

Two members never save the same, so if the one that provides is gone another begins anew.
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.order import Order
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.holes import Holes
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.families.state import (
    BUSY,
    INCOMPLETE,
    LAST,
    LATER,
    PIECE,
    PIECE_HEAD_BYTES,
    SNAPSHOT,
    Chunk,
    Need,
    Tell,
)
from semcast.wire.frames import FRAME_HEAD_BYTES

# So many newcomers are served at a time; the others have to wait, or to ask somebody else.
_ASKERS_MAX: Final = 8
_ROW_BYTES: Final = 24


@final
class Shelf:
    """Snapshots that one member's application has saved, for newcomers that asked."""

    def __init__(self, config: MemberConfig, sender: Sender, intake: Intake, order: Order) -> None:
        self._sender: Final = sender
        self._intake: Final = intake
        self._order: Final = order
        self._deliver_own: Final = config.deliver_own
        self._bytes_max: Final = config.standing_bytes_max
        room = config.limits.frames_bytes_max - FRAME_HEAD_BYTES - PIECE_HEAD_BYTES
        self._room: Final[i64] = room
        # By newcomer: how far the application must have got before it saves anything for it.
        self._requests: Final[dict[Source, dict[Source, int]]] = {}
        # By newcomer: the number of its snapshot, and the snapshot.
        self._saved: Final[dict[Source, tuple[int, bytes]]] = {}
        self._number = 0
        # Whether this member came late itself and did not get all of the state.
        self.incomplete = False

    @property
    def wanted(self) -> bool:
        """Whether a newcomer waits for a snapshot, and the application has taken enough."""
        if not self._requests:
            return False
        taken = self.taken()
        # With order by key there are moments at which no number says how far it has got.
        if min(taken.values()) < 0:
            return False
        return any(_covers(taken, needs) for needs in self._requests.values())

    def taken(self) -> dict[Source, int]:
        """How far the application has got with each source, ENDED with those that have ended. Ask
        at the moment at which it saves, and only if a snapshot is `wanted`.
        """
        sources = dict.fromkeys(self._intake.inbounds)
        sources[self._sender.source] = None
        for needs in self._requests.values():
            sources.update(dict.fromkeys(needs))
        return {source: self._taken(source) for source in sources}

    def provide(self, snapshot: bytes, taken: dict[Source, int]) -> None:
        """The application has saved this, after it had taken so much. Only newcomers that need no
        more get it: others may have asked while it was being saved.
        """
        if len(snapshot) > self._bytes_max:
            raise ConfigError(
                f"snapshot of {len(snapshot)} bytes; standing_bytes_max is {self._bytes_max}"
            )
        self._number += 1
        whole = _pack(snapshot, taken)
        for asker in [one for one, needs in self._requests.items() if _covers(taken, needs)]:
            del self._requests[asker]
            self._saved[asker] = (self._number, whole)

    def answer(self, asker: Source, need: Need, outbox: Outbox) -> None:
        """A newcomer asks for a snapshot, or for more of the one that it began with. If that one is
        no longer here, it gets a later one from its beginning.
        """
        to = int(asker.sender)
        saved = self._saved.get(asker)
        if saved is not None:
            self._send(to, need, saved, outbox)
            return
        if asker not in self._requests:
            while len(self._saved) >= _ASKERS_MAX:
                del self._saved[next(iter(self._saved))]
            if len(self._requests) >= _ASKERS_MAX:
                outbox.frame(to, Tell(0, need.number, BUSY, []))
                return
            self._requests[asker] = self._handed_on()
        outbox.frame(to, Tell(0, need.number, LATER, []))

    def forget(self, present: list[int]) -> None:
        """Only these are there: nothing is saved for others."""
        for asker in [one for one in self._requests if int(one.sender) not in present]:
            del self._requests[asker]
        for asker in [one for one in self._saved if int(one.sender) not in present]:
            del self._saved[asker]

    def _send(self, to: int, need: Need, saved: tuple[int, bytes], outbox: Outbox) -> None:
        number, whole = saved
        left = need.bytes_max
        offset = min(need.offset, len(whole) - 1) if need.after == number else 0
        index: i64 = 0
        last: i64 = 0
        while last == 0:
            piece = whole[offset : offset + self._room]
            left -= len(piece)
            last = LAST if left <= 0 or offset + len(piece) == len(whole) else 0
            outbox.frame(
                to,
                Chunk(
                    SNAPSHOT | PIECE | last | (INCOMPLETE if self.incomplete else 0),
                    need.number,
                    index,
                    self._sender.source,
                    number,
                    number,
                    number,
                    piece,
                    offset,
                    len(whole),
                ),
            )
            offset += len(piece)
            index += 1

    def _handed_on(self) -> dict[Source, int]:
        needs = {source: int(one.next) - 1 for source, one in self._intake.inbounds.items()}
        if self._deliver_own:
            needs[self._sender.source] = int(self._sender.seq)
        return needs

    def _taken(self, source: Source) -> int:
        """How far the application has got with a source; -1 if no number says that."""
        inbound = self._intake.inbounds.get(source)
        if inbound is None:
            return int(self._sender.seq) if source == self._sender.source else ENDED
        return self._order.taken(source, inbound.next - 1)


@final
class Fetch:
    """A snapshot that comes in pieces to a newcomer."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max: Final = bytes_max
        # Who saved it, and its number there; 0: none has come yet.
        self.provider: Source | None = None
        self.number: i64 = 0
        self._total: i64 = 0
        self._pieces: Final[dict[int, bytes]] = {}
        # INV-MISSING: the bytes that have not come yet, counted from 1.
        self._holes: Final = Holes()
        # Since when nothing has come that was asked for; -1: nothing was asked for.
        self._waits_since_ns: i64 = -1

    def asked(self, now_ns: i64) -> None:
        """Somebody is asked for the next piece."""
        if self._waits_since_ns < 0:
            self._waits_since_ns = now_ns

    def is_in_vain(self, now_ns: i64, patience_ns: i64) -> bool:
        """Whether nothing has come for so long that nobody's application saves one."""
        return self._waits_since_ns >= 0 and now_ns - self._waits_since_ns >= patience_ns

    def begin_anew(self) -> None:
        """The one that provides is gone: what came of its snapshot is of no use."""
        self.provider = None
        self.number = 0
        self._total = 0
        self._pieces.clear()
        self._holes.fill(0, SEQ_MAX)

    def on_piece(self, chunk: Chunk, source: Source, now_ns: i64) -> None:
        """A piece came. One of another snapshot is ignored, unless it is a later one of the same
        member, which then no longer has the one that began to come.
        """
        self._waits_since_ns = now_ns
        if source == self.provider and chunk.after > self.number:
            self.begin_anew()
        if self.number == 0:
            if chunk.after < 1 or chunk.total > self._bytes_max + (1 << 20):
                raise RemoteProtocolError(f"snapshot {chunk.after} of {chunk.total} bytes")
            self.provider, self.number, self._total = source, chunk.after, chunk.total
            self._holes.add(1, chunk.total)
        if source != self.provider or chunk.after != self.number or chunk.total != self._total:
            return
        first = chunk.offset + 1
        last = chunk.offset + len(chunk.content)
        if self._holes.has_all(first, last):
            self._holes.fill(first, last)
            self._pieces[int(chunk.offset)] = chunk.content

    @property
    def offset(self) -> int:
        """From where on to ask."""
        return self._holes.range_at(0)[0] - 1 if len(self._holes) > 0 else 0

    @property
    def complete(self) -> bool:
        return self.number > 0 and len(self._holes) == 0

    def result(self) -> tuple[bytes, dict[Source, int]] | None:
        """The snapshot, and how far the application that saved it had got with each source; None if
        nobody had one.
        """
        if not self.complete:
            return None
        try:
            return _unpack(b"".join([self._pieces[at] for at in sorted(self._pieces)]))
        except RemoteProtocolError:
            self.begin_anew()
            raise


def _covers(taken: dict[Source, int], needs: dict[Source, int]) -> bool:
    """Whether an application that has taken so much has taken all that is needed. A source that is
    not here any more has ended, and all of it was taken.
    """
    return all(taken.get(source, ENDED) >= seq for source, seq in needs.items())


def _pack(snapshot: bytes, taken: dict[Source, int]) -> bytes:
    out = BytesWriter()
    write_i64_le(out, len(taken))
    for source in sorted(taken):
        write_i64_le(out, source.sender)
        write_i64_le(out, source.incarnation)
        write_i64_le(out, taken[source])
    out.write(snapshot)
    return out.getvalue()


def _unpack(whole: bytes) -> tuple[bytes, dict[Source, int]]:
    size: i64 = len(whole)
    count = read_i64_le(whole, 0) if size >= 8 else -1
    if count < 0 or count > (size - 8) // _ROW_BYTES:
        raise RemoteProtocolError(f"snapshot of {size} bytes with {count} sources")
    taken: dict[Source, int] = {}
    at: i64 = 8
    while len(taken) < count:
        sender, life = read_i64_le(whole, at), read_i64_le(whole, at + 8)
        seq = read_i64_le(whole, at + 16)
        source_ok = 0 <= sender <= ID_MAX and 0 <= life <= ID_MAX
        if not source_ok or seq < 0 or seq > SEQ_MAX or Source(sender, life) in taken:
            raise RemoteProtocolError(f"snapshot of source {sender:#x}.{life:#x} up to {seq}")
        taken[Source(sender, life)] = int(seq)
        at += _ROW_BYTES
    return whole[at:], taken
