"""Large messages: cut into fragments that fit a datagram, and put together again.

One lost IP fragment loses a whole datagram, so we stay under the path MTU and fragment here.
The `Reassembler` is bounded in messages and in bytes really received, whatever counts and sizes
peers claim; when full it forgets the message that has waited longest, which repair asks for again.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import MessageTooLargeError, RemoteProtocolError
from semcast.ids import Source
from semcast.wire.decode import decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.frames import (
    WHOLE_HEAD_BYTES,
    FRAGMENT_HEAD_BYTES,
    FRAME_HEAD_BYTES,
    SOURCE_BYTES,
    WORDS_MAX,
    Fragment,
)
from semcast.wire.limits import Limits
from semcast.wire.message import Message

_KEY_BYTES_MAX: Final = 255
# The most that a message in this form is larger than its payload.
_OVERHEAD_BYTES: Final = WHOLE_HEAD_BYTES + WORDS_MAX * 8 + 8 + _KEY_BYTES_MAX


def fragments_of(message: Message, limits: Limits) -> list[Fragment]:
    """The fragments of a message that is too large for one datagram."""
    payload_len = len(message.body) - message.key_len
    if payload_len > limits.message_bytes_max:
        raise MessageTooLargeError(payload_len, limits.message_bytes_max)
    chunk = limits.frames_bytes_max - FRAME_HEAD_BYTES - FRAGMENT_HEAD_BYTES - SOURCE_BYTES
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


@final
class Reassembler:
    """Puts fragments together. Each bad set of fragments costs its source that message only."""

    def __init__(
        self, limits: Limits, partials_max: int = 64, partials_bytes_max: int = 8 << 20
    ) -> None:
        self._message_bytes_max: Final = limits.message_bytes_max
        self._partials_max: Final = partials_max
        self._partials_bytes_max: Final = max(
            partials_bytes_max, limits.message_bytes_max + _OVERHEAD_BYTES
        )
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
            if len(self._partials) >= self._partials_max:
                self._forget_oldest()
            partial = _Partial(fragment.count)
            self._partials[name] = partial
        if partial.count != fragment.count:
            self._drop(name)
            raise RemoteProtocolError(
                f"fragments of seq {fragment.seq} disagree: {partial.count} or {fragment.count}?"
            )
        if fragment.index in partial.pieces:
            return None
        size: i64 = len(fragment.piece)
        if partial.size_bytes + size > self._message_bytes_max + _OVERHEAD_BYTES:
            self._drop(name)
            raise RemoteProtocolError(
                f"fragments of seq {fragment.seq} exceed the limit of "
                f"{self._message_bytes_max} bytes"
            )
        partial.pieces[fragment.index] = fragment.piece
        partial.size_bytes += size
        self.held_bytes += size
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
        for name in self._partials:
            self._drop(name)
            self.forgotten += 1
            return

    def _drop(self, name: tuple[Source, int]) -> None:
        self.held_bytes -= self._partials.pop(name).size_bytes
