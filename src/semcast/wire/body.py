"""The body of a control frame, as its reader sees it: places go in, checked values come out.

A family lists what it reads in `FrameType`s. No read goes beyond the frame's end, even if a reader
forgot to check: it raises RemoteProtocolError instead.
"""

from collections.abc import Callable
from typing import Final, final

from librt.strings import read_i16_le, read_i32_le, read_i64_le
from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.wire.frames import RELAYED, SOURCE_BYTES, ControlFrame
from semcast.wire.sources import Sources


@final
@mypyc_attr(acyclic=True)
class Body:
    """What follows the head of one frame."""

    def __init__(
        self,
        sources: Sources,
        data: bytes,
        at: i64,
        end: i64,
        kind: i64,
        flags: i64,
        sent_by: Source,
    ) -> None:
        self._sources: Final = sources
        # The frames of the whole datagram; the body goes from `at` up to `end`.
        self._data: Final = data
        self.at: i64 = at
        self.end: Final[i64] = end
        self.kind: Final[i64] = kind
        # Only flags that this type of frame has.
        self.flags: Final[i64] = flags
        # Who sent the datagram.
        self.sent_by: Final = sent_by

    def size(self) -> i64:
        """How many bytes it has."""
        return self.end - self.at

    def take_origin(self) -> Source:
        """The source of a frame that has an `origin`. After this the body begins behind it."""
        if not self.flags & RELAYED:
            return self.sent_by
        source = self.source(self.at)
        self.at += SOURCE_BYTES
        return source

    def rows(self, at: i64, row_bytes: i64, what: str) -> range:
        """The places of the rows, which fill the body from `at` to its end exactly."""
        if at > self.end or (self.end - at) % row_bytes:
            raise RemoteProtocolError(
                f"{what} frame has {self.end - at} bytes for rows of {row_bytes}"
            )
        return range(at, self.end, row_bytes)

    def source(self, at: i64) -> Source:
        """A source."""
        return self._sources.read(self._data, at, self.end)

    def seq(self, at: i64) -> i64:
        """The sequence number of a message."""
        seq = self.number(at)
        if seq < 1 or seq > SEQ_MAX:
            raise RemoteProtocolError(f"seq {seq} is out of range")
        return seq

    def count(self, at: i64) -> i64:
        """A sequence number, or 0 for none."""
        seq = self.number(at)
        if seq < 0 or seq > SEQ_MAX:
            raise RemoteProtocolError(f"seq {seq} is out of range")
        return seq

    def number(self, at: i64) -> i64:
        """Any signed integer of 64 bits."""
        self._check(at, 8)
        return read_i64_le(self._data, at)

    def u32(self, at: i64) -> i64:
        """An unsigned integer of 32 bits."""
        self._check(at, 4)
        return i64(read_i32_le(self._data, at)) & 0xFFFFFFFF

    def u16(self, at: i64) -> i64:
        """An unsigned integer of 16 bits."""
        self._check(at, 2)
        return i64(read_i16_le(self._data, at)) & 0xFFFF

    def bytes_of(self, at: i64, end: i64) -> bytes:
        """A copy of the bytes from `at` up to `end`."""
        self._check(at, end - at)
        return self._data[at:end]

    def _check(self, at: i64, size: i64) -> None:
        if at < self.at or size < 0 or at + size > self.end:
            raise RemoteProtocolError(
                f"frame of type {self.kind:#x} has {self.end - self.at} bytes; {size} were read "
                f"at byte {at - self.at}"
            )


@final
class FrameType:
    """One line of the table: a type's name and number, its flags, and the function that reads it.

    A reader takes the values from the body that it is given, raises RemoteProtocolError if they
    make no sense, and returns the frame.
    """

    def __init__(
        self, name: str, kind: i64, flags: i64, read: Callable[[Body], ControlFrame]
    ) -> None:
        """A frame with flags other than these `flags` is refused before it is read."""
        self.name: Final = name
        self.kind: Final[i64] = kind
        self.flags: Final[i64] = flags
        self.read: Final = read
