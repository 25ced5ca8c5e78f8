"""Settings of buffers in live groups: when they purge, and how much a member holds in all."""

from typing import Any

import pytest

from semcast.errors import ConfigError
from semcast.live.config import configure
from semcast.testing import FakeNetwork

GROUP: dict[str, Any] = {"group": "quotes", "size": 2, "insecure": True}
JOIN: dict[str, Any] = {"size": 2, "insecure": True, "deliver_own": False}


def pair(**settings: Any) -> tuple[FakeNetwork, Any, Any]:
    network = FakeNetwork(seed=1)
    a, b = (network.join("quotes", name=name, **JOIN, **settings) for name in "ab")
    assert network.run(lambda: a.complete and b.complete)
    return network, a, b


@pytest.mark.parametrize("policy", ["eager", "lazy", "watermark"])
def test_what_is_replaced_waits_as_long_as_the_policy_lets_it(policy: str) -> None:
    network, a, b = pair(purge_policy=policy, delivery_messages=100, window_messages=100)
    for number in range(80):
        a.send(b"%d" % number, "key")
        assert network.run(lambda: a.stable)
    # Eager: one at a time. Above three quarters: down to a half, and then it fills up again.
    expected = {"eager": range(1, 2), "lazy": range(80, 81), "watermark": range(50, 76)}
    taken = [int(message.payload) for message in b.receive_many()]
    assert len(taken) in expected[policy]
    assert taken[-1] == 79
    assert taken == sorted(taken)


def test_all_that_a_member_holds_is_bounded_and_nothing_is_lost() -> None:
    network, a, b = pair(total_messages=64)
    got: list[int] = []
    most = 0
    for number in range(500):
        while not network.run(a.session.member.can_multicast, seconds=1):
            # The sender waits for the reader: what is never replaced has to be taken.
            stats = b.session.member.stats()
            most = max(most, stats["delivery_held"] + stats["retained_held"] + stats["early_held"])
            got += [int(message.payload) for message in b.receive_many(10)]
        a.send(b"%d" % number)
    while len(got) < 500:
        network.run(seconds=1)
        got += [int(message.payload) for message in b.receive_many()]
    assert got == list(range(500))
    assert 32 < most <= 64


def test_a_total_that_is_too_small_is_refused_before_anybody_joins() -> None:
    with pytest.raises(ConfigError, match="total_messages is 15, too few for 2 members; 16 is"):
        configure(GROUP | {"name": "a", "total_messages": 15})
    configure(GROUP | {"name": "a", "total_messages": 16})
