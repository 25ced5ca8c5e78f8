"""Large messages: cut into fragments that fit a datagram, and put together again.

One lost IP fragment loses a whole datagram, so we stay under the path MTU and fragment here.
The `Reassembler` is bounded in messages and in bytes really received, whatever counts and sizes
peers claim; when full it forgets the message that has waited longest, which repair asks for again.
A message may come from several members, if others than its source send it again. Their pieces fit
together only if all cut alike, so pieces that were cut differently are refused, never mixed.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import MessageTooLargeError, RemoteProtocolError
from semcast.ids import Source
from semcast.wire.decode import decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.families.repair import FRAGMENT_HEAD_BYTES, Fragment
from semcast.wire.frames import FRAME_HEAD_BYTES, SOURCE_BYTES, WHOLE_HEAD_BYTES, WORDS_MAX
from semcast.wire.header import HEADER_BYTES, TAG_BYTES
from semcast.wire.limits import IP_UDP_BYTES, PATH_MTU_BYTES_MIN, Limits
from semcast.wire.message import Message

_KEY_BYTES_MAX: Final = 255
# The most that a message in this form is larger than its payload.
_OVERHEAD_BYTES: Final = WHOLE_HEAD_BYTES + WORDS_MAX * 8 + 8 + _KEY_BYTES_MAX
# What a fragment takes in front of its piece. Room for a source is always kept, so that pieces are
# the same whether they are relayed or not.
_HEAD_BYTES: Final = FRAME_HEAD_BYTES + SOURCE_BYTES + FRAGMENT_HEAD_BYTES
# No correct peer cuts shorter, except the last piece. Without this, pieces of one byte would hold
# many times the memory that is accounted for.
PIECE_BYTES_MIN: Final = PATH_MTU_BYTES_MIN - IP_UDP_BYTES - HEADER_BYTES - TAG_BYTES - _HEAD_BYTES


def fragments_of(message: Message, limits: Limits) -> list[Fragment]:
    """The fragments of a message that is too large for one datagram."""
    payload_len = len(message.body) - message.key_len
    if payload_len > limits.message_bytes_max:
        raise MessageTooLargeError(payload_len, limits.message_bytes_max)
    chunk = limits.frames_bytes_max - _HEAD_BYTES
    whole = encode_whole(message)
    count = (len(whole) + chunk - 1) // chunk
    return [
        Fragment(message.source, message.seq, i, count, whole[i * chunk : (i + 1) * chunk])
        for i in range(count)
    ]


@final
class _Partial:
    """The fragments of one message that have arrived."""

    def __init__(self, count: i64) -> None:
        self.count: Final[i64] = count
        self.pieces: Final[dict[int, bytes]] = {}
        self.size_bytes: i64 = 0
        # INV-CUT: every piece but the last has this size; 0 until the first such piece came.
        self.piece_bytes: i64 = 0

    def check(self, fragment: Fragment, whole_bytes_max: i64) -> None:
        """Refuse a new piece that cannot belong to this message, or to any."""
        size: i64 = len(fragment.piece)
        if fragment.count != self.count:
            raise RemoteProtocolError(
                f"fragments of seq {fragment.seq} are {self.count} or {fragment.count}; "
                "set the same path_mtu_bytes on every member"
            )
        if fragment.index < self.count - 1:
            if size < PIECE_BYTES_MIN:
                raise RemoteProtocolError(
                    f"fragment {fragment.index} of {self.count} has {size} bytes; "
                    f"all but the last have {PIECE_BYTES_MIN} or more"
                )
            if self.piece_bytes > 0 and size != self.piece_bytes:
                raise RemoteProtocolError(
                    f"fragments of seq {fragment.seq} have {self.piece_bytes} or {size} bytes; "
                    "set the same path_mtu_bytes on every member"
                )
        if self.size_bytes + size > whole_bytes_max:
            raise RemoteProtocolError(
                f"fragments of seq {fragment.seq} have {self.size_bytes + size} bytes, "
                f"{whole_bytes_max} is the most; set the same message_bytes_max on every member"
            )

    def add(self, fragment: Fragment) -> None:
        """Keep a piece that was checked."""
        self.pieces[fragment.index] = fragment.piece
        self.size_bytes += len(fragment.piece)
        if fragment.index < self.count - 1:
            self.piece_bytes = len(fragment.piece)


@final
class Reassembler:
    """Puts fragments together. Each bad set of fragments costs its source that message only."""

    def __init__(
        self, limits: Limits, partials_max: int = 64, partials_bytes_max: int = 8 << 20
    ) -> None:
        assert partials_max >= 1
        self._message_bytes_max: Final = limits.message_bytes_max
        self._whole_bytes_max: Final = limits.message_bytes_max + _OVERHEAD_BYTES
        self._partials_max: Final = partials_max
        self._partials_bytes_max: Final = max(partials_bytes_max, self._whole_bytes_max)
        # In order of first arrival, so that the first is the one that has waited longest.
        self._partials: Final[dict[tuple[Source, int], _Partial]] = {}
        self.held_bytes: i64 = 0
        self.forgotten: i64 = 0

    def __len__(self) -> int:
        return len(self._partials)

    def add(self, fragment: Fragment) -> Message | None:
        """The message, if this was its last missing piece."""
        name = (fragment.source, int(fragment.seq))
        partial = self._partials.get(name)
        if partial is None:
            partial = _Partial(fragment.count)
            partial.check(fragment, self._whole_bytes_max)
            if len(self._partials) >= self._partials_max:
                self._forget_oldest()
            self._partials[name] = partial
        else:
            if fragment.count == partial.count and fragment.index in partial.pieces:
                return None
            try:
                partial.check(fragment, self._whole_bytes_max)
            except RemoteProtocolError:
                # Which of two pieces that disagree is wrong, nobody knows: start over.
                self._drop(name)
                raise
        partial.add(fragment)
        self.held_bytes += len(fragment.piece)
        if len(partial.pieces) == partial.count:
            self._drop(name)
            whole = b"".join([partial.pieces[i] for i in range(partial.count)])
            return decode_whole(whole, fragment.source, fragment.seq, self._message_bytes_max)
        while self.held_bytes > self._partials_bytes_max:
            self._forget_oldest()
        return None

    def forget(self, source: Source) -> None:
        """Drop what is left of a source that is gone."""
        for name in [name for name in self._partials if name[0] == source]:
            self._drop(name)

    def _forget_oldest(self) -> None:
        self._drop(next(iter(self._partials)))
        self.forgotten += 1

    def _drop(self, name: tuple[Source, int]) -> None:
        self.held_bytes -= self._partials.pop(name).size_bytes
