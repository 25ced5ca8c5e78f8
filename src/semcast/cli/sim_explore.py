"""`semcast sim explore` and `semcast sim replay`: random groups under random faults, judged."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from semcast.cli._output import JsonOption, print_json, print_words

if TYPE_CHECKING:
    from semcast.sim.exploring.explore import Explored, Failure, Verdict

VIOLATION: Final = 1
StabilityOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--stability",
        help="One protocol for all cases: gossip, coordp, fulldist, train, s_coordp or s_train. "
        "Without it, each case draws one.",
    ),
]

MembershipOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--membership",
        help="Only groups that are closed, or open. Without it, every third case is open.",
    ),
]

ReliabilityOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--reliability",
        help="gossip: only groups that gossip; federation: only federations. Without it, none is.",
    ),
]


def sim_explore(
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="How long to go on, in seconds.")
    ] = 60.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the first case.")] = 1,
    workers: Annotated[
        int, typer.Option("--workers", min=1, max=256, help="Processes that share the cases.")
    ] = 1,
    out: Annotated[
        Path, typer.Option("--out", help="Folder for a scenario that fails, to replay it.")
    ] = Path(),
    stability: StabilityOption = None,
    membership: MembershipOption = None,
    reliability: ReliabilityOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run random groups, traffic and faults, and check everything that was promised.

    In a quarter of all cases a sender fills its window under loss and crashes, and members leave
    soon after. To every third group processes come, and leave, crash, restart, stop or are cut off.
    A group must be at rest within a time that follows from its case. With --reliability gossip,
    members gossip, with full or partial views, and only what gossip promises is checked. With
    --reliability federation, sites are in several groups at once, whose messages have one order.

    A case that fails is shrunk, written as a scenario, and printed with the command that replays
    it; the exit code is then 1.

    \b
    Example:
      semcast sim explore --seconds 600 --seed 1000
      semcast sim explore --seconds 600 --stability s_coordp
      semcast sim explore --seconds 600 --reliability gossip
      semcast sim explore --seconds 600 --reliability federation
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.errors import InputError
    from semcast.sim.exploring.explore import explore

    if not out.is_dir():
        raise InputError(f"--out {out} is not a folder; make it first")
    protocol = None if stability is None else stability_named(stability)
    _require_reliability(reliability, stability, membership)
    with _progress() as show:
        found = explore(
            seconds,
            seed,
            workers,
            show,
            stability=protocol,
            membership=_membership(membership),
            reliability=reliability,
        )
    replay = None if found.failure is None else _write(found.failure, out)
    if as_json:
        failure = found.failure
        print_json(
            {
                "cases": found.cases,
                "events": found.events,
                "virtual_s": found.virtual_s,
                "first_seed": seed,
                "stability": protocol,
                "membership": membership,
                "reliability": reliability,
                "failed_seed": None if failure is None else failure.seed,
                "violations": [] if failure is None else list(failure.broken.values()),
                "replay": replay,
            }
        )
    else:
        _print(found, seed, _all_with(protocol, membership, reliability), replay)
    return 0 if found.failure is None else VIOLATION


def sim_replay(
    what: Annotated[
        str, typer.Argument(metavar="SEED|FILE", help="The seed of a case, or a scenario file.")
    ],
    stability: StabilityOption = None,
    membership: MembershipOption = None,
    reliability: ReliabilityOption = None,
    as_json: JsonOption = False,
) -> int:
    """Run one case of the explorer again: by its seed, or as the file that was written for it.

    \b
    Example:
      semcast sim replay 1017
      semcast sim replay 1017 --stability s_coordp
      semcast sim replay 1017 --reliability gossip
      semcast sim replay failure-1017.toml
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.errors import InputError
    from semcast.sim.epidemic.gossip_scenario import GossipScenario
    from semcast.sim.exploring.explore import drawn, judge
    from semcast.sim.propagation.federation_scenario import FederationScenario
    from semcast.sim.scenario import ProtocolScenario, Scenario, load

    protocol = None if stability is None else stability_named(stability)
    if protocol is not None and not what.isdecimal():
        raise InputError(f"{what}: a file says which protocol; leave out --stability")
    if membership is not None and not what.isdecimal():
        raise InputError(f"{what}: a file says which membership; leave out --membership")
    if reliability is not None and not what.isdecimal():
        raise InputError(f"{what}: a file says which reliability; leave out --reliability")
    _require_reliability(reliability, stability, membership)
    if what.isdecimal():
        scenario: Scenario = drawn(int(what), protocol, _membership(membership), reliability)
    else:
        scenario = load(Path(what))
    if not isinstance(scenario, ProtocolScenario | GossipScenario | FederationScenario):
        raise InputError(
            f"{what}: only scenarios with model = 'protocol', 'gossip' or 'federation' can be "
            "replayed"
        )
    verdict = judge(scenario)
    if as_json:
        print_json(
            {
                "seed": scenario.seed,
                "events": verdict.events,
                "virtual_s": verdict.virtual_s,
                "violations": list(verdict.broken.values()),
            }
        )
    else:
        _print_verdict(verdict)
    return VIOLATION if verdict.broken else 0


def stability_named(name: str) -> str:
    """What --stability says, checked."""
    from semcast.settings.setting import require_choice
    from semcast.settings.table import STABILITY_PROTOCOLS

    require_choice("--stability", name, STABILITY_PROTOCOLS)
    return name


def _membership(name: str | None) -> str | None:
    """What --membership says, checked."""
    from semcast.journal.header import MEMBERSHIPS
    from semcast.settings.setting import require_choice

    if name is not None:
        require_choice("--membership", name, MEMBERSHIPS)
    return name


def _require_reliability(
    reliability: str | None, stability: str | None, membership: str | None
) -> None:
    """What --reliability says, checked."""
    from semcast.errors import InputError
    from semcast.settings.setting import require_choice

    if reliability is None:
        return
    require_choice("--reliability", reliability, ("gossip", "federation"))
    if stability is not None or membership is not None:
        raise InputError(
            f"--reliability {reliability} with --stability or --membership: there nobody votes on "
            "what all have, or agrees on views; leave them out"
        )


def _write(failure: "Failure", out: Path) -> str:
    """Write the scenario of a failure; the command that replays it."""
    from semcast.sim.exploring.shrink import to_toml

    path = out / f"failure-{failure.seed}.toml"
    path.write_text(to_toml(failure.scenario))
    return f"semcast sim replay {path}"


def _all_with(protocol: str | None, membership: str | None, reliability: str | None) -> str:
    """What was asked of all cases, as options."""
    asked = {"stability": protocol, "membership": membership, "reliability": reliability}
    return "".join(f" --{name} {value}" for name, value in asked.items() if value is not None)


def _print(found: "Explored", seed: int, all_with: str, replay: str | None) -> None:
    print_words(
        f"{found.cases} cases{all_with} from seed {seed} on, {found.events:,} events, "
        f"{found.virtual_s / 3600:.2f} virtual hours."
    )
    if found.failure is None:
        print_words("Everything promised was kept.")
        return
    print_words(
        f"VIOLATED in case {found.failure.seed}:",
        *found.failure.broken.values(),
        f"Replay it as drawn: semcast sim replay {found.failure.seed}{all_with}",
        f"Replay it shrunk:   {replay}",
    )


def _print_verdict(verdict: "Verdict") -> None:
    print_words(f"{verdict.events:,} events, {verdict.virtual_s:g} virtual seconds.")
    if verdict.broken:
        print_words("VIOLATED:", *verdict.broken.values())
    else:
        print_words("Everything promised was kept.")


@contextmanager
def _progress() -> "Iterator[Callable[[Explored], None] | None]":
    """A line on a terminal that says how far it is."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("exploring") as status:

        def show(done: "Explored") -> None:
            status.update(
                f"exploring: {done.cases} cases, {done.events:,} events, "
                f"{done.virtual_s:.0f} virtual seconds"
            )

        yield show
