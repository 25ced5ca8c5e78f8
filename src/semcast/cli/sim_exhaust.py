"""`semcast sim exhaust`: a very small group in; every run that it can have, judged, out."""

import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.sim.exhaust import Outcome

VIOLATION: Final = 1


def sim_exhaust(
    messages: Annotated[int, typer.Option("--messages", min=1, max=6)] = 3,
    processes: Annotated[int, typer.Option("--processes", min=2, max=6)] = 3,
    ticks: Annotated[
        int, typer.Option("--ticks", min=0, max=9, help="Timers that fire at any time, in all.")
    ] = 1,
    losses: Annotated[
        int, typer.Option("--losses", min=0, max=9, help="Datagrams lost besides, in all.")
    ] = 0,
    slow: Annotated[
        bool, typer.Option("--slow", help="One reader takes nothing until the end.")
    ] = False,
    reliability: Annotated[
        str, typer.Option("--reliability", help="'group' (S-RM) or 'sender' (S-SM).")
    ] = "group",
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Stop after so long.")
    ] = 600.0,
    as_json: JsonOption = False,
) -> int:
    """Go through every run of a small group with one sender, one crash at most, and judge each.

    All interleavings, for every way in which the messages can replace each other. The exit code is
    1 if a run breaks a promise; the run is then printed.

    \b
    Example:
      semcast sim exhaust
      semcast sim exhaust --messages 4 --processes 4 --seconds 3600
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.sim.exhaust import exhaust
    from semcast.sim.scope import Scope, relations

    until_s = time.monotonic() + seconds
    outcomes: list[Outcome] = []
    every = relations(messages)
    for relation in every:
        left_s = until_s - time.monotonic()
        if left_s <= 0 or (outcomes and outcomes[-1].violations):
            break
        scope = Scope(
            relation,
            processes=processes,
            reliability=reliability,
            ticks=ticks,
            losses=losses,
            slow=processes - 1 if slow else -1,
            delivery_messages=1 if slow else 8,
        )
        outcomes.append(exhaust(scope, left_s))
    if as_json:
        print_json(_as_json(outcomes, len(every)))
    else:
        _print(outcomes, len(every))
    return VIOLATION if any(outcome.violations for outcome in outcomes) else 0


def _as_json(outcomes: "list[Outcome]", relations: int) -> dict[str, object]:
    return {
        "relations": relations,
        "relations_exhausted": sum(outcome.complete for outcome in outcomes),
        "states": sum(outcome.states for outcome in outcomes),
        "interleavings": sum(outcome.interleavings for outcome in outcomes),
        "ends": sum(outcome.closings for outcome in outcomes),
        "journals_judged": sum(outcome.judged for outcome in outcomes),
        "violations": [str(one) for outcome in outcomes for one in outcome.violations],
        "transcript": [line for outcome in outcomes for line in outcome.transcript],
    }


def _print(outcomes: "list[Outcome]", relations: int) -> None:
    rows = [
        (
            outcome.scope.name,
            f"{outcome.states:,}",
            f"{outcome.interleavings:.3g}" if outcome.complete else "",
            f"{outcome.closings:,}",
            f"{outcome.judged:,}",
        )
        for outcome in outcomes
    ]
    print_table(
        "Every run of a small group",
        ["m1, m2, ... replace", "states", "interleavings", "ends", "journals judged"],
        rows,
    )
    done = sum(outcome.complete for outcome in outcomes)
    print_words(f"{done} of {relations} relations exhausted.")
    broken = [outcome for outcome in outcomes if outcome.violations]
    if not broken:
        print_words("Everything promised was kept.")
    for outcome in broken:
        print_words("VIOLATED:", *map(str, outcome.violations), *outcome.transcript)
