"""Frames and bytes: messages and control frames in, the contents of datagrams out, and back.

Encode with `FrameWriter`, decode with `Decoder`; `fragments_of` and `Reassembler` carry messages
that are larger than a datagram; `Limits` says how large each may be. Knows nothing of sockets,
nor of what members do with what they receive. The format is in docs/design/wire.md.

Sealing is left out here on purpose: `semcast.wire.keys`, `seal` and `opener` load the
cryptography package, which takes longer than all the rest, so import them where they are used.
"""

from semcast.wire.decode import Decoded, Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.fragment import Reassembler, fragments_of
from semcast.wire.frames import ControlFrame
from semcast.wire.header import VERSION, Header, decode_header
from semcast.wire.limits import Limits
from semcast.wire.message import Message

__all__ = [
    "VERSION",
    "ControlFrame",
    "Covered",
    "Decoded",
    "Decoder",
    "Fragment",
    "FrameWriter",
    "Header",
    "Limits",
    "Message",
    "Nak",
    "Progress",
    "Reassembler",
    "Vector",
    "decode_header",
    "fragments_of",
]
