"""Live federations in virtual time: forming, sending, changing, failing, what they refuse."""

from typing import Any

import pytest
from tests.live.federations import (
    FIGURE6,
    SECRET,
    FakeSite,
    assert_agree,
    formed,
    run_and_take,
    same_graph,
)

from semcast.errors import GroupClosedError, OtherKindError, UnknownGroupError
from semcast.testing import FakeNetwork
from semcast.testing.network import FakeMember


def flood(network: FakeNetwork, sites: list[FakeSite], rounds: int) -> int:
    """Every site that is in sends to every group that it knows, again and again."""
    sent = 0
    for _ in range(rounds):
        for one in sites:
            if not one.member.running or not one.inside:
                continue
            for group in one.site.known_groups():
                if one.site.can_multicast_to(group):
                    one.send(group, b"x" * 20)
                    sent += 1
        run_and_take(network, sites, 0.02)
    return sent


def ended(member: FakeMember) -> str:
    assert isinstance(member.session.ended, GroupClosedError)
    return str(member.session.ended)


@pytest.mark.parametrize("multicast", [True, False])
def test_a_crowd_forms_one_federation_with_one_order(multicast: bool) -> None:
    network = FakeNetwork(seed=1, loss=0.05, multicast=multicast)
    sites = formed(network, FIGURE6)
    sent = flood(network, sites, 10)
    run_and_take(network, sites, 3)
    assert sent == 10 * 5 * 3
    assert_agree(sites)
    for one in sites:
        assert len(one.taken) == 50 * len(one.site.groups())


def test_a_site_need_not_be_a_member_to_send() -> None:
    network = FakeNetwork(seed=2)
    sites = formed(network, {"main": ("accounts",), "branch": ()})
    sites[1].send("accounts", b"deposit")
    run_and_take(network, sites, 1)
    assert [(at[:2], at[3]) for at in sites[0].taken] == [(("accounts", "branch"), 1)]
    assert sites[1].taken == []
    with pytest.raises(UnknownGroupError, match="no group 'acounts' in the federation"):
        sites[1].send("acounts", b"deposit")


def test_a_newcomer_needs_one_contact_and_learns_where_all_others_are() -> None:
    network = FakeNetwork(seed=3, multicast=False)
    sites = formed(network, FIGURE6)
    late = FakeSite(
        network, "late", groups=("alpha", "beta"), contacts=[sites[3].session.transport.address]
    )
    assert network.run(lambda: late.inside, 10)
    sites.append(late)
    assert network.run(lambda: same_graph(sites, 6), 10)
    flood(network, sites, 5)
    run_and_take(network, sites, 2)
    begin = [late.taken[0]]
    assert begin[0] in sites[3].taken
    assert network.run(lambda: all(not one.session._open.unknown() for one in sites), 10)


def test_sites_come_and_go_while_traffic_runs() -> None:
    network = FakeNetwork(seed=4, loss=0.02)
    sites = formed(network, FIGURE6)
    flood(network, sites, 3)
    late = FakeSite(network, "f", groups=("beta", "gamma"))
    everybody = [*sites, late]
    flood(network, everybody, 10)
    assert late.inside
    leaver = sites[2]
    network.run(lambda: leaver.session.may_leave(leaver.member.now_ns), 20)
    leaver.member.leave()
    left = [one for one in everybody if one is not leaver]
    flood(network, left, 5)
    assert network.run(lambda: same_graph(left, 5), 20)
    run_and_take(network, left, 3)
    assert_agree([one for one in left if one is not late])
    assert set(late.taken) <= set(sites[0].taken) | set(sites[3].taken)


def test_a_site_changes_its_groups() -> None:
    network = FakeNetwork(seed=5)
    sites = formed(network, FIGURE6)
    sites[0].session.change(("beta",), sites[0].member.now_ns)
    assert network.run(lambda: sites[0].site.groups() == ("beta",), 10)
    network.run(lambda: same_graph(sites, 5), 10)
    sites[3].send("alpha", b"not for a")
    sites[3].send("beta", b"for a")
    run_and_take(network, sites, 1)
    assert [(at[:2], at[3]) for at in sites[0].taken] == [(("beta", "d"), 2)]


def test_a_closed_start_waits_for_all_sites_and_says_who_is_missing() -> None:
    network = FakeNetwork(seed=6)
    first = [FakeSite(network, name, sites=FIGURE6) for name in "bcd"]
    network.run(seconds=3)
    assert not any(one.inside for one in first)
    assert "a, e are not there; start every site that sites names" in first[0].session.why_not_in()
    sites = [FakeSite(network, "a", sites=FIGURE6), *first]
    network.run(seconds=3)
    assert not any(one.inside for one in sites)
    sites.append(FakeSite(network, "e", sites=FIGURE6))
    assert network.run(lambda: all(one.inside for one in sites), 20)
    for one in sites:
        assert set(one.site.groups()) == set(FIGURE6[one.name])


def test_two_phases_order_the_same_groups() -> None:
    network = FakeNetwork(seed=7, loss=0.02)
    sites = [FakeSite(network, name, sites=FIGURE6, protocol="two-phase") for name in FIGURE6]
    assert network.run(lambda: all(one.inside for one in sites), 20)
    flood(network, sites, 5)
    run_and_take(network, sites, 3)
    assert_agree(sites)
    assert sum(len(one.taken) for one in sites) == 25 * (5 + 3 + 2)


@pytest.mark.parametrize("victim", ["manager", "primary", "leaf"])
def test_others_go_on_without_a_site_that_is_killed(victim: str) -> None:
    network = FakeNetwork(seed=8, loss=0.02)
    sites = formed(network, FIGURE6)
    flood(network, sites, 5)
    graph = sites[0].site.graph()
    assert graph is not None
    leaf = next(one for one in graph.parents if not graph.children[one])
    ids = {"manager": sites[0].site.manager(), "primary": graph.primaries["beta"], "leaf": leaf}
    killed = next(one for one in sites if one.session.me.sender == ids[victim])
    killed.member.crash()
    left = [one for one in sites if one is not killed]
    flood(network, left, 5)
    assert network.run(lambda: same_graph(left, 4), 30)
    flood(network, left, 5)
    run_and_take(network, left, 5)
    assert_agree(left)
    for one in left:
        numbers = [at[3] for at in one.taken if at[:2] == ("alpha", left[0].name)]
        assert numbers == sorted(numbers)


def test_a_site_that_was_cut_off_comes_back_and_undoes_what_only_it_had() -> None:
    network = FakeNetwork(seed=9)
    sites = formed(network, FIGURE6)
    flood(network, sites, 3)
    graph = sites[0].site.graph()
    assert graph is not None
    # It goes on placing its own messages, which nobody else ever gets.
    cut = next(one for one in sites if one.session.me.sender == graph.primaries["alpha"])
    others = [one for one in sites if one is not cut]
    network.unplugged.add(cut.session.transport.address[0])
    flood(network, sites, 5)
    assert network.run(lambda: same_graph(others, 4), 30)
    flood(network, others, 5)
    network.unplugged.clear()
    assert network.run(lambda: cut.session.rejoined > 0 and cut.inside, 30)
    assert network.run(lambda: same_graph(sites, 5), 30)
    run_and_take(network, sites, 2)
    flood(network, sites, 5)
    run_and_take(network, sites, 5)
    kinds = [kind for kind, _ in cut.told]
    assert kinds.index("out") < kinds.index("rejoined")
    assert "rolled-back" in kinds
    assert ("alpha", cut.name) in {at[:2] for at in cut.undone}
    assert_agree(others)
    for one in others:
        both = set(cut.taken) & set(one.taken)
        assert [at for at in cut.taken if at in both] == [at for at in one.taken if at in both]


def test_another_kind_of_group_is_said_on_both_sides() -> None:
    network = FakeNetwork(seed=10)
    ordinary = network.join("bank", name="a", secret=SECRET)
    assert network.run(lambda: ordinary.complete, 10)
    wrong = FakeSite(network, "b", groups=("alpha",))
    assert network.run(lambda: wrong.session.ended is not None, 5)
    assert "is of another kind: 'a' has another reliability" in ended(wrong.member)
    assert isinstance(wrong.session.ended, OtherKindError)
    assert wrong.session.ended.reliability == "group"


@pytest.mark.parametrize(
    "settings", [{}, {"reliability": "gossip"}, {"reliability": "sender"}, {"size": 2}]
)
def test_who_takes_a_federation_for_a_group_is_told(settings: dict[str, Any]) -> None:
    network = FakeNetwork(seed=11)
    formed(network, {"a": ("alpha",), "b": ("alpha",)})
    wrong = network.join("bank", name="c", secret=SECRET, **settings)
    if "size" in settings:  # it waits for others until its time is over
        from semcast.live.meeting.joining import incomplete

        network.run(seconds=5)
        found = incomplete(wrong.session)
        assert isinstance(found, OtherKindError)
        assert "'bank' is a federation" in str(found)
        return
    assert network.run(lambda: wrong.session.ended is not None, 10)
    assert "says that it is a federation; use federate" in ended(wrong)
    assert isinstance(wrong.session.ended, OtherKindError)
    assert wrong.session.ended.reliability == "federation"


def test_another_secret_is_said() -> None:
    network = FakeNetwork(seed=12)
    formed(network, {"a": ("alpha",), "b": ("alpha",)})
    other = FakeSite(network, "c", groups=("alpha",), secret="quite another secret than theirs")
    assert network.run(lambda: other.session.ended is not None, 10)
    assert "do not open" in ended(other.member)


def test_a_namesake_ends_the_one_before() -> None:
    network = FakeNetwork(seed=13)
    sites = formed(network, {"a": ("alpha",), "b": ("alpha",), "c": ("alpha",)})
    namesake = FakeSite(network, "b", groups=("alpha",))
    assert network.run(lambda: sites[1].session.ended is not None, 10)
    assert "give each member a name of its own" in ended(sites[1].member)
    assert network.run(lambda: namesake.inside, 20)


@pytest.mark.parametrize("away_s", [0.0, 3.0])
def test_a_site_that_is_restarted_gets_in_whether_it_was_missed_or_not(away_s: float) -> None:
    for victim in range(3):
        network = FakeNetwork(seed=14)
        sites = formed(network, dict.fromkeys("abc", ("alpha",)))
        sites[victim].member.crash()
        network.run(seconds=away_s)
        back = sites[victim]
        back.restart()
        assert network.run(lambda back=back: back.inside, 30)  # type: ignore[misc]
        assert network.run(lambda sites=sites: same_graph(sites, 3), 30)  # type: ignore[misc]
        for one in sites:
            one.taken.clear()
        flood(network, sites, 3)
        run_and_take(network, sites, 2)
        assert_agree(sites)
        assert len(back.taken) == 9


def test_a_site_that_was_woken_late_does_not_begin_a_federation_of_its_own() -> None:
    """It could hear nobody meanwhile: it looks for others first."""
    network = FakeNetwork(seed=13)
    sites = formed(network, {"a": ("alpha",)})
    sites.append(FakeSite(network, "b", groups=("alpha",)))
    network.run(seconds=0.001)  # it has begun to look
    sites[1].member.running = False
    network.run(seconds=3)
    sites[1].member.running = True
    assert network.run(lambda: sites[1].inside, 10)
    assert network.run(lambda: same_graph(sites, 2), 10)
    assert sites[1].session.rejoined == 0


def test_whoever_lacks_much_when_a_site_fails_gets_all_of_it() -> None:
    """More than is fetched at once: nobody below the site that failed has heard of any of it."""
    network = FakeNetwork(seed=15)
    sites = formed(network, FIGURE6)
    graph = sites[0].site.graph()
    assert graph is not None
    passing = next(one for one in graph.parents if graph.children[one] and one not in graph.roots)
    killed = next(one for one in sites if one.session.me.sender == passing)
    left = [one for one in sites if one is not killed]
    killed.member.crash()
    flood(network, left, 30)
    assert network.run(lambda: same_graph(left, 4), 30)
    run_and_take(network, left, 5)
    assert_agree(left)
    assert all(len(one.taken) > 64 for one in left)
