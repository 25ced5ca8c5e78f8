"""Sites of a federation together: one order for all, whatever is lost, changes or fails (PROP)."""

import random
from collections.abc import Iterable
from itertools import pairwise

import pytest
from tests.protocol.propagation.company import MS, Company
from tests.protocol.propagation.drawn_groups import FIGURE_3

from semcast.errors import (
    ConfigError,
    GroupClosedError,
    MessageTooLargeError,
    RemoteProtocolError,
    UnknownGroupError,
    WindowFullError,
)
from semcast.ids import Source
from semcast.obsolescence.tagger import Ranked
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.config import FederationConfig
from semcast.protocol.propagation.federated import stream_of
from semcast.protocol.propagation.lanes import CONTROL
from semcast.protocol.propagation.site import STRANGERS_MAX, Site
from semcast.protocol.propagation.turns import PAST_STREAMS_MAX
from semcast.wire.encode import FrameWriter
from semcast.wire.families.propagation import Piece

# PROP Figure 6.
FIGURE_6 = {"alpha": "abcde", "beta": "cde", "gamma": "ab"}


def in_one_order(histories: Iterable[list[str]]) -> bool:
    """Whether there is an acyclic order of all that every site agrees with (PROP Appendix II)."""
    after: dict[str, set[str]] = {}
    waits: dict[str, int] = {}
    for history in histories:
        assert len(set(history)) == len(history), "something was delivered twice"
        for text in history:
            waits.setdefault(text, 0)
        for before, text in pairwise(history):
            if text not in after.setdefault(before, set()):
                after[before].add(text)
                waits[text] += 1
    ready = [text for text, count in waits.items() if count == 0]
    done = 0
    while ready:
        done += 1
        for text in after.get(ready.pop(), ()):
            waits[text] -= 1
            if waits[text] == 0:
                ready.append(text)
    return done == len(waits)


def of_source(history: list[str], letter: str, group: str) -> list[int]:
    """The numbers of a source's messages to a group, in the order in which they came."""
    parts = [text.split() for text in history]
    return [int(part[2]) for part in parts if part[:2] == [letter, group]]


class Traffic:
    """Messages that are sent at random, as `letter group number`."""

    def __init__(self, company: Company, seed: int) -> None:
        self.company = company
        self.rng = random.Random(f"{seed}/traffic")
        self.sent: list[str] = []

    def send(self, count: int, letters: str, ms: float = 0.5) -> None:
        for _ in range(count):
            letter = self.rng.choice([one for one in letters if one in self.company.sites])
            groups = self.company.sites[letter].known_groups()
            text = f"{letter} {self.rng.choice(groups)} {len(self.sent)}"
            self.company.send(letter, text.split()[1], text)
            self.sent.append(text)
            self.company.run(self.rng.uniform(0, 2 * ms))

    def sent_to(self, groups: str | tuple[str, ...]) -> list[str]:
        return [text for text in self.sent if text.split()[1] in groups]


def assert_ordered(company: Company, letters: str) -> None:
    """One order of all, and of each source its own order (PROP §2: properties a to c)."""
    histories = {letter: company.texts(letter) for letter in letters}
    assert in_one_order(histories.values())
    for history in histories.values():
        for text in history:
            letter, group, _ = text.split()
            numbers = of_source(history, letter, group)
            assert numbers == sorted(numbers)


# Message passing


@pytest.mark.parametrize(("seed", "loss"), [(1, 0.0), (2, 0.1), (3, 0.3)])
def test_the_groups_of_figure_3_have_one_order_under_loss(seed: int, loss: float) -> None:
    """Every member gets every message of its groups (PROP Figure 3, Appendix II)."""
    company = Company(FIGURE_3, seed=seed, loss=loss)
    traffic = Traffic(company, seed)
    traffic.send(120, "abcdefghj")
    company.run(3_000)
    assert_ordered(company, "abcdefghj")
    for letter in "abcdefghj":
        groups = tuple(name for name, members in FIGURE_3.items() if letter in members)
        assert sorted(company.texts(letter)) == sorted(traffic.sent_to(groups))
    assert all(site.all_stable() for site in company.sites.values())


def test_nothing_is_kept_once_everybody_has_it() -> None:
    company = Company(FIGURE_6, loss=0.1)
    Traffic(company, 1).send(60, "abcde")
    company.run(2_000)
    for site in company.sites.values():
        stats = site.stats()
        assert (stats["retained_held"], stats["delivery_held"], stats["history_held"]) == (0, 0, 0)


def test_a_site_sends_to_a_group_that_it_is_not_in() -> None:
    company = Company(FIGURE_6)
    company.send("a", "beta", "hello")
    company.run(100)
    assert [letter for letter in "abcde" if company.texts(letter)] == ["c", "d", "e"]


# Back-pressure and purging


def test_a_slow_application_holds_its_sources_back_and_loses_nothing() -> None:
    config = MemberConfig(window_messages=8, delivery_messages=8)
    federation = FederationConfig(forward_messages=8, wait_messages=8)
    company = Company(FIGURE_6, config=config, federation=federation)
    company.slow["e"] = 1
    sent = 0
    while sent < 1_000 and company.sites["a"].can_multicast_to("alpha", 20):
        company.send("a", "alpha", f"a alpha {sent}")
        sent += 1
        company.run(1)
    assert 8 <= sent < 1_000
    with pytest.raises(WindowFullError):
        company.send("a", "alpha", "too much")
    del company.slow["e"]
    company.run(2_000)
    assert company.texts("e") == company.texts("d") == [f"a alpha {at}" for at in range(sent)]
    company.send("a", "alpha", "again")


def test_purging_relieves_sources_of_a_slow_application() -> None:
    """The same slow application, and messages that replace each other (SRM §4.3)."""
    config = MemberConfig(window_messages=64, delivery_messages=8)
    company = Company(FIGURE_6, config=config)
    company.slow["e"] = 1
    for at in range(300):
        company.send("a", "alpha", f"a alpha {at}", key="price")
        company.run(1)
    company.run(500)
    del company.slow["e"]
    company.run(2_000)
    assert company.texts("e")[-1] == "a alpha 299"
    assert len(company.texts("e")) < 300
    skipped = [number for message in company.taken["e"] for number in message.skipped]
    assert len(skipped) + len(company.taken["e"]) == 300
    for letter in "abcde":
        numbers = of_source(company.texts(letter), "a", "alpha")
        assert numbers == sorted(numbers)


# What is refused


def test_what_cannot_be_sent_is_refused() -> None:
    company = Company(FIGURE_6)
    with pytest.raises(UnknownGroupError):
        company.send("a", "delta", "x")
    with pytest.raises(MessageTooLargeError):
        company.send("a", "alpha", "x" * ((1 << 20) + 1))
    with pytest.raises(ConfigError, match="rank"):
        company.sites["a"].multicast_to("alpha", b"", Ranked("x", 1), 0)
    assert company.sites["a"].sent == 0
    with pytest.raises(ConfigError):
        Site(MemberConfig(), Source(1, 1), "a", ("",), random.Random(1))


# Groups change


@pytest.mark.parametrize("seed", range(4))
def test_groups_change_under_traffic_and_one_order_holds(seed: int) -> None:
    """Close and Open, held messages, bounces and resends (PROP §5.1; R1 to R4)."""
    company = Company(FIGURE_6, seed=seed, loss=0.1)
    traffic = Traffic(company, seed)
    wishes = [("a", ("alpha", "beta")), ("c", ("gamma",)), ("e", ()), ("b", ("beta", "new"))]
    for letter, groups in wishes:
        traffic.send(25, "abcde")
        company.sites[letter].want(groups, company.now_ns)
    traffic.send(40, "abcde")
    company.run(4_000)
    assert_ordered(company, "abcde")
    for letter, groups in wishes:
        assert company.sites[letter].groups() == tuple(sorted(groups))
    # Members from beginning to end get all; all sources know that nothing is missing.
    assert sorted(company.texts("d")) == sorted(traffic.sent_to(("alpha", "beta")))
    assert all(site.all_stable() for site in company.sites.values())
    assert len({site.stats()["graph"] for site in company.sites.values()}) == 1


@pytest.mark.parametrize(
    "leaver",
    [
        "c",
        "a",
    ],
)
def test_sites_join_and_leave_under_traffic(leaver: str) -> None:
    company = Company({"alpha": "abc", "beta": "bc"}, seed=5, loss=0.05)
    traffic = Traffic(company, 5)
    traffic.send(20, "abc")
    company.join("d", ("alpha", "gamma"), "b")
    traffic.send(40, "abc")
    company.run(1_000)
    assert company.sites["d"].inside
    assert company.sites["d"].groups() == ("alpha", "gamma")
    traffic.send(20, "abcd")
    company.sites[leaver].begin_leaving(company.now_ns)
    with pytest.raises(GroupClosedError):
        company.send(leaver, "alpha", "too late")
    left = "abcd".replace(leaver, "")
    traffic.send(20, left)
    waited = 0
    while not company.sites[leaver].may_leave([], company.now_ns):
        company.run(10)
        waited += 1
        assert waited < 300, "it cannot leave"
    company.crash(leaver)
    traffic.send(20, left)
    company.run(3_000)
    assert_ordered(company, "abcd")
    assert sorted(company.texts("b")) == sorted(traffic.sent_to(("alpha", "beta")))
    assert [seat.name for seat in company.sites["b"].seats()] == list(left)


@pytest.mark.parametrize("rule", ["greedy", "central"])
@pytest.mark.parametrize("seed", range(16))
def test_sites_that_leave_together_all_get_out(rule: str, seed: int) -> None:
    """Also the manager, and whoever is left when it has gone. Nobody has failed, so nobody waits
    for the time after which a silent site has.
    """
    small = {"alpha": "abc", "beta": "ab", "gamma": "bc"}
    groups = {"alpha": "abc", "beta": "bde", "gamma": "cfg"} if seed % 2 else small
    federation = FederationConfig(silence_ns=100_000 * MS, rule=rule)
    company = Company(groups, seed=seed, federation=federation)
    company.run(200)
    Traffic(company, seed).send(20, "abc")
    company.run(500)
    rng = random.Random(seed)
    leaves_ns = {letter: company.now_ns + rng.randrange(40) * MS for letter in company.sites}
    for _ in range(1_500):
        for letter, at_ns in leaves_ns.items():
            site = company.sites.get(letter)
            if site is None or company.now_ns < at_ns:
                continue
            site.begin_leaving(company.now_ns)
            if site.may_leave([], company.now_ns):
                company.crash(letter)
        if not company.sites:
            break
        company.run(1)
    assert not company.sites, "these cannot leave"


def test_a_site_passes_on_its_last_also_if_only_one_other_is_left() -> None:
    """A Close comes to the other through it, and would never come if it left before."""
    company = Company({"alpha": "ab"})
    company.run(200)
    leaver = company.sites["b"]
    graph = leaver.graph()
    assert graph is not None
    assert graph.parents == {2: -1, 1: 2}
    leaver.begin_leaving(company.now_ns)
    company.run(5)
    company.cut = lambda one, _other: one == "b"
    company.run(50)
    assert leaver.groups() == ()
    assert not leaver.may_leave([], company.now_ns)
    company.cut = lambda _one, _other: False
    company.run(200)
    assert leaver.may_leave([], company.now_ns)
    company.crash("b")
    company.run(50)
    assert [seat.name for seat in company.sites["a"].seats()] == ["a"]


def test_a_site_does_not_wait_for_one_that_has_gone_before_it() -> None:
    """What that one said last was lost, and it says nothing any more."""
    company = Company({"alpha": "ab", "beta": "bc"})
    company.run(200)
    leaver = company.sites["b"]
    leaver.begin_leaving(company.now_ns)
    while leaver.groups():
        company.run(0.1)
    company.cut = lambda one, _other: one == "c"
    company.run(20)
    company.crash("c")
    assert not leaver.may_leave([], company.now_ns)
    company.run(1_500)
    assert leaver.may_leave([], company.now_ns)


def test_however_many_sites_came_and_left_another_one_may_come() -> None:
    company = Company({"alpha": "ab"})
    for number in range(STRANGERS_MAX + 8):
        letter = chr(ord("c") + number)
        company.join(letter, ("alpha",), "b")
        company.run(100)
        assert company.sites[letter].inside, number
        company.sites[letter].begin_leaving(company.now_ns)
        company.run(200)
        assert company.sites[letter].may_leave([], company.now_ns)
        company.crash(letter)
    company.run(3_000)
    assert [len(site.seats()) for site in company.sites.values()] == [2, 2]
    company.send("a", "alpha", "still here")
    company.run(100)
    assert company.texts("b") == ["still here"]


def test_of_lives_that_are_over_only_the_last_ones_are_remembered() -> None:
    """A site that is started again and again, for years, does not fill the memory of the others."""
    company = Company({"alpha": "ab"})
    company.send("a", "alpha", "before")
    company.run(100)
    last = company.sites["b"]._turns.last
    over = [stream_of(Source(9, life), "alpha") for life in range(1, 2 * PAST_STREAMS_MAX)]
    last.update(dict.fromkeys(over, 1))
    company.run(1_000)
    assert list(last)[1:] == over[-PAST_STREAMS_MAX:]
    assert next(iter(last)).site == 1, "its life is not over"


def test_questions_to_a_manager_that_is_away_do_not_pile_up() -> None:
    """Nobody goes on without it (PROP §5.2.2), and the other one asks again and again."""
    company = Company({"alpha": "ab"}, federation=FederationConfig(recovery="atomic"), keep="ab")
    company.run(100)
    company.crash("a")
    company.run(600_000)
    away = company.sites["b"]._neighbours.find(1)
    assert away is not None
    assert len(away._control.records) < 8


def test_a_site_begins_alone_and_others_come() -> None:
    company = Company({"alpha": "a"}, seed=1)
    company.join("b", ("alpha",), "a")
    company.run(500)
    company.send("b", "alpha", "b alpha 0")
    company.run(200)
    assert company.texts("a") == company.texts("b") == ["b alpha 0"]


# Failures


def crash_and_check(seed: int, victims: str, pause_ms: float) -> Company:
    """Sites crash one after the other while the others go on."""
    company = Company(FIGURE_6, seed=seed, loss=0.05)
    traffic = Traffic(company, seed)
    traffic.send(30, "abcde")
    left = "abcde"
    for victim in victims:
        company.crash(victim)
        left = left.replace(victim, "")
        traffic.send(30, left)
        company.run(pause_ms)
    company.run(6_000)
    traffic.send(20, left)
    company.run(2_000)
    assert_ordered(company, left)
    for letter in left:
        site = company.sites[letter]
        assert sorted(seat.name for seat in site.seats()) == sorted(left)
        assert site.all_stable()
        groups = tuple(name for name, members in FIGURE_6.items() if letter in members)
        expected = [text for text in traffic.sent_to(groups) if text[0] in left]
        assert set(expected) <= set(company.texts(letter))
    for group, members in FIGURE_6.items():
        # Of those who failed: whatever one member has, all have.
        got = [
            {text for text in company.texts(letter) if text.split()[1] == group}
            for letter in left
            if letter in members
        ]
        assert all(one == got[0] for one in got)
    return company


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("victim", "bce")
def test_the_others_go_on_without_a_site_that_crashes(seed: int, victim: str) -> None:
    """Messages of survivors are lost nowhere, and all have the same (PROP §5.2.1)."""
    crash_and_check(seed, victim, 100)


@pytest.mark.parametrize("seed", range(3))
def test_another_site_takes_over_when_the_manager_crashes(seed: int) -> None:
    company = crash_and_check(seed, "a", 100)
    managers = {site.manager() for site in company.sites.values()}
    assert len(managers) == 1
    assert managers < {2, 3, 4, 5}


@pytest.mark.parametrize(("victims", "pause_ms"), [("ca", 50), ("ac", 900), ("cd", 3_000)])
def test_two_sites_crash_one_after_the_other(victims: str, pause_ms: float) -> None:
    """Also while the survivors are being brought together (PROP §5.2.1)."""
    crash_and_check(7, victims, pause_ms)


def test_who_is_heard_again_in_the_midst_of_a_recovery_counts_again() -> None:
    """Without d, which was only cut off for a time, two of five are left when c has failed too."""
    company = Company(FIGURE_6, seed=7)
    company.run(100)
    company.crash("e")
    company.run(200)
    company.cut = lambda start, _end: start == "d"
    company.run(400)
    company.crash("c")
    company.run(800)
    company.cut = lambda _start, _end: False
    company.run(5_000)
    for letter in "abd":
        assert [seat.name for seat in company.sites[letter].seats()] == ["a", "b", "d"]


def test_a_manager_that_crashes_in_the_midst_of_a_change_has_it_finished() -> None:
    """The new manager completes the Opens and Closes (PROP §5.2.1)."""
    for wait_ms in (10.5, 11, 12, 13):
        company = Company(FIGURE_6, seed=3, delay_ms=(0.5, 1.0))
        company.run(50)
        company.sites["e"].want(("gamma",), company.now_ns)
        company.run(wait_ms)
        company.crash("a")
        company.run(6_000)
        graphs = [site.graph() for site in company.sites.values()]
        assert len({graph.number for graph in graphs if graph is not None}) == 1
        assert company.sites["e"].groups() == ("gamma",)
        company.send("b", "gamma", "b gamma 0")
        company.run(500)
        assert company.texts("e") == company.texts("b") == ["b gamma 0"]


def test_a_minority_goes_nowhere_by_itself() -> None:
    company = Company(FIGURE_6, seed=1)
    company.run(100)
    for letter in "abc":
        company.crash(letter)
    company.run(5_000)
    assert {site.stats()["graph"] for site in company.sites.values()} == {1}


def test_a_site_that_was_left_behind_learns_it_and_is_told_what_to_roll_back() -> None:
    """Only the tail end of a failed site's deliveries may be wrong (PROP §5.2.1, Figure 9)."""
    company = Company(FIGURE_6, seed=2)
    company.run(100)
    graph = company.sites["c"].graph()
    assert graph is not None
    primary = "abcde"[graph.primaries["beta"] - 1]
    # Its messages reach nobody any more, and so it alone delivers what it sends to itself.
    company.cut = lambda start, end: primary in (start, end)
    company.send(primary, "beta", "alone")
    company.run(300)
    assert company.texts(primary) == ["alone"]
    left = "abcde".replace(primary, "")
    company.run(3_000)
    company.send(left[0], "beta", "later")
    company.run(300)
    company.cut = lambda _start, _end: False
    company.run(1_000)
    assert company.sites[primary].out
    with pytest.raises(GroupClosedError):
        company.send(primary, "beta", "x")
    company.join(primary, ("alpha", "beta"), left[0])
    company.run(2_000)
    found = company.sites[primary].take_rollback()
    assert found is not None
    undone = [one.message.payload for one in found.undo if one.message is not None]
    assert undone == [b"alone"]
    assert company.sites[primary].take_rollback() is None
    company.send(left[0], "beta", "together")
    company.run(500)
    assert company.texts(primary)[-1] == "together"
    assert "alone" not in company.texts("d" if primary != "d" else "e")


def test_what_is_to_be_undone_outlives_a_crash_and_comes_before_anything_else() -> None:
    """It is in again, and crashes before its application has undone anything (PROP §5.2.1)."""
    company = Company(FIGURE_6, seed=2, keep="abcde")
    company.run(100)
    graph = company.sites["c"].graph()
    assert graph is not None
    primary = "abcde"[graph.primaries["beta"] - 1]
    left = "abcde".replace(primary, "")
    company.cut = lambda start, end: primary in (start, end)
    company.send(primary, "beta", "alone")
    company.send(primary, "beta", "too")
    company.run(3_000)
    assert company.texts(primary) == ["alone", "too"]
    company.cut = lambda _start, _end: False
    company.slow[primary] = 1
    for _ in range(2):
        company.crash(primary)
        company.run(500)
        site = company.again(primary, ("alpha", "beta"), left[0])
        company.run(3_000)
        assert site.inside
        company.send(left[0], "beta", "later")
        company.run(500)
        assert [one.payload for one in site.to_undo()] == [b"too", b"alone"]
        assert site.deliverable() == 0
        assert site.take(1, company.now_ns) == []
    site.undid(site.to_undo()[0])
    company.crash(primary)
    company.run(500)
    site = company.again(primary, ("alpha", "beta"), left[0])
    assert [one.payload for one in site.to_undo()] == [b"alone"], "the rest, in every life"
    del company.slow[primary]
    company.run(3_000)
    company.send(left[0], "beta", "together")
    company.run(500)
    assert [one.payload for one in company.undone[primary]] == [b"alone"]
    assert company.texts(primary)[-1] == "together"


def test_frames_of_or_for_a_former_life_mean_nothing() -> None:
    """A link belongs to one life of each site."""
    company = Company(FIGURE_6, seed=1)
    company.run(50)
    site = company.sites["a"]

    def give(to_life: int, source: Source) -> None:
        writer = FrameWriter(source, 1_000)
        assert writer.add(Piece(to_life, CONTROL, 1, True, True, b"\x63 is no kind of record"))
        site.receive(writer.take(), source, company.now_ns)

    give(0, Source(2, 2))
    give(7, Source(2, 2))
    give(1, Source(2, 0))
    with pytest.raises(RemoteProtocolError, match="which there is not"):
        give(1, Source(2, 2))
    # From now on its life 2 is known, and life 1 is over.
    give(1, Source(2, 1))
