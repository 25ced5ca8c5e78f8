"""A sender that dies behind a burst, and what survivors make of what is left; in virtual time."""

import pytest

from semcast.testing.network import FakeMember, FakeNetwork

WINDOW = 4_096
LOSS = 0.08


def joined(network: FakeNetwork, count: int) -> list[FakeMember]:
    members = [
        network.join(
            "burst",
            name=name,
            size=count,
            insecure=True,
            window_messages=WINDOW,
            delivery_messages=2 * WINDOW,
        )
        for name in "abcdefgh"[:count]
    ]
    assert network.run(lambda: all(member.complete for member in members))
    return members


def burst(sender: FakeMember, at_once: int) -> None:
    """A whole window, with so many messages handed over at a time; datagrams hold no more."""
    member = sender.session.member
    assert member is not None
    for number in range(WINDOW):
        member.multicast(b"%d" % number, None, sender.now_ns)
        if number % at_once == 0:
            sender.session.flush(sender.now_ns)
    sender.session.flush(sender.now_ns)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("at_once", [8, WINDOW])
def test_a_full_window_of_a_dead_sender_is_repaired_within_two_seconds(
    at_once: int, seed: int
) -> None:
    """Five members, 8% loss, which goes on; nobody is ever told that the sender is dead.

    Its messages are asked for of those who have them, although it is asked first and never answers.
    """
    network = FakeNetwork(seed)
    sender, *survivors = joined(network, 5)
    network.loss = LOSS
    burst(sender, at_once)
    network.run(seconds=0.002)
    sender.crash()
    network.run(lambda: all(one.waiting == WINDOW for one in survivors), seconds=2.0)
    # With these seeds every message reached at least one of them.
    assert [one.waiting for one in survivors] == [WINDOW] * 4
