"""The harness of `make bench-peers` in three real processes, with a fake peer and tiny runs."""

import importlib.util
import sys
from dataclasses import replace

import pytest
from bench.peers import case as cases
from bench.peers import payload, trial
from bench.peers.api import UnavailableError
from bench.peers.case import Case
from bench.peers.outcome import Figures, figures
from bench.peers.plan import Entry, entries, perform, steps_of
from bench.peers.trial import Facts, Trial, TrialError
from tests.bench import fake_peer

MODULE = "tests.bench.fake_peer"
TINY_S = 0.2
needs_zmq = pytest.mark.skipif(
    importlib.util.find_spec("zmq") is None, reason="pyzmq is not in this environment"
)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is there answers, however busy this machine is."""
    for name in ("_OPEN_S", "_SEND_GRACE_S", "_REPORT_S"):
        monkeypatch.setattr(trial, name, 90.0)


def run(case: Case, fault: str = "") -> Facts:
    return Trial(sys.executable, MODULE, fake_peer.PEER, fake_peer.variant(fault), case).run()


def found(case: Case, fault: str = "") -> Figures:
    return figures(case, run(case, fault))


def test_throughput_counts_every_message_of_a_lossless_peer() -> None:
    facts = run(cases.throughput(64, TINY_S))
    assert facts.sender["sent"] > 0
    assert [r["count"] for r in facts.receivers] == [facts.sender["sent"]] * 2
    assert [r["gaps"] for r in facts.receivers] == [0, 0]
    row = figures(cases.throughput(64, TINY_S), facts)
    assert row["lost_share"] == 0
    assert row["drained"]
    assert row["delivered_per_s"] > 0
    assert row["cpu_s_per_million"] > 0


def test_throughput_sees_what_a_lossy_peer_drops() -> None:
    row = found(cases.throughput(1_000, TINY_S), "lossy")
    # Warm-up messages shift which tenth is dropped, by one at most.
    assert row["lost_share"] == pytest.approx(0.1, abs=0.01)


def test_latency_is_measured_for_every_message_at_the_rate_asked_for() -> None:
    case = cases.latency(500, TINY_S)
    facts = run(case)
    assert [r["unreplaced"] for r in facts.receivers] == [facts.sender["sent"]] * 2
    row = figures(case, facts)
    assert 0 < row["p50_us"] <= row["p99_us"]
    assert 0 < row["kept_share"] <= 1


def test_a_slow_reader_falls_behind_where_everything_is_queued() -> None:
    # So long that it falls further behind than a busy machine lets the other one.
    row = found(cases.slow_reader(0.1, slow=True, seconds=2 * TINY_S))
    assert row["slow_unreplaced_lost"] == 0
    assert row["slow_stale_keys"] == 0
    assert row["slow_drain_s"] > 0
    assert row["slow_age_p99_ms"] * 1_000 > row["fast_p99_us"]
    assert row["slow_rss_start_mib"] > 0


def test_many_keys_are_sent_and_one_turn_of_them_is_what_the_reader_needs_for_each() -> None:
    case = cases.slow_reader(0.1, slow=True, seconds=TINY_S, keys=300)
    facts = run(case)
    sent = {key for key, _ in facts.sender["last"]}
    assert max(sent) > payload.KEYS
    row = figures(case, facts)
    assert row["slow_stale_keys"] == row["slow_unreplaced_lost"] == 0
    # The reader is busy with each message for so long at least.
    assert row["slow_turn_ms"] >= len(sent) * cases.SLOW_NS / 1e6


def test_a_peer_that_drops_loses_what_must_not_be_lost() -> None:
    row = found(cases.slow_reader(0.5, slow=False, seconds=TINY_S), "lossy")
    assert row["slow_unreplaced_lost"] > 0
    assert row["fast_unreplaced_lost"] == row["slow_unreplaced_lost"]


def test_a_receiver_that_is_cut_off_reports_what_it_had() -> None:
    facts = run(cases.throughput(64, TINY_S), "cut off")
    assert all("the fake cut this receiver off" in r["cut_off"] for r in facts.receivers)
    assert all(0 < r["count"] <= fake_peer.CUT_OFF_AFTER for r in facts.receivers)
    assert not any(r["drained"] for r in facts.receivers)


def test_one_that_is_still_behind_reports_what_it_had_though_others_are_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cases, "_DRAIN_FACTOR", 0.0)
    monkeypatch.setattr(cases, "_DRAIN_S_MIN", TINY_S)
    case = cases.slow_reader(0.1, slow=True, seconds=2 * TINY_S)
    facts = run(case)
    behind = facts.receivers[-1]
    assert not behind["drained"]
    assert 0 < behind["count"] < facts.sender["sent"]


def test_what_a_peer_raises_is_the_reason() -> None:
    with pytest.raises(TrialError, match="sender: RuntimeError: the fake cannot open"):
        run(cases.throughput(64, TINY_S), "raises")


def test_the_last_words_of_a_process_that_dies_are_the_reason() -> None:
    with pytest.raises(TrialError, match="sender ended early: the fake died of this"):
        run(cases.throughput(64, TINY_S), "dies")


def test_a_peer_that_is_not_for_here_says_so() -> None:
    with pytest.raises(UnavailableError, match=r"^the fake is not for here$"):
        run(cases.throughput(64, TINY_S), "unavailable")


def test_a_hung_peer_is_killed_after_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "_OPEN_S", 0.5)
    with pytest.raises(TrialError, match=r"r1 and r2 did not hear the sender for 0\.5 s; killed"):
        run(cases.throughput(64, TINY_S), "mute")


def test_a_server_that_is_not_here_comes_with_the_command_that_brings_it() -> None:
    variant = fake_peer.variant()
    one = Trial(
        sys.executable, MODULE, fake_peer.NEEDS_SERVER, variant, cases.throughput(64, TINY_S)
    )
    with pytest.raises(UnavailableError, match=r"^not here: apt-get install no-such-package$"):
        one.run()


def test_a_failure_is_a_row_and_the_rest_goes_on() -> None:
    who = [
        Entry(MODULE, fake_peer.PEER, fake_peer.variant(fault))
        for fault in ("unavailable", "raises", "")
    ]
    steps = steps_of([cases.throughput(64, TINY_S)], who, rounds=2)
    tried: list[str] = []

    def one(entry: Entry, case: Case) -> Facts:
        tried.append(entry.variant.name)
        return Trial(sys.executable, entry.module, entry.peer, entry.variant, case).run()

    perform(steps, lambda row: one(row.entry, row.case), {}, lambda _step: None)
    rows = {step.row.entry.variant.name: step.row for step in steps}
    assert rows["fake unavailable"].reason == "the fake is not for here"
    assert "the fake cannot open" in rows["fake raises"].reason
    assert rows["fake raises"].figures is None
    assert len(rows["fake"].rounds) == 2
    # What cannot run is not tried again; what failed once may have been unlucky.
    assert tried.count("fake unavailable") == 1
    assert tried.count("fake raises") == 2


@needs_zmq
@pytest.mark.parametrize("variant", ["zmq nodrop", "zmq curve", "zmq spin"])
def test_zmq_delivers_all_without_drops(variant: str) -> None:
    (entry,) = entries(["bench.peers.adapters.zeromq"], [variant])
    case = replace(cases.throughput(64, TINY_S), seconds=TINY_S)
    facts = Trial(sys.executable, entry.module, entry.peer, entry.variant, case).run()
    assert figures(case, facts)["lost_share"] == 0
