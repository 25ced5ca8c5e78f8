"""What was missed is pulled; what was replaced is answered by its cover; all is bounded."""

from random import Random

import pytest
from tests.protocol.epidemic.overlay.member_world import SECOND_NS, MemberWorld

from semcast.errors import ConfigError
from semcast.ids import EVERYBODY, SEQ_MAX, Source
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.delivery import Delivery
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.epidemic.overlay.optimistic import OptimisticMulticast
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.epidemic.overlay.pull import Pull, PullConfig
from semcast.protocol.epidemic.overlay.store import Known, MessageStore
from semcast.protocol.epidemic.targets import FullMembership, Targets
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.protocol.queue.policy import BufferConfig
from semcast.wire.decode import Decoder, decode_whole
from semcast.wire.families.epidemic import Rumour
from semcast.wire.families.pull import Summary, Want
from semcast.wire.families.repair import Covered
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits
from semcast.wire.message import Message

ME, OTHER, THIRD = Source(1, 1), Source(2, 1), Source(3, 1)


def by_key(source: Source, seq: int, key: bytes = b"k") -> Message:
    return Message(source, seq, key + b"=%d" % seq, len(key), by_key=True)


def plain(source: Source, seq: int) -> Message:
    return Message(source, seq, b"message %d" % seq)


def pulling(config: PullConfig | None = None) -> tuple[Pull, Inbox, Delivery]:
    """A part with an inbox and a delivery queue, in a group of three."""
    targets = FullMembership(ME, View.first([1, 2, 3], 0), Random(1))
    pull = Pull(ME, config or PullConfig(), targets, Random(1), 0)
    inbox = Inbox(GossipConfig(), False)
    delivery = Delivery(BufferConfig(), 64, GossipConfig(), inbox, None)
    pull.attach(inbox, delivery)
    return pull, inbox, delivery


def said(pull: Pull) -> list[tuple[int, ControlFrame]]:
    """What it has to say, through bytes."""
    outbox = Outbox(ME, Limits())
    pull.pack(outbox, 0)
    decoder = Decoder()
    return [
        (one.to, frame) for one in outbox.take() for frame in decoder.decode(one.frames, ME).control
    ]


def comes(pull: Pull, delivery: Delivery, message: Message) -> None:
    delivery.insert(message, 0)
    pull.on_message(message, 1, 2, 0)


# The store


def test_a_store_holds_the_newest_messages_and_tells_only_of_what_it_can_answer() -> None:
    store = MessageStore(10, 1 << 20)
    for seq in range(1, 31):
        store.put(plain(OTHER, seq))
    assert len(store) == 10
    assert store.ranges(5, 14, 0) == [(OTHER, 21, 30)]
    assert store.get(OTHER, 20) is None
    assert store.get(OTHER, 21) == plain(OTHER, 21)


def test_a_store_holds_the_last_of_each_key_and_knows_what_covers_the_others() -> None:
    store = MessageStore(10, 1 << 20)
    for seq in range(1, 31):
        store.put(by_key(OTHER, seq))
    assert len(store) == 1
    assert store.cover(OTHER, 29) == (OTHER, 30)
    assert store.ranges(5, 14, 0) == [(OTHER, 1, 30)]


def test_a_store_is_bounded_in_bytes_and_passes_over_what_never_fits() -> None:
    store = MessageStore(100, 1_000)
    for seq in range(1, 101):
        store.put(Message(OTHER, seq, bytes(100)))
    assert len(store) == 10
    store.put(Message(OTHER, 200, bytes(2_000)))
    assert len(store) == 10


def test_a_digest_goes_back_some_rounds_only_and_sources_that_fell_silent_are_forgotten() -> None:
    store = MessageStore(100, 1 << 20)
    store.put(plain(OTHER, 1))
    for _ in range(4):
        store.on_round()
    store.put(plain(THIRD, 7))
    assert store.ranges(5, 14, 0) == [(OTHER, 1, 1), (THIRD, 7, 7)]
    store.on_round()
    assert store.ranges(5, 14, 0) == [(THIRD, 7, 7)]
    for _ in range(300):
        store.on_round()
    assert store.ranges(1_000, 14, 0) == []


def test_known_numbers_make_ranges_in_whatever_order_they_come() -> None:
    random = Random("ranges")
    for _ in range(200):
        numbers = random.sample(range(1, 30), random.randrange(1, 29))
        known = Known()
        for seq in numbers:
            known.add(seq)
        covered = {
            seq
            for first, last in zip(known.firsts, known.lasts, strict=True)
            for seq in range(first, last + 1)
        }
        assert covered == set(numbers)
        assert all(
            later > last + 1 for last, later in zip(known.lasts, known.firsts[1:], strict=False)
        )
        upto = random.randrange(30)
        known.forget(upto)
        assert sum(
            last - first + 1 for first, last in zip(known.firsts, known.lasts, strict=True)
        ) == sum(seq > upto for seq in numbers)


# Asking and answering


def test_what_a_summary_names_and_did_not_come_is_asked_for_once() -> None:
    pull, _, delivery = pulling()
    for seq in (1, 2, 5):
        comes(pull, delivery, plain(OTHER, seq))
    pull.on_frame(Summary([(OTHER, 1, 7)], True), THIRD, 0)
    assert said(pull) == [
        (3, Want([(OTHER, 3, 4), (OTHER, 6, 7)])),
        (3, Summary([(OTHER, 5, 5), (OTHER, 1, 2)])),
    ]
    # The answer is on its way; later somebody else is asked.
    pull.on_frame(Summary([(OTHER, 1, 7)]), OTHER, 1)
    assert said(pull) == []
    pull.on_frame(Summary([(OTHER, 1, 7)]), OTHER, SECOND_NS)
    assert said(pull) == [(2, Want([(OTHER, 3, 4), (OTHER, 6, 7)]))]


def test_a_request_is_answered_with_messages_and_with_the_covers_of_others() -> None:
    pull, _, delivery = pulling()
    for message in (by_key(OTHER, 1), plain(OTHER, 2), by_key(OTHER, 3), by_key(OTHER, 4)):
        comes(pull, delivery, message)
    pull.on_frame(Want([(OTHER, 1, 3)]), THIRD, 0)
    frames = [frame for _, frame in said(pull)]
    rumours = [frame for frame in frames if isinstance(frame, Rumour)]
    found = [decode_whole(one.whole, one.source, one.seq, 1 << 20) for one in rumours]
    assert found == [by_key(OTHER, 4), plain(OTHER, 2)], "a cover goes once"
    assert {int(one.round) for one in rumours} == {255}, "nobody passes it on"
    assert Covered(OTHER, [(1, OTHER, 4), (3, OTHER, 4)]) in frames


def test_a_message_that_somebody_says_is_covered_is_not_asked_for_again() -> None:
    pull, _, delivery = pulling()
    comes(pull, delivery, by_key(OTHER, 4))
    pull.on_frame(Covered(OTHER, [(1, OTHER, 4), (3, OTHER, 4)]), THIRD, 0)
    pull.on_frame(Summary([(OTHER, 1, 4)]), THIRD, 0)
    assert said(pull) == [(3, Want([(OTHER, 2, 2)]))]
    assert delivery.cover_of(OTHER, 3) == (OTHER, 4)


def test_the_word_that_a_message_is_covered_goes_on_with_its_cover() -> None:
    pull, _, delivery = pulling()
    comes(pull, delivery, by_key(OTHER, 4))
    pull.on_frame(Covered(OTHER, [(1, OTHER, 4), (2, OTHER, 9)]), THIRD, 0)
    pull.on_frame(Summary([], True), OTHER, 0)
    pull.on_frame(Want([(OTHER, 1, 2)]), OTHER, 0)
    summary, rumour, covered = [frame for _, frame in said(pull)]
    assert summary == Summary([(OTHER, 4, 4), (OTHER, 1, 1)])
    assert isinstance(rumour, Rumour)
    assert rumour.seq == 4
    assert covered == Covered(OTHER, [(1, OTHER, 4)]), "9 is not here, so nothing is said of 2"


def test_what_was_never_missing_gets_no_cover_from_others() -> None:
    pull, _, delivery = pulling()
    comes(pull, delivery, plain(OTHER, 1))
    pull.on_frame(Covered(OTHER, [(1, THIRD, 4)]), THIRD, 0)
    pull.on_frame(Covered(THIRD, [(1, THIRD, 4)]), THIRD, 0)
    assert delivery.cover_of(OTHER, 1) is None
    assert delivery.cover_of(THIRD, 1) is None


def test_ranges_without_end_cost_no_more_than_short_ones() -> None:
    pull, _, delivery = pulling()
    for seq in range(1, 500):
        comes(pull, delivery, plain(OTHER, seq))
    everything = [(OTHER, 1, SEQ_MAX), (THIRD, 1, SEQ_MAX)] * 7
    pull.on_frame(Want(everything), THIRD, 0)
    pull.on_frame(Want([(OTHER, 1, 499)] * 14), THIRD, 0)
    assert len(said(pull)) <= 64
    pull.on_frame(Summary(everything), THIRD, 0)
    ((_, want),) = said(pull)
    assert isinstance(want, Want)
    assert sum(last - first + 1 for _, first, last in want.ranges) <= 64
    assert len(pull._asked) <= 64
    pull.on_timer(100 * SECOND_NS)
    assert len(pull._asked) == 0


def test_a_message_that_is_too_large_for_our_datagrams_is_left_to_others() -> None:
    pull, _, delivery = pulling()
    comes(pull, delivery, Message(OTHER, 1, bytes(5_000)))
    comes(pull, delivery, plain(OTHER, 2))
    pull.on_frame(Want([(OTHER, 1, 2)]), THIRD, 0)
    ((_, rumour),) = said(pull)
    assert isinstance(rumour, Rumour)
    assert rumour.seq == 2
    assert pull.too_large == 1


def test_nobody_asks_for_messages_of_its_own_former_life() -> None:
    pull, _, _ = pulling()
    pull.on_frame(Summary([(Source(1, 0), 1, 9)]), OTHER, 0)
    assert said(pull) == []


def test_once_a_round_a_neighbour_gets_a_summary() -> None:
    pull, _, delivery = pulling()
    comes(pull, delivery, plain(OTHER, 1))
    asked = set()
    for _ in range(30):
        pull.on_timer(pull.next_deadline_ns())
        ((to, summary),) = said(pull)
        assert isinstance(summary, Summary)
        assert summary.answer
        asked.add(to)
    assert asked == {2, 3}


@pytest.mark.parametrize("name", ["round_ns", "summary_rounds", "want_max", "store_messages"])
def test_settings_out_of_range_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"pull {name} is 0"):
        PullConfig(**{name: 0})


# Whole members


def with_pull(overlay: Overlay, random: Random) -> tuple[Targets, tuple[Part, ...]]:
    return overlay, (Pull(overlay.me.source, PullConfig(), overlay, random, 0),)


def optimistically(overlay: Overlay, random: Random) -> tuple[Targets, tuple[Part, ...]]:
    pull = Pull(overlay.me.source, PullConfig(), overlay, random, 0)
    return OptimisticMulticast(overlay), (pull,)


def test_members_that_heard_nothing_for_seconds_get_all_that_was_never_replaced() -> None:
    world = MemberWorld(20, with_pull)
    world.run(5 * SECOND_NS)
    # No rumours reach three of them, while their links stay up.
    world.lose = lambda number, to, frames: to in (5, 6, 7) and _rumour(frames)  # noqa: ARG005
    for at in range(30):
        world.multicast(9, b"trade %d" % at)
        world.multicast(9, b"quote %d" % at, "AAPL")
        world.run(SECOND_NS // 20)
    assert world.got(5) == []
    world.lose = lambda number, to, frames: False  # noqa: ARG005
    world.run(8 * SECOND_NS)
    trades = {b"trade %d" % at for at in range(30)}
    for number in range(1, 21):
        got = world.got(number)
        assert len(got) == len(set(got)), "nothing twice"
        if number != 9:
            assert trades <= set(got)
            assert b"quote 29" in got
    # What was replaced meanwhile is answered by the cover, not by each message.
    assert sum(one.startswith(b"quote") for one in world.got(5)) < 10
    assert world.members[5].stats()["missed"] == 0


def _rumour(frames: bytes) -> bool:
    return any(isinstance(one, Rumour) for one in Decoder().decode(frames, ME).control)


def test_an_optimistic_multicast_reaches_most_at_once_and_the_rest_by_pulling() -> None:
    world = MemberWorld(20, optimistically)
    world.run(5 * SECOND_NS)
    world.loss = 0.2
    for at in range(20):
        world.multicast(3, b"message %d" % at)
        world.run(SECOND_NS // 20)
    at_once = sum(len(world.got(number)) for number in range(1, 21) if number != 3)
    assert 19 * 20 * 0.6 < at_once < 19 * 20
    world.run(10 * SECOND_NS)
    for number in range(1, 21):
        if number != 3:
            assert sorted(world.got(number)) == sorted(b"message %d" % at for at in range(20))


def test_an_optimistic_multicast_is_relayed_by_nobody() -> None:
    world = MemberWorld(2, optimistically)
    assert world.dressed[1].draw(5, EVERYBODY) == [EVERYBODY]
    assert world.dressed[1].draw(5, 2) == []
