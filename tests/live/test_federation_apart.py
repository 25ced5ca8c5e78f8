"""Federations of one name that were begun apart, and what is left of one that cannot go on."""

import pytest
from tests.live.federations import FakeSite, assert_agree, formed, run_and_take, same_graph

from semcast.testing import FakeNetwork

GROUPS = {"a": ("alpha",), "b": ("alpha", "beta"), "c": ("alpha", "beta"), "d": ("beta",)}


def host(site: FakeSite) -> str:
    return site.session.transport.address[0]


def cut(network: FakeNetwork, some: list[FakeSite], others: list[FakeSite]) -> None:
    for one in some:
        for other in others:
            network.severed.update([(host(one), host(other)), (host(other), host(one))])


def assert_together(network: FakeNetwork, sites: list[FakeSite]) -> None:
    """All are one federation, in which everything that is sent now reaches all members."""
    assert network.run(lambda: same_graph(sites, len(sites)), 60)
    for one in sites:
        one.take()
        one.taken.clear()
    for one in sites:
        for group in ("alpha", "beta"):
            one.send(group, one.name.encode())
    run_and_take(network, sites, 3)
    assert_agree(sites)
    for one in sites:
        assert len(one.taken) == len(sites) * len(one.site.groups())


@pytest.mark.parametrize("recovery", ["non-atomic", "atomic"])
@pytest.mark.parametrize("younger", ["ab", "cd", "bcd"])
def test_of_two_that_were_begun_apart_the_later_one_goes_over(younger: str, recovery: str) -> None:
    network = FakeNetwork(seed=len(younger))
    first = [name for name in GROUPS if name not in younger]
    sites = {
        name: FakeSite(network, name, groups=GROUPS[name], recovery=recovery) for name in first
    }
    network.run(seconds=0.5)
    for name in younger:
        sites[name] = FakeSite(network, name, groups=GROUPS[name], recovery=recovery)
    older, later = [sites[name] for name in first], [sites[name] for name in younger]
    cut(network, older, later)
    network.run(seconds=4)
    assert same_graph(older, len(older)), "they do not hear the others"
    assert same_graph(later, len(later))
    lives = [int(one.session.me.incarnation) for one in older]
    network.severed.clear()
    assert_together(network, [*older, *later])
    if len(older) > 1:
        assert [int(one.session.me.incarnation) for one in older] == lives, "these stay"
        assert all(one.session.rejoined > 0 for one in later)


@pytest.mark.parametrize("victims", ["bc", "ad", "abc"])
def test_who_is_left_and_can_never_go_on_joins_those_who_come_anew(victims: str) -> None:
    """More than half of the sites crash at once, and come back without what they knew: the others
    could wait for their former lives for ever.
    """
    network = FakeNetwork(seed=3)
    sites = {one.name: one for one in formed(network, GROUPS)}
    first = sites["b"].site.seats()[0].name  # type: ignore[attr-defined]
    if first not in victims:
        victims += first
    for name in victims:
        sites[name].member.crash()
    network.run(seconds=3)
    left = [one for name, one in sites.items() if name not in victims]
    assert all(len(one.site.view.present) == 4 for one in left), "a minority puts nobody out"
    assert all("minority" in dict(one.told) for one in left)
    assert all(one.session.rejoined == 0 for one in left), "they may still come back"
    for name in victims:
        sites[name] = FakeSite(network, name, groups=GROUPS[name])
    assert network.run(lambda: all(one.inside for one in sites.values()), 60)
    assert_together(network, list(sites.values()))


def test_a_minority_that_is_only_cut_off_waits_for_its_others() -> None:
    """It meets a newcomer that has begun a federation of its own there, and does not join that: it
    has to hear from its own what it is to undo.
    """
    network = FakeNetwork(seed=4)
    sites = {one.name: one for one in formed(network, GROUPS)}
    last = sites[sites["b"].site.seats()[-1].name]  # type: ignore[attr-defined]
    newcomer = FakeSite(network, "e", groups=("alpha",))
    others = [one for one in sites.values() if one is not last]
    cut(network, others, [last, newcomer])
    network.run(seconds=8)
    assert newcomer.inside
    assert len(newcomer.site.view.present) == 1, "nobody can let it in"
    assert last.session.rejoined == 0
    network.severed.clear()
    assert_together(network, [*sites.values(), newcomer])
