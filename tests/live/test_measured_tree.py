"""Trees in live groups, on loopback: measured and given."""

from typing import Any

import pytest
from tests.live.company import joined, wait_until

import semcast.blocking
from semcast.errors import ConfigError
from semcast.live.blocking import Group
from semcast.protocol.member import Member
from semcast.protocol.stability.rounds.detection import RoundDetection

NAMES = ["a", "b", "c", "d"]


def one_more_each(group: dict[str, Group]) -> None:
    """Everybody sends a message, and everybody has it."""
    for one in group.values():
        one.send(b"x")
    for one in group.values():
        one.drain(60)


def detection(group: Group) -> RoundDetection:
    member = group._engine.session.member
    assert isinstance(member, Member)
    assert isinstance(member._detection, RoundDetection)
    return member._detection


def times_known(group: Group) -> int:
    """How many others a member has measured."""
    rounds = detection(group)
    assert rounds._measuring is not None
    return sum(time_us > 0 for time_us in rounds._measuring._watch.times_us)


@pytest.mark.parametrize("stability", ["train", "s_coordp", "s_train"])
def test_members_of_a_live_group_measure_each_other(stability: str) -> None:
    settings = {"stability": stability, "stability_tree": "measured", "stability_branching": 1}
    with joined(NAMES, **settings) as group:
        one_more_each(group)
        wait_until(lambda: all(times_known(one) == 3 for one in group.values()))
        one_more_each(group)
        for one in group.values():
            stats = one.stats()
            assert stats["stability_rounds"] > 0
            assert stats["stability_round_us"] > 0
            assert stats["stability_tree_number"] >= 0
        # Somebody leads; for a moment two may think so, after a change.
        wait_until(lambda: sum(one.stats()["stability_pages_led"] > 0 for one in group.values()))


def test_a_live_group_uses_the_tree_that_it_is_given() -> None:
    tree = {"a": "c", "b": "c", "d": "a"}
    with joined(NAMES, stability="s_coordp", stability_tree=tree) as group:
        one_more_each(group)
        for one in group.values():
            session = one._engine.session
            order = [session.roster.name_of(member) for member in session.roster.members]
            shape = detection(one)._roll.shape(order.index("c"))
            found = {name: order[shape.parent(at)] for at, name in enumerate(order) if name != "c"}
            assert found == tree


def test_a_measured_tree_that_fits_no_datagram_is_refused_when_joining() -> None:
    settings: dict[str, Any] = {
        "group": "large", "insecure": True, "size": 250, "name": "a", "path_mtu_bytes": 576,
        "transport": "unicast", "host": "127.0.0.1", "stability": "s_coordp",
        "stability_tree": "measured",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="250 members; the most is 227"):
        semcast.blocking.join(**settings)
