"""Gossip for people and programs: a scenario in; a table or JSON out, and a journal."""

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Any

from semcast.cli._judged import Asked, Show, told, verdict
from semcast.cli._output import print_json, print_table, print_words
from semcast.errors import InputError

if TYPE_CHECKING:
    from semcast.check import Report
    from semcast.sim.epidemic.gossip_scenario import GossipScenario
    from semcast.sim.epidemic.outcome import GossipOutcome
    from semcast.sim.epidemic.search import Found


def run(scenario: "GossipScenario", asked: Asked, show: Show) -> int:
    """Run it, or search for its largest rate. The exit code is 1 if a promise was broken."""
    if scenario.search is not None:
        if asked.keeps_journal:
            raise InputError("a search keeps no journal; leave out --journal and --check")
        return _search(scenario, asked.seed, asked.as_json, show)
    from semcast.check import check_safety
    from semcast.sim.epidemic.world import GossipWorld

    world = GossipWorld(scenario, asked.seed, asked.keeps_journal, asked.name)
    outcome = world.run(show)
    return told(
        asked,
        world.journal,
        check_safety,
        partial(_keys, scenario, asked.seed, outcome),
        partial(_print, scenario, asked.seed, outcome),
    )


def _settings(scenario: "GossipScenario", seed: int) -> dict[str, Any]:
    return {
        "model": scenario.model,
        "seed": seed,
        "members": scenario.members,
        "policy": scenario.gossip.policy,
        "scope": scenario.gossip.scope,
        "composition": scenario.gossip.composition,
        "buffer_messages": scenario.gossip.buffer_messages,
    }


def _keys(scenario: "GossipScenario", seed: int, outcome: "GossipOutcome") -> dict[str, object]:
    return {
        **_settings(scenario, seed),
        "rate_msg_s": scenario.traffic.rate_msg_s,
        **asdict(outcome),
    }


def _print(
    scenario: "GossipScenario",
    seed: int,
    outcome: "GossipOutcome",
    report: "Report | None",
) -> None:
    purged = {place: sum(counts.values()) for place, counts in outcome.purged.items()}
    dropped = {place: sum(counts.values()) for place, counts in outcome.dropped.items()}
    rows = [
        ("never obsolete, and atomic", _share(outcome.atomic_share)),
        ("  95% confidence, from", _share(outcome.atomic_share_low)),
        ("  to", _share(outcome.atomic_share_high)),
        ("all messages, and atomic", _share(outcome.atomic_share_all)),
        ("receivers, mean", _number(outcome.receivers_mean, 2)),
        ("receivers, deviation by mean", _number(outcome.receivers_cv, 3)),
        ("latency, mean", f"{_number(outcome.latency_mean_ms, 0)} ms"),
        ("latency, p99", f"{_number(outcome.latency_p99_ms, 0)} ms"),
        ("latency, last receiver", f"{_number(outcome.latency_last_ms, 0)} ms"),
        ("copies for each delivery", _number(outcome.copies_per_delivery, 2)),
        *((f"purged, {place}", f"{count}") for place, count in purged.items() if count),
        *((f"dropped, {place}", f"{count}") for place, count in dropped.items() if count),
    ]
    print_table(scenario.title or "Gossip", ["", "value"], rows)
    print_words(
        f"{scenario.members} members, seed {seed}: {outcome.never_obsolete} of {outcome.sent} "
        "measured messages never become obsolete. Atomic: delivered by more than 95% of the "
        "members.",
        *([] if report is None else verdict(report)),
    )


def _share(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def _number(value: float | None, digits: int) -> str:
    return "none" if value is None else f"{value:.{digits}f}"


# -- the largest rate ------------------------------------------------------------------------------


def _search(scenario: "GossipScenario", seed: int, as_json: bool, show: Show) -> int:
    from semcast.sim.epidemic.search import largest_rate

    found = largest_rate(scenario, seed, show)
    if as_json:
        print_json({**_settings(scenario, seed), **asdict(found)})
    else:
        _print_found(scenario, seed, found)
    return 0


def _print_found(scenario: "GossipScenario", seed: int, found: "Found") -> None:
    rows = [(f"{rate:.1f}", f"{share:.1%}") for rate, share in sorted(found.tried)]
    print_table(scenario.title or "Gossip", ["messages/s", "never obsolete, and atomic"], rows)
    assert scenario.search is not None
    kept = f"{scenario.search.kept_share:.0%} of what is never obsolete is atomic"
    if found.largest_rate_msg_s is None:
        words = f"Even at the lowest rate less than {kept}."
    elif found.beyond:
        words = f"At {found.largest_rate_msg_s:g} messages/s and perhaps beyond {kept}."
    else:
        words = f"The largest rate at which {kept}: {found.largest_rate_msg_s:.0f} messages/s."
    print_words(f"{words} {scenario.members} members, seed {seed}.")
