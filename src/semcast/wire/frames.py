"""The frames of a datagram: their numbers, their layout, and the classes of all but DATA.

Every frame starts with type (u8), flags (u8) and length (u16, of what follows). Integers are
little-endian. A frame of unknown type is skipped by its length, so that newer members may speak
to older ones.

    0x01 DATA       a run of messages of one source; see below
    0x02 FRAGMENT   seq i64 · index u16 · count u16 · piece bytes
    0x03 NAK        sender i64 · incarnation i64 · target i64 · then (first i64, last i64)*
    0x04 COVERED    sender i64 · incarnation i64 · then (seq, by_sender, by_incarnation, by_seq)*
    0x05 STABILITY  round i64 · voters u16 + bytes · then (sender, incarnation, agreed, lowest,
    0x06 SAFETY     newest)*, each i64
    0x07 ROUND      kind u8 · unnamed u8 · page u16 · target i64 · epoch i64 · round i64 ·
                    root u32 · count u32 · then (sender, incarnation, value, newest)*, each i64
    0x08 ECHO       token i64
    0x09 TIMES      first u16 · then time_us u32*
    0x0a TREE       number i64 · maker u16 · parents u8 each · ring u8 each, as many
    0x10–0x1f membership, 0x20–0x2f order, 0x30–0x3f gossip: reserved
    0x40 NOTE       bytes for the world around members, alone in its datagram; see note.py

DATA and FRAGMENT have flag RELAYED when the source is not the sender of the datagram; sender and
incarnation of the source (i64 each) then come first. DATA goes on with base_seq i64 and
base_sent_ns i64, then messages until its end, each:

    flags u8 (RANKED, SEVERAL) · key_len u8 · body_len u16 · seq_delta u16 · words u8 · 0 u8 ·
    sent_delta_ns u32 · bitmap words×8 · [rank i64] · body: key, then payload

A message with flag SEVERAL is about several keys: key_len says how many, and each stands in the
body as its length u8 and its bytes. It has no rank.

A fragmented message is one such record in another form, cut into pieces:

    flags u8 · key_len u8 · words u8 · 0 u8 · body_len u32 · sent_ns i64 · bitmap words×8 ·
    [rank i64] · body: key, then payload

A NAK has flag PRIVATE when nobody but the asker misses these messages. A STABILITY has flag WAITS
when its sender has no room until it gets votes. A ROUND has flag OF_SAFETY when f+1 votes are
counted and not all. An ECHO has flag ANSWER when it is one: it has the token of what it answers. In
a TREE the root hangs on itself, and the ring begins there.

Flags that are not named here are 0. In a frame of known type or in a message, others are refused:
they would change the meaning of what follows.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from mypy_extensions import i64

from semcast.ids import Source

DATA: Final = 0x01
FRAGMENT: Final = 0x02
NAK: Final = 0x03
COVERED: Final = 0x04
STABILITY: Final = 0x05
SAFETY: Final = 0x06
ROUND: Final = 0x07
ECHO: Final = 0x08
TIMES: Final = 0x09
TREE: Final = 0x0A
NOTE: Final = 0x40

FRAME_HEAD_BYTES: Final = 4
RECORD_HEAD_BYTES: Final = 12
WHOLE_HEAD_BYTES: Final = 16
RUN_HEAD_BYTES: Final = 16
SOURCE_BYTES: Final = 16
FRAGMENT_HEAD_BYTES: Final = 12
NAK_HEAD_BYTES: Final = 24
ROUND_HEAD_BYTES: Final = 36
TREE_HEAD_BYTES: Final = 10
# A member of a tree is one byte.
TREE_MEMBERS_MAX: Final = 256
TIME_US_MAX: Final = 0xFFFF_FFFF
FRAGMENTS_MAX: Final = 0xFFFF
WORDS_MAX: Final = 16
# A voter is a bit; this bounds the members of a group.
VOTERS_BYTES_MAX: Final = 0xFFFF

# Flags of DATA and FRAGMENT frames.
RELAYED: Final = 0x01
# Flag of NAK frames.
PRIVATE: Final = 0x01
# Flag of ROUND frames.
OF_SAFETY: Final = 0x01
# Flag of STABILITY frames.
WAITS: Final = 0x01
# Flag of ECHO frames.
ANSWER: Final = 0x01
# Kinds of ROUND frames; the last says that the sender is in another life, whose number is `round`.
ROUND_KINDS: Final = 5
REBORN: Final = 5
# What a ROUND frame says of sources that it does not name: nothing, that the voters have none of
# it, that they have what is agreed, or that they abstain.
SAYS_NOTHING: Final = 0
HAVE_NONE: Final = 1
HAVE_AGREED: Final = 2
ABSTAIN: Final = 3
# Flags of a message.
RANKED: Final = 0x01
SEVERAL: Final = 0x02


@final
@dataclass(init=False)
class Fragment:
    """One piece of a message too large for a datagram."""

    source: Source
    seq: i64
    index: i64
    count: i64
    piece: bytes

    def __init__(self, source: Source, seq: i64, index: i64, count: i64, piece: bytes) -> None:
        self.source = source
        self.seq = seq
        self.index = index
        self.count = count
        self.piece = piece


@final
@dataclass(init=False)
class Nak:
    """Please send again every seq of `source` in these ranges, both ends included."""

    source: Source
    # The sender id of the one member that should answer; the others hear it and keep quiet.
    target: i64
    # Whether nobody else misses these, so that the answer need not be multicast.
    private: bool
    ranges: list[tuple[int, int]]

    def __init__(
        self, source: Source, target: i64, private: bool, ranges: list[tuple[int, int]]
    ) -> None:
        self.source = source
        self.target = target
        self.private = private
        self.ranges = ranges


@final
@dataclass(init=False)
class Covered:
    """These messages of `source` were purged: do not wait for them, but for their covers."""

    source: Source
    # (seq, the source and seq of the message that replaces it)
    covers: list[tuple[int, Source, int]]

    def __init__(self, source: Source, covers: list[tuple[int, Source, int]]) -> None:
        self.source = source
        self.covers = covers


@final
@dataclass(init=False)
class Progress:
    """One row of a vector: how far a source's messages got."""

    source: Source
    # Agreed in earlier rounds: everything up to here is stable (or safe).
    agreed: i64
    # The lowest that the voters of this round have.
    lowest: i64
    # The newest that anybody spoke of: a hint that the last message was lost (SRM §5.3).
    newest: i64

    def __init__(self, source: Source, agreed: i64, lowest: i64, newest: i64) -> None:
        self.source = source
        self.agreed = agreed
        self.lowest = lowest
        self.newest = newest


@final
@dataclass(init=False)
class Vector:
    """A round of stability or safety detection, as gossiped."""

    # Whether it counts to f+1 votes instead of all (SRM §5.3).
    safety: bool
    round: i64
    # Bit i: member i has voted in this round.
    voters: int
    rows: list[Progress]
    # Whether whoever tells has no room to send until it gets votes.
    waits: bool

    def __init__(
        self,
        safety: bool,
        round: i64,  # noqa: A002
        voters: int,
        rows: list[Progress],
        waits: bool = False,
    ) -> None:
        self.safety = safety
        self.waits = waits
        self.round = round
        self.voters = voters
        self.rows = rows


@final
@dataclass(init=False)
class Round:
    """A message of a round of stability detection; see `protocol/stability/rounds/tracker.py`."""

    # Whether it counts to f+1 votes instead of all (SRM §5.3).
    safety: bool
    kind: i64
    # What it says of sources that have no row.
    unnamed: i64
    # Which sources it is about: the senders of one page.
    page: i64
    # The sender id of the one member that it is for, or -1: everybody.
    target: i64
    epoch: i64
    round: i64
    # The index of the member that began the round.
    root: i64
    count: i64
    # (source, its value, the newest of it that anybody spoke of)
    rows: list[tuple[Source, int, int]]

    def __init__(
        self,
        safety: bool,
        kind: i64,
        unnamed: i64,
        page: i64,
        target: i64,
        epoch: i64,
        round: i64,  # noqa: A002
        root: i64,
        count: i64,
        rows: list[tuple[Source, int, int]],
    ) -> None:
        self.safety = safety
        self.kind = kind
        self.unnamed = unnamed
        self.page = page
        self.target = target
        self.epoch = epoch
        self.round = round
        self.root = root
        self.count = count
        self.rows = rows


@final
@dataclass(init=False)
class Echo:
    """Please send this back at once; or here it is."""

    answer: bool
    # What only the asker understands: when it asked.
    token: i64

    def __init__(self, answer: bool, token: i64) -> None:
        self.answer = answer
        self.token = token


@final
@dataclass(init=False)
class Times:
    """Round-trip times that the sender measured, to some members in a row."""

    # The index of the first of them.
    first: i64
    # 0 where nothing was measured yet.
    times_us: list[int]

    def __init__(self, first: i64, times_us: list[int]) -> None:
        self.first = first
        self.times_us = times_us


@final
@dataclass(init=False)
class Tree:
    """The tree and the ring that a group goes over to; see `protocol/stability/rounds/measuring.py`."""

    # The larger number is the newer tree; `maker` is the index of who made it.
    number: i64
    maker: i64
    # One byte for each member: the index of its parent, its own for the root.
    parents: bytes
    # The indices of all members in their order around the ring, from the root on.
    ring: bytes

    def __init__(self, number: i64, maker: i64, parents: bytes, ring: bytes) -> None:
        self.number = number
        self.maker = maker
        self.parents = parents
        self.ring = ring


MeasureFrame: TypeAlias = Echo | Times | Tree
ControlFrame: TypeAlias = Fragment | Nak | Covered | Vector | Round | Echo | Times | Tree
