"""The datagram header: its fields in, 36 bytes out, and back.

Knows the layout and nothing else: not keys, not frames, not whether a packet was seen before.
All integers are little-endian.

    offset  bytes
         0      1  version (1)
         1      1  suite: 0 plain, 1 AES-256-GCM, 2 ChaCha20-Poly1305
         2      2  key id (0 when plain)
         4      8  group id
        12      8  sender id
        20      8  incarnation
        28      8  packet number, from 1, strictly increasing within a source
        36      …  frames; ciphertext when sealed
       end     16  AEAD tag, or 4 bytes of checksum over everything before when plain
"""

from typing import Final, final

from librt.strings import BytesWriter, read_i64_le, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source

VERSION: Final = 1

PLAIN: Final = 0
AES_256_GCM: Final = 1
CHACHA20_POLY1305: Final = 2
SUITE_MAX: Final = 2

HEADER_BYTES: Final = 36
# Everything before the packet number is the same in all datagrams that one source seals with one
# key; a source's key is derived from these bytes without the version (see seal.py).
SOURCE_BYTES: Final = 28
TAG_BYTES: Final = 16
CHECK_BYTES: Final = 4
# The largest UDP payload over IPv4; nothing longer can have come off a socket.
DATAGRAM_BYTES_MAX: Final = 65_507

KEY_ID_MAX: Final = 0xFFFF
PACKET_MAX: Final = (1 << 62) - 1
# The integers that have a range: name, offset, and the smallest value; the largest is ID_MAX.
_FIELDS: Final = (
    ("group id", 4, 0),
    ("sender id", 12, 0),
    ("incarnation", 20, 0),
    ("packet number", 28, 1),
)


def trailer_bytes(suite: int) -> int:
    """How many bytes follow the frames: a tag, or the checksum of a plain datagram."""
    return CHECK_BYTES if suite == PLAIN else TAG_BYTES


@final
class Header:
    """The fields of one datagram's header. Bytes become one only through `read_header`."""

    def __init__(self, suite: i64, key_id: i64, group: i64, source: Source, packet: i64) -> None:
        assert 0 <= suite <= SUITE_MAX
        assert 0 <= key_id <= KEY_ID_MAX
        assert suite != PLAIN or key_id == 0
        assert 0 <= group <= ID_MAX
        assert 0 <= source.sender <= ID_MAX
        assert 0 <= source.incarnation <= ID_MAX
        assert 1 <= packet <= PACKET_MAX
        self.suite: Final[i64] = suite
        self.key_id: Final[i64] = key_id
        self.group: Final[i64] = group
        self.source: Final = source
        self.packet: Final[i64] = packet

    def encode(self) -> bytes:
        """The 36 bytes that `read_header` reads."""
        writer = BytesWriter()
        writer.append(VERSION)
        writer.append(self.suite)
        # Two bytes by hand: the 16-bit writer is signed, key ids are not.
        writer.append(self.key_id & 0xFF)
        writer.append(self.key_id >> 8)
        write_i64_le(writer, self.group)
        write_i64_le(writer, self.source.sender)
        write_i64_le(writer, self.source.incarnation)
        write_i64_le(writer, self.packet)
        return writer.getvalue()

    def of(self, data: bytes) -> "Header | None":
        """The header of `data`, which begins with the same SOURCE_BYTES as this one: as
        `read_header` does, but most of it is known.
        """
        if len(data) < HEADER_BYTES:
            return None
        packet: i64 = read_i64_le(data, SOURCE_BYTES)
        if not 1 <= packet <= PACKET_MAX:
            return None
        return Header(self.suite, self.key_id, self.group, self.source, packet)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Header):
            return NotImplemented
        return self.encode() == other.encode()

    def __hash__(self) -> int:
        return hash(self.encode())

    def __repr__(self) -> str:
        return (
            f"Header(suite={self.suite}, key_id={self.key_id}, group={self.group:x}, "
            f"source={self.source!r}, packet={self.packet})"
        )


def read_header(data: bytes) -> Header | None:
    """The header at the start of `data`, or None if no correct peer sends it.

    Says nothing about what follows the header, nor about who made it: that is what opening the
    seal is for. A flood brings many that are wrong, so this makes no error and no text;
    `decode_header` does.
    """
    if len(data) < HEADER_BYTES or data[0] != VERSION:
        return None
    suite: i64 = data[1]
    key_id: i64 = data[2] | (data[3] << 8)
    if suite > SUITE_MAX or (suite == PLAIN and key_id != 0):
        return None
    group: i64 = read_i64_le(data, 4)
    sender: i64 = read_i64_le(data, 12)
    incarnation: i64 = read_i64_le(data, 20)
    packet: i64 = read_i64_le(data, 28)
    # The integers on the wire are unsigned: one of 2^63 or more reads as negative here.
    if not (
        0 <= group <= ID_MAX
        and 0 <= sender <= ID_MAX
        and 0 <= incarnation <= ID_MAX
        and 1 <= packet <= PACKET_MAX
    ):
        return None
    return Header(suite, key_id, group, Source(sender, incarnation), packet)


def decode_header(data: bytes) -> Header:
    """The header at the start of `data`, or RemoteProtocolError that says what is wrong with it."""
    header = read_header(data)
    if header is None:
        raise RemoteProtocolError(_fault(data))
    return header


def _fault(data: bytes) -> str:
    """Why `data` has no header."""
    if len(data) < HEADER_BYTES:
        return f"datagram of {len(data)} bytes is shorter than a header ({HEADER_BYTES}); ignored"
    if data[0] != VERSION:
        return (
            f"datagram of version {data[0]}, but this semcast speaks version {VERSION}; "
            "run the same version on every member"
        )
    if data[1] > SUITE_MAX:
        return f"datagram of unknown suite {data[1]}; suites go from 0 to {SUITE_MAX}"
    key_id = data[2] | (data[3] << 8)
    if data[1] == PLAIN and key_id != 0:
        return f"plain datagram with key id {key_id}; plain ones have 0"
    for name, at, low in _FIELDS:
        value = int.from_bytes(data[at : at + 8], "little")
        if not low <= value <= ID_MAX:
            return f"datagram with {name} {value}; it goes from {low} to {ID_MAX}"
    raise AssertionError("a header that is right was not read")
