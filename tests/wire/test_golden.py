"""The format, byte for byte. A change here is a change of format and needs a new version.

The files `golden/frames_*.hex` were written by hand from the layout in `wire/frames.py` and
`wire/families/`; what follows a # explains its line. Members of two releases talk to each other,
so never make a file fit the code: make the code fit the file, or raise `header.VERSION` and add
files of its own.
"""

import pytest
from tests.wire.material import GOLDEN, Item, assert_clear, encoded, frame_starts, golden

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.wire.decode import Decoder
from semcast.wire.encode import encode_whole
from semcast.wire.families import pasts
from semcast.wire.families.agreement import (
    ACCEPT,
    ACCUSE,
    LEAVE,
    PROMISE,
    VIEW_PARCEL,
    Ballot,
    Join,
    Lack,
    PartOf,
    Wishes,
)
from semcast.wire.families.epidemic import Heard, Rumour, Stamp
from semcast.wire.families.lives import Lives
from semcast.wire.families.measures import Echo, Times, Tree
from semcast.wire.families.overlay import Disconnect, Enter, Entry, Neighbor, Pulse, Shuffle
from semcast.wire.families.pasts import Past
from semcast.wire.families.probes import ACCUSES, AGE_NEVER, ANSWERS, ASKS, Ask, Ping, Vouch
from semcast.wire.families.propagation import Link, Out, Piece
from semcast.wire.families.pull import IHave, Summary, Want
from semcast.wire.families.readers import Begin, Have, Subscribe
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.rounds import Round
from semcast.wire.families.state import Chunk, Need, Tell
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.fragment import Reassembler
from semcast.wire.header import CHECK_BYTES, HEADER_BYTES
from semcast.wire.keys import UNSEALED
from semcast.wire.limits import Limits
from semcast.wire.message import Message
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer
from semcast.wire.state_records import record
from semcast.wire.table import TABLE

SOURCE = Source(0x1122, 0x33)
OTHER = Source(0x0102030405060708, 0x0A0B)
GROUP = 0x0123456789ABCDEF

LARGE = Message(SOURCE, 500, b"k1abc", 2, 1 << 64, 9, True, 3_000)
EXPECTED: dict[str, list[Item]] = {
    "frames_data": [
        Message(SOURCE, 1_000, b"AAPL101.25", 4, 0b101, sent_ns=2_000_000_000_000),
        Message(SOURCE, 1_003, b"trade 17", sent_ns=2_000_001_000_000),
    ],
    "frames_data_relayed": [Message(OTHER, 1, b"")],
    "frames_data_ranked": [
        Message(SOURCE, 7, b"bidx", 3, 0, -5, True, 1),
        Message(SOURCE, 7 + 65_535, b"", 0, 0, SEQ_MAX, True, 1 << 32),
    ],
    "frames_data_bitmap": [
        Message(SOURCE, 2_000, b"", bitmap=(1 << 64) - 1),
        Message(SOURCE, 2_001, b"", bitmap=(1 << 64) | 1),
        Message(SOURCE, 2_002, b"", bitmap=(1 << 1024) - 1),
    ],
    "frames_data_by_key": [
        Message(SOURCE, 1_000, b"AAPL11", 4, by_key=True),
        Message(SOURCE, 1_001, b"\x01a\x01b!", 4, several=True, by_key=True),
    ],
    "frames_fragment": [Fragment(SOURCE, 500, 0, 1, encode_whole(LARGE))],
    "frames_fragment_relayed": [Fragment(OTHER, 501, 2, 3, b"tail")],
    "frames_nak": [Nak(OTHER, 7, True, [(3, 3), (10, 4_096)])],
    "frames_covered": [Covered(SOURCE, [(3, OTHER, 9), (4, SOURCE, 5)])],
    "frames_stability": [
        Vector(
            0x99,
            7,
            False,
            12,
            0b1_0000_0101,
            [Progress(SOURCE, 10, 20, 30)],
            [OTHER],
            left_out=True,
            former_left_out=True,
        ),
        Vector(0x99, 7, False, 13, 0b1, [], waits=True),
        Vector(0x99, 7, False, 14, 0b1, [], wanted=True, quiet=True),
    ],
    "frames_round": [
        Round(0x99, 7, True, 2, 1, 0x0203, 0x1122, 0x55, 12, 3, 4, [(OTHER, 20, 30)]),
        Round(SEQ_MAX, 0xFFFF_FFFF, False, 1, 0, 0, -1, SEQ_MAX, 1, 0xFFFF_FFFF, 0, [], True),
    ],
    "frames_echo": [Echo(False, 0x0102030405060708), Echo(True, SEQ_MAX)],
    "frames_times": [
        Times(0x99, 0x0140, [0, 1_000, 0xFFFF_FFFF]),
        Times(SEQ_MAX, 0xFFFF, []),
    ],
    "frames_tree": [
        Tree(0x99, 7, 2, bytes([3, 3, 1, 3, 3]), bytes([3, 1, 2, 0, 4])),
        Tree(SEQ_MAX, SEQ_MAX, 0, bytes([0]), bytes([0])),
    ],
    "frames_safety": [Vector(SEQ_MAX, 0xFFFF_FFFF, True, SEQ_MAX, 0b111, [])],
    "frames_lives": [
        Lives(0x99, 7, [(0x1122, 0x33, False), (0x0102030405060708, 0x0A0B, True)]),
        Lives(0, 0xFFFF_FFFF, []),
    ],
    "frames_ping": [
        Ping(0, 0x0102030405060708, 0x0A0B0C0D),
        Ping(ASKS | ACCUSES, 7, 0),
        Ping(ANSWERS, SEQ_MAX, 0xFFFF_FFFF),
    ],
    "frames_enter": [
        Enter(Entry(SOURCE, bytes([127, 0, 0, 1, 0x27, 0x10]))),
        Enter(Entry(OTHER), True, 6),
    ],
    "frames_neighbor": [
        Neighbor(0x01, 7, Entry(SOURCE, b"hello")),
        Neighbor(0x02, 7, Entry(OTHER)),
        Neighbor(0x04, 0xFFFF_FFFF, Entry(OTHER)),
    ],
    "frames_disconnect": [Disconnect(), Disconnect(leaves=True)],
    "frames_shuffle": [
        Shuffle(Entry(SOURCE, b"aa"), [Entry(OTHER, b"", 9)], 9, 6),
        Shuffle(Entry(SOURCE), [], 9, 0, answers=True),
    ],
    "frames_pulse": [
        Pulse(0x05, 7, OTHER, 1_000, 12),
        Pulse(0x02, 0xFFFF_FFFF, SOURCE, 0, 0xFFFF),
    ],
    "frames_summary": [Summary([(OTHER, 3, 9), (SOURCE, 1, SEQ_MAX)], True), Summary([])],
    "frames_ihave": [IHave([(OTHER, 9, 3)])],
    "frames_want": [Want([(OTHER, 9, 9)], 0x01), Want([], 0x02)],
    "frames_ask": [Ask(OTHER, 7)],
    "frames_vouch": [Vouch(OTHER, 7, 250_000), Vouch(SOURCE, 0, AGE_NEVER)],
    "frames_past": [
        Past(pasts.ASKS, OTHER),
        Past(pasts.ENDED, OTHER, 9),
        Past(pasts.UNKNOWN, OTHER),
        Past(0, OTHER),
        Past(pasts.ASKS | pasts.AGAIN, OTHER, 9),
        Past(pasts.AGAIN, OTHER, 2),
    ],
    "frames_state": [
        Need(0x04, 7, 65_536, OTHER, 2, 9, 10, 3),
        Chunk(0x09, 7, 1, OTHER, 2, 9, 10, record(Message(OTHER, 5, b"AAPL11", 4, by_key=True))),
        Chunk(0x06, 8, 0, SOURCE, 1, 1, 1, b"abc", 2, 5),
        Tell(0x01, 9, 0, [(OTHER, True), (SOURCE, False)]),
        Tell(0, 10, 2, []),
        Need(0x01, 11, 65_536, OTHER),
        Need(0x02, 12, 65_536, SOURCE, 1, 0, 0, 5),
        Tell(0x08, 11, 0, []),
    ],
    "frames_subscribe": [
        Subscribe(7, "bob", True, True, True, [(OTHER, 9)], 2),
        Subscribe(0xFFFF_FFFF, "", False),
    ],
    "frames_begin": [Begin(7, "bob", False, [(OTHER, 9, 10)], 2), Begin(0, "", True)],
    "frames_have": [Have([(OTHER, 9), (SOURCE, SEQ_MAX)], True, True), Have([])],
    "frames_rumour": [
        Rumour(SOURCE, 7, 0, encode_whole(Message(SOURCE, 7, b"bidx", 3, 0, -5, True, 1))),
        Rumour(OTHER, 9, 4, encode_whole(Message(OTHER, 9, b"", sent_ns=2))),
    ],
    "frames_stamp": [Stamp(1), Stamp(0xFFFF_FFFF)],
    "frames_heard": [Heard(9, 7)],
    "frames_join": [Join(SOURCE, "p1", 2, True, 9), Join(OTHER, "é", 0, False, 0)],
    "frames_wishes": [
        Wishes(0x99, 7, 0x55, 5, [(ACCUSE, 0x1122, 0x33), (LEAVE, 1, 2)]),
        Wishes(0, 0xFFFF_FFFF, SEQ_MAX, 0, [], answer=True),
    ],
    "frames_ballot": [
        Ballot(0x99, 7, ACCEPT, 0x10002, -1, 0x66),
        Ballot(0x99, 7, PROMISE, 0x10002, 0, 0x66),
    ],
    "frames_part": [PartOf(0x66, VIEW_PARCEL, 7, 1, 2, b"part")],
    "frames_lack": [Lack(0x66, 7, [(3, 3), (10, 0x0102)]), Lack(0, 7, [])],
    "frames_piece": [
        Piece(0x33, 0, 1, True, True, b"all"),
        Piece(0x0A0B, 1, 7, True, False, b"be"),
        Piece(0, 2, SEQ_MAX, False, True, b"g"),
        Piece(0x33, 2, 8, False, False, b"mid"),
    ],
    "frames_link": [
        Link(0x33, [(1, 0, 256), (8, 5, 300), (SEQ_MAX, 0x0102, 0)], [(1, 6, 7), (2, 9, 9)]),
        Link(0, [(1, 0, 0)] * 3, []),
    ],
    "frames_out": [Out(0x33, 7)],
}
# In these, more is shown than frames that are encoded and decoded.
OTHERS = {"frames_unknown", "frames_datagram"}
IN_DATAGRAM: list[Item] = [
    Message(SOURCE, 1, b"kvalue1", 1, sent_ns=1_000),
    Nak(OTHER, 1, False, [(1, 2)]),
]


def parts(items: list[Item]) -> tuple[list[Item], list[Item]]:
    """Messages, and all others."""
    found: list[Item] = [item for item in items if isinstance(item, Message)]
    return found, [item for item in items if not isinstance(item, Message)]


def test_every_golden_file_is_tested() -> None:
    assert {path.stem for path in GOLDEN.glob("frames_*.hex")} == EXPECTED.keys() | OTHERS


def test_every_frame_with_every_flag_is_in_a_golden_file() -> None:
    seen = dict.fromkeys(TABLE, -1)
    for name in EXPECTED:
        frames = golden(name)
        for start in frame_starts(frames)[:-1]:
            kind, flags = frames[start], frames[start + 1]
            if kind in TABLE:
                seen[kind] = max(seen[kind], 0) | flags
    assert seen == {kind: int(line.flags) for kind, line in TABLE.items()}


@pytest.mark.parametrize("name", EXPECTED)
def test_golden_frames_decode_to_exactly_what_they_say(name: str) -> None:
    decoded = Decoder().decode(golden(name), SOURCE)
    assert (decoded.messages, decoded.control) == parts(EXPECTED[name])
    assert decoded.unknown_frames == 0


@pytest.mark.parametrize("name", EXPECTED)
def test_things_encode_to_exactly_the_golden_frames(name: str) -> None:
    assert encoded(EXPECTED[name], SOURCE).hex() == golden(name).hex()


def test_the_golden_fragment_holds_a_whole_message() -> None:
    (fragment,) = Decoder().decode(golden("frames_fragment"), SOURCE).control
    assert isinstance(fragment, Fragment)
    assert Reassembler(Limits()).add(fragment) == LARGE


def test_a_golden_frame_of_unknown_type_is_passed_over() -> None:
    decoded = Decoder().decode(golden("frames_unknown"), SOURCE)
    assert decoded.messages == [Message(SOURCE, 1, b"a")]
    assert decoded.control == [Nak(SOURCE, 0, False, [])]
    assert decoded.unknown_frames == 1


# A whole datagram: Sealer, Opener and Decoder together


def test_a_golden_datagram_is_sealed_opened_and_decoded() -> None:
    datagram = golden("frames_datagram")
    sealer = Sealer(GROUP, SOURCE, UNSEALED)
    assert sealer.seal(encoded(IN_DATAGRAM, SOURCE)).hex() == datagram.hex()
    opened = Opener(GROUP, UNSEALED).open(datagram)
    assert (opened.header.source, opened.header.packet) == (SOURCE, 1)
    decoded = Decoder().decode(opened.frames, opened.header.source)
    assert (decoded.messages, decoded.control) == parts(IN_DATAGRAM)


def receive(datagram: bytes) -> None:
    opened = Opener(GROUP, UNSEALED).open(datagram)
    Decoder().decode(opened.frames, opened.header.source)


@pytest.mark.parametrize("size", range(len(golden("frames_datagram"))))
def test_a_datagram_cut_short_on_the_way_is_refused_in_one_clear_line(size: int) -> None:
    with pytest.raises(RemoteProtocolError) as caught:
        receive(golden("frames_datagram")[:size])
    assert_clear(caught.value)


def test_a_datagram_whose_frames_were_cut_short_before_sealing_is_refused_too() -> None:
    """An authentic datagram of a sender with a bug: the seal is right, the frames are not."""
    frames = golden("frames_datagram")[HEADER_BYTES:-CHECK_BYTES]
    between = {0, 4 + 35, len(frames)}
    for size in range(len(frames) + 1):
        datagram = Sealer(GROUP, SOURCE, UNSEALED).seal(frames[:size])
        if size in between:
            receive(datagram)
            continue
        with pytest.raises(RemoteProtocolError) as caught:
            receive(datagram)
        assert_clear(caught.value)
