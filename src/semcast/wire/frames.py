"""Frames: what all of them have in common, who has which number, and the layout of DATA.

Every frame starts with type (u8), flags (u8) and length (u16, of what follows). Integers are
little-endian. A frame of unknown type is skipped by its length, so that newer members may speak
to older ones. A source on the wire is its sender i64 and its incarnation i64.

    0x01       DATA, a run of messages of one source; see below
    0x02-0x04  repair: FRAGMENT, NAK, COVERED         families/repair.py
    0x05-0x06  votes that are gossiped                families/votes.py
    0x07       rounds of stability detection          families/rounds.py
    0x08-0x0a  round-trip times and the tree          families/measures.py
    0x10       membership: who is in which life       families/lives.py
    0x11-0x15  membership: agreement on views         families/agreement.py
    0x16-0x18  membership: who is alive               families/probes.py
    0x19-0x1b  membership: readers                    families/readers.py
    0x1c-0x1e  membership: state                      families/state.py
    0x1f       membership: lives that are over        families/pasts.py
    0x20-0x2f  order: reserved
    0x30-0x32  gossip: messages, and how links go     families/epidemic.py
    0x33-0x37  gossip: reserved
    0x38-0x3c  gossip: partial views                  families/overlay.py
    0x3d-0x3f  gossip: repair by pulling, the tree    families/pull.py
    0x41-0x43  propagation: links between sites       families/propagation.py
    0x40       NOTE, bytes for the world around members, alone in its datagram; see note.py

All but DATA and NOTE are control frames. Each is a class that derives from `ControlFrame` and
stands with its layout in the file of its family; `table.py` says how each number is read.

DATA has flag RELAYED when the source is not the sender of the datagram; the source then comes
first. It goes on with base_seq i64 and base_sent_ns i64, then messages until its end, each:

    flags u8 (RANKED, SEVERAL, BY_KEY) · key_len u8 · body_len u16 · seq_delta u16 · words u8 ·
    0 u8 · sent_delta_ns u32 · bitmap words×8 · [rank i64] · body: key, then payload

A message with flag SEVERAL is about several keys: key_len says how many, and each stands in the
body as its length u8 and its bytes. It has no rank. One with flag BY_KEY replaces earlier ones by
its key or keys: it has at least one, and neither rank nor bitmap.

A fragmented message is one such record in another form, cut into pieces:

    flags u8 · key_len u8 · words u8 · 0 u8 · body_len u32 · sent_ns i64 · bitmap words×8 ·
    [rank i64] · body: key, then payload

Flags that are not named here or in the file of a family are 0. In a frame of known type or in a
message, others are refused: they would change the meaning of what follows.
"""

from abc import ABCMeta, abstractmethod
from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, mypyc_attr

from semcast.ids import Source

DATA: Final = 0x01
NOTE: Final = 0x40

FRAME_HEAD_BYTES: Final = 4
RECORD_HEAD_BYTES: Final = 12
WHOLE_HEAD_BYTES: Final = 16
RUN_HEAD_BYTES: Final = 16
SOURCE_BYTES: Final = 16
WORDS_MAX: Final = 16

# Flag of DATA frames, and of control frames that have an origin.
RELAYED: Final = 0x01
# Flags of a message.
RANKED: Final = 0x01
SEVERAL: Final = 0x02
BY_KEY: Final = 0x04


# Tests define frames of their own, which are not compiled. ABC is no base here because compiled
# data classes cannot derive from it; to them it is a class of Python.
@mypyc_attr(allow_interpreted_subclasses=True)
class ControlFrame(metaclass=ABCMeta):
    """A frame that holds no messages, and how it is written.

    How it is read is the business of a function that its family lists in a `FrameType`.
    """

    @abstractmethod
    def frame_kind(self) -> i64:
        """The number of this type of frame."""

    def flags(self) -> i64:
        """The flags that say something about the body. RELAYED is the writer's business."""
        return 0

    def origin(self) -> Source | None:
        """The source that the frame is of, if that need not be the sender of the datagram.

        If it is not, the writer sets RELAYED and puts the source in front of the body. Such a
        frame has no other use for that bit; whoever reads it calls `Body.take_origin`.
        """
        return None

    def view_digest(self) -> i64:
        """The view that it speaks of, by its digest; -1 if it has neither votes nor positions."""
        return -1

    def view_number(self) -> i64:
        """How many steps led to that view, as far as its sender knows."""
        return 0

    @abstractmethod
    def size_bytes(self) -> i64:
        """How many bytes `write` writes."""

    @abstractmethod
    def write(self, out: BytesWriter) -> None:
        """Write the body: all that comes after the frame's head and a relayed origin."""
