"""What is out of range is refused, with the text and the numbers that say so."""

import struct

import pytest
from tests.wire.material import SENDER, assert_clear, frame

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, SEQ_MAX
from semcast.wire.decode import Decoder
from semcast.wire.families.agreement import (
    BALLOT,
    JOIN,
    LACK,
    PART,
    WISHES,
)
from semcast.wire.families.epidemic import HEARD, RUMOUR, STAMP
from semcast.wire.families.lives import LIVES
from semcast.wire.families.measures import ECHO, TIMES, TREE
from semcast.wire.families.overlay import DISCONNECT, ENTER, NEIGHBOR, PULSE, SHUFFLE
from semcast.wire.families.pasts import PAST
from semcast.wire.families.probes import ASK, PING, VOUCH
from semcast.wire.families.pull import IHAVE, SUMMARY, WANT
from semcast.wire.families.readers import BEGIN, HAVE, SUBSCRIBE
from semcast.wire.families.repair import COVERED, FRAGMENT, NAK
from semcast.wire.families.rounds import ROUND
from semcast.wire.families.state import (
    CHUNK,
    LIST,
    NEED,
    PIECE,
    SNAPSHOT,
    TELL,
)
from semcast.wire.families.votes import SAFETY, STABILITY
from semcast.wire.frames import DATA, RELAYED


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


def state_head(after: int, upto: int, cut: int) -> bytes:
    """What NEED and CHUNK have in common."""
    return struct.pack("<IIqqqqq", 1, 0, 7, 1, after, upto, cut)


def wish(what: int, member: int, life: int) -> bytes:
    """A row of a WISHES frame, likewise."""
    return struct.pack("<Bqq", what, member, life)


def ballot(step: int, number: int = 0, voted: int = -1, parcel: int = 0) -> bytes:
    """A BALLOT frame's body, likewise."""
    return view_head() + struct.pack("<Bqqq", step, number, voted, parcel)


def part(parcel: int, what: int, index: int = 0, count: int = 1, data: bytes = b"a") -> bytes:
    """A PART frame's body, likewise."""
    return struct.pack("<qBIHH", parcel, what, 1, index, count) + data


def lives_row(member: int, life: int, gone: int = 0) -> bytes:
    """A LIVES frame with one row, likewise."""
    return view_head() + struct.pack("<qq", member, 2 * life + gone)


_RUN = struct.pack("<qq", 1, 0)
_RECORD = struct.Struct("<BBHHBBI")
_OF = struct.pack("<qq", 7, 1)
# An entry of a view, likewise.
_ENTRY = _OF + b"\x00\x00"


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
        (frame(PING, bytes(11)), "PING frame has 11 bytes where 12 belong"),
        (frame(PING, bytes(13)), "PING frame has 13 bytes where 12 belong"),
        (frame(PING, struct.pack("<qI", -1, 0)), "seq -1 is out of range"),
        (frame(RUMOUR, bytes(27)), "RUMOUR frame has 27 bytes left: cut short"),
        (frame(RUMOUR, struct.pack("<qI", 0, 0) + bytes(16)), "seq 0 is out of range"),
        (frame(RUMOUR, struct.pack("<qI", 1, 256) + bytes(16)), "round 256; 255 is the last"),
        (frame(RUMOUR, bytes(40), RELAYED), "RUMOUR frame has 24 bytes left: cut short"),
        (frame(STAMP, bytes(5)), "STAMP frame has 5 bytes; it takes 4"),
        (frame(HEARD, bytes(7)), "HEARD frame has 7 bytes; it takes 8"),
        (frame(HAVE, bytes(23)), "HAVE frame has 23 bytes for rows of 24"),
        (frame(HAVE, struct.pack("<qqq", 1, 1, -1)), "seq -1 is out of range"),
        (frame(SUBSCRIBE, bytes(7)), "type 0x19 has 7 bytes; 0 were read at byte 8"),
        (frame(SUBSCRIBE, struct.pack("<IHH", 1, 65, 0) + bytes(65)), "a name of 65 bytes"),
        (frame(SUBSCRIBE, struct.pack("<IHH", 1, 4, 0) + b"ab"), "type 0x19 has 10 bytes"),
        (
            frame(BEGIN, struct.pack("<IHH", 1, 1, 0) + b"\xff"),
            "a name of 1 bytes that are no text",
        ),
        (frame(BEGIN, struct.pack("<IHH", 1, 0, 0) + bytes(31)), "BEGIN frame has 31 bytes"),
        (frame(PING, bytes(12), 8), "type 0x16 has unknown flags 0x8"),
        (frame(ENTER, b"\x00" + _OF), "type 0x38 has 17 bytes; 1 were read at byte 18"),
        (frame(ENTER, b"\x01" + _ENTRY), "ENTER frame of a newcomer with 1 steps to go"),
        (frame(ENTER, b"\x11" + _ENTRY, 1), "a walk of 17 steps; 16 are the most"),
        (frame(ENTER, b"\x00" + _OF + b"\x00\x15" + bytes(21)), "an address of 21 bytes; 20 are"),
        (frame(ENTER, b"\x00" + _OF + b"\x00\x02a"), "type 0x38 has 20 bytes; 2 were read"),
        (frame(ENTER, b"\x00" + _ENTRY + b"?"), "ENTER frame has 1 bytes after its entry"),
        (frame(NEIGHBOR, bytes(4) + _ENTRY, 6), "NEIGHBOR frame with flags 0x6: yes and no"),
        (frame(NEIGHBOR, bytes(3)), "source has"),
        (frame(DISCONNECT, b"x"), "DISCONNECT frame has 1 bytes where 0 belong"),
        (frame(SHUFFLE, bytes(5) + _ENTRY * 12), "SHUFFLE frame with more than 10 entries"),
        (frame(SHUFFLE, bytes(5) + _ENTRY + _OF), "type 0x3b has 39 bytes; 1 were read"),
        (frame(PULSE, bytes(29)), "PULSE frame has 29 bytes where 30 belong"),
        (frame(PULSE, bytes(6) + _OF + struct.pack("<q", -1)), "seq -1 is out of range"),
        (frame(SUMMARY, _OF + struct.pack("<qq", 5, 4)), "SUMMARY range ends at 4 before"),
        (frame(SUMMARY, bytes(31)), "SUMMARY frame has 31 bytes for rows of 32"),
        (frame(WANT, (_OF + struct.pack("<qq", 1, 1)) * 15), "WANT frame has 15 rows; 14 are"),
        (frame(WANT, b"", 3), "WANT frame with flags 0x3: eager and lazy"),
        (frame(WANT, _OF + struct.pack("<qq", 0, 1)), "seq 0 is out of range"),
        (frame(IHAVE, (_OF + struct.pack("<qH", 1, 1)) * 18), "IHAVE frame has 18 rows; 17 are"),
        (frame(ASK, bytes(23)), "ASK frame has 23 bytes where 24 belong"),
        (frame(ASK, _OF + struct.pack("<q", -1)), "seq -1 is out of range"),
        (frame(ASK, struct.pack("<qqq", -7, 1, 1)), "source -0x7.0x1 is out"),
        (frame(ASK, bytes(24), 1), "type 0x17 has unknown flags 0x1"),
        (frame(VOUCH, bytes(27)), "VOUCH frame has 27 bytes where 28 belong"),
        (frame(VOUCH, _OF + struct.pack("<qI", SEQ_MAX + 1, 0)), "is out of range"),
        (frame(VOUCH, struct.pack("<qqqI", 7, -1, 1, 0)), "source 0x7.-0x1 is out"),
        (frame(VOUCH, bytes(28), 2), "type 0x18 has unknown flags 0x2"),
        (frame(LIVES, view_head(), 1), "type 0x10 has unknown flags 0x1"),
        (frame(NEED, bytes(51)), "NEED frame has 51 bytes, not 52"),
        (frame(NEED, bytes(52), LIST | SNAPSHOT), "NEED frame for a list and a snapshot: 0x3"),
        (frame(NEED, bytes(52)), "NEED frame for seq 1 to 0, cut 0"),
        (frame(NEED, state_head(1, 5, 4) + bytes(4)), "NEED frame for seq 2 to 5, cut 4"),
        (frame(NEED, state_head(-1, 5, 5) + bytes(4)), "seq -1 is out of range"),
        (frame(CHUNK, state_head(6, 5, 5)), "CHUNK frame of seq 7 to 5, cut 5"),
        (frame(CHUNK, state_head(1, 1, 1), SNAPSHOT), "of a snapshot, no piece: 0x2"),
        (
            frame(CHUNK, state_head(0, 1, 1) + struct.pack("<II", 2, 4) + b"abc", PIECE),
            "CHUNK frame of 3 bytes at 2 of 4",
        ),
        (frame(CHUNK, state_head(0, 1, 1) + bytes(8), PIECE), "of 0 bytes at 0 of 0"),
        (frame(CHUNK, bytes(47)), "has 47 bytes"),
        (frame(PAST, bytes(23)), "PAST frame has 23 bytes, not 24"),
        (frame(PAST, bytes(24), 3), "PAST frame with flags 0x3 that exclude another"),
        (frame(PAST, struct.pack("<qqq", 1, 1, -1)), "seq -1 is out of range"),
        (frame(PAST, bytes(24), 10), "PAST frame with flags 0xa that exclude another"),
        (frame(PAST, bytes(24), 16), "type 0x1f has unknown flags 0x10"),
        (frame(TELL, bytes(7)), "TELL frame has -1 bytes for rows of 24"),
        (frame(TELL, struct.pack("<II", 1, 5)), "TELL frame with answer 5 and 0 rows"),
        (frame(TELL, struct.pack("<II", 1, 1) + bytes(24)), "answer 1 and 1 rows"),
        (
            frame(TELL, struct.pack("<IIqqq", 1, 0, 7, 1, 2)),
            "TELL frame in which a source has ended 2",
        ),
        (frame(JOIN, b""), "JOIN frame has 0 bytes"),
        (frame(JOIN, bytes(265)), "JOIN frame has 265 bytes"),
        (frame(JOIN, bytes(9) + b"a\xff"), "no UTF-8 at byte 1 of 2"),
        (frame(WISHES, bytes(24 + 16)), "WISHES frame has 16 bytes for rows of 17"),
        (frame(WISHES, bytes(24) + wish(0, 1, 1)), "a wish of kind 0"),
        (frame(WISHES, bytes(24) + wish(7, 1, 1)), "a wish of kind 7"),
        (frame(WISHES, bytes(24) + wish(1, -1, 1)), "WISHES frame with member -1, life 1"),
        (frame(WISHES, bytes(24) + wish(1, 1, ID_MAX + 1)), "WISHES frame with member 1, life"),
        (frame(BALLOT, bytes(36)), "BALLOT frame has 36 bytes, not 37"),
        (frame(BALLOT, ballot(0)), "BALLOT frame with step 0"),
        (frame(BALLOT, ballot(7)), "BALLOT frame with step 7"),
        (frame(BALLOT, ballot(1, number=-1)), "BALLOT frame with ballot -1"),
        (frame(BALLOT, ballot(1, number=(1 << 48) + 1)), "BALLOT frame with ballot 28147497671"),
        (frame(BALLOT, ballot(2, number=1, voted=2, parcel=1)), "ballot 1, voted in 2"),
        (frame(BALLOT, ballot(4)), "BALLOT frame of step 4 with parcel 0"),
        (frame(BALLOT, ballot(5, parcel=1)), "BALLOT frame of step 5 with parcel 1"),
        (frame(PART, part(0, 1)), "PART frame of parcel 0, kind 1"),
        (frame(PART, part(1, 3)), "PART frame of parcel 1, kind 3"),
        (frame(PART, part(1, 1, 1, 1)), "PART frame 1 of 1 with 1 bytes"),
        (frame(PART, part(1, 1, 0, 4097)), "PART frame 0 of 4097 with 1 bytes"),
        (frame(PART, part(1, 1, 0, 1, b"")), "PART frame 0 of 1 with 0 bytes"),
        (frame(PART, part(1, 1, 0, 1, bytes(401))), "PART frame 0 of 1 with 401 bytes"),
        (frame(LACK, bytes(12) + struct.pack("<HH", 2, 1)), "LACK frame for parts 2 to 1"),
        (frame(LACK, bytes(12) + struct.pack("<HH", 0, 4096)), "LACK frame for parts 0 to 4096"),
    ],
)
def test_a_refusal_says_what_is_wrong_with_the_numbers(frames: bytes, text: str) -> None:
    with pytest.raises(RemoteProtocolError, match=text) as caught:
        Decoder().decode(frames, SENDER)
    assert_clear(caught.value)
