"""Any bytes decode or are refused, in one clear line, and never give more than they hold.

Whatever decodes can be encoded again and says the same: a member may relay what it accepted, and
no other member will refuse it.
"""

import struct
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
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
from semcast.wire.families.lives import LIVES, Lives
from semcast.wire.families.measures import ECHO, TIMES, TREE, Echo, Times, Tree
from semcast.wire.families.repair import COVERED, FRAGMENT, NAK, Covered, Fragment, Nak
from semcast.wire.families.rounds import ROUND, Round
from semcast.wire.families.votes import SAFETY, STABILITY, Progress, Vector
from semcast.wire.frames import DATA, RELAYED
from semcast.wire.message import Message

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
    Vector(9, 2, False, 12, 1, [], [OTHERS[0], SENDER], True, True, True),
    Round(9, 2, True, 2, 1, 7, 5, 99, 12, 3, 4, [(SENDER, 1, 2), (OTHERS[0], 0, 9)]),
    Round(0, 0, False, 1, 0, 0, -1, 0, 1, 0, 0, []),
    Echo(False, 77),
    Echo(True, 0),
    Times(9, 64, [0, 1, 0xFFFF_FFFF]),
    Tree(9, 3, 1, bytes([2, 2, 2, 0]), bytes([2, 0, 3, 1])),
    Lives(9, 2, [(5, 1, False), (ID_MAX, ID_MAX, True)]),
    Lives(0, 0, []),
]
FRAMES = encoded(EVERYTHING)


def view_head(digest: int = 0, number: int = 1) -> bytes:
    """A view, written by other means than the code under test."""
    return struct.pack("<qI", digest, number)


def vector_head(number: int = 1, voters_len: int = 0, view: int = 0, ended: int = 0) -> bytes:
    """The head of a STABILITY or SAFETY frame, likewise."""
    return view_head(view) + struct.pack("<qHH", number, voters_len, ended)


def round_head(
    kind: int = 1,
    unnamed: int = 0,
    target: int = -1,
    epoch: int = 0,
    number: int = 1,
    view: int = 0,
) -> bytes:
    """The head of a ROUND frame, likewise."""
    head = struct.pack("<BBHqqqII", kind, unnamed, 0, target, epoch, number, 0, 0)
    return view_head(view) + head


def tree_head(number: int = 1, maker: int = 0, view: int = 0) -> bytes:
    """The head of a TREE frame, likewise."""
    return struct.pack("<qqH", view, number, maker)


def lives_row(member: int, life: int, gone: int = 0) -> bytes:
    """A LIVES frame with one row, likewise."""
    return view_head() + struct.pack("<qq", member, 2 * life + gone)


def held_bytes(decoded: Decoded) -> int:
    """A lower bound of what these must have taken on the wire."""
    size = 4 * decoded.unknown_frames
    for message in decoded.messages:
        # A bitmap is never wider than its words.
        size += 12 + len(message.body) + (message.bitmap.bit_length() + 7) // 8
        size += 8 if message.ranked else 0
    for control in decoded.control:
        match control:
            case Fragment():
                size += 4 + 12 + len(control.piece)
            case Nak():
                size += 4 + 24 + 16 * len(control.ranges)
            case Covered():
                size += 4 + 16 + 32 * len(control.covers)
            case Vector():
                size += 4 + 24 + (control.voters.bit_length() + 7) // 8 + 40 * len(control.rows)
                size += 16 * len(control.ended)
            case Round():
                size += 4 + 48 + 32 * len(control.rows)
            case Echo():
                size += 4 + 8
            case Times():
                size += 4 + 10 + 4 * len(control.times_us)
            case Tree():
                size += 4 + 18 + len(control.parents) + len(control.ring)
            case Lives():
                size += 4 + 12 + 16 * len(control.rows)
    return size


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


# Bytes that only look like frames

_EDGES = [0, 1, -1, 2, SEQ_MAX - 65_535, SEQ_MAX, SEQ_MAX + 1, (1 << 63) - 1, -(1 << 63), -SEQ_MAX]
NUMBERS = (st.sampled_from(_EDGES) | st.integers(-(1 << 63), (1 << 63) - 1)).map(
    lambda number: struct.pack("<q", number)
)
VIEWS = NUMBERS.map(lambda digest: digest + bytes(4))
ROWS = st.lists(NUMBERS, max_size=12).map(b"".join)
U8 = st.integers(0, 255)
U16 = st.integers(0, 0xFFFF) | st.integers(0, 64) | st.just(0xFFFF)


@st.composite
def records(draw: st.DrawFn) -> bytes:
    """A message of a run, or nearly: sizes that may lie, fields that may be out of range."""
    flags = draw(st.sampled_from([0, 1, 1, 2, 255]))
    words = draw(st.sampled_from([0, 0, 1, 2, 16, 17, 255]))
    body = draw(st.binary(max_size=30))
    honest = draw(st.integers(0, 4)) > 0
    body_len = len(body) if honest else draw(U16)
    key_len = draw(st.integers(0, len(body))) if honest else draw(U8)
    reserved = draw(st.sampled_from([0, 0, 0, 0, 1, 255]))
    head = struct.pack("<BBHHBB", flags, key_len, body_len, draw(U16), words, reserved)
    sent = draw(st.sampled_from([bytes(4), b"\xff" * 4, b"\x00\x00\x00\x80"]))
    rank = draw(NUMBERS) if flags & 1 else b""
    return head + sent + draw(st.binary(min_size=words * 8, max_size=words * 8)) + rank + body


@st.composite
def frame_likes(draw: st.DrawFn) -> bytes:
    """A frame whose parts are of the right sizes, mostly, and whose values are anything."""
    kind = draw(st.integers(DATA, TREE) | st.just(LIVES) | U8)
    flags = draw(st.sampled_from([0, 0, 0, RELAYED, RELAYED, 2, 255]))
    body = draw(NUMBERS) + draw(NUMBERS) if flags & RELAYED else b""
    if kind == DATA:
        body += draw(NUMBERS) + draw(NUMBERS) + b"".join(draw(st.lists(records(), max_size=4)))
    elif kind == FRAGMENT:
        body += draw(NUMBERS) + struct.pack("<HH", draw(U16), draw(U16)) + draw(st.binary())
    elif kind == NAK:
        body += draw(NUMBERS) + draw(ROWS)
    elif kind == COVERED:
        body += draw(ROWS)
    elif kind in (STABILITY, SAFETY):
        voters = draw(st.binary(max_size=20))
        length = len(voters) if draw(st.integers(0, 4)) else draw(U16)
        ended = draw(st.integers(0, 2)) if draw(st.integers(0, 4)) else draw(U16)
        body += draw(VIEWS) + draw(NUMBERS) + struct.pack("<HH", length, ended)
        body += voters + draw(ROWS)
    elif kind == LIVES:
        body += draw(VIEWS) + draw(ROWS)
    elif kind == ECHO:
        body += draw(NUMBERS)
    elif kind == TIMES:
        body += draw(NUMBERS) + struct.pack("<HI", draw(U16), draw(U16))
    elif kind == TREE:
        members = draw(st.integers(0, 5))
        index = st.integers(0, 5)
        around = draw(st.lists(index, min_size=2 * members, max_size=2 * members))
        body += draw(NUMBERS) + draw(NUMBERS) + struct.pack("<H", draw(index)) + bytes(around)
    else:
        body += draw(st.binary(max_size=40))
    length = len(body) if draw(st.integers(0, 5)) else draw(U16)
    return struct.pack("<BBH", kind, flags, length) + body


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


# What is out of range, with the text that says so

_RUN = struct.pack("<qq", 1, 0)
_RECORD = struct.Struct("<BBHHBBI")
_OF = struct.pack("<qq", 7, 1)


@pytest.mark.parametrize(
    ("frames", "text"),
    [
        (b"\x01", "frame head cut short at byte 0 of 1"),
        (frame(0x7F, b"")[:3], "frame head cut short at byte 0 of 3"),
        (b"\x7f\x00\x05\x00abcd", "type 0x7f says 5 bytes, 4 are left"),
        (frame(DATA, bytes(15)), "15 bytes left for its head"),
        (frame(DATA, bytes(15), RELAYED), "source has 15 bytes left of 16"),
        (frame(DATA, bytes(16 + 15), RELAYED), "15 bytes left for its head"),
        (frame(DATA, struct.pack("<qq", 0, 0)), "run starts at seq 0, time 0"),
        (frame(DATA, struct.pack("<qq", -1, 0)), "run starts at seq -1"),
        (frame(DATA, struct.pack("<qq", SEQ_MAX + 1, 0)), f"run starts at seq {SEQ_MAX + 1}"),
        (frame(DATA, struct.pack("<qq", 1, -1)), "run starts at seq 1, time -1"),
        (frame(DATA, struct.pack("<qq", 1, SEQ_MAX + 1)), f"time {SEQ_MAX + 1}"),
        (frame(DATA, _RUN + bytes(11)), "message has 11 bytes left for its head"),
        (frame(DATA, _RUN + _RECORD.pack(0, 0, 1, 0, 0, 0, 0)), "takes 13 bytes, 12 are left"),
        (frame(DATA, _RUN + _RECORD.pack(1, 0, 0, 0, 0, 0, 0)), "takes 20 bytes, 12 are left"),
        (frame(DATA, _RUN + _RECORD.pack(0, 0, 0, 0, 1, 0, 0)), "takes 20 bytes, 12 are left"),
        (frame(DATA, _RUN + _RECORD.pack(0, 2, 1, 0, 0, 0, 0) + b"k"), "unknown flags or sizes"),
        (frame(DATA, _RUN + _RECORD.pack(0, 0, 0, 0, 17, 0, 0) + bytes(136)), "flags or sizes"),
        (
            frame(DATA, struct.pack("<qq", SEQ_MAX, 0) + _RECORD.pack(0, 0, 0, 1, 0, 0, 0)),
            f"seq {SEQ_MAX + 1}, time 0 is out of range",
        ),
        (
            frame(DATA, struct.pack("<qq", 1, SEQ_MAX) + _RECORD.pack(0, 0, 0, 0, 0, 0, 1)),
            f"seq 1, time {SEQ_MAX + 1} is out of range",
        ),
        (
            frame(
                DATA,
                _RUN + _RECORD.pack(1, 0, 0, 0, 0, 0, 0) + struct.pack("<q", -SEQ_MAX - 1),
            ),
            f"rank {-SEQ_MAX - 1} is out of range",
        ),
        (frame(DATA, struct.pack("<qq", ID_MAX + 1, 0) + _RUN, RELAYED), "source 0x40.* range"),
        (frame(DATA, struct.pack("<qq", 0, -1) + _RUN, RELAYED), "source 0x0.-0x1 is out"),
        (frame(FRAGMENT, struct.pack("<qHH", 1, 0, 1)), "12 bytes left: cut short or empty"),
        (frame(FRAGMENT, struct.pack("<qHH", 1, 1, 1) + b"p"), "fragment 1 of 1"),
        (frame(FRAGMENT, struct.pack("<qHH", 1, 0, 0) + b"p"), "fragment 0 of 0"),
        (frame(FRAGMENT, struct.pack("<qHH", 0, 0, 1) + b"p"), "seq 0 is out of range"),
        (frame(NAK, _OF[:9]), "source has 9 bytes left of 16"),
        (frame(NAK, _OF + bytes(7)), "NAK has 23 bytes left for its head"),
        (frame(NAK, _OF + struct.pack("<q", -1)), "NAK for member -1 to answer"),
        (frame(NAK, _OF + bytes(8) + bytes(15)), "NAK frame has 15 bytes for rows of 16"),
        (frame(NAK, _OF + struct.pack("<qqq", 7, 2, 1)), "NAK for seq 2 to 1"),
        (frame(NAK, _OF + struct.pack("<qqq", 7, 0, 1)), "seq 0 is out of range"),
        (frame(NAK, _OF + struct.pack("<qqq", 7, 1, SEQ_MAX + 1)), "is out of range"),
        (frame(COVERED, _OF + bytes(31)), "COVERED frame has 31 bytes for rows of 32"),
        (frame(COVERED, _OF + struct.pack("<qqqq", 1, 7, 1, 0)), "seq 0 is out of range"),
        (frame(COVERED, _OF + struct.pack("<qqqq", 1, -7, 1, 1)), "source -0x7.0x1 is out"),
        (frame(STABILITY, bytes(21)), "vector has 21 bytes left for its head"),
        (frame(SAFETY, vector_head(number=-1)), "seq -1 is out of range"),
        (frame(SAFETY, vector_head(view=-1)), "seq -1 is out of range"),
        (frame(ROUND, bytes(47)), "round has 47 bytes left for its head"),
        (frame(ROUND, round_head(view=SEQ_MAX + 1)), f"seq {SEQ_MAX + 1} is out of range"),
        (frame(ROUND, round_head(kind=0)), "round with a message of kind 0, unnamed 0"),
        (frame(ROUND, round_head(kind=5)), "round with a message of kind 5, unnamed 0"),
        (frame(ROUND, round_head(unnamed=4)), "round with a message of kind 1, unnamed 4"),
        (frame(ROUND, round_head(target=-2)), "round for member -2"),
        (frame(ROUND, round_head(epoch=-1)), "seq -1 is out of range"),
        (frame(ROUND, round_head(number=SEQ_MAX + 1)), f"seq {SEQ_MAX + 1} is out of range"),
        (frame(ROUND, round_head() + bytes(31)), "ROUND frame has 31 bytes for rows of 32"),
        (frame(ECHO, bytes(7)), "ECHO frame has 7 bytes for a token of 8"),
        (frame(ECHO, bytes(9)), "ECHO frame has 9 bytes for a token of 8"),
        (frame(ECHO, struct.pack("<q", -1)), "seq -1 is out of range"),
        (frame(ECHO, bytes(8), 2), "type 0x8 has unknown flags 0x2"),
        (frame(TIMES, bytes(9)), "TIMES frame has 9 bytes left for its head"),
        (frame(TIMES, bytes(13)), "TIMES frame has 3 bytes for rows of 4"),
        (frame(TIMES, struct.pack("<qH", -1, 0)), "seq -1 is out of range"),
        (frame(TIMES, bytes(10), 1), "type 0x9 has unknown flags 0x1"),
        (frame(TREE, bytes(17)), "TREE frame of 17 bytes"),
        (frame(TREE, bytes(18)), "TREE frame of 18 bytes"),
        (frame(TREE, bytes(21)), "TREE frame of 21 bytes"),
        (frame(TREE, tree_head() + bytes(2 * 257)), "TREE frame of 532 bytes"),
        (frame(TREE, tree_head(view=-1) + bytes(2)), "seq -1 is out of range"),
        (frame(TREE, tree_head(number=0) + bytes(2)), "seq 0 is out of range"),
        (frame(TREE, tree_head(maker=1) + bytes(2)), "tree of 1 members made by member 1"),
        (frame(TREE, tree_head() + bytes([0, 2, 0, 1])), "1 of 2 hangs on member 2, who does not"),
        (frame(TREE, tree_head() + bytes([0, 0, 0, 2])), "ring of 2 members has member 2 twice"),
        (frame(TREE, tree_head() + bytes([0, 0, 0, 0])), "ring of 2 members has member 0 twice"),
        (frame(TREE, tree_head() + bytes([0, 0, 1, 0])), "ring begins at member 1, who is not"),
        (
            frame(TREE, tree_head() + bytes([0, 2, 1, 0, 1, 2])),
            "member 1 of 3 never reaches the root, member 0",
        ),
        (frame(TREE, tree_head() + bytes([0, 1, 0, 1])), "member 1 of 2 never reaches the root"),
        (frame(SAFETY, vector_head(1, 0x8000)), "says 32768 bytes of voters and 0 sources"),
        (frame(SAFETY, vector_head(1, 0, 0, 0xFFFF)), "and 65535 sources that ended, 0 bytes are"),
        (frame(SAFETY, vector_head(1, 1) + bytes(40)), "39 bytes for rows of 40"),
        (
            frame(SAFETY, vector_head() + struct.pack("<qqqqq", 7, 1, 0, 0, -1)),
            "seq -1 is out of range",
        ),
        (frame(LIVES, bytes(11)), "LIVES frame has -1 bytes for rows of 16"),
        (frame(LIVES, bytes(12 + 15)), "LIVES frame has 15 bytes for rows of 16"),
        (frame(LIVES, view_head(-1)), "seq -1 is out of range"),
        (frame(LIVES, lives_row(-1, 1)), "LIVES frame with member -1, life 2"),
        (frame(LIVES, lives_row(ID_MAX + 1, 1)), f"LIVES frame with member {ID_MAX + 1}"),
        (frame(LIVES, lives_row(1, -1, gone=1)), "LIVES frame with member 1, life -1"),
        (frame(LIVES, view_head(), 1), "type 0x10 has unknown flags 0x1"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_numbers(frames: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text) as caught:
        Decoder().decode(frames, SENDER)
    assert_clear(caught.value)


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
