"""Views that members agree on, on networks that lose, delay, repeat and cut off."""

import random

import pytest
from tests.protocol.membership.agreed_network import MS, Network

from semcast.ids import EVERYBODY
from semcast.protocol.membership.agreed import AgreedViews
from semcast.protocol.membership.agreement import electorate_of

SECOND = 1_000 * MS


def group(members: int, **settings: float | str | bool) -> Network:
    """So many members that came in one after the other, so that 0 is the first."""
    network = Network(**settings)  # type: ignore[arg-type]
    loss, network.loss = network.loss, 0.0
    for sender in range(members):
        network.start(sender)
        assert network.until(network.together, 2 * SECOND)
    network.loss = loss
    return network


def views_of(network: Network, sender: int) -> AgreedViews:
    views = network.processes[sender].views
    assert views is not None
    return views


def watched(network: Network, duration_ns: int) -> None:
    for _ in range(duration_ns // (100 * MS)):
        network.run(100 * MS)
        network.watch()


# -- coming ----------------------------------------------------------------------------------------


def test_whoever_finds_nobody_begins_the_group() -> None:
    network = Network()
    network.start(5)
    assert network.until(network.together, SECOND)
    view = network.processes[5].view
    assert view is not None
    assert (view.number, view.present, view.names) == (1, [5], ("p5",))


@pytest.mark.parametrize("contact", [EVERYBODY, 0, 2])
def test_a_newcomer_is_in_after_a_few_round_trips(contact: int) -> None:
    """Ask; the ballot; the word that it is in; and the wait for others who come too."""
    network = group(4)
    began_ns = network.now_ns
    network.start(4, contact)
    assert network.until(network.together, SECOND)
    assert network.now_ns - began_ns <= 12 * network.delay_ns
    latest = network.latest()
    assert latest is not None
    assert latest.number == 5


def test_those_who_come_together_share_a_view() -> None:
    network = group(3)
    for sender in range(3, 40):
        network.start(sender)
    assert network.until(network.together, SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.number == 4


@pytest.mark.parametrize("seed", range(4))
def test_many_that_come_at_once_are_soon_in_few_views(seed: int) -> None:
    network = Network(seed, loss=0.05)
    for sender in range(64):
        network.start(sender)
    assert network.until(network.together, 2 * SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.number <= 6


def test_two_thousand_join_at_once_in_at_most_three_views() -> None:
    network = Network(3, loss=0.05)
    network.start(0)
    network.run(200 * MS)
    for sender in range(1, 2_000):
        network.start(sender, 0)
    assert network.until(network.together, 10 * SECOND, 50 * MS)
    latest = network.latest()
    assert latest is not None
    assert latest.number <= 3


def test_an_earlier_newcomer_begins_the_group_and_the_other_waits() -> None:
    network = Network()
    network.lives[3] = 5
    network.start(3)
    network.start(7)
    assert network.until(network.together, SECOND)
    assert not network.outs
    view = network.processes[3].view
    assert view is not None
    assert view.since[view.position(7)] == 1


def test_a_newcomer_that_waits_for_a_dead_one_begins_the_group_after_all() -> None:
    network = Network()
    network.lives[7] = 1
    network.start(3)
    network.start(7)
    network.run(100 * MS)
    network.crash(3)
    assert network.until(network.together, 3 * SECOND)


def test_two_groups_that_were_begun_apart_become_one() -> None:
    network = Network()
    network.split({0, 1, 2}, {3, 4})
    for sender in range(5):
        network.start(sender)
    assert network.until(lambda: network.together({0, 1, 2}), SECOND)
    assert network.until(lambda: network.together({3, 4}), SECOND)
    network.heal()
    assert network.until(network.together, 20 * SECOND)
    assert {source.sender for source in network.outs} == {3, 4}
    assert network.until(lambda: network.processes[3].me.incarnation == 2, SECOND)


# -- going -----------------------------------------------------------------------------------------


def test_a_member_that_leaves_is_out_and_the_others_go_on() -> None:
    network = group(4, rejoin=False)
    network.leave(0)
    assert network.until(lambda: 0 not in network.processes, SECOND)
    assert network.until(network.together, SECOND)
    assert network.outs == [network.outs[0]]


@pytest.mark.parametrize("seed", range(20))
def test_when_the_first_of_two_leaves_the_other_is_sure_to_know(seed: int) -> None:
    """Alone it could decide nothing, as long as it took the first for a member."""
    network = group(2, rejoin=False, seed=seed, loss=0.3)
    network.leave(0)
    assert network.until(lambda: 0 not in network.processes, 20 * SECOND)
    assert network.until(network.together, SECOND)


def test_all_leave_at_once() -> None:
    network = group(4, rejoin=False)
    for sender in range(4):
        network.leave(sender)
    assert network.until(lambda: not network.processes, 5 * SECOND)


def test_the_last_member_leaves_too() -> None:
    network = group(1, rejoin=False)
    network.leave(0)
    assert network.until(lambda: not network.processes, SECOND)


def test_leaves_and_joins_that_come_together_share_a_view() -> None:
    network = group(5, rejoin=False)
    network.leave(1)
    network.leave(3)
    network.start(9)
    assert network.until(network.together, SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.number == 6


@pytest.mark.parametrize("dead", range(5))
def test_a_crashed_member_is_removed_whoever_it_is(dead: int) -> None:
    network = group(5, loss=0.05)
    network.crash(dead)
    network.watch()
    began_ns = network.now_ns
    assert network.until(network.together, 2 * SECOND)
    assert network.now_ns - began_ns < SECOND


def test_two_of_five_crash_at_once_and_share_a_view() -> None:
    network = group(5)
    network.crash(0)
    network.crash(3)
    network.watch()
    assert network.until(network.together, SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.number == 6


def test_one_accuser_is_not_enough_while_the_accused_answers() -> None:
    network = group(5)
    network.cut.add((4, 1))
    for _ in range(50):
        network.watch()
        network.run(100 * MS)
    latest = network.latest()
    assert latest is not None
    assert (latest.number, latest.present) == (5, [0, 1, 2, 3, 4])
    assert not network.outs


def test_one_accuser_is_enough_if_nothing_is_said_against_it() -> None:
    network = group(5)
    network.crash(4)
    network.accuse(1, 4)
    assert network.until(network.together, 3 * SECOND)


def test_an_accusation_that_is_withdrawn_removes_nobody() -> None:
    network = group(3)
    for by in (0, 1):
        network.accuse(by, 2)
        views_of(network, by).clear(2)
    network.run(3 * SECOND)
    assert network.together()
    assert not network.outs


def test_what_the_world_vouches_for_needs_no_second_accuser() -> None:
    network = group(5)
    network.crash(2)
    views_of(network, 4).gone(2, network.now_ns)
    network.after(network.processes[4])
    assert network.until(network.together, 300 * MS)


def test_a_member_of_which_nothing_is_kept_is_dropped_in_the_end() -> None:
    network = group(4)
    network.crash(1)
    watched(network, 6 * SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.members == (0, 2, 3)
    assert network.together()


def test_a_member_of_which_somebody_keeps_something_is_not_dropped() -> None:
    network = group(4)
    network.crash(1)
    network.watch()
    assert network.until(network.together, SECOND)
    for by in (0, 3):
        views_of(network, by).ended(1)
        network.after(network.processes[by])
    network.run(10 * SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.members == (0, 1, 2, 3)


# -- coming back -----------------------------------------------------------------------------------


def test_a_later_life_replaces_the_former_one_in_one_view() -> None:
    network = group(4)
    network.crash(2)
    network.start(2)
    assert network.until(network.together, SECOND)
    latest = network.latest()
    assert latest is not None
    assert (latest.number, latest.life(2)) == (5, 2)
    assert network.until(lambda: network.processes[2].view is not None, SECOND)


def test_a_member_that_was_stopped_learns_that_it_is_out_and_comes_back() -> None:
    network = group(5)
    network.stop(0)
    watched(network, 3 * SECOND)
    assert network.together({1, 2, 3, 4})
    network.resume(0)
    network.watch()
    watched(network, 3 * SECOND)
    assert network.together()
    assert [source.sender for source in network.outs] == [0]
    assert network.processes[0].me.incarnation == 2


def test_a_member_that_was_stopped_shortly_is_still_a_member() -> None:
    network = group(5)
    network.stop(0)
    network.run(3 * SECOND)
    network.resume(0)
    watched(network, SECOND)
    assert network.together()
    assert not network.outs


# -- majorities ------------------------------------------------------------------------------------


@pytest.mark.parametrize("alone", [0, 2, 4])
def test_one_that_is_cut_off_removes_nobody_and_learns_that_it_is_out(alone: int) -> None:
    """Five members, one cut off for 8 s: the four go on, and all five are together again."""
    network = group(5)
    others = {0, 1, 2, 3, 4} - {alone}
    network.split({alone}, others)
    watched(network, 8 * SECOND)
    assert network.together(others)
    cut_off = views_of(network, alone)
    assert (cut_off.view.number, cut_off.minority) == (5, True)
    assert cut_off.since_ns <= network.now_ns
    assert not any(views_of(network, sender).minority for sender in others)
    network.heal()
    watched(network, 12 * SECOND)
    assert network.together()
    assert [source.sender for source in network.outs] == [alone]


def test_a_split_without_a_majority_changes_nothing_until_it_heals() -> None:
    network = group(6)
    network.split({0, 1}, {2, 3}, {4, 5})
    watched(network, 5 * SECOND)
    latest = network.latest()
    assert latest is not None
    assert latest.number == 6
    assert all(views_of(network, sender).minority for sender in range(6))
    network.heal()
    watched(network, 5 * SECOND)
    assert network.together()
    assert not any(views_of(network, sender).minority for sender in range(6))
    assert not network.outs


def test_in_an_even_split_the_half_with_the_first_member_goes_on() -> None:
    network = group(4)
    network.split({0, 1}, {2, 3})
    watched(network, 3 * SECOND)
    assert network.together({0, 1})
    assert views_of(network, 2).minority


@pytest.mark.parametrize(("dead", "goes_on"), [(1, True), (0, False)])
def test_of_two_only_the_first_can_go_on_alone(dead: int, goes_on: bool) -> None:
    network = group(2)
    network.crash(dead)
    watched(network, 3 * SECOND)
    assert network.together() == goes_on
    assert views_of(network, 1 - dead).minority == (not goes_on)


def test_a_newcomer_that_dies_at_once_does_not_stop_the_one_who_was_there() -> None:
    """Its id is lower, but who was there before is the first."""
    network = Network()
    network.start(5)
    assert network.until(network.together, SECOND)
    network.start(1)
    assert network.until(network.together, SECOND)
    network.crash(1)
    watched(network, 2 * SECOND)
    assert network.together()


def test_with_quorum_all_everybody_has_to_agree() -> None:
    network = group(3, quorum="all")
    network.crash(2)
    watched(network, 3 * SECOND)
    assert not network.together()
    assert views_of(network, 0).minority


def test_with_quorum_one_anybody_goes_on_and_the_smaller_side_gives_up_later() -> None:
    network = group(5, quorum="one")
    network.split({0, 1}, {2, 3, 4})
    watched(network, 3 * SECOND)
    assert network.together({0, 1})
    assert network.together({2, 3, 4})
    network.heal()
    watched(network, 30 * SECOND)
    assert network.together()


# -- anything --------------------------------------------------------------------------------------


def still_decides(network: Network, without: int) -> bool:
    """Whether the latest view keeps a quorum of living members if one more goes."""
    latest = network.latest()
    if latest is None:
        return False
    bits = 0
    for process in network.members():
        if latest.holds(process.me) and process.sender != without and not process.stopped:
            bits |= 1 << latest.position(process.sender)
    return electorate_of(latest, "majority").is_quorum(bits)


def disturb(network: Network, chance: random.Random) -> None:
    """One thing happens."""
    what = chance.choice(("start", "crash", "restart", "split", "one-way", "heal", "stop", "leave"))
    alive = sorted(network.processes)
    one = chance.choice(alive)
    safe = still_decides(network, one) and not network.cut
    if what == "start" and len(alive) < 9:
        free = [sender for sender in range(12) if sender not in network.processes]
        network.start(chance.choice(free))
    elif what == "crash" and safe and len(alive) > 3:
        network.crash(one)
    elif what == "restart" and safe:
        network.crash(one)
        network.start(one)
    elif what == "split":
        side = set(chance.sample(alive, chance.randrange(1, len(alive))))
        network.split(side, set(alive) - side)
    elif what == "one-way":
        network.cut.update((one, other) for other in chance.sample(alive, len(alive) // 2))
    elif what == "heal":
        network.heal()
    elif what == "stop" and safe:
        network.stop(one)
    elif what == "leave" and safe and network.processes[one].views is not None:
        network.leave(one)
    for process in list(network.processes.values()):
        if process.stopped and chance.random() < 0.3:
            network.resume(process.sender)


@pytest.mark.parametrize("seed", range(25))
def test_whatever_happens_there_is_one_sequence_of_views_and_all_end_in_one(seed: int) -> None:
    """The network checks each view; here it is seen that wishes are fulfilled in the end."""
    chance = random.Random(f"churn/{seed}")
    network = Network(seed, loss=0.1, jitter_ns=5 * MS, repeat=0.1)
    for sender in range(5):
        network.start(sender)
    watched(network, 2 * SECOND)
    for _ in range(20):
        disturb(network, chance)
        watched(network, chance.randrange(1, 8) * 100 * MS)
    network.heal()
    for process in list(network.processes.values()):
        if process.stopped:
            network.resume(process.sender)
    for _ in range(60):
        watched(network, SECOND)
        if network.together():
            break
    found = {sender: one.view for sender, one in network.processes.items()}
    assert network.together(), f"seed {seed}: {found}"
