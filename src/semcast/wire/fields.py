"""Fields that many frames have, into bytes: sources and unsigned integers."""

from typing import Final

from librt.strings import BytesWriter, write_i16_le, write_i32_le, write_i64_le
from mypy_extensions import i16, i32, i64

from semcast.ids import Source

# A view: its digest i64, and its number u32.
VIEW_BYTES: Final = 12


def write_source(out: BytesWriter, source: Source) -> None:
    """A source: its sender and its incarnation."""
    write_i64_le(out, source.sender)
    write_i64_le(out, source.incarnation)


def write_u16(out: BytesWriter, value: i64) -> None:
    """The 16 bits of an unsigned value, as the signed integer that has the same bits."""
    write_i16_le(out, i16(value - 0x10000 if value > 0x7FFF else value))


def write_u32(out: BytesWriter, value: i64) -> None:
    """The 32 bits of an unsigned value, as the signed integer that has the same bits."""
    write_i32_le(out, i32(value - 0x100000000 if value > 0x7FFFFFFF else value))


def write_view(out: BytesWriter, digest: i64, number: i64) -> None:
    """Which view a frame speaks of."""
    write_i64_le(out, digest)
    write_u32(out, number)
