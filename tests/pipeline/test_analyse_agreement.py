"""The journal says what the simulator counted, and what a plain walk through its events says."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.naive_analysis import Answer, Naive

from semcast.journal import write_journal
from semcast.pipeline.analysis.outdated import ROUND_MS
from semcast.pipeline.analysis.questions import QUESTIONS, Analysis, Options
from semcast.pipeline.analysis.runs import Span
from semcast.pipeline.journals import read_journals
from semcast.sim.exploring.cases import case
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.world import Run, run

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"
SINCE_S, UNTIL_S = 0.2, 2.0
MEASURED = [f"warm_up_s={SINCE_S}", f"duration_s={UNTIL_S}"]
# By run: a scenario and what is changed, so that there is something of everything: skips and
# repair where datagrams are lost, blocking where nothing is purged, a member that crashes.
RUNS: dict[str, tuple[str, list[str]]] = {
    "slow": ("slow-reader", []),
    "blocked": ("slow-reader", ["protocol.purging=false"]),
    "lossy": ("slow-reader", ["faults.loss=0.05", "traffic.rate_msg_s=500"]),
    "crash": ("slow-reader", ['processes=[{kind="crash", member=1, at_s=1.25}]']),
    "figure 5": ("fig5-protocol", ["consumers=[{members=[2], delay_ms=40}]"]),
}
SEEDS = (31, 34, 36, 41, 49, 52, 58, 61, 66, 68, 242, 270, 289)
Table = list[dict[str, Any]]


@pytest.fixture(scope="module")
def simulated() -> dict[str, Run]:
    """Scenarios that the simulator counted."""
    found = {}
    for name, (scenario, changes) in RUNS.items():
        loaded = load(SCENARIOS / f"{scenario}.toml", [*MEASURED, *changes])
        assert isinstance(loaded, ProtocolScenario)
        found[name] = run(loaded, 7, True, None, name)
    return found


@pytest.fixture(scope="module")
def explored() -> dict[str, Naive]:
    """Cases of the explorer, in which everything goes wrong, walked through event by event."""
    found = {}
    for seed in SEEDS:
        name = f"case-{seed}"
        journal = run(case(seed), seed, True, None, name).journal
        assert journal is not None
        found[name] = Naive(journal, round(SINCE_S * 1e9), round(UNTIL_S * 1e9))
    return found


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    simulated: dict[str, Run],
    explored: dict[str, Naive],
) -> Iterator[dict[str, Table]]:
    """All runs, one pass."""
    folder = tmp_path_factory.mktemp("journals")
    journals = [one.journal for one in simulated.values()]
    journals += [one.journal for one in explored.values()]
    for journal in journals:
        assert journal is not None
        write_journal(journal, folder)
    options = Options(Span(SINCE_S, UNTIL_S))
    with Analysis(read_journals(spark, folder), list(QUESTIONS), options) as analysis:
        yield {name: [row.asDict() for row in analysis.table(name).collect()] for name in QUESTIONS}


def by_node(table: Table, run: str) -> dict[str, dict[str, Any]]:
    return {row["node"]: row for row in table if row["run"] == run}


# -- the simulator's counters ----------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_rates_purging_latency_blocking_and_repair_are_those_that_the_simulator_counted(
    tables: dict[str, Table], simulated: dict[str, Run], name: str
) -> None:
    rates, latency = by_node(tables["throughput"], name), by_node(tables["latency"], name)
    blocked, repair = by_node(tables["blocked"], name), by_node(tables["repair"], name)
    purged = {(r["node"], r["place"]): 0 for r in tables["purging"] if r["run"] == name}
    for row in tables["purging"]:
        if row["run"] == name:
            purged[row["node"], row["place"]] += row["messages"]
    for node in simulated[name].nodes:
        row = rates[node.node]
        assert (row["multicast"], row["delivered"]) == (node.sent, node.delivered)
        assert row["multicast_msg_s"] == pytest.approx(node.sent_rate_msg_s)
        assert row["delivered_msg_s"] == pytest.approx(node.delivered_rate_msg_s)
        assert purged.get((node.node, "delivery"), 0) == node.purged_delivery
        assert purged.get((node.node, "retransmit"), 0) == node.purged_retransmit
        assert purged.get((node.node, "network"), 0) == node.skipped
        assert blocked[node.node]["blocked_share"] == pytest.approx(node.blocked_share)
        assert repair[node.node]["naks"] == node.naks
        assert repair[node.node]["retransmitted"] == node.retransmissions
        taken = latency.get(node.node, {})
        assert taken.get("latency_p50_ms") == node.latency_p50_ms
        assert taken.get("latency_p99_ms") == node.latency_p99_ms
        assert taken.get("latency_max_ms") == node.latency_max_ms


def test_the_scenarios_have_something_of_everything(simulated: dict[str, Run]) -> None:
    """Else the agreement would say little."""
    nodes = [node for one in simulated.values() for node in one.nodes]
    for name in (
        "purged_delivery", "purged_retransmit", "skipped", "blocked_share", "naks",
        "retransmissions", "latency_p99_ms",
    ):  # fmt: skip
        assert max(getattr(node, name) or 0 for node in nodes) > 0, name


# -- a plain walk through the events ---------------------------------------------------------------


def compare(table: Table, by: tuple[str, ...], wanted: Answer, runs: set[str]) -> None:
    """Every wanted row is there with what is wanted of it, and no other."""
    found = {tuple(row[name] for name in by): row for row in table if row["run"] in runs}
    assert set(found) == set(wanted)
    for name, row in wanted.items():
        for column, value in row.items():
            mine = found[name][column]
            told = (name, column)
            assert mine == (None if value is None else pytest.approx(value, 1e-9, 1e-9)), told


@pytest.mark.parametrize(
    ("question", "by"),
    [
        ("throughput", ("run", "node")),
        ("purging", ("run", "node", "place", "reason")),
        ("repair", ("run", "node")),
        ("latency", ("run", "node")),
        ("semantic", ("run", "node")),
        ("rounds", ("run", "node")),
        ("blocked", ("run", "node")),
        ("stability", ("run", "node", "own")),
    ],
)
def test_every_table_is_what_a_walk_through_the_events_says(
    tables: dict[str, Table], explored: dict[str, Naive], question: str, by: tuple[str, ...]
) -> None:
    wanted: Answer = {}
    for one in explored.values():
        given = (round(ROUND_MS * 1e6),) if question == "rounds" else ()
        wanted |= getattr(one, question)(*given)
    assert wanted
    compare(tables[question], by, wanted, set(explored))


def test_occupancy_is_what_sets_of_messages_say(
    tables: dict[str, Table], explored: dict[str, Naive]
) -> None:
    wanted: Answer = {}
    for one in explored.values():
        # A member that was not there in the span has no rows.
        wanted |= {
            name: row for name, row in one.occupancy().items() if row["messages_mean"] is not None
        }
    table = [row for row in tables["occupancy"] if row["covered_s"] > 0]
    compare(table, ("run", "node", "buffer"), wanted, set(explored))


def test_buffers_never_hold_more_than_they_have_room_for(
    tables: dict[str, Table], explored: dict[str, Naive], simulated: dict[str, Run]
) -> None:
    """What enters in place of what it replaces is not seen beside it."""
    headers = {name: one.header for name, one in explored.items()}
    headers |= {name: one.journal.header for name, one in simulated.items() if one.journal}
    for row in tables["occupancy"]:
        if row["buffer"] == "delivery":
            assert row["messages_max"] <= headers[row["run"]].delivery_messages


def test_receivers_are_those_of_a_walk_through_the_events(
    tables: dict[str, Table], explored: dict[str, Naive]
) -> None:
    """With purging off the walk does not know what would have been replaced."""
    by = ("run", "never_replaced", "recipients", "receivers")
    purging = {name for name, one in explored.items() if one.header.purging}
    wanted: Answer = {}
    for name in purging:
        wanted |= explored[name].receivers()
    assert wanted
    compare(tables["receivers"], by, wanted, purging)


def test_the_cases_have_something_of_everything(explored: dict[str, Naive]) -> None:
    """Skips, crashes, members that come back, ranked messages, keys: else little is compared."""
    events = [event for one in explored.values() for event in one.events]
    assert {"skip", "crash", "join", "block", "nak"} <= {event.event for event in events}
    assert any(event.rank is not None for event in events)
    assert any(event.key is not None and event.rank is None for event in events)
    assert {one.header.reliability for one in explored.values()} == {"group", "sender"}
