"""A group under the real protocol: a scenario in; a table or JSON out, and a journal."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final

from semcast.cli._judged import Asked, Show, judged, not_at_rest, told, verdict
from semcast.cli._output import print_table, print_words

if TYPE_CHECKING:
    from semcast.check import Report
    from semcast.sim.attendance import Times
    from semcast.sim.scenario import ProtocolScenario
    from semcast.sim.tally import NodeOutcome
    from semcast.sim.world import Run

NODES_SHOWN_MAX: Final = 12


def run(scenario: "ProtocolScenario", asked: Asked, show: Show) -> int:
    """Run it. The exit code is 1 if a promise was broken."""
    from semcast.sim.world import run as run_group

    outcome = run_group(scenario, asked.seed, asked.keeps_journal, show, asked.name)
    return told(
        asked,
        outcome.journal,
        partial(judged, quiescent=outcome.quiescent),
        partial(_keys, scenario, asked.seed, outcome),
        partial(_print, scenario, asked.seed, outcome),
    )


def _keys(scenario: "ProtocolScenario", seed: int, outcome: "Run") -> dict[str, object]:
    return {
        "model": scenario.model,
        "seed": seed,
        "members": scenario.members,
        "measured_s": outcome.measured_s,
        "sent_rate_msg_s": outcome.sent_rate_msg_s,
        "delivered_rate_min_msg_s": outcome.delivered_rate_min_msg_s,
        "nodes": [asdict(node) for node in outcome.nodes],
        "quiescent": outcome.quiescent,
        "ended_s": outcome.ended_s,
        "membership": None if outcome.membership is None else asdict(outcome.membership),
        "journal_events": None if outcome.journal is None else len(outcome.journal),
    }


def _print(
    scenario: "ProtocolScenario",
    seed: int,
    outcome: "Run",
    report: "Report | None",
) -> None:
    columns = ["node", "sent/s", "taken/s", "replaced", "p50", "p99", "packets", "kB"]
    shown = _worth_showing(outcome.nodes)
    rows = [
        (
            node.node,
            f"{node.sent_rate_msg_s:.1f}" if node.sent else "",
            f"{node.delivered_rate_msg_s:.1f}",
            f"{node.not_delivered_share:.1%}",
            _ms(node.latency_p50_ms),
            _ms(node.latency_p99_ms),
            f"{node.datagrams_sent}",
            f"{node.bytes_sent / 1000:.0f}",
        )
        for node in shown
    ]
    print_table(scenario.title or "A group", columns, rows)
    if len(shown) < len(outcome.nodes):
        print_words(f"{len(outcome.nodes) - len(shown)} more nodes are in the output of --json.")
    print_words(
        f"{scenario.members} members, {outcome.measured_s:g} virtual seconds after a warm-up of "
        f"{scenario.warm_up_s:g}, seed {seed}. Replaced: not taken, because a later message was. "
        "Latencies are in ms, from multicast until taken.",
        *[
            f"{node.node} was blocked {node.blocked_share:.1%} of the time."
            for node in shown
            if node.blocked_share > 0
        ],
        *_comings(outcome),
        *([] if outcome.quiescent else [not_at_rest("group", outcome.ended_s)]),
        *verdict(report),
    )


def _worth_showing(nodes: "tuple[NodeOutcome, ...]") -> "list[NodeOutcome]":
    """Senders, and those that got the least, in the order of nodes."""
    ranked = sorted(nodes, key=lambda node: (not node.sent, node.delivered_rate_msg_s))
    chosen = {node.node for node in ranked[:NODES_SHOWN_MAX]}
    return [node for node in nodes if node.node in chosen]


def _comings(outcome: "Run") -> list[str]:
    """How processes came and went, in words."""
    found = outcome.membership
    if found is None:
        return []
    sentences = [
        f"{found.joins.count} lives got in{_times(found.joins)}, {found.outside} did not.",
        f"{found.detections.count} that were gone were noticed{_times(found.detections)}.",
        f"Senders were held up by view changes{_times(found.pauses)}.",
    ]
    if found.views is not None:
        sentences.insert(0, f"Members agreed on {found.views} views.")
    if found.rejoins:
        sentences.append(f"{found.rejoins} came back by themselves after they had been put out.")
    return sentences


def _times(times: "Times") -> str:
    if times.count == 0:
        return ""
    return f" (p50 {times.p50_ms:.0f} ms, p99 {times.p99_ms:.0f} ms, at most {times.max_ms:.0f} ms)"


def _ms(value_ms: float | None) -> str:
    return "" if value_ms is None else f"{value_ms:.1f}"
