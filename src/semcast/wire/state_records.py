"""Records of a chunk of state: standing messages in, bytes out, and back.

Each is seq i64 · length u32 · the message in the form of a fragmented one, so that a message which
fills a datagram by itself is cut into pieces of the same bytes. Knows nothing of what stands.
"""

from typing import Final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i64_le
from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.wire.decode import decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.fields import write_u32
from semcast.wire.frames import WHOLE_HEAD_BYTES, WORDS_MAX
from semcast.wire.message import Message

RECORD_HEAD_BYTES: Final = 12
# The most that a message in this form is larger than its payload: bitmap, rank and keys.
_OVERHEAD_BYTES: Final = WHOLE_HEAD_BYTES + WORDS_MAX * 8 + 8 + 64 * 256


def record(message: Message) -> bytes:
    """One message as a record."""
    whole = encode_whole(message)
    out = BytesWriter()
    write_i64_le(out, message.seq)
    write_u32(out, len(whole))
    out.write(whole)
    return out.getvalue()


def read_records(
    content: bytes, source: Source, after: i64, upto: i64, message_bytes_max: i64
) -> list[Message]:
    """The messages of a chunk, which are in order and within its bounds."""
    size: i64 = len(content)
    at: i64 = 0
    last = after
    found = []
    while at < size:
        if size - at < RECORD_HEAD_BYTES:
            raise RemoteProtocolError(f"record has {size - at} bytes left for its head")
        seq = read_i64_le(content, at)
        length = i64(read_i32_le(content, at + 8)) & 0xFFFFFFFF
        at += RECORD_HEAD_BYTES
        if not last < seq <= upto or length > size - at:
            raise RemoteProtocolError(
                f"record of seq {seq} with {length} bytes, after seq {last} of up to {upto}; "
                f"{size - at} bytes are left"
            )
        found.append(read_whole(content[at : at + length], source, seq, message_bytes_max))
        last = seq
        at += length
    return found


def read_whole(whole: bytes, source: Source, seq: i64, message_bytes_max: i64) -> Message:
    """One standing message, marked as part of the state."""
    if seq < 1 or seq > SEQ_MAX:
        raise RemoteProtocolError(f"standing message of seq {seq}")
    message = decode_whole(whole, source, seq, message_bytes_max)
    if message.key_len == 0:
        raise RemoteProtocolError(f"message {seq} has no key, so it cannot stand")
    message.state = True
    return message


def whole_bytes_max(message_bytes_max: i64) -> i64:
    """How large a standing message in this form may be."""
    return message_bytes_max + _OVERHEAD_BYTES
