"""Propagation graphs of random groups, for people and programs: a scenario in; tables, JSON or a
map out.
"""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

from semcast.cli._judged import Show
from semcast.cli._output import print_json, print_table, print_words
from semcast.errors import InputError

if TYPE_CHECKING:
    from semcast.sim.propagation.graph_scenario import GraphScenario
    from semcast.sim.propagation.grids import GraphOutcome
    from semcast.sim.propagation.winners import Winner

_SHAPE: Final = {
    "depth": "depth (d)",
    "extra_nodes": "extra nodes (ε)",
    "forwarding_nodes": "forwarding nodes",
    "trees": "trees",
    "way_ms": "time on the way, ms",
}


def run(scenario: "GraphScenario", seed: int, plot: Path | None, as_json: bool, show: Show) -> int:
    """Measure one point, or draw the map if the scenario has one."""
    if scenario.map is not None:
        return _run_map(scenario, seed, plot, as_json, show)
    if plot is not None:
        raise InputError("--plot draws the map, and this scenario has none; give it a table [map]")
    from semcast.sim.propagation.grids import measure

    outcome = measure(scenario, seed, show)
    if as_json:
        print_json(_as_json(scenario, seed, outcome))
    else:
        _print(scenario, seed, outcome)
    return 0


def _settings(scenario: "GraphScenario", seed: int) -> dict[str, object]:
    return {
        "model": scenario.model,
        "seed": seed,
        "sites": scenario.sites,
        "groups": scenario.groups,
        "group_size": scenario.group_size,
        "sizes": scenario.sizes,
        "rule": scenario.rule,
    }


def _as_json(scenario: "GraphScenario", seed: int, outcome: "GraphOutcome") -> dict[str, object]:
    measures = {name: asdict(one) for name, one in outcome.measures.items()}
    return {
        **_settings(scenario, seed),
        "runs": outcome.runs,
        "close_enough": outcome.close_enough,
        "measures": measures,
    }


def _print(scenario: "GraphScenario", seed: int, outcome: "GraphOutcome") -> None:
    from semcast.sim.propagation.winners import WORDS

    found = outcome.measures
    rows = [(words, _shown(found[name].mean, found[name].ci95)) for name, words in _SHAPE.items()]
    print_table(scenario.title or "Propagation graphs", ["of a group, on average", "value"], rows)
    columns = ["protocol", "maximum load", "messages", "delay, ms", "broadcast messages", "ms"]
    costs = [
        (
            words,
            _shown(found[f"{name}_load_max"].mean, found[f"{name}_load_max"].ci95),
            *(
                f"{found[f'{name}_{what}'].mean:.1f}"
                for what in ("messages", "delay_ms", "broadcast_messages", "broadcast_delay_ms")
            ),
        )
        for name, words in WORDS.items()
    ]
    print_table("The three protocols", columns, costs)
    print_words(
        f"{scenario.groups} groups of {scenario.group_size} ({scenario.sizes}) on "
        f"{scenario.sites} sites, drawn {outcome.runs} times, rule {scenario.rule}, seed {seed}. "
        "Mean ± half of the 95% confidence interval."
    )
    if not outcome.close_enough:
        print_words("Some intervals are wider than was asked for; raise runs_max.")


def _shown(mean: float, ci95: float) -> str:
    return f"{mean:.2f} ± {ci95:.2f}"


# -- the map ---------------------------------------------------------------------------------------


def _run_map(
    scenario: "GraphScenario", seed: int, plot: Path | None, as_json: bool, show: Show
) -> int:
    from semcast.sim.propagation.winners import drawn, winners

    found = winners(scenario, seed, show)
    if plot is not None:
        title = scenario.title or "Which protocol is best where"
        plot.write_text(drawn(title, found), encoding="utf-8")
    if as_json:
        points = [
            {
                **asdict(one),
                "least_delay": one.delay,
                "least_delay_without_center": one.delay_without_center,
                "least_load": one.load,
            }
            for one in found
        ]
        print_json({**_settings(scenario, seed), "points": points})
    else:
        _print_map(scenario, found)
    return 0


def _print_map(scenario: "GraphScenario", found: "list[Winner]") -> None:
    from semcast.sim.propagation.winners import WORDS

    ratios = sorted({one.ratio for one in found})
    points: dict[tuple[int, int], list[Winner]] = {}
    for one in found:
        points.setdefault((one.groups, one.sites), []).append(one)
    rows = [
        (
            f"{groups}",
            f"{sites}",
            *(WORDS[one.delay_without_center] for one in sorted(row, key=lambda one: one.ratio)),
            WORDS[row[0].load],
        )
        for (groups, sites), row in points.items()
    ]
    columns = ["groups", "sites", *(f"L/P {ratio:g}" for ratio in ratios), "load"]
    print_table(scenario.title or "Which protocol is best where", columns, rows)
    always = all(one.delay == "centralized" for one in found)
    shares = [one.loads["propagation"] / one.loads["centralized"] for one in found]
    print_words(
        "L/P: who has the least delay, two-phase or propagation. Load: whose busiest site has "
        "least to do.",
        "The centralized solution has the least delay "
        + ("everywhere. " if always else "at most points; --json says where. ")
        + f"The busiest site of propagation has {min(shares):.0%} to {max(shares):.0%} of the load "
        "of its central site.",
    )
