"""`semcast sim exhaust`: a very small group in; every run that it can have, judged, out."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.sim.exhausting.exhaust import Outcome
    from semcast.sim.exhausting.scope import Scope

VIOLATION: Final = 1


@dataclass
class Depth:
    """All relations with so many timers at any time: what came of those that there was time for."""

    ticks: int
    outcomes: "list[Outcome]" = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How far it got."""
        return {
            "relations_begun": len(self.outcomes),
            "relations_exhausted": sum(outcome.complete for outcome in self.outcomes),
            "states": sum(outcome.states for outcome in self.outcomes),
            "interleavings": sum(outcome.interleavings for outcome in self.outcomes),
            "ends": sum(outcome.closings for outcome in self.outcomes),
            "journals_judged": sum(outcome.judged for outcome in self.outcomes),
        }


def sim_exhaust(
    messages: Annotated[
        int, typer.Option("--messages", min=1, max=6, help="Of the one sender.")
    ] = 3,
    processes: Annotated[
        int, typer.Option("--processes", min=2, max=6, help="Members, with the sender.")
    ] = 3,
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
    stability: Annotated[
        str,
        typer.Option(
            "--stability",
            help="How votes travel: gossip, coordp, fulldist, train, s_coordp or s_train.",
        ),
    ] = "gossip",
    branching: Annotated[
        int, typer.Option("--branching", min=1, max=5, help="Children in the tree of s_…")
    ] = 1,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.1, help="Stop after so long.")
    ] = 600.0,
    states_max: Annotated[
        int,
        typer.Option(
            "--states-max",
            min=1,
            help="Leave a relation unfinished after so many (about 1 KB each).",
        ),
    ] = 2_000_000,
    as_json: JsonOption = False,
) -> int:
    """Go through every run of a small group with one sender, one crash at most, and judge each.

    It tries all interleavings, for every way in which the messages can replace each other: first
    without a timer that fires, then with one at any time, up to --ticks, as far as time allows.
    The exit code is 1 if a run breaks a promise; the run is then printed.

    \b
    Example:
      semcast sim exhaust
      semcast sim exhaust --messages 4 --processes 4 --seconds 3600
      semcast sim exhaust --messages 2 --stability s_coordp
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.cli.sim_explore import stability_named
    from semcast.settings.setting import require_choice
    from semcast.sim.exhausting.scope import NOBODY, Scope, relations

    # What gossip promises is a matter of chance: going through all runs cannot show it.
    require_choice("--reliability", reliability, ("group", "sender"))

    protocol = stability_named(stability)
    every = relations(messages)

    def scopes(so_many: int) -> list[Scope]:
        return [
            Scope(
                relation,
                processes=processes,
                reliability=reliability,
                stability=protocol,
                branching=branching,
                ticks=so_many,
                losses=losses,
                slow=processes - 1 if slow else NOBODY,
                delivery_messages=1 if slow else 8,
            )
            for relation in every
        ]

    with _progress() as show:
        depths = _search(
            [scopes(so_many) for so_many in range(ticks + 1)], seconds, states_max, show
        )
    if as_json:
        print_json(_as_json(depths, len(every)))
    else:
        _print(depths, ticks, len(every))
    return VIOLATION if _broken(depths) else 0


def _search(
    depths: "list[list[Scope]]",
    seconds: float,
    states_max: int,
    show: Callable[[str], None] | None,
) -> list[Depth]:
    """Scope after scope, until one breaks a promise or the time is up."""
    from semcast.sim.exhausting.exhaust import exhaust

    until_s = time.monotonic() + seconds
    found: list[Depth] = []
    for scopes in depths:
        found.append(Depth(scopes[0].ticks))
        for at, scope in enumerate(scopes, start=1):
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                return found
            place = f"{scope.ticks} timers, relation {at} of {len(scopes)} ({scope.name})"
            outcome = exhaust(scope, left_s, states_max, _state_counter(show, place))
            found[-1].outcomes.append(outcome)
            if outcome.violations:
                return found
    return found


def _state_counter(show: Callable[[str], None] | None, place: str) -> Callable[[int], None] | None:
    if show is None:
        return None
    show(place)
    return lambda states: show(f"{place}, {states:,} states")


def _broken(depths: list[Depth]) -> "list[Outcome]":
    return [outcome for depth in depths for outcome in depth.outcomes if outcome.violations]


def _as_json(depths: list[Depth], relations: int) -> dict[str, object]:
    broken = _broken(depths)
    return {
        "relations": relations,
        "by_ticks": [{"ticks": depth.ticks, **depth.counts()} for depth in depths],
        "violations": [str(one) for outcome in broken for one in outcome.violations],
        "transcript": [line for outcome in broken for line in outcome.transcript],
    }


def _print(depths: list[Depth], ticks: int, relations: int) -> None:
    rows = []
    for depth in depths:
        counts = depth.counts()
        rows.append(
            (
                f"{depth.ticks}",
                f"{counts['relations_exhausted']} of {relations}",
                f"{counts['states']:,}",
                f"{counts['interleavings']:.3g}",
                f"{counts['ends']:,}",
                f"{counts['journals_judged']:,}",
            )
        )
    print_table(
        "Every run of a small group",
        ["timers", "relations", "states", "interleavings", "ends", "journals judged"],
        rows,
    )
    print_words(
        "Timers: how many fire at any time. Relations: ways in which the messages replace each "
        "other, exhausted. Interleavings are those of exhausted relations."
    )
    broken = _broken(depths)
    for outcome in broken:
        print_words(
            f"VIOLATED with {outcome.scope.name}:",
            *map(str, outcome.violations),
            *outcome.transcript,
        )
    if broken:
        return
    last = depths[-1]
    done = last.counts()["relations_exhausted"]
    print_words(f"{done} of {relations} relations exhausted with {last.ticks} timers at any time.")
    if last.ticks < ticks or done < relations:
        print_words("Not all was seen: raise --seconds or --states-max to go on.")
    print_words("Everything promised was kept in all that was seen.")


@contextmanager
def _progress() -> Iterator[Callable[[str], None] | None]:
    """A line on a terminal that says how far it is."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    with console.status("exhausting") as status:
        yield lambda place: status.update(f"exhausting: {place}")
