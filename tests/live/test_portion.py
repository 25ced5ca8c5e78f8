"""Messages taken singly: in order, none twice, and only the quick get several at a time."""

import random
import threading
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import Source
from semcast.live.host.portion import Portion
from semcast.live.host.timing import PORTION_MESSAGES_MAX, QUICK_NS
from semcast.protocol.config import MemberConfig
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View

SLOW_NS = 2 * QUICK_NS
WINDOW = 2_000


def member_with(messages: int, replaces: str | None = None) -> Member:
    """A group of one, with so many messages for itself."""
    config = MemberConfig(
        window_messages=WINDOW, delivery_messages=WINDOW, deliver_own=True, f=0, k=64
    )
    member = Member(config, Source(1, 1), View.first([1], config.f), random.Random("portion"))
    for number in range(messages):
        member.multicast(b"%d" % number, replaces, 0)
    return member


@given(pauses=st.lists(st.sampled_from([100, QUICK_NS - 1, SLOW_NS, 50 * QUICK_NS]), max_size=300))
def test_every_message_comes_once_and_in_order_at_any_pace(pauses: list[int]) -> None:
    member, portion = member_with(200), Portion()
    now_ns, found = 0, []
    for pause_ns in pauses:
        now_ns += pause_ns
        message = portion.next() or portion.take(member, now_ns)
        if message is not None:
            found.append(int(message.seq))
    found += [int(message.seq) for message in portion.rest(WINDOW)]
    found += [int(message.seq) for message in member.take(WINDOW, now_ns)]
    assert found == list(range(1, 201))


def test_the_quick_get_more_and_more_at_a_time() -> None:
    member, portion = member_with(1_000), Portion()
    now_ns, waiting = 0, [member.deliverable()]
    for _ in range(500):
        now_ns += 100
        assert portion.next() or portion.take(member, now_ns)
        waiting.append(member.deliverable())
    taken = [before - after for before, after in pairwise(waiting)]
    assert max(taken) == PORTION_MESSAGES_MAX
    assert taken.count(0) > 400


def test_what_a_slow_reader_has_not_taken_can_still_be_replaced() -> None:
    member, portion = member_with(0), Portion()
    now_ns = 0
    for round_ in range(20):
        for number in range(10):
            member.multicast(b"%d" % number, "price", now_ns)
        now_ns += 10 * SLOW_NS
        message = portion.next() or portion.take(member, now_ns)
        assert message is not None
        assert message.payload == b"9", round_
        assert portion.next() is None


def test_one_that_becomes_slow_keeps_only_what_it_was_given() -> None:
    member, portion = member_with(1_000), Portion()
    for at in range(200):
        assert portion.next() or portion.take(member, at * 100)
    left = len(portion.rest(WINDOW))
    before = member.deliverable()
    assert left < PORTION_MESSAGES_MAX
    assert portion.take(member, 10**9) is not None
    assert portion.next() is None
    assert member.deliverable() == before - 1


def test_several_threads_get_every_message_once() -> None:
    member, portion, lock = member_with(WINDOW), Portion(), threading.Lock()
    found: list[list[int]] = [[], [], []]

    def take(mine: list[int]) -> None:
        at = 0
        while True:
            message = portion.next()
            if message is None:
                with lock:
                    message = portion.take(member, at)
            if message is None:
                return
            mine.append(int(message.seq))
            at += 10

    threads = [threading.Thread(target=take, args=(mine,)) for mine in found]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(number for mine in found for number in mine) == list(range(1, WINDOW + 1))
    assert all(mine == sorted(mine) for mine in found)


def test_many_at_once_begin_with_what_was_given_already() -> None:
    member, portion = member_with(100), Portion()
    first = [portion.next() or portion.take(member, at * 100) for at in range(4)]
    assert [int(message.seq) for message in first if message] == [1, 2, 3, 4]
    assert [int(message.seq) for message in portion.rest(1)] == [5]
    rest = portion.rest(50)
    assert [int(message.seq) for message in rest] == list(range(6, 6 + len(rest)))
    assert portion.taken == 5 + len(rest)
