"""Providing state: a newcomer's requests in, chunks of what stands out.

Whoever provides keeps nothing about newcomers between two requests: each says from where on it
wants what, and each chunk says what it covers. So another member can go on where this one stopped.
How much is sent for one request the newcomer says, so it is never sent more than it can take.

A member answers for a cut only if it has everything up to it. It does not answer if it comes late
itself, nor, unless the newcomer insists, if its own application is far behind.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.snapshots import Shelf
from semcast.protocol.order import Order
from semcast.protocol.outbox import Outbox
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.stability.detection import Detection
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.encode import encode_whole
from semcast.wire.families.state import (
    BUSY,
    CHUNK_HEAD_BYTES,
    INCOMPLETE,
    KEEPS_NONE,
    LAST,
    LATER,
    LIST,
    LISTED,
    NEWCOMER,
    PIECE,
    PIECE_HEAD_BYTES,
    SNAPSHOT,
    TELL_ROWS_MAX,
    URGENT,
    Chunk,
    Need,
    Tell,
)
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.message import Message
from semcast.wire.state_records import record

# So many requests wait to be answered; more are not, and are asked again.
_NEEDS_MAX: Final = 64
# For one request at most so much is sent, whatever the newcomer says.
BYTES_MAX: Final = 1 << 20
# So many lists of what stands are kept while newcomers ask for parts of them.
_LISTS_MAX: Final = 4


@final
class Provider:
    """What one member does for newcomers."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        intake: Intake,
        order: Order,
        retained: PurgingBuffer,
        detection: Detection,
    ) -> None:
        self._config: Final = config
        self._sender: Final = sender
        self._intake: Final = intake
        self._order: Final = order
        self._retained: Final = retained
        self._detection: Final = detection
        self._standing: Final = retained.heir
        self.shelf: Final = Shelf(config, sender, intake, order)
        self._frames_bytes_max: Final[i64] = config.limits.frames_bytes_max - FRAME_HEAD_BYTES
        # (who asks, what), in the order of arrival.
        self._needs: list[tuple[Source, Need]] = []
        # By source and cut: what stands, while somebody asks for parts of it.
        self._lists: Final[dict[tuple[Source, int], list[Message]]] = {}
        # Whether this member lacks the state itself; or, later, that of these sources only.
        self.late = False
        self.lacks: Final[set[Source]] = set()

    def on_need(self, need: Need, source: Source) -> None:
        """Somebody asks."""
        if len(self._needs) < _NEEDS_MAX:
            self._needs.append((source, need))

    def pack(self, outbox: Outbox) -> None:
        """Answer everybody who has asked."""
        if not self._needs:
            return
        needs, self._needs = self._needs, []
        for source, need in needs:
            refusal = self._refusal(need)
            to = int(source.sender)
            if refusal != LISTED:
                outbox.frame(to, Tell(0, need.number, refusal, []))
            elif need.wants & LIST:
                outbox.frame(to, self._list(need))
            elif need.wants & SNAPSHOT:
                self.shelf.answer(source, need, outbox)
            else:
                self._answer(to, need, outbox)

    def _refusal(self, need: Need) -> i64:
        """Why this member does not answer; LISTED if it does."""
        if need.wants & SNAPSHOT:
            if self._config.state != "snapshot":
                return KEEPS_NONE
        elif self._standing is None:
            return KEEPS_NONE
        group = self._config.group_reliable
        own = need.source == self._sender.source and not need.wants & (LIST | SNAPSHOT)
        if self.late and group and not own:
            return NEWCOMER
        # In a feed nobody else has what this member has sent.
        if group and self._is_busy() and not need.wants & URGENT:
            return BUSY
        if need.wants & (LIST | SNAPSHOT) or self._has(need.source, need.cut):
            return LISTED
        return LATER

    def _is_busy(self) -> bool:
        """Whether its own application is far behind."""
        return 2 * self._order.waiting.held > self._config.delivery_messages

    def _has(self, source: Source, cut: i64) -> bool:
        """Whether everything of a source up to the cut is here, and what stands of it known."""
        assert self._standing is not None
        if source == self._sender.source:
            has = self._sender.seq
        elif not self._config.group_reliable or source in self.lacks:
            return False
        else:
            inbound = self._intake.inbounds.get(source)
            has = self._detection.stable(source)
            if inbound is not None:
                has = max(has, inbound.next - 1)
        # What was dropped from the view has ended long ago; and so has, whatever the view says of
        # its sender, what ended here. A sender may come again in an earlier life, if its clock was
        # set back, and then the view cannot tell that a later one is over.
        ended = self._standing.has_ended(source)
        if has < cut and not ended and self._intake.view.position(source.sender) >= 0:
            return False
        self._standing.absorb(self._retained.up_to(source, cut))
        return True

    # -- lists and chunks --------------------------------------------------------------------------

    def _list(self, need: Need) -> Tell:
        standing = self._standing
        assert standing is not None
        rows = [
            (source, ended or self._detection.stable(source) >= ENDED)
            for source, ended in standing.sources()
            if not source < need.source
        ]
        marks: i64 = LAST if len(rows) <= TELL_ROWS_MAX else 0
        if standing.lacks_ended:
            marks |= INCOMPLETE
        return Tell(marks, need.number, LISTED, rows[:TELL_ROWS_MAX])

    def _messages(self, need: Need) -> list[Message]:
        """What stands at the cut of somebody who asks. What was replaced since the list was made
        comes with the stream as well, and may be sent.
        """
        assert self._standing is not None
        name = (need.source, int(need.cut))
        found = self._lists.get(name)
        if found is None:
            while len(self._lists) >= _LISTS_MAX:
                del self._lists[next(iter(self._lists))]
            found = self._lists[name] = self._standing.messages(need.source, 0, need.cut)
        return found

    def _answer(self, to: int, need: Need, outbox: Outbox) -> None:
        standing = self._standing
        assert standing is not None
        messages = self._messages(need)
        at = _first_after(messages, need.after)
        marks: i64 = INCOMPLETE if standing.is_incomplete(need.source, need.after) else 0
        answer = _Answer(to, need, marks, outbox, self._frames_bytes_max)
        while at < len(messages) and messages[at].seq <= need.until and answer.goes_on:
            answer.add(messages[at])
            at += 1
        if at < len(messages) and messages[at].seq <= need.until:
            answer.close(messages[at].seq - 1)
            return
        answer.close(need.until)
        if need.until == need.cut and not answer.cut_short:
            self._lists.pop((need.source, int(need.cut)), None)


@final
class _Answer:
    """The chunks that answer one request."""

    def __init__(self, to: int, need: Need, marks: i64, outbox: Outbox, room: i64) -> None:
        self._to: Final = to
        self._need: Final = need
        self._marks: Final[i64] = marks
        self._outbox: Final = outbox
        self._room: Final[i64] = room
        self._after: i64 = need.after
        self._offset: i64 = need.offset
        self._index: i64 = 0
        self._records: list[bytes] = []
        self._bytes: i64 = CHUNK_HEAD_BYTES
        self._left: i64 = min(need.bytes_max, BYTES_MAX)
        # Whether the last message was too large for what was asked for.
        self.cut_short = False

    @property
    def goes_on(self) -> bool:
        """Whether there is room for another message; for the first there always is."""
        if self.cut_short:
            return False
        return self._left > 0 or (self._index == 0 and not self._records)

    def add(self, message: Message) -> None:
        """The next message."""
        found = record(message)
        size: i64 = len(found)
        if self._bytes + size > self._room and self._records:
            self._send(message.seq - 1, 0)
        if self._bytes + size > self._room:
            self._cut_up(message)
            return
        self._records.append(found)
        self._bytes += size
        self._left -= size

    def close(self, upto: i64) -> None:
        """Nothing more stands up to here, or there is no more room. If a message was cut short,
        only what came before it is covered.
        """
        self._send(self._after if self.cut_short else upto, LAST)

    def _send(self, upto: i64, last: i64) -> None:
        need = self._need
        content = b"".join(self._records)
        self._outbox.frame(
            self._to,
            Chunk(
                self._marks | last,
                need.number,
                self._index,
                need.source,
                self._after,
                upto,
                need.cut,
                content,
            ),
        )
        self._index += 1
        self._after = upto
        self._records = []
        self._bytes = CHUNK_HEAD_BYTES

    def _cut_up(self, message: Message) -> None:
        """A message that is too large for a chunk goes in pieces, from where the newcomer says."""
        need = self._need
        whole = encode_whole(message)
        room = self._room - PIECE_HEAD_BYTES
        offset = self._offset if self._index == 0 and self._offset < len(whole) else 0
        self._offset = 0
        while offset < len(whole):
            if self._left <= 0 and self._index > 0:
                self.cut_short = True
                return
            piece = whole[offset : offset + room]
            self._outbox.frame(
                self._to,
                Chunk(
                    self._marks | PIECE,
                    need.number,
                    self._index,
                    need.source,
                    self._after,
                    message.seq,
                    need.cut,
                    piece,
                    offset,
                    len(whole),
                ),
            )
            self._index += 1
            offset += len(piece)
            self._left -= len(piece)
        self._after = message.seq


def _first_after(messages: list[Message], after: i64) -> i64:
    """Where the messages after this number begin."""
    low: i64 = 0
    high: i64 = len(messages)
    while low < high:
        middle = (low + high) // 2
        if messages[middle].seq <= after:
            low = middle + 1
        else:
            high = middle
    return low
