"""One cell in, one row of results out, in this process. Knows nothing of Spark.

The same cell gives the same row wherever it is run, but for `took_s`. Whatever goes wrong in a cell
becomes part of its row, so that no cell takes others with it.
"""

import json
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Final

from semcast.check import Report, check_all, check_safety
from semcast.errors import InputError
from semcast.journal import Journal, write_journal
from semcast.pipeline.sweeping.cells import Cell
from semcast.sim import two_buffers, world
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.epidemic.search import largest_rate
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.propagation.federation_scenario import FederationScenario
from semcast.sim.propagation.graph_scenario import GraphScenario
from semcast.sim.propagation.grids import GRAPH_MEASURES, GraphOutcome
from semcast.sim.propagation.grids import measure as measure_graphs
from semcast.sim.propagation.world import run_federation
from semcast.sim.scenario import (
    ProtocolScenario,
    Scenario,
    TwoBufferScenario,
    parse,
    trace_of,
)
from semcast.sim.tally import NodeOutcome

OK: Final = "ok"
VIOLATION: Final = "violation"  # a checker found a broken promise
ERROR: Final = "error"  # the simulation raised
DETAIL_CHARACTERS_MAX: Final = 500

TWO_BUFFER_MEASURES: Final = (
    "sender_rate_msg_s",
    "fast_receiver_rate_msg_s",
    "slow_receiver_rate_msg_s",
    "purged_share",
    "purged_at_sender_share",
    "purged_fast_share",
    "occupancy_mean_messages",
    "latency_mean_ms",
    "latency_max_ms",
    "semantic_latency_mean_ms",
    "semantic_latency_max_ms",
    "blocked_share",
)
# Of nodes: the sum of counts, and the worst of everything else.
PROTOCOL_MEASURES: Final = (
    "sent_rate_msg_s",
    "delivered_rate_min_msg_s",
    "not_delivered_share_max",
    "latency_p50_worst_ms",
    "latency_p99_worst_ms",
    "latency_max_ms",
    "blocked_share_max",
    "purged_delivery",
    "purged_retransmit",
    "skipped",
    "naks",
    "retransmissions",
    "datagrams_sent",
    "bytes_sent",
    "datagrams_refused",
    "quiescent",
    "ended_s",
    "events",
)
GOSSIP_MEASURES: Final = (
    "atomic_share",
    "atomic_share_all",
    "largest_rate_msg_s",
    "never_obsolete",
    "receivers_mean",
    "receivers_cv",
    "latency_mean_ms",
    "copies_per_delivery",
    "purged_copies",
    "dropped_copies",
    "skipped",
    "missed",
    "events",
)
FEDERATION_MEASURES: Final = (
    "messages_per_multicast",
    "transmissions_per_multicast",
    "datagrams_per_multicast",
    "delay_mean_ms",
    "delay_p99_ms",
    "delay_max_ms",
    "load_mean",
    "load_max",
    "skipped",
    "undone",
    "blocked_share_max",
    "quiescent",
    "ended_s",
    "events",
)
MEASURES: Final = tuple(
    dict.fromkeys(
        (
            *TWO_BUFFER_MEASURES,
            *PROTOCOL_MEASURES,
            *GOSSIP_MEASURES,
            *GRAPH_MEASURES,
            "runs",
            *FEDERATION_MEASURES,
        )
    )
)
_SUMMED: Final = (
    "purged_delivery",
    "purged_retransmit",
    "skipped",
    "naks",
    "retransmissions",
    "datagrams_sent",
    "bytes_sent",
    "datagrams_refused",
)
Measures = dict[str, float | None]


def simulate(cell: Cell, journals: Path | None = None) -> dict[str, object]:
    """Run a cell; with a folder for journals, write its journal there first."""
    started_s = time.perf_counter()
    measures: Measures = {}
    model, status, detail = "", OK, None
    try:
        scenario = parse(json.loads(cell.scenario), "the cell's scenario")
        model = scenario.model
        measures, broken = _run(cell, scenario, journals)
        if broken:
            status, detail = VIOLATION, broken
    except Exception as error:
        status, detail = ERROR, f"{type(error).__name__}: {error}"
    return {
        "cell": cell.cell,
        "point": cell.point,
        "settings": list(cell.settings),
        "seed": cell.seed,
        "model": model,
        "status": status,
        "detail": None if detail is None else " ".join(detail.split())[:DETAIL_CHARACTERS_MAX],
        **{name: measures.get(name) for name in MEASURES},
        "took_s": time.perf_counter() - started_s,
    }


def _run(cell: Cell, scenario: Scenario, journals: Path | None) -> tuple[Measures, str]:
    """What was measured, and what was broken: nothing, if all is well."""
    _require_trace(scenario)
    if isinstance(scenario, TwoBufferScenario):
        found = asdict(two_buffers.run(scenario, cell.seed))
        return {name: float(found[name]) for name in TWO_BUFFER_MEASURES}, ""
    if isinstance(scenario, GossipScenario):
        return _run_gossip(cell, scenario, journals)
    if isinstance(scenario, GraphScenario):
        if scenario.map is not None:
            raise InputError("a map cannot be swept; draw it with semcast sim run, or leave it out")
        return _of_graphs(measure_graphs(scenario, cell.seed)), ""
    if isinstance(scenario, FederationScenario):
        return _run_federation(cell, scenario, journals)
    if not isinstance(scenario, ProtocolScenario):
        raise InputError(
            f"model = {scenario.model!r} cannot be swept; run each setting with semcast sim run"
        )
    return _run_group(cell, scenario, journals)


def _run_group(
    cell: Cell, scenario: ProtocolScenario, journals: Path | None
) -> tuple[Measures, str]:
    keep = cell.check or journals is not None
    outcome = world.run(scenario, cell.seed, keep, name=cell.cell)
    check = check_all if outcome.quiescent else check_safety
    return _measures(outcome), _broken(cell, outcome.journal, journals, check)


def _run_gossip(
    cell: Cell, scenario: GossipScenario, journals: Path | None
) -> tuple[Measures, str]:
    """One run; or, if the scenario asks for it, a search for the largest rate."""
    if scenario.search is not None:
        return {"largest_rate_msg_s": largest_rate(scenario, cell.seed).largest_rate_msg_s}, ""
    group = GossipWorld(scenario, cell.seed, journals is not None, cell.cell)
    outcome = group.run()
    found = asdict(outcome)
    measures: Measures = {name: found[name] for name in GOSSIP_MEASURES if name in found}
    for name, places in (("purged_copies", outcome.purged), ("dropped_copies", outcome.dropped)):
        copies = [sum(places[place].values()) for place in ("relay", "link") if place in places]
        measures[name] = float(sum(copies))
    return measures, _broken(cell, group.journal, journals, check_safety)


def _of_graphs(outcome: GraphOutcome) -> Measures:
    found: Measures = {name: one.mean for name, one in outcome.measures.items()}
    return {**found, "runs": float(outcome.runs)}


def _run_federation(
    cell: Cell, scenario: FederationScenario, journals: Path | None
) -> tuple[Measures, str]:
    keep = cell.check or journals is not None
    found = run_federation(scenario, cell.seed, keep, name=cell.cell)
    values = asdict(found.outcome)
    measures: Measures = {
        name: None if values[name] is None else float(values[name]) for name in FEDERATION_MEASURES
    }
    measures["purged_delivery"] = float(sum(found.outcome.purged.values()))
    check = check_all if found.outcome.quiescent else check_safety
    return measures, _broken(cell, found.journal, journals, check)


def _broken(
    cell: Cell, journal: Journal | None, journals: Path | None, check: Callable[[Journal], Report]
) -> str:
    """Write the journal of a run, if journals are kept; says what is broken, if it is checked."""
    if journal is None:
        return ""
    if journals is not None:
        write_journal(journal, journals)
    return "; ".join(str(one) for one in check(journal).violations) if cell.check else ""


def _measures(outcome: world.Run) -> Measures:
    nodes = outcome.nodes
    sums = {name: float(sum(getattr(node, name) for node in nodes)) for name in _SUMMED}
    return {
        "sent_rate_msg_s": outcome.sent_rate_msg_s,
        "delivered_rate_min_msg_s": outcome.delivered_rate_min_msg_s,
        "not_delivered_share_max": _worst(nodes, "not_delivered_share"),
        "latency_p50_worst_ms": _worst(nodes, "latency_p50_ms"),
        "latency_p99_worst_ms": _worst(nodes, "latency_p99_ms"),
        "latency_max_ms": _worst(nodes, "latency_max_ms"),
        "blocked_share_max": _worst(nodes, "blocked_share"),
        **sums,
        "quiescent": float(outcome.quiescent),
        "ended_s": outcome.ended_s,
        "events": float(outcome.events),
    }


def _worst(nodes: tuple[NodeOutcome, ...], name: str) -> float | None:
    values = [getattr(node, name) for node in nodes]
    return max((value for value in values if value is not None), default=None)


def _require_trace(scenario: Scenario) -> None:
    """Refuse a trace that is not here: on a cluster, another machine may have planned this cell."""
    trace = trace_of(scenario)
    if trace is not None and not Path(trace.file).is_file():
        raise InputError(
            f"no trace {trace.file} on {socket.gethostname()}, which runs this cell; "
            "put it on a path that all machines share"
        )
