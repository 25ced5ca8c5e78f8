"""Sites that keep a history and are started again, in virtual time."""

from pathlib import Path
from typing import Any

import pytest
from tests.live.federations import (
    FIGURE6,
    FakeSite,
    Place,
    assert_agree,
    run_and_take,
    same_graph,
)

from semcast.testing import FakeNetwork


def formed(network: FakeNetwork, folder: Path, recovery: str, **settings: Any) -> list[FakeSite]:
    """The sites of Figure 6, each with a history."""
    sites = [
        FakeSite(
            network, name, groups=groups, recovery=recovery, history=str(folder / name), **settings
        )
        for name, groups in FIGURE6.items()
    ]
    assert network.run(lambda: all(one.inside for one in sites), 30)
    assert network.run(lambda: same_graph(sites, 5), 30)
    return sites


def flood(network: FakeNetwork, sites: list[FakeSite], rounds: int) -> set[Place]:
    """Every site that is in sends to all groups, as far as there is room; says what was sent."""
    sent: set[Place] = set()
    for _ in range(rounds):
        for one in sites:
            if not one.member.running or not one.inside:
                continue
            for group in one.site.known_groups():
                if one.site.can_multicast_to(group):
                    one.send(group, b"x" * 20)
                    life = int(one.session.me.incarnation)
                    sent.add((group, one.name, life, one.site.sent))
        run_and_take(network, sites, 0.02)
    return sent


def assert_all_have(sites: list[FakeSite], sent: set[Place]) -> None:
    """Every member has all that was sent to its groups, once."""
    for one in sites:
        assert len(set(one.taken)) == len(one.taken)
        meant = {at for at in sent if at[0] in one.site.groups()}
        assert set(one.taken) == meant, f"{one.name}: {meant ^ set(one.taken)}"


@pytest.mark.parametrize("multicast", [True, False])
@pytest.mark.parametrize("victim", range(5))
def test_after_an_atomic_recovery_nothing_is_lost_and_nothing_comes_twice(
    victim: int, multicast: bool, tmp_path: Path
) -> None:
    network = FakeNetwork(seed=victim, loss=0.02, multicast=multicast)
    sites = formed(network, tmp_path, "atomic")
    sent = flood(network, sites, 5)
    for away_s in (3.0, 0.0, 0.5):
        sites[victim].member.crash()
        sent |= flood(network, sites, 5)
        network.run(seconds=away_s)
        assert all(len(one.site.view.present) == 5 for one in sites)
        sites[victim].restart()
        assert network.run(lambda: sites[victim].inside, 20)
        assert sites[victim].session.rejoined == 0
        sent |= flood(network, sites, 5)
    run_and_take(network, sites, 10)
    assert_agree(sites)
    assert_all_have(sites, sent)
    assert same_graph(sites, 5)


def test_all_sites_may_be_started_again(tmp_path: Path) -> None:
    network = FakeNetwork(seed=20)
    sites = formed(network, tmp_path, "atomic")
    sent = flood(network, sites, 5)
    for one in sites:
        one.member.crash()
    for one in sites:
        one.restart()
        network.run(seconds=2)
    assert network.run(lambda: all(one.inside for one in sites), 20)
    sent |= flood(network, sites, 5)
    run_and_take(network, sites, 10)
    assert_agree(sites)
    assert_all_have(sites, sent)


def test_a_site_that_left_begins_anew(tmp_path: Path) -> None:
    network = FakeNetwork(seed=21)
    sites = formed(network, tmp_path, "atomic")
    flood(network, sites, 3)
    leaver = sites[1]
    left = [one for one in sites if one is not leaver]
    assert network.run(lambda: leaver.session.may_leave(leaver.member.now_ns), 20)
    leaver.member.leave()
    assert network.run(lambda: same_graph(left, 4), 20)
    leaver.restart()
    assert network.run(lambda: leaver.inside and same_graph(sites, 5), 20)
    for one in sites:
        one.taken.clear()
    sent = flood(network, sites, 3)
    run_and_take(network, sites, 5)
    assert_agree(sites)
    assert_all_have(sites, sent)


def test_who_leaves_while_others_count_on_it_goes_on_where_it_was(tmp_path: Path) -> None:
    """Nobody goes on without it (PROP §5.2.2): if it forgot all, they would wait for ever."""
    network = FakeNetwork(seed=22)
    sites = formed(network, tmp_path, "atomic")
    sent = flood(network, sites, 3)
    run_and_take(network, sites, 3)
    away, leaver = sites[4], sites[2]
    away.member.crash()
    assert not network.run(lambda: leaver.session.may_leave(leaver.member.now_ns), 3)
    leaver.member.leave()
    assert leaver.session.settled, "it owes nobody a message"
    network.run(seconds=1)
    for one in (away, leaver):
        one.restart()
    # The leave may be granted only now; then it comes in again, since it was started again.
    run_and_take(network, sites, 5)
    assert same_graph(sites, 5)
    assert all(one.inside for one in sites)
    sent |= flood(network, sites, 3)
    run_and_take(network, sites, 5)
    assert_agree(sites)
    assert_all_have(sites, sent)


@pytest.mark.parametrize("away_s", [0.0, 3.0])
@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("victim", range(5))
def test_after_a_non_atomic_recovery_a_site_undoes_what_the_others_do_not_have(
    victim: int, restarts: int, away_s: float, tmp_path: Path
) -> None:
    network = FakeNetwork(seed=30 + victim)
    sites = formed(network, tmp_path, "non-atomic")
    back = sites[victim]
    others = [one for one in sites if one is not back]
    flood(network, sites, 3)
    network.unplugged.add(back.session.transport.address[0])
    flood(network, sites, 3)  # what it places now nobody else gets
    back.member.crash()
    network.run(seconds=away_s)
    for _ in range(restarts):
        if back.member.running:
            network.run(seconds=0.05)
            back.member.crash()
        back.restart()
    assert network.run(lambda: back.inside and same_graph(sites, 5), 30)
    run_and_take(network, sites, 5)
    flood(network, sites, 5)
    run_and_take(network, sites, 5)
    assert_agree(others)
    for one in sites:
        assert len(set(one.taken)) == len(one.taken), one.name
    kinds = [kind for kind, _ in back.told]
    assert bool(back.undone) == ("rolled-back" in kinds)
    for one in others:
        both = set(one.taken) & set(back.taken)
        assert [at for at in one.taken if at in both] == [at for at in back.taken if at in both]
        for group in set(one.site.groups()) & set(back.site.groups()):
            assert {at for at in back.taken if at[0] == group} <= set(one.taken), group
    if victim == 0:
        assert back.undone, "it was the primary destination of groups"
