"""The audience of a sender by itself: floors, who counts, and who is reminded when."""

from hypothesis import given
from hypothesis import strategies as st

from semcast.ids import NEVER, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.audience import Audience

MS = 1_000_000
A, B = Source(1, 1), Source(2, 1)


def audience(*readers: Source, sent: int = 10) -> Audience:
    """Each of these begins after what was sent."""
    found = Audience(MemberConfig(reliability="sender"))
    found.has_sent(sent, 0)
    for reader in readers:
        assert found.admit(reader, 1, -1, False, 0)
    found.take_untold(0)
    for reader in readers:
        assert found.acknowledge(reader, sent, 0)
    return found


def test_what_all_readers_have_is_stable() -> None:
    two = audience(A, B)
    two.has_sent(20, 0)
    assert two.acknowledge(A, 20, 0)
    assert two.stable == 10
    assert two.acknowledge(B, 15, 0)
    assert two.stable == 15
    two.dismiss(B)
    assert two.stable == 20


def test_what_a_former_or_later_life_acknowledges_does_not_count() -> None:
    one = audience(Source(1, 2))
    one.has_sent(20, 0)
    for life in (1, 3):
        assert not one.acknowledge(Source(1, life), 20, 0)
    assert one.stable == 10


def test_nobody_acknowledges_more_than_was_sent() -> None:
    one = audience(A)
    assert one.acknowledge(A, 1_000, 0)
    one.has_sent(20, 0)
    assert one.stable == 10


def test_an_old_acknowledgement_changes_nothing() -> None:
    one = audience(A)
    one.has_sent(20, 0)
    assert one.acknowledge(A, 18, 0)
    assert one.acknowledge(A, 12, 0)
    assert one.stable == 18


def test_a_reader_that_comes_again_goes_on_only_if_nothing_is_gone() -> None:
    one = audience(A, B)
    one.has_sent(30, 0)
    one.acknowledge(B, 20, 0)
    one.dismiss(A)
    assert one.stable == 20
    assert one.admit(A, 2, 25, True, 0)
    assert one.take_untold(0) == [(A, 2, 25)]
    one.dismiss(A)
    assert one.admit(A, 3, 19, True, 0)
    assert one.take_untold(0) == [(A, 3, 30)]


def test_a_subscription_of_before_brings_nobody_back() -> None:
    one = audience(A)
    one.dismiss(A)
    assert not one.admit(A, 1, -1, False, 0)
    assert one.admit(A, 2, -1, False, 0)


def test_who_owes_nothing_is_not_reminded() -> None:
    two = audience(A, B)
    two.has_sent(20, 0)
    two.acknowledge(A, 20, 0)
    assert two.due_ns() < NEVER
    two.remind(60 * MS)
    assert two.remind(120 * MS) == [B]
    two.acknowledge(B, 20, 130 * MS)
    assert two.remind(200 * MS) == []
    assert two.due_ns() == NEVER


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["admit", "resume", "ack", "dismiss", "sent"]),
            st.integers(0, 4),
            st.integers(0, 40),
        ),
        max_size=60,
    )
)
def test_the_lowest_floor_is_found_whatever_happens(steps: list[tuple[str, int, int]]) -> None:
    """Stability never falls, and never goes beyond what a reader still needs."""
    some = Audience(MemberConfig(reliability="sender"))
    sources = [Source(at, 1) for at in range(5)]
    floors: dict[Source, int] = {}
    for attempt, (what, who, number) in enumerate(steps, 1):
        source, before = sources[who], some.stable
        if what == "sent":
            some.has_sent(some.sent + number, 0)
        elif what == "ack":
            if some.acknowledge(source, number, 0) and source in floors:
                floors[source] = max(floors[source], min(number, some.sent))
        elif what == "dismiss":
            some.dismiss(source)
            floors.pop(source, None)
        else:
            some.admit(source, attempt, number if what == "resume" else -1, True, 0)
            floors |= {told: after for told, _, after in some.take_untold(0)}
        assert some.stable >= before
        assert all(some.stable <= floor for floor in floors.values())
        if not floors:
            assert some.stable == some.sent
