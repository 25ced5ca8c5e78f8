"""The sending side of a member: number, tag, retain, pack.

Payloads and what they replace go in; the frames of datagrams come out. The retransmission buffer
is the send queue too: a cursor says what was not sent yet, so that a message purged before its
turn is never sent, and a large one is sent whole or not at all. Knows nothing of receivers.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import LocalProtocolError, MessageTooLargeError, WindowFullError
from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence.tagger import KEY_BYTES_MAX, Replaces, Tagger, as_key
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.encode import FrameWriter
from semcast.wire.fragment import fragments_of
from semcast.wire.limits import Limits
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL


@final
class Sender:
    """Multicasts the messages of one source."""

    def __init__(
        self, source: Source, tagger: Tagger, retained: PurgingBuffer, limits: Limits
    ) -> None:
        self.source: Final = source
        self._tagger: Final = tagger
        self._asks: Final = tagger.asks
        self._by_key: Final = tagger.by_key
        self._retained: Final = retained
        self._limits: Final = limits
        config = retained.config
        self._window_max: Final[int] = config.source_messages_max or config.messages_max
        self._payload_bytes_max: Final[i64] = limits.message_bytes_max
        self._writer: Final = FrameWriter(source, limits.frames_bytes_max)
        # The number of the last message multicast, and of the last one packed (or passed over).
        self.seq: i64 = 0
        self.packed: i64 = 0
        # Messages that were purged before they were sent.
        self.passed_over: list[int] = []

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Accept one message, or raise and change nothing.

        Accepted is not always sent: what a held message outranks already is accounted for as
        purged, and what a lossy buffer has no room for as dropped. Its number is spent.
        """
        if len(payload) > self._payload_bytes_max:
            raise MessageTooLargeError(len(payload), self._payload_bytes_max)
        seq = self.seq + 1
        if isinstance(replaces, (str, bytes)):
            key = as_key(replaces)
            bitmap = self._tagger.tag_key(seq, key)
            body = key + payload
            message = Message(
                self.source, seq, body, len(key), bitmap, 0, False, now_ns, False, self._by_key
            )
        elif replaces is None and not self._asks:
            self._tagger.tag_none(seq)
            message = Message(self.source, seq, payload, 0, 0, 0, False, now_ns)
        else:
            mark = self._tagger.tag(seq, replaces, payload)
            body = mark.key + payload if mark.key else payload
            message = Message(
                self.source,
                seq,
                body,
                len(mark.key),
                mark.bitmap,
                mark.rank,
                mark.ranked,
                now_ns,
                mark.several,
                mark.by_key,
            )
            self._check_keys(message)
        try:
            verdict = self._retained.insert(message)
        except MessageTooLargeError:
            self._tagger.take_back()
            raise
        if verdict is _FULL:
            self._tagger.take_back()
            raise WindowFullError(
                f"send window full: {self._retained.held_of(self.source)} messages held, none "
                "replaced; wait until the group has received more, or raise window_messages",
                self._retained.held_of(self.source),
                self._window_max,
            )
        self.seq = seq
        return message

    def _check_keys(self, message: Message) -> None:
        """What several keys take beyond the room for one counts as payload."""
        body_bytes_max = self._payload_bytes_max + KEY_BYTES_MAX
        if len(message.body) > body_bytes_max:
            self._tagger.take_back()
            raise MessageTooLargeError(len(message.body), body_bytes_max)

    def multicast_many(self, payloads: list[bytes], replaces: list[Replaces], now_ns: i64) -> None:
        """Accept these in order; when the window fills up, the error says so and `seq` how far."""
        if len(payloads) != len(replaces):
            raise LocalProtocolError(
                f"{len(payloads)} payloads, but {len(replaces)} times said what they replace; "
                "say it, or None, for each"
            )
        for at in range(len(payloads)):
            self.multicast(payloads[at], replaces[at], now_ns)

    @property
    def unsent(self) -> bool:
        """Whether something was multicast and not yet packed."""
        return self.packed < self.seq

    def frames_to_send(self, datagrams_max: i64 = SEQ_MAX) -> list[bytes]:
        """The frames of the datagrams that send what was not sent yet, about so many at most.

        A large message is never cut off: its fragments may exceed the number.
        """
        out: list[bytes] = []
        while self.packed < self.seq and len(out) < datagrams_max:
            self.packed += 1
            message = self._retained.get(self.source, self.packed)
            if message is None:
                self.passed_over.append(self.packed)
                continue
            if self._writer.add_message(message):
                continue
            if len(self._writer) > 0:
                out.append(self._writer.take())
            if not self._writer.add_message(message):
                self._pack_fragments(message, out)
        if len(self._writer) > 0:
            out.append(self._writer.take())
        return out

    def take_passed_over(self) -> list[int]:
        """Messages that were purged before they were sent, since the last time."""
        passed, self.passed_over = self.passed_over, []
        return passed

    def _pack_fragments(self, message: Message, out: list[bytes]) -> None:
        for fragment in fragments_of(message, self._limits):
            if not self._writer.add(fragment):
                out.append(self._writer.take())
                added = self._writer.add(fragment)
                assert added, "a fragment fits an empty datagram"
