"""A message says which ones the application did not get, and the member what covers those."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.obsolescence import Keys, Ranked, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.queue.covers import CoverLog
from semcast.wire.encode import FrameWriter
from semcast.wire.families.repair import Covered
from semcast.wire.families.votes import Progress, Vector
from semcast.wire.message import Message

MS = 1_000_000
ME = Source(1, 1)
VIEW = View.first([1, 2, 3], MemberConfig().f)


def make(sender: int, order: str = "fifo", *, track: bool = False, joining: bool = False) -> Member:
    # Nobody here answers a newcomer that asks for what stands.
    config = MemberConfig(order=order, track_covers=track, state="none")
    stream = random.Random(f"skipped/{sender}")
    return Member(config, Source(sender, 1), VIEW, stream, joining=joining)


def send(sender: Member, receiver: Member, *said: Replaces) -> None:
    """Multicast so many messages, each in a datagram of its own."""
    for replaces in said:
        sender.multicast(b"payload", replaces, 0)
        for outgoing in sender.datagrams(0):
            receiver.receive(outgoing.frames, sender.me, 0)


def told(member: Member, count: int = 100) -> dict[int, list[int]]:
    return {int(one.seq): list(one.skipped) for one in member.take(count, 0)}


# -- fifo ------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.sampled_from("ab"), max_size=30), st.integers(1, 4))
def test_delivered_and_skipped_numbers_are_all_there_are(said: list[str | None], pace: int) -> None:
    """Each once, in order, up to the last one delivered: at the receiver and at the sender."""
    sender, receiver = make(1), make(2)
    seen: list[list[int]] = [[], []]
    for at, replaces in enumerate(said):
        send(sender, receiver, replaces)
        if at % pace == 0:
            for numbers, member in zip(seen, (sender, receiver), strict=True):
                for seq, skipped in told(member, 2).items():
                    numbers += [*skipped, seq]
    for numbers in seen:
        assert numbers == list(range(1, len(numbers) + 1))


def test_what_was_purged_while_it_waited_is_skipped() -> None:
    sender, receiver = make(1), make(2)
    send(sender, receiver, None, "a", "a", "a", None)
    assert told(receiver) == {1: [], 4: [2, 3], 5: []}
    send(sender, receiver, "a", "a")
    assert told(receiver) == {7: [6]}


def test_sources_are_counted_apart() -> None:
    one, other, receiver = make(1), make(3), make(2)
    send(one, receiver, "a", "a")
    send(other, receiver, None)
    send(one, receiver, None)
    taken = receiver.take(100, 0)
    assert [(m.source.sender, m.seq, list(m.skipped)) for m in taken] == [
        (1, 2, [1]),
        (3, 1, []),
        (1, 3, []),
    ]


def vector(round_number: int, agreed: int) -> bytes:
    """Votes of somebody else, in a round of stability detection."""
    writer = FrameWriter(Source(3, 1), 1300)
    rows = [Progress(ME, agreed, agreed, agreed)]
    writer.add(Vector(VIEW.digest, 1, False, round_number, 0b101, rows))
    return writer.take()


def test_nothing_is_skipped_before_the_point_at_which_a_member_joined() -> None:
    sender, joining = make(1), make(2, joining=True)
    for _ in range(5):
        sender.multicast(b"payload", None, 0)
    sender.datagrams(0)
    for round_number in range(1, 5):
        joining.receive(vector(round_number, 5), Source(3, 1), round_number)
    send(sender, joining, None, "a", "a")
    assert told(joining) == {6: [], 8: [7]}


def test_skipped_is_neither_sent_nor_compared() -> None:
    one, other = (Message(ME, 3, b"payload") for _ in range(2))
    one.skipped = range(1, 3)
    assert one == other
    assert hash(one) == hash(other)
    frames = []
    for message in (one, other):
        writer = FrameWriter(ME, 1300)
        writer.add_message(message)
        frames.append(writer.take())
    assert frames[0] == frames[1]


# -- by key ----------------------------------------------------------------------------------------


def test_by_key_the_newest_takes_the_place_and_tells_what_it_replaced() -> None:
    sender, receiver = make(1, "key"), make(2, "key")
    send(sender, receiver, "a", None, "b", "a", None, "a")
    for member in (sender, receiver):
        taken = member.take(100, 0)
        assert [(int(m.seq), tuple(m.skipped)) for m in taken] == [
            (2, ()),
            (5, ()),
            (6, (1, 4)),
            (3, ()),
        ]
    send(sender, receiver, "a")
    assert told(receiver) == {7: []}


@given(st.data())
def test_by_key_too_delivered_and_skipped_numbers_are_all_there_are(data: st.DataObject) -> None:
    """Each once, whatever was replaced where: at the sender, on the way, or while it waited."""
    sender, rival, receiver = make(1, "key"), make(3, "key"), make(2, "key")
    said: st.SearchStrategy[Replaces] = st.one_of(
        st.none(),
        st.sampled_from("ab"),
        st.just(Keys(("a", "b"))),
        st.builds(Ranked, st.just("bid"), st.integers(0, 9)),
    )
    numbers: list[int] = []
    for _ in range(data.draw(st.integers(1, 20))):
        burst = data.draw(st.lists(said, min_size=1, max_size=4))
        lost = len(burst) > 2 and data.draw(st.booleans())
        for at, replaces in enumerate(burst):
            message = sender.multicast(b"", replaces, 0)
            for outgoing in sender.datagrams(0):
                if not (lost and at == 0):
                    receiver.receive(outgoing.frames, sender.me, 0)
                elif replaces is not None:
                    covered = Covered(ME, [(int(message.seq), ME, int(message.seq) + 1)])
                    receiver.receive(frames_of(covered), sender.me, 0)
                else:
                    receiver.receive(outgoing.frames, sender.me, 0)
        if data.draw(st.booleans()):
            send(rival, receiver, Ranked("bid", data.draw(st.integers(0, 9))))
        for message in receiver.take(data.draw(st.integers(0, 9)), 0):
            if message.source == ME:
                numbers += [*message.skipped, int(message.seq)]
    send(sender, receiver, None)
    for message in receiver.take(1_000, 0):
        if message.source == ME:
            numbers += [*message.skipped, int(message.seq)]
    assert sorted(numbers) == list(range(1, sender.sent + 1))


def frames_of(covered: Covered) -> bytes:
    writer = FrameWriter(Source(3, 1), 1300)
    writer.add(covered)
    return writer.take()


def test_by_key_numbers_of_other_senders_are_not_told() -> None:
    one, other, receiver = make(1, "key"), make(3, "key"), make(2, "key")
    send(one, receiver, Ranked("bid", 1))
    send(other, receiver, Ranked("bid", 2), Ranked("bid", 3))
    assert told(receiver) == {2: [1]}


def test_without_purging_key_order_is_fifo_order() -> None:
    config = MemberConfig(order="key", purging=False)
    view = View.first([1, 2], config.f)
    sender, receiver = (Member(config, Source(at, 1), view, random.Random(at)) for at in (1, 2))
    send(sender, receiver, "a", None, "a")
    assert list(told(receiver)) == [1, 2, 3]


def test_an_order_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match="order is 'causal'; choose one of 'fifo', 'key'"):
        MemberConfig(order="causal")


# -- covers ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["fifo", "key"])
def test_what_covers_a_skipped_message_is_known_if_it_is_tracked(order: str) -> None:
    for track in (False, True):
        sender, receiver = make(1, order, track=track), make(2, order, track=track)
        send(sender, receiver, "a", "a", "a", None)
        (message,) = [one for one in receiver.take(100, 0) if one.key]
        covers = [receiver.cover_of(ME, seq) for seq in message.skipped]
        assert covers == ([(ME, 2), (ME, 3)] if track else [None, None])
        assert receiver.cover_of(ME, 4) is None


def test_what_was_purged_for_others_is_known_until_it_is_stable() -> None:
    """Nobody votes but the member itself, so all is stable at once, and safe. SRM §5.3"""
    for track in (False, True):
        config = MemberConfig(f=0, track_covers=track)
        alone = Member(config, ME, View.first([1], 0), random.Random("alone"))
        for _ in range(2):
            alone.multicast(b"payload", "a", 0)
        assert alone.cover_of(ME, 1) == (ME, 2)
        now_ns = 0
        for _ in range(3):
            now_ns = alone.next_deadline_ns()
            alone.on_timer(now_ns)
            alone.datagrams(now_ns)
        assert alone.stats()["retained_held"] == 0
        assert alone.cover_of(ME, 1) == ((ME, 2) if track else None)


def test_the_log_of_covers_forgets_the_oldest() -> None:
    log = CoverLog(3)
    for seq in range(1, 6):
        log.note(ME, seq, ME, seq + 1)
    log.note(ME, 5, ME, 9)
    assert len(log) == 3
    assert [log.cover(ME, seq) for seq in range(1, 6)] == [None, None, (ME, 4), (ME, 5), (ME, 6)]
