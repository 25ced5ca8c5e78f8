"""Journals of groups that gossip, on Spark: the simulator's figures, and the checkers' verdicts."""

from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from semcast.check import check_run
from semcast.journal import Journal, write_journal
from semcast.pipeline.analysis.questions import Analysis, Options
from semcast.pipeline.analysis.runs import Span
from semcast.pipeline.journals import read_journals
from semcast.pipeline.sweeping.cells import cells_of
from semcast.pipeline.sweeping.grid import points_of
from semcast.pipeline.sweeping.simulate import OK, simulate
from semcast.pipeline.sweeping.stages import simulated
from semcast.pipeline.verification import judge_journals
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.outcome import GossipOutcome
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.surroundings import Shared
from semcast.sim.traffic import Chains

LARGEST_RATE = Path(__file__).parents[2] / "examples/scenarios/psrm-largest-rate.toml"
# Links carry half of what is sent, and what is too much is dropped at random.
BUSY = GossipScenario(
    members=8,
    duration_s=3.0,
    warm_up_s=0.5,
    cool_down_s=0.5,
    traffic=Chains(rate_msg_s=60.0, length=3),
    network=Shared(bandwidth_mbit_s=0.6),
    gossip=GossipSettings(policy="random", fanout=4, buffer_messages=4, patience_s=0.3),
)


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, GossipOutcome, Journal]:
    world = GossipWorld(BUSY, 1, journal=True, name="busy")
    outcome = world.run()
    assert world.journal is not None
    folder = tmp_path_factory.mktemp("gossip")
    write_journal(world.journal, folder)
    return folder, outcome, world.journal


def test_figures_of_a_journal_are_those_of_the_simulator(
    spark: SparkSession, busy: tuple[Path, GossipOutcome, Journal]
) -> None:
    folder, outcome, _ = busy
    with Analysis(read_journals(spark, folder), ["gossip"], Options(Span(0.5, 2.5))) as analysis:
        (row,) = analysis.table("gossip").collect()
    for name in (
        "sent", "never_obsolete", "atomic_share", "atomic_share_low", "atomic_share_high",
        "atomic_share_all", "receivers_mean", "receivers_cv", "latency_mean_ms", "latency_p50_ms",
        "latency_p99_ms", "copies_per_delivery",
    ):  # fmt: skip
        assert row[name] == pytest.approx(getattr(outcome, name)), name
    assert 0 < row["atomic_share"] < 1


def test_losses_of_a_journal_are_those_of_the_simulator(
    spark: SparkSession, busy: tuple[Path, GossipOutcome, Journal]
) -> None:
    folder, outcome, _ = busy
    with Analysis(read_journals(spark, folder), ["losses"]) as analysis:
        rows = analysis.table("losses").collect()
    times = {
        (row["event"], row["place"], row["reason"], row["cover"]): row["times"] for row in rows
    }
    assert times["drop", "relay", "random", "none"] == outcome.dropped["relay"]["random"] > 0
    assert times.get(("miss", "network", "missed", "none"), 0) == outcome.missed
    assert sum(row["times"] for row in rows if row["event"] == "skip") == outcome.skipped


def test_spark_says_of_gossip_what_the_checkers_say(
    spark: SparkSession, busy: tuple[Path, GossipOutcome, Journal]
) -> None:
    """Judged in parts, by sender: their counts are added up."""
    folder, _, journal = busy
    report = check_run(journal)
    (verdict,) = judge_journals(spark, read_journals(spark, folder), whole_events_max=-1)
    assert list(report.judged) == ["Integrity", "Accounting", "Relaying", "Atomicity"]
    assert verdict.judged == report.judged
    assert verdict.broken == report.counts
    assert verdict.broken["Atomicity"] == 1
    assert verdict.shown == report.violations
    assert verdict.missing == report.missing == []


def test_a_sweep_searches_for_the_largest_rate(spark: SparkSession) -> None:
    grid = (
        "policy=eager,random members=8 duration_s=2 warm_up_s=0.5 cool_down_s=0.5 "
        "bandwidth_mbit_s=0.2 low_msg_s=5 high_msg_s=40 within_msg_s=10 kept_share=0.5"
    )
    points = points_of(LARGEST_RATE, grid)[1]
    cells = [replace(cell, check=False) for cell in cells_of(points, [1])]
    frame = sorted(
        simulated(spark, [[cell] for cell in cells]).collect(), key=lambda row: row["cell"]
    )
    cells.sort(key=lambda cell: cell.cell)
    assert [row["status"] for row in frame] == [OK, OK], frame
    for cell, row in zip(cells, frame, strict=True):
        assert row["largest_rate_msg_s"] == simulate(cell)["largest_rate_msg_s"]
