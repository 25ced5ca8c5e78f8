"""Federations for people and programs: a scenario in; a table or JSON out, and a journal."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from semcast.cli._judged import Asked, Show, judged, not_at_rest, told, verdict
from semcast.cli._output import print_table, print_words

if TYPE_CHECKING:
    from semcast.check import Report
    from semcast.sim.propagation.federation_scenario import FederationScenario
    from semcast.sim.propagation.outcome import FederationOutcome


def run(scenario: "FederationScenario", asked: Asked, show: Show) -> int:
    """Run it. The exit code is 1 if a promise was broken."""
    from semcast.sim.propagation.world import run_federation

    found = run_federation(scenario, asked.seed, asked.keeps_journal, show, asked.name)
    return told(
        asked,
        found.journal,
        partial(judged, quiescent=found.outcome.quiescent),
        partial(_keys, scenario, asked.seed, found.outcome),
        partial(_print, scenario, asked.seed, found.outcome),
    )


def _keys(
    scenario: "FederationScenario", seed: int, outcome: "FederationOutcome"
) -> dict[str, Any]:
    return {
        "model": scenario.model,
        "seed": seed,
        "sites_count": scenario.sites,
        "groups": {name: list(sites) for name, sites in scenario.groups_of_run(seed).items()},
        "protocol": scenario.federation.protocol,
        "recovery": scenario.federation.recovery,
        **asdict(outcome),
    }


def _print(
    scenario: "FederationScenario",
    seed: int,
    outcome: "FederationOutcome",
    report: "Report | None",
) -> None:
    rows = [
        ("messages for each multicast (N)", _number(outcome.messages_per_multicast)),
        ("  transmissions, on a medium", _number(outcome.transmissions_per_multicast)),
        ("  datagrams, with acknowledgements", _number(outcome.datagrams_per_multicast)),
        ("delay until all have it, mean (D)", f"{_number(outcome.delay_mean_ms)} ms"),
        ("  p99", f"{_number(outcome.delay_p99_ms)} ms"),
        ("load of a site, mean", _number(outcome.load_mean)),
        ("  of the busiest", _number(outcome.load_max)),
        ("multicast", f"{outcome.sent}"),
        ("delivered", f"{outcome.delivered}"),
        *((f"purged, {where}", f"{count}") for where, count in outcome.purged.items()),
        ("longest blocked", f"{outcome.blocked_share_max:.1%} of the time"),
    ]
    print_table(scenario.title or "A federation", ["", "value"], rows)
    print_words(
        f"{scenario.sites} sites in {len(scenario.groups_of_run(seed))} groups, protocol "
        f"{scenario.federation.protocol}, seed {seed}. The load is what a site sends and receives, "
        "for each multicast of the federation.",
        *([] if outcome.quiescent else [not_at_rest("federation", outcome.ended_s)]),
        *verdict(report),
    )


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.2f}"
