"""A newcomer that nobody counted is told so, with who is there and what to do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.live.fake_world import World
from tests.live.groups import address_of, meeting, wait_until
from tests.live.material import Way

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.config import changed
from semcast.live.meeting import joining


@contextmanager
def newcomer(group: list[semcast.blocking.Group], **given: Any) -> Iterator[semcast.blocking.Group]:
    """One that knows the secret and where the others are."""
    multicast = group[0]._engine.session.transport.multicast
    peers = [] if multicast else [address_of(one) for one in group]
    config = changed(group[0].config, name="d", peers=peers, join_timeout_s=1.0, **given)
    late = semcast.blocking.Group(config)
    try:
        yield late
    finally:
        late.leave(0)


@pytest.mark.parametrize(
    "given",
    [
        {"members": (), "size": 3},
        {"members": (), "size": 4},
        {"members": ("a", "b", "c", "d"), "size": 0},
    ],
    ids=["by the same size", "by a larger size", "by names"],
)
def test_who_was_not_counted_is_told_who_is_there_and_what_to_do(
    way: Way, given: dict[str, Any]
) -> None:
    with meeting(way) as members, newcomer(members, **given) as d:
        session = d._engine.session
        wait_until(lambda: len(session.roster.elsewhere) == 3, "d hears of the three")
        with pytest.raises(GroupClosedError) as caught:
            joining.wait_complete(d._engine)
        told = str(caught.value)
        assert "seems to be complete without 'd'" in told
        assert "its 3 members are a, b, c, say a, b, c;" in told
        assert "raise size to 4, or add 'd' to members" in told
        assert "multicast" not in told
        assert "\n" not in told
        assert not any(one.closed for one in members)


def test_a_group_without_a_secret_answers_nobody_whom_it_does_not_know() -> None:
    """Anybody could forge the question, and name anybody as the one to answer."""
    way = Way("unicast", ipv6=False)
    with (
        meeting(way, secret=None, insecure=True) as members,
        newcomer(members, members=(), size=3) as d,
    ):
        wait_until(lambda: all(one._engine.session.roster.strangers for one in members), "d came")
        told = str(joining.incomplete(d._engine.session))
        assert "do the others count this member" in told
        assert not d._engine.session.roster.elsewhere


@pytest.mark.parametrize("settings", [{}, {"members": (), "size": 3}], ids=["names", "size"])
def test_who_is_counted_is_never_told_that_it_is_not(settings: dict[str, Any]) -> None:
    """However they find each other, and when it comes back."""
    world = World(loss=0.2)
    world.settings |= settings
    members = world.gather()
    assert not any(one.session.roster.elsewhere for one in members)
    world.end(members[2], "crash")
    back = world.join("c")
    assert world.network.run(lambda: back.complete)
    assert not back.session.roster.elsewhere


def test_many_members_are_named_in_part() -> None:
    world = World(names="abcdefghijkl")
    world.gather()
    late = world.join("late", members=(), size=12)
    assert world.network.run(lambda: len(late.session.roster.elsewhere) == 12)
    told = str(joining.incomplete(late.session))
    assert "its 12 members are a, b, c, d, e, f, g, h and 4 more, say" in told


def test_what_most_say_is_told_if_they_do_not_agree() -> None:
    world = World()
    late = world.join("late", members=(), size=3)
    late.session.roster.elsewhere.update(
        {"a": ("a", "b"), "b": ("a", "b", "c"), "c": ("a", "b", "c")}
    )
    assert "its 3 members are a, b, c, say b, c;" in str(joining.incomplete(late.session))
