"""Notes: datagrams in which the live world, rather than its members, says something.

Bytes go in, the one frame of a datagram comes out, and back. Members know nothing of notes; with
them the live world finds its members, reports who is slow, and asks questions.
"""

from typing import Final

from semcast.errors import LocalProtocolError, RemoteProtocolError
from semcast.wire.frames import FRAME_HEAD_BYTES, NOTE

NOTE_BYTES_MAX: Final = 0xFFFF


def encode_note(note: bytes) -> bytes:
    """The frames of a datagram that holds this note and nothing else."""
    if len(note) > NOTE_BYTES_MAX:
        raise LocalProtocolError(f"note of {len(note)} bytes; the most is {NOTE_BYTES_MAX}")
    return bytes((NOTE, 0)) + len(note).to_bytes(2, "little") + note


def is_note(frames: bytes) -> bool:
    """Whether these frames are a note, which no member gets."""
    return len(frames) > 0 and frames[0] == NOTE


def decode_note(frames: bytes) -> bytes:
    """The note in frames of which `is_note` holds."""
    if len(frames) < FRAME_HEAD_BYTES or frames[1] != 0:
        raise RemoteProtocolError(f"note cut short or with unknown flags: {frames[:4].hex()}")
    size = int.from_bytes(frames[2:4], "little")
    if size != len(frames) - FRAME_HEAD_BYTES:
        raise RemoteProtocolError(
            f"note says {size} bytes, {len(frames) - FRAME_HEAD_BYTES} are there"
        )
    return frames[FRAME_HEAD_BYTES:]
