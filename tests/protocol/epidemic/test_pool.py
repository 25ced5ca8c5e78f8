"""The purging layer: what waits for links, what goes when there is no room, and why."""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.protocol.epidemic.making import Remembering, bid, plain, spread

from semcast.ids import Source
from semcast.obsolescence.relation import obsoletes
from semcast.protocol.epidemic.config import GossipConfig, Late, Policy, Room, Scope
from semcast.protocol.epidemic.layer import LinkLayer, NodeLayer, PurgingLayer, make_layer
from semcast.protocol.epidemic.pool import Pool, PoolCounts, PoolRules
from semcast.wire.message import Message


def pool(
    policy: Policy = Policy.EAGER,
    room: int = 4,
    seed: int = 1,
    late: Late = Late.REFUSE,
    room_each: bool = False,
) -> tuple[Pool, Remembering]:
    observer = Remembering()
    rules = PoolRules("relay", policy, late, room_each)
    return Pool(rules, room, random.Random(seed), PoolCounts(), observer), observer


def put(into: Pool, message: Message, *targets: int, relayed: int = 0) -> bool:
    one = spread(message, relayed)
    if not into.admit(one):
        return False
    for to in targets:
        into.wait(one, to)
    into.end(one)
    return True


def drained(of: Pool, to: int) -> list[int]:
    found = []
    while (one := of.take(to)) is not None:
        found.append(int(one.message.seq))
    return found


# -- what is obsolete ------------------------------------------------------------------------------


def test_eager_a_message_takes_all_copies_of_what_it_replaces_along() -> None:
    """PSRM §3.1"""
    here, observer = pool()
    put(here, bid(1, seq=1), 7, 8, 9)
    put(here, bid(2, sender=2, seq=5), 8)
    assert here.held == 1
    assert [drained(here, to) for to in (7, 8, 9)] == [[], [5], []]
    assert observer.told == ["purge 1#1 from relay by 2#5"]


def test_what_waits_replaces_what_comes_late() -> None:
    here, observer = pool()
    put(here, bid(9, seq=2), 7)
    assert not put(here, bid(1, sender=2), 7, 8)
    assert here.held == 1
    assert observer.told == ["purge 2#1 from relay by 1#2"]


def test_what_was_sent_replaces_nothing_any_more() -> None:
    """Only what is in the buffer together meets (PSRM §3.1)."""
    here, _ = pool()
    put(here, bid(9, seq=2), 7)
    assert drained(here, 7) == [2]
    assert put(here, bid(1, sender=2), 7)


def test_a_message_for_idle_links_only_still_purges() -> None:
    here, _ = pool()
    put(here, bid(1), 7, 8)
    assert put(here, bid(2, seq=2))
    assert here.held == 0


def test_lazy_purges_when_there_is_no_room_and_not_before() -> None:
    here, observer = pool(Policy.LAZY)
    put(here, bid(1, seq=1), 7, 8)
    put(here, bid(2, seq=2), 7)
    assert here.held == 3
    put(here, plain(3), 9)
    assert here.held == 4
    assert not observer.told
    put(here, plain(4), 9)
    assert observer.told == ["purge 1#1 from relay by 1#2"]
    assert here.held == 3


def test_lazy_what_comes_late_enters_while_there_is_room_and_goes_when_there_is_none() -> None:
    here, observer = pool(Policy.LAZY, 2)
    assert put(here, bid(9, seq=1), 7)
    assert put(here, bid(1, seq=2), 8)
    assert here.held == 2
    assert put(here, bid(2, seq=3), 8)
    assert observer.told == ["purge 1#2 from relay by 1#1", "purge 1#3 from relay by 1#1"]
    assert here.held == 1


@pytest.mark.parametrize("kind", ["by key", "bitmap", "ranked"])
def test_every_way_to_replace_counts(kind: str) -> None:
    source = Source(1, 1)
    older = Message(source, 1, b"kx", 1, by_key=True)
    newer = Message(source, 2, b"ky", 1, by_key=True)
    if kind == "bitmap":
        older, newer = Message(source, 1, b"x"), Message(source, 2, b"y", 0, 1)
    elif kind == "ranked":
        older, newer = bid(1), bid(2, seq=2)
    assert obsoletes(newer, older)
    here, _ = pool()
    put(here, older, 7)
    put(here, newer, 8)
    assert drained(here, 7) == []
    assert drained(here, 8) == [2]


# -- no room ---------------------------------------------------------------------------------------


def test_at_random_every_copy_is_as_likely_to_go() -> None:
    gone: Counter[int] = Counter()
    for seed in range(400):
        here, observer = pool(Policy.RANDOM, 4, seed)
        for seq in (1, 2, 3, 4, 5):
            put(here, plain(seq), 7)
        (dropped,) = observer.told
        gone[int(dropped.split("#")[1].split()[0])] += 1
    # Of five, the newest stays.
    assert set(gone) == {1, 2, 3, 4}
    assert min(gone.values()) > 60


def test_drop_new_keeps_what_waits() -> None:
    here, observer = pool(Policy.DROP_NEW, 2)
    for seq in (1, 2, 3):
        put(here, plain(seq), 7)
    assert observer.told == ["drop 1#3 from relay/drop-new"]
    assert drained(here, 7) == [1, 2]


def test_by_age_what_was_relayed_most_goes_first() -> None:
    here, observer = pool(Policy.AGE, 2)
    put(here, plain(1), 7, relayed=1)
    put(here, plain(2), 7, relayed=3)
    put(here, plain(3), 7, relayed=2)
    assert observer.told == ["drop 1#2 from relay/age"]
    put(here, plain(4), 7, relayed=4)
    assert observer.told[1:] == ["drop 1#4 from relay/age"]
    assert drained(here, 7) == [1, 3]


def test_by_priority_what_may_be_replaced_goes_first_whether_it_was_or_not() -> None:
    here, observer = pool(Policy.PRIORITY, 2)
    put(here, bid(1, seq=1), 7)
    put(here, plain(2), 7)
    put(here, plain(3), 7)
    put(here, bid(2, seq=4), 7)
    assert observer.told == ["drop 1#1 from relay/priority", "drop 1#4 from relay/priority"]
    assert drained(here, 7) == [2, 3]


def test_semantic_policies_drop_at_random_when_nothing_is_obsolete() -> None:
    for policy in (Policy.EAGER, Policy.LAZY):
        here, observer = pool(policy, 1)
        put(here, plain(1), 7)
        put(here, plain(2), 7)
        assert observer.told == ["drop 1#1 from relay/random"]


# -- invariants ------------------------------------------------------------------------------------

_STEPS = st.lists(
    st.tuples(st.sampled_from("pppt"), st.integers(0, 3), st.integers(0, 3), st.integers(1, 9)),
    max_size=60,
)


@settings(deadline=None)
@given(_STEPS, st.sampled_from(list(Policy)))
def test_a_pool_keeps_its_bound_and_never_sends_what_it_replaced(
    steps: list[tuple[str, int, int, int]], policy: Policy
) -> None:
    here, _ = pool(policy, 3)
    seq = 0
    replaced: set[int] = set()
    sent: list[int] = []
    admitted: dict[int, Message] = {}
    for what, key, to, rank in steps:
        if what == "t":
            one = here.take(to)
            if one is not None:
                sent.append(int(one.message.seq))
                assert int(one.message.seq) not in replaced
        else:
            seq += 1
            message = bid(rank, seq=seq, key=b"k%d" % key)
            if put(here, message, to, (to + 1) % 4):
                admitted[seq] = message
                if policy is Policy.EAGER:
                    replaced |= {s for s, m in admitted.items() if obsoletes(message, m)}
        assert here.held <= 3
    for to in range(4):
        sent += drained(here, to)
    assert here.held == 0
    assert max(Counter(sent).values(), default=0) <= 2


# -- scopes ----------------------------------------------------------------------------------------


def layer(scope: Scope, each: int = 1, links: int = 3) -> PurgingLayer:
    config = GossipConfig(buffer_messages=each, scope=scope)
    return make_layer(config, Policy.EAGER, links, random.Random(1), None)


def test_one_buffer_for_all_links_shares_its_room_and_its_purging() -> None:
    here = layer(Scope.NODE)
    assert isinstance(here, NodeLayer)
    assert here.offer(spread(plain(1)), [7, 7, 7])
    assert here.held() == 3
    assert here.offer(spread(bid(1, seq=2)), [8])
    assert here.offer(spread(bid(2, seq=3)), [9])
    assert not here.waits_for(8)


def test_with_a_buffer_for_each_link_messages_meet_only_there() -> None:
    here = layer(Scope.LINK)
    assert isinstance(here, LinkLayer)
    assert here.offer(spread(bid(1, seq=1)), [7, 8])
    assert here.offer(spread(bid(2, seq=2)), [8])
    assert here.held() == 2
    taken = [here.take(to) for to in (7, 8, 9)]
    assert [None if one is None else int(one.message.seq) for one in taken] == [1, 2, None]


@pytest.mark.parametrize("scope", list(Scope))
def test_what_waits_for_somebody_who_is_gone_is_forgotten(scope: Scope) -> None:
    here = layer(scope)
    here.offer(spread(plain(1)), [7, 8])
    here.forget(7)
    assert not here.waits_for(7)
    assert here.held() == 1


def test_room_follows_the_number_of_links() -> None:
    here = layer(Scope.NODE, each=1, links=1)
    here.resize(3)
    for seq in range(1, 6):
        here.offer(spread(plain(seq)), [7])
    assert here.held() == 3


# -- late ones relayed, and room for each link -----------------------------------------------------


def test_relayed_what_comes_late_waits_beside_what_replaces_it_until_another_does() -> None:
    """PSRM §3.1: each newcomer purges what it makes obsolete, and nothing else is looked at."""
    here, observer = pool(late=Late.RELAY)
    assert put(here, bid(9, seq=2), 7)
    assert put(here, bid(1, sender=2), 7, 8)
    assert here.held == 3
    assert not observer.told
    assert put(here, bid(5, sender=3), 9)
    assert observer.told == ["purge 2#1 from relay by 3#1"]
    assert put(here, bid(10, sender=4), 9)
    assert sorted(observer.told[1:]) == [
        "purge 1#2 from relay by 4#1",
        "purge 3#1 from relay by 4#1",
    ]
    assert [drained(here, to) for to in (7, 8, 9)] == [[], [], [1]]


def test_relayed_lazy_purges_only_what_the_newcomer_replaces() -> None:
    here, observer = pool(Policy.LAZY, 2, late=Late.RELAY)
    put(here, bid(1, seq=1), 7)
    put(here, bid(2, seq=2), 8)
    assert not observer.told
    put(here, plain(3), 9)
    # Nothing that the newcomer replaces waits, so chance decides although one is obsolete.
    (told,) = observer.told
    assert told.startswith("drop")
    put(here, bid(3, seq=4), 9)
    assert any(one.startswith("purge") and one.endswith("by 1#4") for one in observer.told)


@pytest.mark.parametrize("kind", ["by key", "bitmap"])
def test_relayed_messages_replace_those_of_their_source(kind: str) -> None:
    source = Source(1, 1)
    older = Message(source, 1, b"kx", 1, by_key=True)
    newer = Message(source, 2, b"ky", 1, by_key=True)
    if kind == "bitmap":
        older, newer = Message(source, 1, b"x"), Message(source, 2, b"y", 0, 1)
    here, observer = pool(late=Late.RELAY)
    put(here, older, 7)
    put(here, Message(Source(2, 1), 1, b"kz", 1, by_key=True), 7)
    put(here, newer, 8)
    assert observer.told == ["purge 1#1 from relay by 1#2"]
    assert drained(here, 8) == [2]
    assert here.held == 1


def test_relayed_nothing_that_was_sent_or_dropped_is_purged_afterwards() -> None:
    here, observer = pool(room=1, late=Late.RELAY)
    put(here, bid(1, seq=1), 7)
    assert drained(here, 7) == [1]
    put(here, bid(1, sender=2), 7)
    put(here, plain(1), 7)
    assert observer.told == ["drop 2#1 from relay/random"]
    put(here, bid(2, sender=3), 8)
    assert not [one for one in observer.told if one.startswith("purge")]


def test_with_room_for_each_link_a_busy_one_takes_nothing_from_others() -> None:
    here, observer = pool(Policy.RANDOM, 2, room_each=True)
    put(here, plain(1), 8)
    for seq in (2, 3, 4, 5):
        put(here, plain(seq), 7)
    assert here.held == 3
    assert len(observer.told) == 2
    assert drained(here, 8) == [1]
    assert len(drained(here, 7)) == 2


def test_with_room_for_each_link_what_is_obsolete_goes_on_all_of_them() -> None:
    here, _ = pool(room=2, room_each=True)
    put(here, bid(1, seq=1), 7, 8, 9)
    put(here, bid(2, seq=2), 8)
    assert here.held == 1
    assert [drained(here, to) for to in (7, 8, 9)] == [[], [2], []]


def test_with_room_for_each_link_a_new_link_gets_room_and_one_that_is_gone_gives_it_up() -> None:
    config = GossipConfig(buffer_messages=1, room=Room.EACH)
    here = make_layer(config, Policy.RANDOM, 1, random.Random(1), None)
    here.resize(2)
    for seq in (1, 2):
        here.offer(spread(plain(seq), 0), [7, 8])
    assert here.held() == 2
    here.forget(7)
    assert here.held() == 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.sets(st.integers(7, 9)))),
    st.booleans(),
    st.sampled_from([Policy.EAGER, Policy.LAZY]),
    st.sampled_from([Late.RELAY, Late.LINK]),
)
def test_relayed_every_copy_is_sent_purged_or_dropped(
    steps: list[tuple[int, int, set[int]]], room_each: bool, policy: Policy, late: Late
) -> None:
    here, _ = pool(policy, 3, late=late, room_each=room_each)
    for number, (sender, rank, targets) in enumerate(steps, start=1):
        put(here, bid(rank, sender=sender, seq=number), *targets)
        assert here.held <= (9 if room_each else 3)
    waits = here.held
    assert sum(len(drained(here, to)) for to in (7, 8, 9)) == waits
    assert here.held == 0


def test_by_link_a_late_copy_is_kept_out_only_where_what_replaces_it_waits() -> None:
    here, observer = pool(late=Late.LINK)
    assert put(here, bid(9, seq=2), 7)
    assert put(here, bid(1, sender=2), 7, 8)
    assert observer.told == ["purge 2#1 from link by 1#2"]
    assert [drained(here, to) for to in (7, 8)] == [[2], [1]]


def test_by_link_what_was_sent_keeps_nothing_out() -> None:
    here, observer = pool(late=Late.LINK)
    put(here, bid(9, seq=2), 7)
    assert drained(here, 7) == [2]
    assert put(here, bid(1, sender=2), 7)
    assert drained(here, 7) == [1]
    assert not observer.told


def test_by_link_lazy_keeps_a_late_copy_out_only_if_there_is_no_room() -> None:
    here, observer = pool(Policy.LAZY, 2, late=Late.LINK)
    put(here, bid(9, seq=2), 7)
    put(here, bid(1, sender=2), 7)
    assert not observer.told
    put(here, bid(2, sender=3), 7)
    assert observer.told == ["purge 3#1 from link by 1#2"]
    assert drained(here, 7) == [2, 1]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 20), st.sets(st.integers(7, 9)))))
def test_by_link_eager_nothing_waits_for_a_link_beside_what_replaces_it(
    steps: list[tuple[int, int, set[int]]],
) -> None:
    here, _ = pool(room=5, late=Late.LINK)
    for number, (sender, rank, targets) in enumerate(steps, start=1):
        put(here, bid(rank, sender=sender, seq=number), *targets)
    for to in (7, 8, 9):
        waiting = []
        while (one := here.take(to)) is not None:
            waiting.append(one.message)
        assert not any(obsoletes(a, b) for a in waiting for b in waiting)
