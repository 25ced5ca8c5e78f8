"""What others send, and however long it goes on, a member holds no more than its bounds say."""

import random

import pytest
from tests.protocol.epidemic.making import SECOND, bid, plain, spread

from semcast.ids import Source
from semcast.protocol.epidemic.config import GossipConfig, Late, Policy
from semcast.protocol.epidemic.delivery import Delivery
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.epidemic.links import Links
from semcast.protocol.epidemic.overlay.pull import Pull, PullConfig
from semcast.protocol.epidemic.overlay.store import Known, MessageStore
from semcast.protocol.epidemic.pool import RELAY, Pool, PoolCounts, PoolRules
from semcast.protocol.epidemic.targets import FullMembership
from semcast.protocol.membership.view import View
from semcast.protocol.queue.policy import BufferConfig
from semcast.wire.families.epidemic import Heard, Stamp
from semcast.wire.families.pull import Summary
from semcast.wire.message import Message

MS = SECOND // 1000
ME = Source(0, 1)
# Sources of which nothing waits are forgotten once they are more than this.
IDLE_MAX = 66


def queue() -> Delivery:
    return Delivery(BufferConfig(), 64, GossipConfig(), Inbox(GossipConfig(), False), None)


def test_a_link_that_is_always_busy_is_not_looked_at_more_and_more_often() -> None:
    links = Links(GossipConfig())
    other, sent, entries = Source(7, 1), 0, 0
    links.awaits(links.link(7))
    for now_ns in range(0, 3 * SECOND, 5 * MS):
        for link in links.due(now_ns):
            while link.free_ns <= now_ns:
                link.sent(1000, now_ns)
                sent += 1
            links.awaits(link)
        links.on_frame(Heard(sent, sent), other, now_ns)
        entries = max(entries, len(links._heap))
    assert sent > 1000, "what is heard opens the window again"
    assert entries < 100


def test_stamps_are_counted_of_a_bounded_number_of_members() -> None:
    links = Links(GossipConfig())
    for sender in range(1, 10_001):
        links.on_frame(Stamp(1), Source(sender, 1), 0)
    assert len(links._stamps) == len(links._unanswered) == 1 << 12
    assert 10_000 in links._stamps


def test_no_more_is_asked_for_at_once_than_there_is_room_to_remember() -> None:
    targets = FullMembership(ME, View.first([0, 1, 2], 0), random.Random(1))
    pull = Pull(ME, PullConfig(), targets, random.Random(1), 0)
    pull.attach(Inbox(GossipConfig(), False), queue())
    for sender in range(3, 1_003):
        pull.on_frame(Summary([(Source(sender, 1), 1, 64)]), Source(1, 1), 0)
    assert len(pull._asked) == pull.wanted == 1 << 12


def test_of_a_source_with_many_gaps_the_newest_ranges_are_known() -> None:
    known = Known()
    for seq in range(1, 2_001, 2):
        known.add(seq)
    assert len(known.firsts) == len(known.lasts) == 64
    assert known.lasts[-1] == 1_999


def test_a_store_forgets_sources_of_which_it_has_nothing_any_more() -> None:
    store = MessageStore(10, 1 << 20)
    for sender in range(1, 20_001):
        store.put(bid(sender, sender))
    assert len(store) == 1
    assert store._buffer.sources <= IDLE_MAX
    assert len(store._known) == 1 << 14


def test_numbers_that_are_to_be_told_are_bounded_over_all_sources() -> None:
    """Those of which nothing is told are counted."""
    here = queue()
    for sender in range(1, 13):
        here.insert(plain(1 << 20, sender), 0)
    held = sum(len(numbers) for numbers in here._untold.values())
    assert held == here._untold_held <= 1 << 18
    assert held + here.untold == here.missed
    told = [len(message.skipped) for message in iter(here.take, None)]
    assert sum(told) == held
    assert here._untold_held == 0


def test_a_queue_that_nobody_reads_forgets_sources_of_which_nothing_waits() -> None:
    here = queue()
    for sender in range(1, 1_001):
        here.insert(bid(sender, sender), 0)
    assert here.held == 1
    assert here._waiting.sources <= IDLE_MAX


@pytest.mark.parametrize("first", [[], [plain(1, 1)]])
def test_on_a_link_that_is_stuck_what_was_replaced_does_not_pile_up(first: list[Message]) -> None:
    """Also behind a message that nothing replaces."""
    rules = PoolRules(RELAY, Policy.EAGER, Late.REFUSE, False)
    pool = Pool(rules, 4, random.Random(1), PoolCounts(), None)
    for message in first + [bid(sender, sender) for sender in range(2, 1_002)]:
        one = spread(message)
        assert pool.admit(one)
        pool.wait(one, 7)
        pool.end(one)
    assert pool.held == 1 + len(first)
    assert pool._buffer.sources <= IDLE_MAX
    copies, copy = 0, pool._lanes[7]._first
    while copy is not None:
        copies, copy = copies + 1, copy.next
    assert copies <= 2 * pool.held + IDLE_MAX
    taken = [pool.take(7) for _ in range(pool.held)]
    assert [one.message for one in taken if one is not None][: len(first)] == first
