"""The explorer: cases follow from seeds, keep their promises, and shrink when they do not."""

import random
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.cli import main
from semcast.settings.table import STABILITY_PROTOCOLS
from semcast.sim.exploring.bursts import with_burst
from semcast.sim.exploring.cases import _Draw, case
from semcast.sim.exploring.comebacks import with_comebacks
from semcast.sim.exploring.explore import EXCEPTION, PACE, explore, judge
from semcast.sim.exploring.rest_bound import REST, calm_s, rest_s
from semcast.sim.exploring.shrink import shrink, to_toml, within_promise
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.surroundings import Crash, Ideal, Lan, Leave, Restart, Restarts
from semcast.sim.traffic import Overwrites

SEEDS = st.integers(0, 1 << 30)
# Cases, not seconds: the same on every machine. `make explore` goes on for as long as one wants.
CASES = 300
CASES_EACH = 15
ROUNDS = [name for name in STABILITY_PROTOCOLS if name != "gossip"]


def test_random_groups_under_random_faults_keep_their_promises() -> None:
    found = explore(CASES, seed=1, clock=count().__next__)
    assert found.failure is None, f"semcast sim replay {found.failure.seed}: {found.failure.broken}"
    assert found.cases == CASES
    print(
        f"\nexplored {found.cases} cases, {found.events:,} events, {found.virtual_s:.0f} virtual s"
    )


@pytest.mark.parametrize("stability", ROUNDS)
def test_each_protocol_keeps_its_promises_under_random_faults(stability: str) -> None:
    """Never is a message called stable that some member lacks. STAB §2 leaves faults out."""
    for seed in range(1000, 1000 + CASES_EACH):
        verdict = judge(case(seed, stability))
        assert verdict.broken == {}, f"semcast sim replay {seed} --stability {stability}"


ONCE_FAILED = sorted((Path(__file__).parent / "once_failed").glob("*.toml"))


@pytest.mark.parametrize("path", ONCE_FAILED, ids=lambda path: path.stem)
def test_what_once_failed_does_so_no_more(path: Path) -> None:
    """Shrunk cases that the explorer found; each says what was wrong."""
    scenario = load(path)
    assert isinstance(scenario, ProtocolScenario)
    assert judge(scenario).broken == {}


# -- cases -----------------------------------------------------------------------------------------


@given(SEEDS, st.sampled_from(STABILITY_PROTOCOLS))
def test_a_protocol_that_is_asked_for_changes_nothing_else_of_a_case(
    seed: int, stability: str
) -> None:
    asked, drawn = case(seed, stability), case(seed)
    assert asked.protocol.stability == stability
    assert replace(asked, protocol=drawn.protocol) == drawn
    assert case(seed, drawn.protocol.stability) == drawn


@given(SEEDS)
def test_a_case_follows_from_its_seed(seed: int) -> None:
    assert case(seed) == case(seed)


@given(SEEDS)
def test_no_case_crashes_more_members_than_are_promised_to_be_survived(seed: int) -> None:
    scenario = case(seed)
    assert within_promise(scenario)
    crashed = {one.member for one in scenario.process_faults() if isinstance(one, Crash)}
    assert len(crashed) < scenario.members


def test_cases_differ_in_everything_that_may_matter() -> None:
    """Over a few hundred seeds every kind of traffic, network, fault and process fault turns up."""
    scenarios = [case(seed) for seed in range(300)]
    assert {type(one.traffic).__name__ for one in scenarios} == {
        "Chains",
        "Game",
        "Overwrites",
        "Trading",
    }
    assert {type(one.network).__name__ for one in scenarios} == {"Ideal", "Lan", "Shared"}
    kinds = {type(fault).__name__ for one in scenarios for fault in one.processes}
    assert kinds == {"Crash", "Leave", "Pause", "Restart", "Restarts", "Slow"}
    for fault in ("loss", "burst_begin", "jitter_ms", "reorder", "duplicate", "corrupt"):
        assert any(getattr(one.faults, fault) > 0 for one in scenarios)
    cuts = [cut for one in scenarios for cut in one.faults.partitions]
    assert {cut.one_way for cut in cuts} == {False, True}
    assert {one.protocol.reliability for one in scenarios} == {"group", "sender"}
    by_key = [one for one in scenarios if one.protocol.order == "key"]
    assert 0.15 < len(by_key) / len(scenarios) < 0.35
    assert all(one.protocol.purging for one in by_key)
    several = [one for one in by_key if getattr(one.traffic, "several", 0) > 0]
    assert 0.1 < len(several) / len(by_key) < 0.6
    assert {one.members for one in scenarios} == {2, 3, 4, 5, 6, 8}
    assert any(isinstance(two, Restart) for one in scenarios for two in one.processes)


def bursts(seeds: int) -> list[ProtocolScenario]:
    """Those cases in which a sender fills its window and crashes."""
    drawn = [
        (seed, _Draw(random.Random(f"explore/{seed}")).scenario(seed)) for seed in range(seeds)
    ]
    cases = [with_burst(one, random.Random(f"explore/{seed}/bursts")) for seed, one in drawn]
    return [one for one, (_, before) in zip(cases, drawn, strict=True) if one != before]


def test_behind_bursts_windows_are_full_and_members_leave() -> None:
    """A quarter of all cases; the others are what they always were."""
    found = bursts(400)
    assert 70 < len(found) < 130
    assert {one.protocol.window_messages for one in found} >= {16, 64, 256, 512, 1024}
    assert {one.faults.loss for one in found} == {0.05, 0.08, 0.15, 0.3}
    for one in found:
        (crash, *_) = (fault for fault in one.processes if isinstance(fault, Crash))
        assert crash.member in one.senders
        assert isinstance(one.traffic, Overwrites)
        # What is sent by the time the loss ends fills the window, but for digits that are cut off.
        assert one.traffic.rate_msg_s * one.duration_s > 0.99 * one.protocol.window_messages
    leaving = [one for one in found if any(isinstance(two, Leave) for two in one.processes)]
    assert len(leaving) > len(found) / 2
    assert any(isinstance(two, Restart) for one in leaving for two in one.processes)
    assert {
        fault.within_s for one in leaving for fault in one.processes if fault.kind == "leave"
    } == {60.0}


def comes_back_often(scenario: ProtocolScenario) -> bool:
    return any(isinstance(one, Restarts) for one in scenario.processes)


def test_comebacks_are_quick_and_slow_and_of_all_protocols() -> None:
    """About 15% of all cases; the others are what they always were."""
    found = [one for one in map(case, range(1000)) if comes_back_often(one)]
    assert 110 < len(found) < 190
    often = [fault for one in found for fault in one.processes if isinstance(fault, Restarts)]
    assert (min(one.times for one in often), max(one.times for one in often)) == (2, 25)
    periods_s = [one.protocol.gossip_period_ms / 1000 for one in found]
    quick = [one.down_s < period for one, period in zip(often, periods_s, strict=True)]
    assert 0.2 < sum(quick) / len(quick) < 0.9
    assert {one.protocol.reliability for one in found} == {"group", "sender"}
    assert {one.protocol.stability for one in found} == set(STABILITY_PROTOCOLS)
    for one, fault in zip(found, often, strict=True):
        # All are back while there is traffic, and nobody is slow afterwards.
        assert fault.at_s + fault.times * fault.every_s <= one.duration_s
        drained = {slow.member for slow in one.processes if slow.kind == "slow"}
        assert fault.member in drained
    held_s = [max(one.faults.reorder_ms, one.faults.duplicate_ms) / 1000 for one in found]
    late = [held > fault.every_s for held, fault in zip(held_s, often, strict=True)]
    assert sum(late) > len(found) / 5, "datagrams of former lives arrive in later ones"


def test_a_case_without_comebacks_is_what_it_was() -> None:
    for seed in range(300):
        drawn = _Draw(random.Random(f"explore/{seed}")).scenario(seed)
        again = with_comebacks(drawn, random.Random(f"explore/{seed}/restarts"))
        assert comes_back_often(again) or again == drawn


def test_a_group_that_is_at_rest_too_late_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semcast.sim.exploring.explore.rest_s", lambda _: -60.0)
    verdict = judge(bursts(20)[0])
    assert verdict.broken[PACE].startswith("Pace: the group was at rest ")


def test_a_group_has_longer_to_come_to_rest_where_more_is_in_its_way() -> None:
    """The bound grows with the window, the round trip, the period, and falls with bandwidth."""
    plain = ProtocolScenario(members=3, network=Ideal())
    slower = [
        replace(plain, network=Ideal(latency_us=5000.0)),
        replace(plain, protocol=replace(plain.protocol, window_messages=4096)),
        replace(plain, protocol=replace(plain.protocol, gossip_period_ms=500.0)),
        replace(plain, protocol=replace(plain.protocol, bandwidth_bytes_s=100_000)),
        replace(plain, network=Lan(bandwidth_mbit_s=1.0)),
        replace(plain, senders=(0, 1)),
    ]
    assert all(rest_s(one) > rest_s(plain) for one in slower)
    gone = replace(plain, processes=(Crash(1, 70.0), Leave(2, 90.0)))
    assert (calm_s(plain), calm_s(gone)) == (60.0, 70.5)


def test_the_same_case_gives_the_same_verdict() -> None:
    assert judge(case(3)) == judge(case(3))


# -- failures --------------------------------------------------------------------------------------


def broken(scenario: ProtocolScenario) -> ProtocolScenario:
    """A case that fails for sure: no time to come to rest."""
    return replace(scenario, drain_s=0.0)


def test_a_group_that_does_not_come_to_rest_breaks_a_promise() -> None:
    assert REST in judge(broken(case(1))).broken


def test_an_exception_is_a_broken_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(scenario: ProtocolScenario, seed: int) -> None:
        raise AssertionError(f"of {scenario.title}, {seed}")

    monkeypatch.setattr("semcast.sim.exploring.explore.run", fail)
    assert judge(case(1)).broken[EXCEPTION].startswith("Exception: AssertionError: of case 1, 1")


def test_shrinking_ends_at_the_smallest_scenario_that_still_fails() -> None:
    """Whatever does not matter goes; what matters stays."""
    seed = next(seed for seed in range(100) if len(case(seed).senders) > 2)
    found = shrink(
        case(seed), lambda one: len(one.senders) > 1 and one.duration_s > 0.01, lambda: True
    )
    assert (found.members, len(found.senders)) == (max(found.senders) + 1, 2)
    assert [*found.processes, *found.consumers, *found.links, *found.faults.partitions] == []
    assert 0.01 < found.duration_s < 0.03


def test_shrinking_keeps_to_what_is_promised() -> None:
    seed = next(seed for seed in range(100) if case(seed).processes)
    tried: list[ProtocolScenario] = []

    def fails(scenario: ProtocolScenario) -> bool:
        tried.append(scenario)
        return True

    shrink(case(seed), fails, lambda: len(tried) < 50)
    assert tried
    assert all(within_promise(one) for one in tried)


def test_shrinking_restarts_a_process_no_more_often_than_matters() -> None:
    often = Restarts(0, at_s=0.1, every_s=0.02, down_s=0.01, times=25)
    scenario = ProtocolScenario(members=2, duration_s=1.0, warm_up_s=0.0, processes=(often,))
    found = shrink(scenario, lambda one: len(one.process_faults()) >= 2 * 9, lambda: True)
    assert found.processes == (replace(often, times=9),)


def test_who_restarts_again_and_again_is_one_of_those_that_may_crash() -> None:
    often = Restarts(0, at_s=0.1, every_s=0.02, down_s=0.01, times=25)
    assert within_promise(ProtocolScenario(members=3, processes=(often,)))
    assert not within_promise(ProtocolScenario(members=3, processes=(often, Crash(1, 0.2))))


def test_shrinking_stops_when_the_time_is_up() -> None:
    assert shrink(case(1), lambda _: True, lambda: False) == case(1)


@given(SEEDS)
def test_a_case_written_as_a_file_is_read_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    path = tmp_path_factory.mktemp("case") / "case.toml"
    path.write_text(to_toml(case(seed)))
    assert load(path) == case(seed)


# -- the command line ------------------------------------------------------------------------------


def test_a_failure_is_written_with_the_command_that_replays_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "semcast.sim.exploring.explore.case", lambda seed, stability: broken(case(seed, stability))
    )
    monkeypatch.setattr("semcast.sim.exploring.explore.SHRINK_S", 1.0)
    code = main(["sim", "explore", "--seconds", "30", "--seed", "5", "--out", str(tmp_path)])
    said = " ".join(capsys.readouterr().out.split())
    assert code == 1
    assert "VIOLATED in case 5: Rest:" in said
    path = tmp_path / "failure-5.toml"
    assert path.exists()
    assert main(["sim", "replay", str(path)]) == 1
    assert "Rest:" in capsys.readouterr().out
    monkeypatch.undo()
    assert main(["sim", "replay", "5"]) == 0


def test_the_command_that_replays_a_case_keeps_the_protocol_that_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        "semcast.sim.exploring.explore.case", lambda seed, stability: broken(case(seed, stability))
    )
    monkeypatch.setattr("semcast.sim.exploring.explore.SHRINK_S", 0.1)
    asked = ["--stability", "train"]
    assert main(["sim", "explore", "--seed", "5", "--out", str(tmp_path), *asked]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "semcast sim replay 5 --stability train" in said
    assert 'stability = "train"' in (tmp_path / "failure-5.toml").read_text()
    monkeypatch.undo()
    assert main(["sim", "replay", "5", *asked]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explore", "--stability", "trains"], "choose one of 'gossip', 'coordp'"),
        (["replay", "5", "--stability", "trains"], "choose one of 'gossip', 'coordp'"),
        (["replay", "case.toml", "--stability", "train"], "a file says which protocol"),
    ],
)
def test_a_protocol_that_there_is_not_is_a_user_s_mistake(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", *arguments]) == 2
    assert said in " ".join(capsys.readouterr().err.split())


def test_a_folder_that_is_not_there_is_a_user_s_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "explore", "--seconds", "1", "--out", "no/such/folder"]) == 2
    assert "make it first" in capsys.readouterr().err


def test_two_workers_explore_the_same_cases() -> None:
    found = explore(10, seed=1, workers=2, clock=count().__next__)
    assert found.failure is None
    assert found.cases == 10


def test_small_groups_are_exhausted_from_the_command_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "exhaust", "--messages", "2", "--ticks", "0"]) == 0
    assert "5 of 5 relations exhausted" in capsys.readouterr().out
