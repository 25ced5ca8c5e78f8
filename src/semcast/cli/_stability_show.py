"""Stability rounds for people and programs: outcomes in; tables, JSON or a drawing out."""

from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final

from semcast.cli._judged import Show
from semcast.cli._output import print_json, print_table, print_words
from semcast.errors import InputError

if TYPE_CHECKING:
    from semcast.sim.scenario import Scenario
    from semcast.sim.stability.outcome import StabilityOutcome
    from semcast.sim.stability.round_scenario import StabilityScenario

WRONG: Final = 1


@dataclass(frozen=True)
class Case:
    """The outcomes of one protocol in one variant, one for each seed."""

    variant: str
    protocol: str
    outcomes: "list[StabilityOutcome]"

    @property
    def members(self) -> int:
        return self.outcomes[0].members

    def mean(self, name: str) -> float | None:
        """None if one of them did not finish in time."""
        values = [getattr(one, name) for one in self.outcomes]
        return None if None in values else fmean(values)


def changes(
    protocol: str | None, branching: int | None, height: int | None, leaf_degree: int | None
) -> list[str]:
    """The options of the command as changes to a scenario."""
    found = []
    if protocol is not None:
        from semcast.sim.stability.round_scenario import PROTOCOLS

        names = PROTOCOLS if protocol == "all" else tuple(protocol.split(","))
        if len(names) == 1:
            found += ["compare=[]", f"protocol={names[0]}"]
        else:
            found.append(f"compare={list(names)}")
    tree = {"branching": branching, "height": height, "leaf_degree": leaf_degree}
    given = [f"tree.{name}={value}" for name, value in tree.items() if value is not None]
    return [*found, *(["tree.kind=complete"] if given else []), *given]


def run(
    scenario: "Scenario", seed: int, plot: Path | None, as_json: bool, show: Show = None
) -> int:
    """Run every case of a scenario; the exit code is 1 if a member agreed on the wrong thing."""
    from semcast.sim.stability.round_scenario import StabilityScenario

    assert isinstance(scenario, StabilityScenario)
    if scenario.cases()[0][1].traffic is not None:
        if plot is not None:
            raise InputError("--plot draws rounds without traffic; leave it out")
        return _run_paced(scenario, seed, as_json, show)
    if plot is not None:
        from semcast.report.figures import require_report

        require_report()  # before a long run, not after it
    cases = _run_cases(scenario, seed, show)
    single = len(cases) == 1 and len(cases[0].outcomes) == 1
    if as_json:
        print_json(_as_json(cases, seed, single))
    elif single:
        _print_one(scenario, seed, cases[0].outcomes[0])
    else:
        _print_cases(scenario, seed, cases)
    if plot is not None:
        draw(cases, scenario.title, plot)
    wrong = any(one.finished and one.wrong_members for case in cases for one in case.outcomes)
    return WRONG if wrong else 0


def _run_cases(scenario: "StabilityScenario", seed: int, show: Show) -> list[Case]:
    from semcast.sim.stability.world import run as run_one

    found = []
    listed = scenario.cases()
    repeats = [scenario.repeat if case.drawn else 1 for _, case in listed]
    done = 0
    for (variant, case), repeat in zip(listed, repeats, strict=True):
        outcomes = []
        for number in range(repeat):

            def share(part: float, done: int = done) -> None:
                if show is not None:
                    show((done + part) / sum(repeats))

            outcomes.append(run_one(case, seed + number, share))
            done += 1
        found.append(Case(variant, case.protocol, outcomes))
    return found


def _as_json(cases: list[Case], seed: int, single: bool) -> dict[str, object]:
    head: dict[str, object] = {"model": "stability", "seed": seed}
    if single:
        return head | asdict(cases[0].outcomes[0])
    runs = [
        {"variant": case.variant, "seed": seed + at, **asdict(outcome)}
        for case in cases
        for at, outcome in enumerate(case.outcomes)
    ]
    return head | {"runs": runs}


def _run_paced(scenario: "StabilityScenario", seed: int, as_json: bool, show: Show) -> int:
    """Round after round under traffic."""
    from semcast.sim.stability.pace import run as run_one

    found = []
    listed = scenario.cases()
    for done, (variant, case) in enumerate(listed):

        def share(part: float, done: int = done) -> None:
            if show is not None:
                show((done + part) / len(listed))

        found.append((variant, run_one(case, seed, share)))
    if as_json:
        runs = [{"variant": variant, **asdict(outcome)} for variant, outcome in found]
        print_json({"model": "stability", "seed": seed, "runs": runs})
        return 0
    columns = ["", "protocol", "rounds", "control msg/s", "time to stable, ms", "longest, ms",
               "most waiting", "blocked"]  # fmt: skip
    rows = [
        (
            variant,
            one.protocol,
            f"{one.rounds:,}",
            f"{one.control_messages_s:,.0f}",
            _number(one.time_to_stable_mean_ms),
            _number(one.time_to_stable_max_ms),
            f"{one.waiting_max_messages:,}",
            f"{one.blocked_share:.1%}",
        )
        for variant, one in found
    ]
    print_table(scenario.title or "Stability under traffic", columns, rows)
    print_words(f"{found[0][1].members:,} members, seed {seed}.")
    return 0


# -- tables ----------------------------------------------------------------------------------------


def _print_one(scenario: "StabilityScenario", seed: int, outcome: "StabilityOutcome") -> None:
    by_type = {name: count for name, count in outcome.messages_all_hops_by_type.items() if count}
    rows = [
        ("round trip at the root", _ms(outcome.rtt_root_ms)),
        ("round trip at a member, shortest", _ms(outcome.rtt_member_min_ms)),
        ("round trip at a member, mean", _ms(outcome.rtt_member_mean_ms)),
        ("round trip at a member, longest", _ms(outcome.rtt_member_max_ms)),
        ("until all members know", _ms(outcome.time_to_stable_ms)),
        ("messages on all hops", f"{outcome.messages_all_hops:,}"),
        *((f"  of type {name}", f"{count:,}") for name, count in by_type.items()),
        ("bytes on all hops", f"{outcome.bytes_all_hops:,}"),
        *(
            (f"processed by {role.replace('_', ', ')}", f"{count:,}")
            for role, count in outcome.messages_processed.items()
        ),
        ("longest queue of a link", f"{outcome.link_queue_max:,}"),
        ("longest queue at a host", f"{outcome.host_queue_max:,}"),
    ]
    if outcome.messages_lost:
        rows.append(("lost on hops", f"{outcome.messages_lost:,}"))
    print_table(scenario.title or "A stability round", [outcome.protocol, "value"], rows)
    print_words(
        f"{outcome.members:,} members in a tree of height {outcome.height}, "
        f"{outcome.senders:,} of them senders, seed {seed}. {_verdict(outcome)}"
    )


def _verdict(outcome: "StabilityOutcome") -> str:
    if not outcome.finished:
        return "The round was not over at the deadline: raise deadline_s."
    if outcome.wrong_members:
        return f"WRONG: {outcome.wrong_members} members did not agree on what all have."
    return "All members agreed on exactly what all have."


def _print_cases(scenario: "StabilityScenario", seed: int, cases: list[Case]) -> None:
    by_variant: dict[str, list[Case]] = {}
    for case in cases:
        by_variant.setdefault(case.variant, []).append(case)
    if len(by_variant) == 1:
        _print_protocols(scenario, cases)
    else:
        _print_variants(scenario, by_variant)
    runs = [outcome for case in cases for outcome in case.outcomes]
    late = sum(not outcome.finished for outcome in runs)
    wrong = sum(outcome.finished and bool(outcome.wrong_members) for outcome in runs)
    most = max(len(case.outcomes) for case in cases)
    print_words(
        f"{len(runs)} rounds from seed {seed}"
        + (f", means over up to {most} seeds. " if most > 1 else ". ")
        + (f"{late} were not over at the deadline. " if late else "")
        + (f"WRONG in {wrong} of them." if wrong else "All agreed on exactly what all have.")
    )


def _print_protocols(scenario: "StabilityScenario", cases: list[Case]) -> None:
    """One network: a row for each protocol."""
    rows = [
        (case.protocol, *(show(case.mean(name)) for name, _, show in _MEASURES)) for case in cases
    ]
    columns = ["", *(title for _, title, _ in _MEASURES)]
    heading = scenario.title or "Stability rounds"
    print_table(f"{heading}, {cases[0].members:,} members", columns, rows)


def _print_variants(scenario: "StabilityScenario", by_variant: dict[str, list[Case]]) -> None:
    """Several networks: a table for each measure, a row for each network."""
    protocols = list(dict.fromkeys(case.protocol for one in by_variant.values() for case in one))
    for name, title, show in _MEASURES:
        rows = []
        for variant, group in by_variant.items():
            means = {case.protocol: case.mean(name) for case in group}
            known = {key: value for key, value in means.items() if value is not None}
            best = min(known, key=lambda key: known[key]) if known else "none"
            rows.append((variant, *(show(means.get(protocol)) for protocol in protocols), best))
        heading = f"{scenario.title}: {title}" if scenario.title else title.capitalize()
        print_table(heading, ["", *protocols, "least"], rows)


def _ms(value_ms: float | None) -> str:
    return "not over" if value_ms is None else f"{value_ms:,.2f} ms"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:,.2f}" if value < 1000 else f"{value:,.0f}"


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:,.0f}"


def _megabytes(value: float | None) -> str:
    return "–" if value is None else f"{value / 1e6:,.2f}"


_MEASURES: Final = (
    ("rtt_root_ms", "round trip at the root, ms", _number),
    ("time_to_stable_ms", "until all know, ms", _number),
    ("messages_all_hops", "messages on all hops", _count),
    ("bytes_all_hops", "MB on all hops", _megabytes),
    ("link_queue_max", "longest queue of a link", _count),
)


# -- a drawing -------------------------------------------------------------------------------------


def draw(cases: list[Case], title: str, path: Path) -> None:
    """Time and bytes against the number of members, a line for each protocol."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    panels: Any = figure.subplots(1, 2)
    for axes, name, label, unit in (
        (panels[0], "time_to_stable_ms", "until all members know, ms", 1.0),
        (panels[1], "bytes_all_hops", "bytes on all hops, for each member", None),
    ):
        for protocol in dict.fromkeys(case.protocol for case in cases):
            points = sorted(
                (case.members, value / (unit or case.members))
                for case in cases
                if case.protocol == protocol and (value := case.mean(name)) is not None
            )
            axes.plot(*zip(*points, strict=True), marker="o", label=protocol)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("members")
        axes.set_ylabel(label)
        axes.grid(True, which="major", alpha=0.3)
    panels[0].legend()
    figure.suptitle(title)
    try:
        # Without a date, the same run gives the same file.
        figure.savefig(path, format="svg", metadata={"Date": None})
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; choose a place to write the plot") from error
