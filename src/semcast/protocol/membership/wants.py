"""What a newcomer wants of one source: chunks of its state in, in any order; the whole out.

Each chunk says which numbers it covers, so it does not matter who sent it, whether it comes twice,
or which one was lost. Knows nothing of time or of whom to ask.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.streams.holes import Holes
from semcast.wire.families.state import INCOMPLETE, PIECE, Chunk
from semcast.wire.message import Message
from semcast.wire.state_records import read_records, read_whole, whole_bytes_max


@final
class _Large:
    """A message that comes in pieces, one after the other."""

    def __init__(self, after: i64, seq: i64, total: i64) -> None:
        # Nothing else stands after `after` and before the message itself.
        self.after: i64 = after
        self.seq: Final[i64] = seq
        self.total: Final[i64] = total
        # INV-PIECES: of pieces that do not continue what has come, no more than the message has.
        self.pieces: Final[dict[int, bytes]] = {}
        self._early_bytes: i64 = 0
        # All bytes before this one have come.
        self.next = 0

    def add(self, offset: int, piece: bytes) -> None:
        """A piece came. Members may cut differently, so pieces may overlap."""
        if offset < self.next or offset in self.pieces:
            return
        if offset > self.next:
            if self._early_bytes + len(piece) > self.total:
                return  # it is asked for again
            self._early_bytes += len(piece)
        self.pieces[offset] = piece
        while self.next in self.pieces:
            self.next += len(self.pieces[self.next])

    def whole(self) -> bytes:
        """All pieces that follow each other, from the first on."""
        found: list[bytes] = []
        at = 0
        while at < self.next:
            found.append(self.pieces[at])
            at += len(self.pieces[at])
        return b"".join(found)


@final
class Want:
    """The state of one source, as far as it has come."""

    def __init__(self, source: Source, after: i64, cut: i64) -> None:
        self.source: Final = source
        # The last message before the stream.
        self.cut: i64 = cut
        # If the stream has begun anew since: up to here, what came of it waits. Otherwise nothing.
        self.had: i64 = after
        # When to wait for it no longer, since whoever has it is silent.
        self.until_ns: i64 = NEVER
        # INV-HOLES: the numbers of which it is not known yet whether they stand.
        self.holes: Final = Holes()
        if after < cut:
            self.holes.add(after + 1, cut)
        self._messages: Final[dict[int, Message]] = {}
        # At most one: they are asked for in order, and pieces of others come again.
        self._large: _Large | None = None
        # Whether whoever provided it had lost something.
        self.incomplete = False
        # Whether a request for it is on its way.
        self.asked = False

    def __len__(self) -> int:
        """How many messages have come."""
        return len(self._messages)

    @property
    def complete(self) -> bool:
        return len(self.holes) == 0

    @property
    def is_lacking(self) -> bool:
        """Whether some of it will never come."""
        return self.incomplete or not self.complete

    def go_on(self, had: i64, cut: i64) -> None:
        """The stream goes on, or begins anew after a later cut. Of what came meanwhile, everything
        up to `had` is here.
        """
        self.until_ns = NEVER
        self.had = max(self.had, had)
        if had < cut:
            self.holes.add(had + 1, cut)
            self.cut = cut
            self._large = None

    def position(self) -> tuple[int, int, int]:
        """What to ask for: after which number, until which, and from which byte on."""
        first, last = self.holes.range_at(0)
        large = self._large
        known = large is not None and large.after < first <= large.seq
        return first - 1, last, large.next if known and large is not None else 0

    def on_chunk(self, chunk: Chunk, message_bytes_max: i64) -> None:
        """A chunk came. One for another cut says nothing about this one."""
        if chunk.cut != self.cut:
            return
        if chunk.marks & INCOMPLETE:
            self.incomplete = True
        if chunk.marks & PIECE:
            self._on_piece(chunk, message_bytes_max)
        elif chunk.after < chunk.upto:
            found = read_records(
                chunk.content, self.source, chunk.after, chunk.upto, message_bytes_max
            )
            self._cover(chunk.after, chunk.upto, found)

    def _cover(self, after: i64, upto: i64, messages: list[Message]) -> None:
        for message in messages:
            if self.holes.has(message.seq):
                self._messages[int(message.seq)] = message
        self.holes.fill(after + 1, upto)

    def _on_piece(self, chunk: Chunk, message_bytes_max: i64) -> None:
        if not self.holes.has(chunk.upto):
            return
        large = self._large
        if large is None or large.seq != chunk.upto or large.total != chunk.total:
            if chunk.total > whole_bytes_max(message_bytes_max):
                raise RemoteProtocolError(f"standing message of {chunk.total} bytes")
            large = self._large = _Large(chunk.after, chunk.upto, chunk.total)
        large.after = min(large.after, chunk.after)
        large.add(int(chunk.offset), chunk.content)
        if large.next >= large.total:
            self._large = None
            message = read_whole(large.whole(), self.source, large.seq, message_bytes_max)
            self._cover(large.after, large.seq, [message])

    def messages(self) -> list[Message]:
        """What stands, in order."""
        return [self._messages[seq] for seq in sorted(self._messages)]


@final
class Asked:
    """A request that is on its way."""

    def __init__(self, to: int, want: Want | None, until_ns: i64) -> None:
        self.to: Final = to
        # None: for the list, or for a snapshot.
        self.want: Final = want
        # When it is given up.
        self.until_ns: i64 = until_ns
        # Which chunks came, by their places.
        self.came: Final[set[int]] = set()
