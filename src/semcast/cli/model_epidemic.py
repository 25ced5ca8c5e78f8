"""`semcast model epidemic`: a group that gossips in; atomicity, latency and load out."""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.errors import InputError

if TYPE_CHECKING:
    from semcast.model.epidemic.sizes import SizeRun


def epidemic(
    members: Annotated[int, typer.Option("--members", help="Members, crashed ones too.")] = 1_000,
    sizes: Annotated[
        str | None,
        typer.Option(
            "--sizes",
            metavar="N,N,…",
            help="Several group sizes instead of one, as in 50,5000,1000000.",
        ),
    ] = None,
    fanout: Annotated[int, typer.Option("--fanout", help="Links that a message takes.")] = 5,
    relays: Annotated[
        int | None,
        typer.Option(
            "--relays",
            help="How often a message is passed on after its source's send. "
            "[default: enough for the size]",
        ),
    ] = None,
    links: Annotated[
        int,
        typer.Option("--links", help="Links of a member; each carries one message in a round."),
    ] = 10,
    view: Annotated[
        str,
        typer.Option(
            "--view", help="full: a link leads to anybody, each time; partial: always to the same."
        ),
    ] = "full",
    buffer: Annotated[
        int, typer.Option("--buffer", help="Copies that may wait at a member for each link.")
    ] = 3,
    policies: Annotated[
        str,
        typer.Option(
            "--policy",
            metavar="NAME,…",
            help="What goes when there is no room: eager, lazy, random, drop-new, age; "
            "several to compare them.",
        ),
    ] = "eager",
    rate: Annotated[
        float, typer.Option("--rate", help="Messages of the whole group in a round.")
    ] = 4.0,
    ratio: Annotated[
        float, typer.Option("--ratio", help="Share of the messages that belong to chains.")
    ] = 1.0,
    diversity: Annotated[int, typer.Option("--diversity", help="Chains at a time.")] = 1,
    chain_length: Annotated[
        int,
        typer.Option("--chain-length", help="Messages of a chain; all but the last get obsolete."),
    ] = 10,
    loss: Annotated[
        float, typer.Option("--loss", help="Share of copies that the network loses.")
    ] = 0.05,
    crashed: Annotated[
        float, typer.Option("--crashed", help="Share of members that are dead and not known to be.")
    ] = 0.0,
    rounds: Annotated[int, typer.Option("--rounds", help="Rounds that are measured.")] = 50,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same figures.")] = 1,
    page: Annotated[
        Path | None, typer.Option("--page", help="Write a page with tables and plots here.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """How far, how fast and at what load does gossip with a purging layer carry, up to millions?

    All members advance together, round by round; a round is the time that a link takes for one
    message. A million members take a few minutes and a few hundred megabytes.

    \b
    Examples:
      semcast model epidemic --members 1000000 --fanout 5 --json
      semcast model epidemic --members 50 --links 49 --buffer 10 --diversity 5 --rate 19.6
      semcast model epidemic --sizes 50,1000,20000 --policy eager,random --page sizes.html
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.model.epidemic.settings import Epidemic
    from semcast.model.epidemic.sizes import run_sizes

    chosen = [members] if sizes is None else _whole_numbers(sizes)
    grid = [
        Epidemic(
            members=size,
            fanout=fanout,
            relays=relays,
            links=links,
            view=view,
            buffer_messages=buffer,
            policy=policy,
            rate_msg_round=rate,
            related_ratio=ratio,
            diversity=diversity,
            chain_length=chain_length,
            loss=loss,
            crashed=crashed,
            measured_rounds=rounds,
            seed=seed,
        )
        for policy in policies.split(",")
        for size in chosen
    ]
    if page is not None:
        from semcast.report.figures import require_report

        require_report()  # before the minutes that a large group takes
    with _progress(len(grid)) as show:
        found = run_sizes(grid, show, time.monotonic)
    if page is not None:
        from semcast.report.epidemic_page import epidemic_page

        page.write_text(epidemic_page(found), encoding="utf-8")
    if as_json:
        alone = sizes is None and len(found) == 1
        print_json(_as_json(found[0]) if alone else {"runs": [_as_json(one) for one in found]})
    else:
        _print(found)


def _whole_numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--sizes has {text!r}; write whole numbers, as in 50,1000") from None


def _as_json(one: "SizeRun") -> dict[str, object]:
    settings, outcome = one.settings, one.outcome
    given: dict[str, object] = asdict(settings)
    given["relays"] = settings.relays_max
    given["links"] = settings.used_links
    given["settle_rounds"] = settings.settling
    measured: dict[str, object] = asdict(outcome)
    measured["live_members"] = measured.pop("members")
    return given | measured | {"took_s": round(one.took_s, 2)}


def _print(found: "Sequence[SizeRun]") -> None:
    from semcast.model.epidemic.sizes import COLUMNS, row_of

    print_table("Gossip in rounds", COLUMNS, [row_of(one) for one in found])
    print_words(
        "A message is atomic if more than 95% of the members get it; counted are those that "
        "never become obsolete. Latency and load are in rounds: a link carries one copy in a round."
    )


@contextmanager
def _progress(runs: int) -> Iterator[Callable[[int, float], None]]:
    """A bar on a terminal. It is told which run it is, and how much of that is done."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("rounds", total=runs)
        yield lambda run, share: bar.update(task, completed=run + share)
