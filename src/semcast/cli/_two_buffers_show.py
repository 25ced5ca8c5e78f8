"""The two-buffer model for people and programs: a scenario in; a table or JSON out."""

from dataclasses import asdict
from typing import TYPE_CHECKING

from semcast.cli._judged import Show
from semcast.cli._output import print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.sim.scenario import TwoBufferScenario
    from semcast.sim.two_buffers import Outcome


def run(scenario: "TwoBufferScenario", seed: int, as_json: bool, show: Show) -> int:
    """Run it."""
    from semcast.sim.two_buffers import run as run_model

    outcome = run_model(scenario, seed, show)
    if as_json:
        print_json({"model": scenario.model, "seed": seed, **asdict(outcome)})
    else:
        _print(scenario, seed, outcome)
    return 0


def _print(scenario: "TwoBufferScenario", seed: int, outcome: "Outcome") -> None:
    rows = [
        ("sender", f"{outcome.sender_rate_msg_s:.1f} msg/s"),
        ("fast receiver", f"{outcome.fast_receiver_rate_msg_s:.1f} msg/s"),
        ("slow receiver", f"{outcome.slow_receiver_rate_msg_s:.1f} msg/s"),
        ("purged on the way to the slow one", f"{outcome.purged_share:.1%}"),
        ("purged at the sender's side", f"{outcome.purged_at_sender_share:.1%}"),
        ("waiting on average", f"{outcome.occupancy_mean_messages:.1f} messages"),
        ("latency, mean", f"{outcome.latency_mean_ms:.0f} ms"),
        ("latency, max", f"{outcome.latency_max_ms:.0f} ms"),
        ("semantic latency, mean", f"{outcome.semantic_latency_mean_ms:.0f} ms"),
        ("semantic latency, max", f"{outcome.semantic_latency_max_ms:.0f} ms"),
        ("sender blocked", f"{outcome.blocked_share:.1%} of the time"),
    ]
    print_table(scenario.title or "Two buffers", ["", "value"], rows)
    verdict = (
        "The slow receiver does not disturb the sender."
        if outcome.blocked_share < 0.01
        else f"The slow receiver holds the sender up {outcome.blocked_share:.0%} of the time."
    )
    print_words(
        f"{scenario.duration_s - scenario.warm_up_s:g} virtual seconds after a warm-up of "
        f"{scenario.warm_up_s:g}, seed {seed}. {verdict}"
    )
