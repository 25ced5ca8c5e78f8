"""Fragments: a large message comes back whole or not at all, and nothing grows beyond bounds."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.wire.material import (
    OTHERS,
    PATIENT,
    SENDER,
    SOURCES,
    assert_clear,
    body_of,
    encoded,
    messages,
)

from semcast.errors import MessageTooLargeError, RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter, encode_whole
from semcast.wire.families.repair import FRAGMENTS_MAX, Fragment
from semcast.wire.fragment import PIECE_BYTES_MIN, Reassembler, fragments_of
from semcast.wire.limits import MESSAGE_BYTES_LIMIT, PATH_MTU_BYTES_MIN, Limits
from semcast.wire.message import Message

LIMITS = Limits()
SMALL = Limits(path_mtu_bytes=PATH_MTU_BYTES_MIN, message_bytes_max=20_000)
MTUS = st.integers(PATH_MTU_BYTES_MIN, 1_600) | st.sampled_from([576, 1_400, 9_000, 65_535])
# Larger than any room needed here: the payload is drawn from what this leaves.
LARGE = messages(room=20_000)


def large(size: int, source: Source = SENDER, seq: int = 1) -> Message:
    return Message(source, seq, (bytes(range(251)) * (size // 251 + 1))[:size])


def put_together(reassembler: Reassembler, pieces: list[Fragment]) -> list[Message]:
    whole = [reassembler.add(piece) for piece in pieces]
    return [message for message in whole if message is not None]


# Cutting


@PATIENT
@given(message=LARGE, mtu=MTUS)
def test_a_message_cut_and_put_together_is_the_message(message: Message, mtu: int) -> None:
    limits = Limits(mtu)
    pieces = fragments_of(message, limits)
    reassembler = Reassembler(limits)
    assert put_together(reassembler, pieces) == [message]
    assert (len(reassembler), reassembler.held_bytes, reassembler.forgotten) == (0, 0, 0)


@PATIENT
@given(message=LARGE, mtu=MTUS)
def test_every_fragment_fits_a_datagram_relayed_or_not(message: Message, mtu: int) -> None:
    limits = Limits(mtu)
    pieces = fragments_of(message, limits)
    for sender in (message.source, Source(12_345, 6)):
        for piece in pieces:
            frames = encoded([piece], sender, limits.frames_bytes_max)
            assert Decoder().decode(frames, sender).control == [piece]
    # As few as possible: no two of them fit where one goes, and room for a source was kept.
    full = encoded([pieces[0]], Source(12_345, 6))
    assert len(pieces) == 1 or len(full) == limits.frames_bytes_max


@PATIENT
@given(message=LARGE, mtu=MTUS, sender=st.sampled_from(SOURCES))
def test_what_no_datagram_takes_goes_as_two_fragments_or_more(
    message: Message, mtu: int, sender: Source
) -> None:
    limits = Limits(mtu)
    if not FrameWriter(sender, limits.frames_bytes_max).add_message(message):
        assert len(fragments_of(message, limits)) >= 2


def test_the_largest_message_has_fewer_fragments_than_can_be_counted() -> None:
    limits = Limits(PATH_MTU_BYTES_MIN, MESSAGE_BYTES_LIMIT)
    body = bytes(255 + MESSAGE_BYTES_LIMIT)
    message = Message(SENDER, SEQ_MAX, body, 255, (1 << 1024) - 1, -SEQ_MAX, True, SEQ_MAX)
    pieces = fragments_of(message, limits)
    assert len(pieces) <= FRAGMENTS_MAX
    assert min(len(piece.piece) for piece in pieces[:-1]) == PIECE_BYTES_MIN
    assert put_together(Reassembler(limits), pieces) == [message]


@pytest.mark.parametrize("key_len", [0, 255])
def test_the_limit_is_on_the_payload_and_exact(key_len: int) -> None:
    def message(payload_len: int) -> Message:
        body = bytes(key_len + payload_len)
        return Message(SENDER, 1, body, key_len, (1 << 1024) - 1, rank=1, ranked=True)

    most = SMALL.message_bytes_max
    fits, over = message(most), message(most + 1)
    assert put_together(Reassembler(SMALL), fragments_of(fits, SMALL)) == [fits]
    text = f"{most + 1} bytes .* limit of {most}"
    with pytest.raises(MessageTooLargeError, match=text) as caught:
        fragments_of(over, SMALL)
    assert (caught.value.size_bytes, caught.value.bytes_max) == (most + 1, most)
    # A peer with a larger limit sends it all the same.
    generous = replace(SMALL, message_bytes_max=most + 1)
    reassembler = Reassembler(SMALL)
    with pytest.raises(RemoteProtocolError, match=f"{most + 1} bytes exceeds .* {most}|message_b"):
        put_together(reassembler, fragments_of(over, generous))
    assert (len(reassembler), reassembler.held_bytes) == (0, 0)


# Putting together, whatever the network does


@settings(PATIENT, max_examples=200)
@given(data=st.data())
def test_fragments_in_any_order_doubled_and_interleaved_give_each_message(
    data: st.DataObject,
) -> None:
    names = [(source, seq) for source in SOURCES[:3] for seq in (1, 2)]
    sizes = data.draw(st.lists(st.integers(500, 4_000), min_size=1, max_size=len(names)))
    sent = [large(size, *name) for size, name in zip(sizes, names, strict=False)]
    pieces = [piece for message in sent for piece in fragments_of(message, SMALL)]
    arriving = data.draw(st.permutations(pieces))
    again = data.draw(st.lists(st.sampled_from(pieces), max_size=10))
    for piece in again:
        arriving.insert(data.draw(st.integers(0, len(arriving))), piece)
    reassembler = Reassembler(SMALL)
    whole = put_together(reassembler, arriving)
    # Pieces that arrive after the message was complete begin it anew, so some come twice.
    assert {(message.source, message.seq) for message in whole} == set(names[: len(sent)])
    assert all(message in sent for message in whole)
    assert len(whole) <= len(sent) + len(again) // 2
    assert reassembler.forgotten == 0


@settings(PATIENT, max_examples=200)
@given(
    data=st.data(),
    size=st.integers(500, 6_000),
    mtus=st.lists(st.integers(576, 1_500), min_size=2, max_size=3),
)
def test_pieces_cut_for_different_path_mtus_never_make_another_message(
    data: st.DataObject, size: int, mtus: list[int]
) -> None:
    """Members that send a message again may be configured otherwise than its source was."""
    message = large(size)
    cuts = [piece for mtu in mtus for piece in fragments_of(message, Limits(mtu))]
    reassembler = Reassembler(LIMITS)
    for piece in data.draw(st.permutations(cuts)):
        try:
            whole = reassembler.add(piece)
        except RemoteProtocolError as error:
            assert_clear(error)
        else:
            assert whole is None or whole == message


def test_two_cuts_with_the_same_count_are_told_apart() -> None:
    message = large(2_000)
    first, second = fragments_of(message, Limits(1_400)), fragments_of(message, Limits(1_410))
    assert len(first) == len(second) == 2
    reassembler = Reassembler(LIMITS)
    assert reassembler.add(first[0]) is None
    with pytest.raises(RemoteProtocolError, match="does not add up"):
        reassembler.add(second[1])
    assert put_together(reassembler, second) == [message]


# What is refused


def test_fragments_that_disagree_on_their_count_cost_that_message_only() -> None:
    bad, good = large(3_000, seq=1), large(3_000, seq=2)
    reassembler = Reassembler(SMALL)
    pieces = fragments_of(bad, SMALL)
    reassembler.add(pieces[0])
    reassembler.add(fragments_of(good, SMALL)[0])
    claimed = Fragment(SENDER, 1, 1, len(pieces) + 1, pieces[1].piece)
    with pytest.raises(RemoteProtocolError, match=f"seq 1 are {len(pieces)} or {len(pieces) + 1}"):
        reassembler.add(claimed)
    assert len(reassembler) == 1
    assert put_together(reassembler, fragments_of(good, SMALL)[1:]) == [good]
    assert put_together(reassembler, pieces) == [bad]


def test_pieces_of_unequal_sizes_are_refused() -> None:
    reassembler = Reassembler(SMALL)
    reassembler.add(Fragment(SENDER, 1, 0, 3, bytes(500)))
    with pytest.raises(RemoteProtocolError, match="500 or 501 bytes; set the same path_mtu_bytes"):
        reassembler.add(Fragment(SENDER, 1, 1, 3, bytes(501)))
    assert (len(reassembler), reassembler.held_bytes) == (0, 0)


@pytest.mark.parametrize("size", [1, PIECE_BYTES_MIN - 1])
def test_short_pieces_are_refused_unless_last_since_many_would_exhaust_memory(size: int) -> None:
    reassembler = Reassembler(SMALL)
    with pytest.raises(RemoteProtocolError, match=f"0 of 2 has {size} bytes.*{PIECE_BYTES_MIN}"):
        reassembler.add(Fragment(SENDER, 1, 0, 2, bytes(size)))
    assert len(reassembler) == 0
    assert reassembler.add(Fragment(SENDER, 1, 1, 2, bytes(size))) is None
    assert reassembler.held_bytes == size


def test_more_bytes_than_any_message_has_are_refused_before_all_came() -> None:
    reassembler = Reassembler(SMALL)
    pieces = [Fragment(SENDER, 1, index, 0xFFFF, bytes(1_000)) for index in range(21)]
    # Key, bitmap and rank come on top of the 20,000 bytes, and nothing else.
    assert put_together(reassembler, pieces[:20]) == []
    with pytest.raises(RemoteProtocolError, match="21000 bytes, 20407 is the most"):
        reassembler.add(pieces[20])
    assert (len(reassembler), reassembler.held_bytes) == (0, 0)


def test_a_refused_fragment_pushes_nothing_out() -> None:
    """Check first, change second: junk costs no message that is under way."""
    reassembler = Reassembler(SMALL, partials_max=1)
    pieces = fragments_of(large(3_000), SMALL)
    reassembler.add(pieces[0])
    with pytest.raises(RemoteProtocolError):
        reassembler.add(Fragment(OTHERS[0], 1, 0, 2, b"short"))
    with pytest.raises(RemoteProtocolError):
        reassembler.add(Fragment(OTHERS[0], 1, 0, 2, bytes(30_000)))
    assert reassembler.forgotten == 0
    assert put_together(reassembler, pieces[1:]) == [large(3_000)]


@pytest.mark.parametrize("junk", [b"x", b"\x02" + bytes(20), bytes(16) + b"more than it says"])
def test_pieces_that_make_no_message_are_refused_and_let_go(junk: bytes) -> None:
    reassembler = Reassembler(SMALL)
    with pytest.raises(RemoteProtocolError) as caught:
        reassembler.add(Fragment(SENDER, 1, 0, 1, junk))
    assert_clear(caught.value)
    assert (len(reassembler), reassembler.held_bytes) == (0, 0)


# Bounds


def test_the_message_that_waited_longest_is_forgotten_for_lack_of_room_and_counted() -> None:
    reassembler = Reassembler(SMALL, partials_max=2)
    sent = [large(3_000, seq=seq) for seq in (1, 2, 3)]
    for message in sent:
        reassembler.add(fragments_of(message, SMALL)[0])
    assert (len(reassembler), reassembler.forgotten) == (2, 1)
    assert put_together(reassembler, fragments_of(sent[1], SMALL)[1:]) == [sent[1]]
    assert put_together(reassembler, fragments_of(sent[2], SMALL)[1:]) == [sent[2]]
    # Repair asks for the forgotten one again, and it comes from the beginning.
    assert put_together(reassembler, fragments_of(sent[0], SMALL)) == [sent[0]]


def test_bytes_are_bounded_but_one_message_always_has_room() -> None:
    reassembler = Reassembler(SMALL, partials_bytes_max=0)
    most = large(SMALL.message_bytes_max)
    assert put_together(reassembler, fragments_of(most, SMALL)) == [most]
    pieces = fragments_of(most, SMALL)
    assert put_together(reassembler, pieces[:-1]) == []
    assert reassembler.forgotten == 0
    room = reassembler.held_bytes
    for seq in range(2, 6):
        put_together(reassembler, fragments_of(large(20_000, seq=seq), SMALL)[:-1])
        assert reassembler.held_bytes <= room + 1_000
    assert reassembler.forgotten == 4


def test_what_is_left_of_a_source_that_is_gone_is_forgotten_and_nothing_else() -> None:
    reassembler = Reassembler(SMALL)
    again = Source(SENDER.sender, SENDER.incarnation + 1)
    sent = [large(3_000, source, seq) for source in (SENDER, again) for seq in (1, 2)]
    for message in sent:
        reassembler.add(fragments_of(message, SMALL)[0])
    reassembler.forget(Source(SENDER.sender, SENDER.incarnation))
    assert len(reassembler) == 2
    assert reassembler.held_bytes == 2 * PIECE_BYTES_MIN
    # Nobody waits for these: they were not pushed out.
    assert reassembler.forgotten == 0
    for message in sent[2:]:
        assert put_together(reassembler, fragments_of(message, SMALL)[1:]) == [message]
    reassembler.forget(OTHERS[0])
    assert len(reassembler) == 0


class Hostile(RuleBasedStateMachine):
    """Peers that send any fragment a Decoder lets through, against a model of what may be held."""

    PARTIALS_MAX = 3
    BYTES_MAX = 4_000
    LIMITS = Limits(PATH_MTU_BYTES_MIN, message_bytes_max=2_000)
    # A message of the largest payload, with everything else that it may have.
    WHOLE_MAX = 16 + 1024 // 8 + 8 + 255 + LIMITS.message_bytes_max

    def __init__(self) -> None:
        super().__init__()
        self.reassembler = Reassembler(self.LIMITS, self.PARTIALS_MAX, self.BYTES_MAX)
        self.model: dict[tuple[Source, int], dict[int, int]] = {}
        self.counts: dict[tuple[Source, int], int] = {}
        self.forgotten = 0

    def drop(self, name: tuple[Source, int]) -> None:
        del self.model[name]
        del self.counts[name]

    def held(self) -> int:
        return sum(sum(sizes.values()) for sizes in self.model.values())

    @rule(
        name=st.tuples(st.sampled_from(SOURCES[:2]), st.integers(1, 3)),
        count=st.sampled_from([1, 2, 2, 3, 3, 5, 0xFFFF]),
        place=st.integers(0, 0xFFFF),
        size=st.sampled_from([1, 300, 443, 444, 444, 444, 445, 900, 2_407, 2_408, 60_000]),
    )
    def fragment(self, name: tuple[Source, int], count: int, place: int, size: int) -> None:
        index = place % count
        fragment = Fragment(*name, index, count, body_of(size, place))
        known = self.model.get(name)
        sizes = {} if known is None else known
        if self.counts.get(name) == count and index in sizes:
            assert self.reassembler.add(fragment) is None
            return
        whole_sizes = {size for at, size in sizes.items() if at < count - 1}
        if (
            self.counts.get(name, count) != count
            or (index < count - 1 and (size < PIECE_BYTES_MIN or not whole_sizes <= {size}))
            or sum(sizes.values()) + size > self.WHOLE_MAX
        ):
            with pytest.raises(RemoteProtocolError):
                self.reassembler.add(fragment)
            if known is not None:
                self.drop(name)
            return
        self.accept(name, fragment)

    def accept(self, name: tuple[Source, int], fragment: Fragment) -> None:
        if name not in self.model:
            if len(self.model) == self.PARTIALS_MAX:
                self.drop(next(iter(self.model)))
                self.forgotten += 1
            self.model[name] = {}
            self.counts[name] = fragment.count
        self.model[name][fragment.index] = len(fragment.piece)
        if len(self.model[name]) == fragment.count:
            self.drop(name)
            # Bytes like these make no message; it is let go all the same.
            with pytest.raises(RemoteProtocolError):
                self.reassembler.add(fragment)
            return
        assert self.reassembler.add(fragment) is None
        while self.held() > self.BYTES_MAX:
            self.drop(next(iter(self.model)))
            self.forgotten += 1

    @precondition(lambda self: self.model)
    @rule(source=st.sampled_from(SOURCES[:2]))
    def forget(self, source: Source) -> None:
        self.reassembler.forget(source)
        for name in [name for name in self.model if name[0] == source]:
            self.drop(name)

    @invariant()
    def holds_what_the_model_holds_and_no_more(self) -> None:
        assert len(self.reassembler) == len(self.model) <= self.PARTIALS_MAX
        assert self.reassembler.held_bytes == self.held() <= self.BYTES_MAX
        assert self.reassembler.forgotten == self.forgotten
        # Memory follows bytes: short pieces, which cost more than they hold, are few.
        pieces = sum(len(sizes) for sizes in self.model.values())
        assert pieces <= self.BYTES_MAX // PIECE_BYTES_MIN + self.PARTIALS_MAX


TestHostile = Hostile.TestCase
TestHostile.settings = settings(PATIENT, max_examples=150, stateful_step_count=40)


def test_the_form_that_is_cut_is_as_long_as_documented() -> None:
    plain = Message(SENDER, 1, b"kpayload", 1)
    assert len(encode_whole(plain)) == 16 + 8
    marked = Message(SENDER, 1, b"kpayload", 1, 1 << 64, 5, True)
    assert len(encode_whole(marked)) == 16 + 2 * 8 + 8 + 8
