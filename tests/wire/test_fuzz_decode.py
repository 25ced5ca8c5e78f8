"""Any bytes decode or are refused, in one clear line, and never give more than they hold.

Whatever decodes can be encoded again and says the same: a member may relay what it accepted, and
no other member will refuse it.
"""

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.wire.likes import NUMBERS, SHAPES, U8, frame_likes
from tests.wire.material import (
    OTHERS,
    PATIENT,
    SENDER,
    Item,
    assert_clear,
    decode_or_refuse,
    encoded,
    frame,
    frame_starts,
    items,
)

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX, Source
from semcast.wire.decode import Decoded, Decoder, decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.families.agreement import (
    BALLOT,
    Ballot,
    Join,
    Lack,
    PartOf,
    Wishes,
)
from semcast.wire.families.epidemic import HEARD, STAMP, Heard, Rumour, Stamp
from semcast.wire.families.lives import Lives
from semcast.wire.families.measures import ECHO, Echo, Times, Tree
from semcast.wire.families.overlay import (
    DISCONNECT,
    PULSE,
    Disconnect,
    Enter,
    Entry,
    Neighbor,
    Pulse,
    Shuffle,
)
from semcast.wire.families.pasts import ENDED, Past
from semcast.wire.families.probes import ASK, PING, VOUCH, Ask, Ping, Vouch
from semcast.wire.families.propagation import OUT, Link, Out
from semcast.wire.families.propagation import Piece as LinkPiece
from semcast.wire.families.pull import IHave, Summary, Want
from semcast.wire.families.readers import Begin, Have, Subscribe
from semcast.wire.families.repair import Covered, Fragment, Nak
from semcast.wire.families.rounds import Round
from semcast.wire.families.state import (
    BUSY,
    INCOMPLETE,
    LAST,
    LIST,
    LISTED,
    NEED,
    PIECE,
    SNAPSHOT,
    URGENT,
    Chunk,
    Need,
    Tell,
)
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.frames import DATA, ControlFrame
from semcast.wire.message import Message
from semcast.wire.table import TABLE

# One of everything, small: each byte of it is changed below.
EVERYTHING: list[Item] = [
    Message(SENDER, 5, b"keypayload", 3, 0b101, sent_ns=1_000),
    Message(SENDER, 7, b"", bitmap=(1 << 65) | 1, sent_ns=2_000),
    Message(SENDER, 8, b"kp", 1, 0, -9, True, 2_000),
    Message(OTHERS[0], 1 << 40, b"relayed", bitmap=1 << 63, sent_ns=3),
    Fragment(SENDER, 9, 1, 3, b"piece"),
    Fragment(OTHERS[1], 9, 0, 1, b"relayed piece"),
    Nak(OTHERS[0], 4, True, [(1, 1), (3, 700)]),
    Covered(OTHERS[1], [(2, SENDER, 9), (3, OTHERS[0], 1)]),
    Vector(9, 2, False, 12, 0b1011, [Progress(SENDER, 1, 2, 3), Progress(OTHERS[0], 0, 0, 0)]),
    Vector(SEQ_MAX, 1, True, 13, 1 << 70, []),
    Vector(9, 2, False, 12, 1, [], [OTHERS[0], SENDER], True, True, True, True),
    Vector(9, 2, False, 0, 0b1011, [], wanted=True, quiet=True),
    Round(9, 2, True, 2, 1, 7, 5, 99, 12, 3, 4, [(SENDER, 1, 2), (OTHERS[0], 0, 9)]),
    Round(0, 0, False, 1, 0, 0, -1, 0, 1, 0, 0, []),
    Echo(False, 77),
    Echo(True, 0),
    Times(9, 64, [0, 1, 0xFFFF_FFFF]),
    Tree(9, 3, 1, bytes([2, 2, 2, 0]), bytes([2, 0, 3, 1])),
    Lives(9, 2, [(5, 1, False), (ID_MAX, ID_MAX, True)]),
    Lives(0, 0, []),
    Ping(5, 77, 0xFFFF_FFFF),
    Ask(OTHERS[0], 7),
    Vouch(OTHERS[1], 7, 250_000),
    Enter(Entry(SENDER, b"address")),
    Enter(Entry(OTHERS[0], bytes(20)), True, 16),
    Neighbor(1, 7, Entry(SENDER, b"here")),
    Disconnect(True),
    Shuffle(Entry(OTHERS[1]), [Entry(SENDER, b"a"), Entry(OTHERS[0], b"b", 30)], 9, 3),
    Pulse(5, 7, OTHERS[0], 1_000, 12),
    Summary([(SENDER, 1, 9), (OTHERS[0], 5, SEQ_MAX)], True),
    IHave([(SENDER, 5, 3), (OTHERS[1], 1, 0)]),
    Want([(SENDER, 5, 5)], 1),
    Need(0, 1, 9, SENDER, 1, 5, 9, 4),
    Need(LIST | URGENT, 2, 9, OTHERS[0]),
    Need(SNAPSHOT, 3, 9, OTHERS[0], 7, 0, 0, 4),
    Chunk(LAST, 1, 0, SENDER, 1, 5, 9, b"records"),
    Chunk(PIECE, 1, 0, SENDER, 1, 5, 9, b"piece", 3, 9),
    Chunk(PIECE | SNAPSHOT, 1, 0, SENDER, 7, 7, 7, b"piece", 3, 9),
    Tell(LAST | INCOMPLETE, 1, LISTED, [(SENDER, True), (OTHERS[0], False)]),
    Tell(0, 1, BUSY, []),
    Past(ENDED, OTHERS[0], 9),
    Subscribe(7, "näme", True, True, True, [(SENDER, 0), (OTHERS[0], SEQ_MAX)], 9),
    Begin(7, "n", False, [(OTHERS[1], 3, 9)], 2),
    Begin(0, "", True),
    Have([(SENDER, 5), (OTHERS[0], 0)], True, True),
    Join(SENDER, "newcomer", 3, True, 77),
    Join(OTHERS[0], "", 0, False, 0),
    Wishes(9, 2, 5, 3, [(1, 5, 1), (6, ID_MAX, ID_MAX)], answer=True),
    Ballot(9, 2, 2, 0x10001, 0, 77),
    PartOf(77, 2, 2, 1, 3, b"a part of a view"),
    Lack(77, 2, [(0, 0), (2, 4095)]),
    Rumour(SENDER, 9, 0, bytes(16)),
    Rumour(OTHERS[0], 9, 4, b"the bytes of a message"),
    Stamp(0xFFFF_FFFF),
    Heard(7, 5),
    LinkPiece(3, 1, 7, True, False, b"a piece of a record"),
    Link(3, [(1, 0, 256), (8, 5, 300), (9, 9, 9)], [(1, 6, 7), (2, 9, 9)]),
    Out(3, 7),
]
FRAMES = encoded(EVERYTHING)
# How large the bodies of frames without rows are.
FIXED_BYTES = {
    ECHO: 8,
    BALLOT: 37,
    PING: 12,
    ASK: 24,
    VOUCH: 28,
    NEED: 52,
    STAMP: 4,
    HEARD: 8,
    PULSE: 30,
    DISCONNECT: 0,
    OUT: 16,
}


def held_bytes(decoded: Decoded) -> int:
    """A lower bound of what these must have taken on the wire."""
    size = 4 * decoded.unknown_frames
    for message in decoded.messages:
        # A bitmap is never wider than its words.
        size += 12 + len(message.body) + (message.bitmap.bit_length() + 7) // 8
        size += 8 if message.ranked else 0
    return size + sum(4 + body_bytes(control) for control in decoded.control)


def body_bytes(control: ControlFrame) -> int:
    """A lower bound for the body of a control frame."""
    match control:
        case Fragment():
            return 12 + len(control.piece)
        case Nak():
            return 24 + 16 * len(control.ranges)
        case Covered():
            return 16 + 32 * len(control.covers)
        case Vector():
            voters = (control.voters.bit_length() + 7) // 8
            return 24 + voters + 40 * len(control.rows) + 16 * len(control.ended)
        case Round():
            return 48 + 32 * len(control.rows)
        case Times():
            return 10 + 4 * len(control.times_us)
        case Tree():
            return 18 + len(control.parents) + len(control.ring)
    return membership_bytes(control)


def membership_bytes(control: ControlFrame) -> int:
    """The same for frames about who is in the group."""
    match control:
        case Lives():
            return 12 + 16 * len(control.rows)
        case Join():
            return 9 + len(control.name.encode())
        case Wishes():
            return 24 + 17 * len(control.rows)
        case PartOf():
            return 17 + len(control.data)
        case Lack():
            return 12 + 4 * len(control.ranges)
        case Subscribe():
            return 8 + len(control.name.encode()) + 24 * len(control.rows)
        case Begin():
            return 8 + len(control.name.encode()) + 32 * len(control.rows)
        case Have():
            return 24 * len(control.rows)
        case Chunk():
            return 48 + len(control.content)
        case Past():
            return 24
        case Tell():
            return 8 + 24 * len(control.rows)
    return gossip_bytes(control)


def gossip_bytes(control: ControlFrame) -> int:
    """The same for frames of groups that gossip, and for those whose size is fixed."""
    match control:
        case Rumour():
            return 12 + len(control.whole)
        case Enter():
            return 19 + len(control.newcomer.address)
        case Neighbor():
            return 22 + len(control.sender.address)
        case Shuffle():
            both = [control.begun_by, *control.entries]
            return 5 + sum(18 + len(entry.address) for entry in both)
        case Summary() | Want():
            return 32 * len(control.ranges)
        case IHave():
            return 26 * len(control.told)
        case LinkPiece():
            return 16 + len(control.data)
        case Link():
            return 8 + 24 * (len(control.lanes) + len(control.missing))
    return FIXED_BYTES[int(control.frame_kind())]


def assert_in_range(decoded: Decoded) -> None:
    for message in decoded.messages:
        assert 1 <= message.seq <= SEQ_MAX
        assert 0 <= message.sent_ns <= SEQ_MAX
        assert 0 <= message.key_len <= len(message.body)
        assert 0 <= message.bitmap < 1 << 1024
        assert -SEQ_MAX <= message.rank <= SEQ_MAX
        assert message.ranked or message.rank == 0
        assert 0 <= message.source.sender <= ID_MAX
        assert 0 <= message.source.incarnation <= ID_MAX


def assert_sound(frames: bytes) -> None:
    """Refused in one line; or bounded, in range, and fit to be relayed."""
    decoded = decode_or_refuse(frames)
    if decoded is None:
        return
    assert held_bytes(decoded) <= len(frames)
    assert_in_range(decoded)
    everything: list[Item] = [*decoded.messages, *decoded.control]
    again = b"".join(encoded([item]) for item in everything)
    back = Decoder().decode(again, SENDER)
    assert (back.messages, back.control) == (decoded.messages, decoded.control)


def test_every_kind_of_frame_is_fuzzed() -> None:
    """As bytes that only look like it, and in the datagram of which every byte is changed."""
    assert SHAPES.keys() == {DATA, *TABLE}
    kinds = {FRAMES[start] for start in frame_starts(FRAMES)[:-1]}
    assert kinds == {DATA, *TABLE}


# Bytes that only look like frames


@settings(PATIENT, max_examples=500)
@given(frames=st.binary(max_size=300))
def test_any_bytes_decode_or_are_refused(frames: bytes) -> None:
    assert_sound(frames)


@settings(PATIENT, max_examples=800)
@given(frames=st.lists(frame_likes(), max_size=4).map(b"".join))
def test_bytes_in_the_shape_of_frames_decode_or_are_refused(frames: bytes) -> None:
    assert_sound(frames)


@PATIENT
@given(valid=items().map(lambda all_items: encoded(all_items[:8])), data=st.data())
def test_valid_datagrams_with_some_bytes_changed_decode_or_are_refused(
    valid: bytes, data: st.DataObject
) -> None:
    frames = bytearray(valid)
    for _ in range(data.draw(st.integers(0, 4)) if frames else 0):
        frames[data.draw(st.integers(0, len(frames) - 1))] = data.draw(U8)
    start = data.draw(st.integers(0, min(len(frames), 40)))
    assert_sound(bytes(frames))
    assert_sound(bytes(frames[start:]))


# Every single change of one datagram that holds everything


def test_a_datagram_cut_short_is_refused_except_between_frames() -> None:
    whole = Decoder().decode(FRAMES, SENDER)
    starts = frame_starts(FRAMES)
    for size in range(len(FRAMES)):
        decoded = decode_or_refuse(FRAMES[:size])
        assert (decoded is not None) == (size in starts), f"cut to {size} bytes"
        if decoded is not None:
            assert decoded.messages == whole.messages[: len(decoded.messages)]
            assert decoded.control == whole.control[: len(decoded.control)]
            assert len(decoded.messages) + len(decoded.control) < len(EVERYTHING)


def test_a_record_cut_short_within_a_frame_is_refused_at_every_length() -> None:
    """Here the frame's length is right for what is left, so its contents have to be checked."""
    starts = frame_starts(FRAMES)
    for start, end in pairwise(starts):
        kind, flags, _ = struct.unpack_from("<BBH", FRAMES, start)
        body = FRAMES[start + 4 : end]
        for size in range(len(body)):
            assert_sound(frame(kind, body[:size], flags))


def test_every_bit_may_flip() -> None:
    for at in range(len(FRAMES)):
        for bit in range(8):
            changed = bytearray(FRAMES)
            changed[at] ^= 1 << bit
            assert_sound(bytes(changed))


def test_every_byte_may_be_anything() -> None:
    for at in range(len(FRAMES)):
        for value in (0, 1, 0x7F, 0x80, 0xFE, 0xFF):
            changed = bytearray(FRAMES)
            changed[at] = value
            assert_sound(bytes(changed))


def test_every_length_of_a_frame_may_be_anything() -> None:
    for start in frame_starts(FRAMES)[:-1]:
        left = len(FRAMES) - start - 4
        for length in [*range(left + 20), 0x7FFF, 0x8000, 0xFFFF]:
            changed = bytearray(FRAMES)
            struct.pack_into("<H", changed, start + 2, length)
            assert_sound(bytes(changed))
            if length > left:
                assert decode_or_refuse(bytes(changed)) is None


def test_a_refused_datagram_leaves_the_decoder_fit_for_the_next() -> None:
    decoder = Decoder()
    with pytest.raises(RemoteProtocolError):
        decoder.decode(FRAMES[:-1], SENDER)
    again = decoder.decode(FRAMES, SENDER)
    assert len(again.messages) + len(again.control) == len(EVERYTHING)


def test_sources_in_forged_datagrams_fill_the_memory_of_sources_and_no_more() -> None:
    decoder = Decoder(sources_max=8)
    for number in range(100):
        decoder.decode(encoded([Nak(Source(number, 0), 0, False, [])]), SENDER)
    early, late = (
        encoded([Nak(Source(3, 0), 0, False, [])]),
        encoded([Nak(Source(99, 0), 0, False, [])]),
    )
    for frames, remembered in ((early, True), (late, False)):
        (one,), (other,) = (decoder.decode(frames, SENDER).control for _ in range(2))
        assert isinstance(one, Nak)
        assert isinstance(other, Nak)
        assert one == other
        assert (one.source is other.source) == remembered


# The form of a message that was fragmented

WHOLE = encode_whole(Message(SENDER, 1, b"keypayload", 3, 1 << 64, -7, True, 1_000))


def whole_or_refuse(whole: bytes, message_bytes_max: int = 1 << 20) -> Message | None:
    try:
        return decode_whole(whole, SENDER, 1, message_bytes_max)
    except RemoteProtocolError as error:
        assert_clear(error)
        return None


@settings(PATIENT, max_examples=500)
@given(
    whole=st.binary(max_size=200)
    | st.builds(
        lambda head, size, sent_ns, rest: head + struct.pack("<I", size) + sent_ns + rest,
        st.tuples(st.integers(0, 3), U8, st.integers(0, 18), st.integers(0, 1)).map(bytes),
        st.integers(0, 60) | st.integers(0, 0xFFFFFFFF),
        NUMBERS,
        st.binary(max_size=60),
    )
)
def test_any_bytes_as_a_fragmented_message_decode_or_are_refused(whole: bytes) -> None:
    message = whole_or_refuse(whole)
    if message is None:
        return
    assert len(message.body) <= len(whole) - 16
    back = whole_or_refuse(encode_whole(message))
    assert back == message


def test_a_fragmented_message_changed_in_any_bit_decodes_or_is_refused() -> None:
    for at in range(len(WHOLE)):
        for bit in range(8):
            changed = bytearray(WHOLE)
            changed[at] ^= 1 << bit
            whole_or_refuse(bytes(changed))


def test_a_fragmented_message_is_refused_unless_it_has_the_size_it_says() -> None:
    assert whole_or_refuse(WHOLE) is not None
    for size in range(len(WHOLE)):
        assert whole_or_refuse(WHOLE[:size]) is None
    assert whole_or_refuse(WHOLE + b"x") is None


@pytest.mark.parametrize(
    ("offset", "value", "text"),
    [
        (0, b"\x05", "unknown flags or sizes: 0x"),
        (0, b"\x03", "message about 3 keys, which do not fit it"),
        (2, b"\x11", "unknown flags or sizes: 0x"),
        (3, b"\x01", "unknown flags or sizes: 0x"),
        (1, b"\x0b", "does not add up: body 10, key 11, time 1000"),
        (4, b"\x0b", "does not add up: body 11, key 3"),
        (4, b"\xff\xff\xff\xff", "does not add up: body 4294967295"),
        (8, struct.pack("<q", -1), "time -1"),
        (8, struct.pack("<q", SEQ_MAX + 1), f"time {SEQ_MAX + 1}"),
        (32, struct.pack("<q", SEQ_MAX + 1), f"rank {SEQ_MAX + 1} is out of range"),
    ],
)
def test_a_bad_field_of_a_fragmented_message_is_named(offset: int, value: bytes, text: str) -> None:
    whole = WHOLE[:offset] + value + WHOLE[offset + len(value) :]
    with pytest.raises(RemoteProtocolError, match=text):
        decode_whole(whole, SENDER, 1, 1 << 20)
