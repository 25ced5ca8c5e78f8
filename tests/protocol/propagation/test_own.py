"""What a site sends: a window for each group, and beginning anew in order (PROP §5.1; R2)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.samples import GROUPS

from semcast.errors import ConfigError, MessageTooLargeError, UnknownGroupError, WindowFullError
from semcast.ids import Source
from semcast.obsolescence.bitmap import K_MAX
from semcast.obsolescence.tagger import Predecessors, Ranked
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.own_group import OwnGroup
from semcast.protocol.propagation.rule_names import make_graph
from semcast.wire.limits import Limits

GRAPH = make_graph("greedy", GROUPS, 1, None, 1)


def own(**settings: object) -> Own:
    config = MemberConfig(**settings)  # type: ignore[arg-type]
    streams = Streams()
    return Own(config, Source(9, 1), streams, Memory(None, streams), None)


def group_of(one: Own, name: str = "alpha") -> OwnGroup:
    return next(group for group in one.groups.values() if group.stream.group == name)


def send(one: Own, count: int = 1, name: str = "alpha", key: str | None = None) -> None:
    for _ in range(count):
        one.multicast(GRAPH, name, b"payload", key, 0)


def submit(one: Own, name: str = "alpha", count: int = 1_000) -> list[tuple[int, int]]:
    """What goes to the primary destination now: numbers, and what replaced them."""
    group = group_of(one, name)
    found: list[tuple[int, int]] = []
    while group.head() and len(found) < count:
        entry = group.next_entry()
        found.append((entry.seq, entry.cover))
    return found


def state(one: Own) -> tuple[object, ...]:
    return one.seq, [
        (group.held, group.held_bytes, group.count, group.last, group.head(), group.attempt)
        for group in one.groups.values()
    ]


def other(number: int, primary: int) -> Graph:
    """Another graph, in which a site is the primary destination of a group of its own."""
    groups: dict[str, tuple[int, ...]] = {"alpha": (primary,)} if primary != NO_SITE else {}
    return make_graph("greedy", groups, number, None, 1)


# The window


def test_a_full_window_refuses_and_leaves_all_as_it_was() -> None:
    one = own(window_messages=3)
    send(one, 3)
    before = state(one)
    with pytest.raises(WindowFullError) as caught:
        send(one)
    assert state(one) == before
    assert (caught.value.held, caught.value.window_max) == (3, 3)
    assert one.blocked
    assert not one.can_multicast("alpha", 1)
    assert one.can_multicast("beta", 1)
    send(one, 1, "beta")


def test_the_window_counts_what_was_sent_until_everybody_has_it() -> None:
    one = own(window_messages=3)
    send(one, 3)
    assert submit(one) == [(1, 0), (2, 0), (3, 0)]
    stream = group_of(one).stream
    one.settled(stream, 1, 3, 0)
    with pytest.raises(WindowFullError):
        send(one)
    one.settled(stream, 1, 3, 2)
    send(one, 2)
    assert one.held == 3
    assert submit(one) == [(4, 0), (5, 0)]


def test_bytes_are_bounded_too() -> None:
    one = own(window_bytes=264, limits=Limits(message_bytes_max=8))
    send(one, 37)
    with pytest.raises(WindowFullError):
        send(one)


def test_a_message_that_replaces_one_fits_a_full_window() -> None:
    one = own(window_messages=2)
    send(one, 1, key="x")
    send(one, 1, key="y")
    send(one, 1, key="x")
    assert one.purged == 1
    assert submit(one) == [(1, 3), (2, 0), (3, 0)]


def test_told_ones_are_bounded() -> None:
    one = own(window_messages=2)
    with pytest.raises(WindowFullError):
        send(one, 100, key="x")
    assert one.seq < 100


@pytest.mark.parametrize(
    ("name", "payload", "replaces", "error"),
    [
        ("delta", b"", None, UnknownGroupError),
        ("alpha", bytes(1 << 21), None, MessageTooLargeError),
        ("alpha", b"", Ranked("x", 1), ConfigError),
    ],
)
def test_what_cannot_be_sent_is_refused_and_changes_nothing(
    name: str, payload: bytes, replaces: Ranked | None, error: type[Exception]
) -> None:
    one = own()
    send(one, 2)
    before = state(one)
    with pytest.raises(error):
        one.multicast(GRAPH, name, payload, replaces, 0)
    assert state(one) == before
    send(one)
    assert submit(one) == [(1, 0), (2, 0), (3, 0)]


def test_limits_of_the_wire_are_those_of_the_configuration() -> None:
    one = own(limits=Limits(message_bytes_max=8))
    one.multicast(GRAPH, "alpha", bytes(8), None, 0)
    with pytest.raises(MessageTooLargeError):
        one.multicast(GRAPH, "alpha", bytes(9), None, 0)


def test_without_a_graph_there_is_no_group() -> None:
    with pytest.raises(UnknownGroupError):
        own().multicast(None, "alpha", b"", None, 0)


# Beginning anew


def test_a_bounce_resends_that_message_and_all_later_ones() -> None:
    """Else the order of this source breaks (readings, R2)."""
    one = own()
    send(one, 5)
    assert len(submit(one, count=4)) == 4
    group = group_of(one)
    one.bounced(group.stream, 3, 1, 2, 4)
    assert (group.target, group.attempt, group.graph) == (4, 2, 2)
    assert submit(one) == [(3, 0), (4, 0), (5, 0)]


def test_answers_to_a_former_attempt_mean_nothing() -> None:
    one = own()
    send(one, 3)
    submit(one)
    group = group_of(one)
    one.bounced(group.stream, 1, 1, 2, 4)
    submit(one)
    one.bounced(group.stream, 2, 1, 2, 5)
    assert (group.target, group.attempt) == (4, 2)
    assert group.head() == 0
    one.bounced(group.stream, 2, 2, 1, 5)
    assert group.target == 4, "an earlier graph than the one that it knows"


def test_what_was_purged_is_told_again_after_a_bounce() -> None:
    one = own()
    send(one, 2, key="x")
    assert submit(one) == [(1, 2), (2, 0)]
    group = group_of(one)
    one.bounced(group.stream, 1, 1, 2, 4)
    send(one, 1, key="x")
    assert submit(one) == [(1, 2), (2, 3), (3, 0)]


def test_what_has_its_place_is_not_sent_again_after_a_failure() -> None:
    """Sources go on from what the survivors have (PROP §5.2.1), without being asked."""
    one = own()
    send(one, 4)
    submit(one)
    group = group_of(one)
    gone = {group.target}
    one.opened(other(2, 4), gone, True, {group.stream: 2})
    assert (group.target, group.attempt) == (4, 2)
    assert submit(one) == [(3, 0), (4, 0)]


def test_a_source_goes_on_with_the_old_primary_until_that_tells_it() -> None:
    """Even if it is already aware of the change (PROP §5.1)."""
    one = own()
    send(one, 2)
    submit(one)
    group = group_of(one)
    before = group.target
    one.opened(other(2, 99), set(), False, {})
    assert group.target == before
    one.settled(group.stream, 1, 2, 0)
    one.opened(other(3, 98), set(), False, {})
    assert group.target == 98, "nothing is under way, so nothing can overtake"


def test_a_source_waits_for_an_answer_to_what_it_had_sent_before_a_failure() -> None:
    """The primary destination is the same after it, and may have given places to what came before;
    then it is another one, before the source has sent anything again.
    """
    one = own()
    send(one, 2)
    submit(one)
    group = group_of(one)
    before = group.target
    one.opened(other(2, before), {77}, True, {})
    assert (group.target, group.attempt) == (before, 2)
    one.opened(other(3, 98), set(), False, {})
    assert group.target == before, "else its messages might get two places"
    assert submit(one) == [(1, 0), (2, 0)]
    one.bounced(group.stream, 2, 2, 3, 98)
    assert group.target == 98
    assert submit(one) == [(2, 0)]


def test_a_place_in_the_graph_that_a_late_site_still_has_to_open_counts() -> None:
    """The others have opened the graph after a failure already, and give places in it."""
    one = own()
    send(one, 2)
    submit(one)
    group = group_of(one)
    one.settled(group.stream, 2, 1, 0)
    one.opened(other(2, group.target), {77}, True, {})
    assert submit(one) == [(2, 0)]


def test_what_has_its_place_after_all_is_not_sent_to_the_next_primary() -> None:
    """The former one has given it a place before the source could send it again."""
    one = own()
    send(one, 3, key="k")
    submit(one)
    group = group_of(one)
    one.opened(other(2, group.target), {77}, True, {})
    send(one, 1, key="k")
    assert group.head() == 1, "purged or not, it waits to be sent again"
    one.settled(group.stream, 2, 3, 0)
    one.opened(other(3, 98), set(), False, {})
    assert (group.target, submit(one)) == (98, [(4, 0)])


def test_a_message_to_a_group_without_members_is_for_nobody() -> None:
    one = own()
    send(one, 3)
    submit(one, count=2)
    group = group_of(one)
    one.bounced(group.stream, 1, 1, 2, NO_SITE)
    assert one.held == 0
    assert group.head() == 0


def test_everything_before_a_graph_that_all_have_opened_is_everywhere() -> None:
    one = own()
    send(one, 3)
    submit(one)
    group = group_of(one)
    one.settled(group.stream, 1, 2, 0)
    assert one.held == 3
    one.all_before(2)
    assert one.held == 1
    one.settled(group.stream, 1, 3, 0)
    assert one.held == 0


def test_numbers_that_were_never_used_settle_nothing() -> None:
    one = own()
    send(one, 2)
    submit(one)
    group = group_of(one)
    one.settled(group.stream, 1, 99, 99)
    one.bounced(group.stream, 99, 1, 2, 4)
    assert (one.held, group.attempt) == (2, 1)


# Bitmaps


def test_a_bitmap_counts_numbers_of_the_site_and_not_of_the_stream() -> None:
    """A site numbers its messages over all groups together."""
    one = own(replacement="bitmap")
    send(one)
    send(one, 3, "beta")
    message = one.multicast(GRAPH, "alpha", b"", Predecessors((1,)), 0)
    assert (message.seq, message.bitmap) == (5, 1 << 3)


def test_predecessors_are_named_by_the_numbers_that_messages_have() -> None:
    one = own(replacement="bitmap")
    send(one, 3, "beta")
    first = one.multicast(GRAPH, "alpha", b"", None, 0)
    second = one.multicast(GRAPH, "alpha", b"", Predecessors((int(first.seq),)), 0)
    assert second.bitmap == 1


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 8))
def test_bitmaps_name_the_numbers_that_were_meant(mine: list[bool], back: int) -> None:
    """The n-th message before this one in the stream, wherever it is among those of the site."""
    one = own(replacement="bitmap", k=8)
    numbers = []
    for is_alpha in mine:
        send(one, 1, "alpha" if is_alpha else "beta")
        if is_alpha:
            numbers.append(one.seq)
    send(one)
    numbers.append(one.seq)
    if back <= len(numbers):
        group = group_of(one)
        expected = one.seq + 1 - numbers[-back]
        assert group.bitmap(1 << (back - 1), one.seq + 1) == 1 << (expected - 1)


def test_what_lies_too_far_back_is_not_named() -> None:
    one = own(replacement="bitmap", window_messages=4 * K_MAX)
    send(one)
    send(one, K_MAX, "beta")
    assert group_of(one).bitmap(1, one.seq + 1) == 0
    assert group_of(one).bitmap(1, one.seq) == 1 << (K_MAX - 1)
