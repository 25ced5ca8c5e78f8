"""What goes into a FrameWriter comes out of a Decoder: the same things, in the same order."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.wire.material import (
    OTHERS,
    PATIENT,
    ROOM,
    ROOM_MAX,
    SENDER,
    Item,
    add,
    body_of,
    controls,
    encoded,
    frame,
    frame_starts,
    items,
    messages,
    streams,
    words_of,
)

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter, bitmap_words
from semcast.wire.families import agreement, overlay, propagation, pull, votes
from semcast.wire.families.agreement import Ballot, Join, Lack, PartOf, Wishes
from semcast.wire.families.epidemic import HEARD, RUMOUR, STAMP, Heard, Rumour, Stamp
from semcast.wire.families.lives import LIVES, Lives
from semcast.wire.families.measures import ANSWER, ECHO, TIMES, TREE, Echo, Times, Tree
from semcast.wire.families.overlay import Disconnect, Enter, Entry, Neighbor, Pulse, Shuffle
from semcast.wire.families.pasts import PAST, Past
from semcast.wire.families.probes import (
    ACCUSES,
    ANSWERS,
    ASK,
    ASKS,
    PING,
    VOUCH,
    Ask,
    Ping,
    Vouch,
)
from semcast.wire.families.pull import IHave, Summary, Want
from semcast.wire.families.readers import BEGIN, HAVE, SUBSCRIBE, Begin, Have, Subscribe
from semcast.wire.families.repair import COVERED, FRAGMENT, NAK, PRIVATE, Fragment, Nak
from semcast.wire.families.rounds import LEFT_OUT, OF_SAFETY, ROUND, Round
from semcast.wire.families.state import CHUNK, NEED, TELL, Chunk, Need, Tell
from semcast.wire.families.votes import SAFETY, STABILITY, WAITS, Vector
from semcast.wire.frames import DATA, RELAYED, ControlFrame
from semcast.wire.message import Message
from semcast.wire.table import TABLE

ROOM_MIN = 476
ROOMS = st.sampled_from([ROOM_MIN, ROOM])


def packed(all_items: list[Item], room: int) -> list[bytes]:
    """As many datagrams as it takes, by a writer that is shown to forget what it refused."""
    writer, twin = FrameWriter(SENDER, room), FrameWriter(SENDER, room)
    datagrams = []
    for item in all_items:
        before = len(writer)
        if not add(writer, item):
            assert len(writer) == before
            datagrams.append(writer.take())
            # The twin was never asked to take what did not fit.
            assert twin.take() == datagrams[-1]
            assert add(writer, item), f"{item!r} does not fit an empty datagram"
        assert add(twin, item)
    datagrams.append(writer.take())
    assert twin.take() == datagrams[-1]
    return datagrams


def unpacked(datagrams: list[bytes]) -> tuple[list[Message], list[ControlFrame]]:
    decoder = Decoder()
    found: list[Message] = []
    control: list[ControlFrame] = []
    for frames in datagrams:
        decoded = decoder.decode(frames, SENDER)
        assert decoded.unknown_frames == 0
        found += decoded.messages
        control += decoded.control
    return found, control


def assert_same(all_items: list[Item], room: int) -> None:
    datagrams = packed(all_items, room)
    assert all(len(frames) <= room for frames in datagrams)
    found, control = unpacked(datagrams)
    assert found == [item for item in all_items if isinstance(item, Message)]
    assert control == [item for item in all_items if not isinstance(item, Message)]


@PATIENT
@given(data=st.data(), room=ROOMS)
def test_any_messages_and_control_frames_come_back_equal_and_in_order(
    data: st.DataObject, room: int
) -> None:
    assert_same(data.draw(items(room)), room)


@PATIENT
@given(stream=streams())
def test_any_messages_come_back_equal_and_in_order(stream: list[Message]) -> None:
    assert_same(list(stream), ROOM)


@PATIENT
@given(control=st.lists(controls(ROOM_MAX), max_size=3))
def test_frames_as_large_as_a_datagram_can_be_come_back(control: list[ControlFrame]) -> None:
    """Voters and pieces of more than 32,767 bytes: their lengths are unsigned."""
    assert_same(list(control), ROOM_MAX)


@PATIENT
@given(message=messages(room=ROOM_MAX))
def test_a_body_as_large_as_a_datagram_comes_back(message: Message) -> None:
    assert_same([message], ROOM_MAX)


@PATIENT
@given(message=messages())
def test_a_message_is_its_parts_again(message: Message) -> None:
    """Field by field, since the other tests rest on Message's own idea of equality."""
    (back,) = Decoder().decode(encoded([message]), SENDER).messages
    assert (back.source.sender, back.source.incarnation) == (
        message.source.sender,
        message.source.incarnation,
    )
    assert (back.seq, back.sent_ns) == (message.seq, message.sent_ns)
    assert (back.key, back.payload, back.body) == (message.key, message.payload, message.body)
    assert (back.several, back.keys) == (message.several, message.keys)
    assert back.body[: back.key_len] + back.payload == back.body
    assert back.several or back.key + back.payload == back.body
    assert (back.bitmap, back.rank, back.ranked) == (message.bitmap, message.rank, message.ranked)


def test_messages_are_equal_exactly_if_every_field_is() -> None:
    def message(**changed: Any) -> Message:
        fields = {"source": SENDER, "seq": 5, "body": b"kp", "key_len": 1, "bitmap": 1}
        return Message(**{**fields, "rank": 2, "ranked": True, "sent_ns": 3, **changed})

    assert message() == message(source=Source(SENDER.sender, SENDER.incarnation))
    assert hash(message()) == hash(message())
    others = {"source": OTHERS[0], "seq": 6, "body": b"kq", "key_len": 0, "bitmap": 1 << 64}
    others |= {"rank": -2, "ranked": False, "sent_ns": 4, "several": True}
    for field, other in others.items():
        assert message() != message(**{field: other}), field
    assert message() != message().body


@pytest.mark.parametrize("bits", [0, 1, 2, 31, 32, 33, *range(60, 68), 127, 128, 129, 1023, 1024])
def test_bitmaps_of_every_width_at_the_edges_come_back(bits: int) -> None:
    """62 bits are native in compiled code, 63 and 64 fit a word, more do not."""
    widest = (1 << bits) - 1
    lone = 1 << (bits - 1) if bits else 0
    assert_same([Message(SENDER, 1, b"", bitmap=bitmap) for bitmap in (widest, lone)], ROOM)
    assert bitmap_words(widest) == bitmap_words(lone) == words_of(widest)


@pytest.mark.parametrize("seq", [1, 2, SEQ_MAX - 65_536, SEQ_MAX - 65_535, SEQ_MAX - 1, SEQ_MAX])
def test_every_seq_up_to_the_last_comes_back(seq: int) -> None:
    late = Message(SENDER, seq, b"late", sent_ns=SEQ_MAX)
    assert_same([Message(SENDER, max(seq - 65_535, 1), b"early"), late], ROOM)


@pytest.mark.parametrize(
    ("seq_step", "ns_step", "frames_wanted"),
    [
        (0, 0, 1),
        (1, 0, 1),
        (65_535, (1 << 32) - 1, 1),
        (65_536, 0, 2),
        (-1, 0, 2),
        (1, 1 << 32, 2),
        (1, -1, 2),
    ],
)
def test_a_run_goes_on_exactly_while_its_deltas_can_express_it(
    seq_step: int, ns_step: int, frames_wanted: int
) -> None:
    first = Message(SENDER, 100_000, b"a", sent_ns=1 << 40)
    second = Message(SENDER, 100_000 + seq_step, b"b", sent_ns=(1 << 40) + ns_step)
    frames = encoded([first, second])
    assert len(frame_starts(frames)) - 1 == frames_wanted
    assert Decoder().decode(frames, SENDER).messages == [first, second]


def test_a_source_is_written_only_where_it_is_not_the_sender() -> None:
    own, relayed = Message(SENDER, 1, b"own"), Message(OTHERS[0], 1, b"relayed")
    assert encoded([own])[1] == 0
    assert encoded([relayed])[1] == RELAYED
    assert len(encoded([relayed])) == len(encoded([own])) + 16 + len(b"relayed") - len(b"own")
    # Equal is enough: a source that was decoded is another object than our own.
    assert encoded([Message(Source(SENDER.sender, SENDER.incarnation), 1, b"own")])[1] == 0
    # The same sender in another life is another source.
    assert encoded([Message(Source(SENDER.sender, SENDER.incarnation + 1), 1, b"own")])[1] == 1


def test_runs_of_two_sources_are_never_mixed() -> None:
    both = [Message(source, seq, b"") for seq in (1, 2) for source in (SENDER, *OTHERS)]
    frames = encoded(both)
    assert len(frame_starts(frames)) - 1 == len(both)
    assert Decoder().decode(frames, SENDER).messages == both


@PATIENT
@given(item=controls() | messages(), short=st.integers(0, 5_000))
def test_a_thing_fits_exactly_from_its_own_size_on(item: Item, short: int) -> None:
    size = len(encoded([item]))
    assert len(encoded([item], room=size)) == size
    writer = FrameWriter(SENDER, max(size - 1 - short, 1))
    assert not add(writer, item)
    assert len(writer) == 0
    assert writer.take() == b""


@PATIENT
@given(stream=streams().filter(bool))
def test_the_last_message_of_a_datagram_fits_exactly_or_not_at_all(stream: list[Message]) -> None:
    """Whether it continues a run or begins one: to the byte."""
    frames = encoded(stream)
    assert encoded(stream, room=len(frames)) == frames
    writer = FrameWriter(SENDER, len(frames) - 1)
    assert all(writer.add_message(message) for message in stream[:-1])
    assert not writer.add_message(stream[-1])
    assert writer.take() == encoded(stream[:-1])


@PATIENT
@given(stream=streams(), room=st.integers(1, 400))
def test_what_does_not_fit_leaves_no_trace(stream: list[Message], room: int) -> None:
    """Even in the middle of a run, and even when it would have begun another."""
    writer, kept = FrameWriter(SENDER, room), []
    for message in stream:
        before = len(writer)
        if writer.add_message(message):
            kept.append(message)
            assert before < len(writer) <= room
        else:
            assert len(writer) == before
    assert writer.take() == encoded(kept)


def test_a_writer_starts_afresh_after_take() -> None:
    writer = FrameWriter(SENDER, ROOM)
    first, second = Message(SENDER, 1, b"one"), Message(SENDER, 2, b"two")
    assert writer.add_message(first)
    assert writer.take() == encoded([first])
    assert (len(writer), writer.take()) == (0, b"")
    assert writer.add_message(second)
    assert writer.take() == encoded([second])


def test_an_empty_datagram_holds_nothing() -> None:
    decoded = Decoder().decode(b"", SENDER)
    assert (decoded.messages, decoded.control, decoded.unknown_frames) == ([], [], 0)


# Frames and flags of other versions

UNKNOWN_KINDS = st.integers(0, 255).filter(lambda kind: kind != DATA and kind not in TABLE)
UNKNOWN = st.builds(frame, UNKNOWN_KINDS, st.binary(max_size=40), st.integers(0, 255))


@PATIENT
@given(parts=st.lists(UNKNOWN | streams().map(list) | controls(), max_size=6))
def test_unknown_frames_are_skipped_and_counted_and_all_around_them_survives(
    parts: list[bytes | list[Message] | ControlFrame],
) -> None:
    frames, unknown = b"", 0
    kept: list[Message] = []
    control: list[ControlFrame] = []
    for part in parts:
        if isinstance(part, bytes):
            frames += part
            unknown += 1
        elif isinstance(part, list):
            frames += encoded(part)
            kept += part
        else:
            frames += encoded([part])
            control.append(part)
    decoded = Decoder().decode(frames, SENDER)
    assert (decoded.messages, decoded.control) == (kept, control)
    assert decoded.unknown_frames == unknown


@pytest.mark.parametrize(
    ("count", "body"),
    [
        (0, b"\x01a\x01b"),
        (1, b"\x01a\x01b"),
        (65, b"\x01a" * 65),
        (3, b"\x01a\x01b"),
        (2, b"\x01a\x00"),
        (2, b"\x01a\x02b"),
        (2, b"\x01a"),
    ],
)
def test_keys_that_are_none_are_refused(count: int, body: bytes) -> None:
    """A message about several keys says how many, and all of them are there."""
    frames = bytearray(encoded([Message(SENDER, 1, body)]))
    frames[4 + 16] |= 0x02
    frames[4 + 16 + 1] = count
    with pytest.raises(RemoteProtocolError, match=f"message about {count} keys|unknown"):
        Decoder().decode(bytes(frames), SENDER)


def test_a_bid_about_several_keys_is_refused() -> None:
    frames = bytearray(encoded([Message(SENDER, 1, b"\x01a\x01b", 2, 0, 7, True)]))
    frames[4 + 16] |= 0x02
    with pytest.raises(RemoteProtocolError, match="message about 2 keys"):
        Decoder().decode(bytes(frames), SENDER)


@pytest.mark.parametrize("bit", range(2, 8))
def test_unknown_flags_of_a_message_are_refused(bit: int) -> None:
    """They would change what the message means: refuse, not guess."""
    frames = bytearray(encoded([Message(SENDER, 1, b"key and payload", 3, 1)]))
    flags_at = 4 + 16
    frames[flags_at] |= 1 << bit
    with pytest.raises(RemoteProtocolError, match="unknown flags"):
        Decoder().decode(bytes(frames), SENDER)


@pytest.mark.parametrize("reserved", range(1, 256))
def test_the_reserved_byte_of_a_message_is_zero(reserved: int) -> None:
    frames = bytearray(encoded([Message(SENDER, 1, b"payload")]))
    frames[4 + 16 + 7] = reserved
    with pytest.raises(RemoteProtocolError, match="unknown flags"):
        Decoder().decode(bytes(frames), SENDER)


@pytest.mark.parametrize("kind", sorted({DATA, *TABLE}))
@pytest.mark.parametrize("bit", range(8))
def test_unknown_flags_of_a_known_frame_are_refused(kind: int, bit: int) -> None:
    known: dict[int, Item] = {
        DATA: Message(SENDER, 1, b"m"),
        FRAGMENT: Fragment(SENDER, 1, 0, 1, b"piece" * 9),
        NAK: Nak(SENDER, 1, False, [(1, 2)]),
        STABILITY: Vector(1, 1, False, 1, 1, []),
        SAFETY: Vector(1, 1, True, 1, 1, []),
        ROUND: Round(1, 1, False, 1, 0, 0, -1, 0, 1, 0, 0, []),
        ECHO: Echo(False, 1),
        TIMES: Times(1, 0, [1]),
        TREE: Tree(1, 1, 0, bytes(1), bytes(1)),
        LIVES: Lives(1, 1, [(1, 1, False)]),
        PING: Ping(0, 1, 0),
        overlay.ENTER: Enter(Entry(SENDER), True),
        overlay.NEIGHBOR: Neighbor(0, 1, Entry(SENDER)),
        overlay.DISCONNECT: Disconnect(),
        overlay.SHUFFLE: Shuffle(Entry(SENDER), [], 1, 0),
        overlay.PULSE: Pulse(0, 1, SENDER, 1, 1),
        pull.SUMMARY: Summary([]),
        pull.IHAVE: IHave([]),
        pull.WANT: Want([]),
        ASK: Ask(SENDER, 1),
        VOUCH: Vouch(SENDER, 1, 0),
        NEED: Need(0, 1, 1, SENDER, 0, 1, 1),
        CHUNK: Chunk(0, 1, 0, SENDER, 0, 1, 1, b""),
        TELL: Tell(0, 1, 0, []),
        PAST: Past(0, SENDER, 1),
        SUBSCRIBE: Subscribe(1, "name", False),
        BEGIN: Begin(1, "name"),
        HAVE: Have([(SENDER, 1)]),
        agreement.JOIN: Join(SENDER, "newcomer", 0, False, 0),
        agreement.WISHES: Wishes(1, 1, 1, 1, [(1, 1, 1)]),
        agreement.BALLOT: Ballot(1, 1, 1, 0, -1, 0),
        agreement.PART: PartOf(1, 1, 1, 0, 1, b"part"),
        agreement.LACK: Lack(1, 1, [(0, 0)]),
        RUMOUR: Rumour(SENDER, 1, 0, bytes(16)),
        STAMP: Stamp(1),
        HEARD: Heard(1, 1),
        propagation.PIECE: propagation.Piece(1, 0, 1, False, False, b"p"),
        propagation.LINK: propagation.Link(1, [(1, 0, 0)] * 3, []),
        propagation.OUT: propagation.Out(1, 1),
    }
    frames = bytearray(encoded([known[kind]]) if kind in known else frame(COVERED, bytes(16)))
    assert frames[0] == kind
    frames[1] |= 1 << bit
    meant = {DATA: RELAYED, FRAGMENT: RELAYED, NAK: PRIVATE, STABILITY: WAITS, ECHO: ANSWER}
    meant |= {NEED: 0x07, CHUNK: 0x0F, TELL: 0x09, PAST: 0x0F}
    meant[ROUND] = OF_SAFETY | LEFT_OUT
    meant |= {overlay.ENTER: 0x01, overlay.NEIGHBOR: 0x07, overlay.DISCONNECT: 0x01}
    meant |= {overlay.SHUFFLE: 0x01, overlay.PULSE: 0x07, pull.SUMMARY: 0x01, pull.WANT: 0x03}
    meant[PING] = ASKS | ANSWERS | ACCUSES
    meant |= {SUBSCRIBE: 0x07, BEGIN: 0x01, HAVE: 0x03}
    meant[agreement.JOIN] = RELAYED | agreement.CONTACT
    meant[agreement.WISHES] = agreement.ANSWER
    meant[RUMOUR] = RELAYED
    meant[propagation.PIECE] = 0x1E
    meant[STABILITY] |= votes.LEFT_OUT | votes.FORMER_LEFT_OUT | votes.WANTED | votes.QUIET
    if 1 << bit & meant.get(kind, 0):
        return
    with pytest.raises(RemoteProtocolError, match=f"frame of type {kind:#x} .*flags"):
        Decoder().decode(bytes(frames), SENDER)


# Sources


@PATIENT
@given(stream=streams())
@example(stream=[Message(OTHERS[0], 1, b""), Message(OTHERS[0], 9, b"")])
def test_equal_sources_of_relayed_messages_are_one_object(stream: list[Message]) -> None:
    decoder = Decoder()
    seen: dict[Source, Source] = {}
    for message in stream:
        (back,) = decoder.decode(encoded([message]), SENDER).messages
        assert back.source is seen.setdefault(message.source, back.source)


def test_the_sender_of_a_datagram_and_a_relayed_source_are_one_object() -> None:
    decoder = Decoder()
    sender = decoder.sources.intern(Source(OTHERS[0].sender, OTHERS[0].incarnation))
    assert decoder.sources.intern(Source(OTHERS[0].sender, OTHERS[0].incarnation)) is sender
    (relayed,) = decoder.decode(encoded([Message(OTHERS[0], 1, b"")]), SENDER).messages
    assert relayed.source is sender


def test_a_decoder_remembers_so_many_sources_and_decodes_the_rest_all_the_same() -> None:
    decoder = Decoder(sources_max=2)
    naks = [Nak(Source(number, 1), number, False, [(1, 1)]) for number in range(4)]
    frames = encoded(list(naks))
    first, second = (decoder.decode(frames, SENDER).control for _ in range(2))
    assert first == second == naks
    same = [
        one.source is other.source
        for one, other in zip(first, second, strict=True)
        if isinstance(one, Nak) and isinstance(other, Nak)
    ]
    assert same == [True, True, False, False]


def test_bodies_are_cut_where_they_are_and_nowhere_else() -> None:
    """Neighbouring records with all optional parts present and absent."""
    bodies = [body_of(size, size) for size in (0, 1, 7, 255, 300)]
    stream = [
        Message(SENDER, 1 + number, body, min(len(body), key_len), bitmap, rank, ranked)
        for number, (body, key_len, bitmap, rank, ranked) in enumerate(
            (body, key_len, bitmap, rank, ranked)
            for body in bodies
            for key_len in (0, 255)
            for bitmap in (0, 1, 1 << 63, 1 << 64)
            for rank, ranked in ((0, False), (-5, True))
        )
    ]
    assert_same(list(stream), ROOM)


def test_the_room_is_imported_without_the_cryptography_package() -> None:
    """Which takes longer to load than all the rest: `import semcast` has to be quick."""
    code = "import sys, semcast.wire; sys.exit('cryptography' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
