"""When others are told: soon after the last message, and not too often while they keep coming."""

from itertools import pairwise

import pytest

from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.gossip.pace import GossipPace
from semcast.settings.setting import MS

PERIOD_NS = 30 * MS


def pace_of(stretch: int, gossip_messages: int = 0) -> GossipPace:
    made = GossipPace(
        MemberConfig(
            gossip_period_ns=PERIOD_NS, gossip_stretch=stretch, gossip_messages=gossip_messages
        )
    )
    made.begin()
    made.done(False, 0)
    return made


def sent_at(pace: GossipPace, arrivals_ns: list[int], until_ns: int) -> list[int]:
    """When others are told, if messages come then and nothing is ever agreed."""
    sent: list[int] = []
    waiting = list(arrivals_ns)
    while True:
        arrival_ns = waiting[0] if waiting else until_ns
        now_ns = min(arrival_ns, int(pace.next_ns))
        if now_ns >= until_ns:
            return sent
        if now_ns == pace.next_ns:
            sent.append(now_ns)
            pace.begin()
            pace.done(False, now_ns)
        else:
            waiting.pop(0)
            pace.news(1, now_ns)


@pytest.mark.parametrize("stretch", [1, 4])
def test_while_messages_keep_coming_others_are_told_every_few_periods(stretch: int) -> None:
    steady = list(range(MS, 1_000 * MS, MS))
    sent = sent_at(pace_of(stretch), steady, 1_000 * MS)
    assert {later - before for before, later in pairwise(sent)} == {stretch * PERIOD_NS}


def test_the_last_message_is_told_of_a_period_after_it() -> None:
    burst = list(range(MS, 50 * MS, MS))
    sent = sent_at(pace_of(4), burst, 90 * MS)
    assert sent == [49 * MS + PERIOD_NS]


def test_nothing_new_is_told_every_period_as_long_as_it_is_not_agreed() -> None:
    assert sent_at(pace_of(4), [], 100 * MS) == [30 * MS, 60 * MS, 90 * MS]


def test_somebody_who_is_behind_is_not_put_off() -> None:
    pace = pace_of(4)
    pace.news(1, MS)
    pace.somebody_is_behind(2 * MS - PERIOD_NS)
    pace.news(1, 3 * MS)
    assert pace.next_ns == 2 * MS


def test_much_at_once_is_not_put_off() -> None:
    pace = pace_of(4, gossip_messages=8)
    pace.news(7, MS)
    assert pace.next_ns == MS + PERIOD_NS
    pace.news(1, 2 * MS)
    assert pace.next_ns == 2 * MS
    # Nor by what comes before they are told.
    pace.begin()
    pace.news(1, 2 * MS)
    assert pace.next_ns == 2 * MS


def test_who_hears_others_tell_does_so_too_but_not_again_and_again() -> None:
    pace = pace_of(4, gossip_messages=1_000)
    pace.news(1, PERIOD_NS)
    pace.somebody_gossips(PERIOD_NS)
    assert pace.next_ns == PERIOD_NS
    pace.begin()
    pace.done(False, PERIOD_NS)
    pace.news(1, PERIOD_NS + MS)
    pace.somebody_gossips(PERIOD_NS + MS)
    assert pace.next_ns > PERIOD_NS + MS, "its own vector is only a moment old"
    pace.somebody_gossips(2 * PERIOD_NS)
    assert pace.next_ns == 2 * PERIOD_NS


def test_who_has_much_to_tell_does_so_again_with_others() -> None:
    pace = pace_of(4, gossip_messages=1_000)
    pace.news(249, MS)
    pace.somebody_gossips(MS)
    assert pace.next_ns > MS
    pace.news(1, 2 * MS)
    pace.somebody_gossips(2 * MS)
    assert pace.next_ns == 2 * MS


def test_who_has_nothing_to_tell_keeps_silent() -> None:
    pace = pace_of(4, gossip_messages=1_000)
    pace.somebody_gossips(10 * PERIOD_NS)
    assert pace.next_ns == PERIOD_NS


def answers(pace: GossipPace, until_ns: int) -> list[int]:
    """When others are told, if somebody who waits for votes is heard all the time."""
    sent: list[int] = []
    now_ns = 0
    while now_ns < until_ns:
        pace.somebody_waits(now_ns)
        now_ns = int(pace.next_ns)
        sent.append(now_ns)
        pace.begin()
        pace.done(False, now_ns)
    return sent


def test_those_who_all_wait_answer_each_other_ever_less_often() -> None:
    """Else votes that say nothing new fill a narrow link (the explorer's case 20397)."""
    sent = answers(pace_of(4, gossip_messages=1), 10 * PERIOD_NS)
    gaps = [later - before for before, later in pairwise(sent)]
    assert gaps == sorted(gaps)
    assert gaps[-1] == PERIOD_NS


def test_who_has_news_answers_those_who_wait_at_once_again() -> None:
    pace = pace_of(4, gossip_messages=8)
    begin_ns = answers(pace, 10 * PERIOD_NS)[-1]
    pace.news(1, begin_ns)
    pace.begin()
    pace.done(False, begin_ns)
    pace.somebody_waits(begin_ns)
    assert pace.next_ns - begin_ns < PERIOD_NS // 4
