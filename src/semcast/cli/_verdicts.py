"""How verdicts are shown, and what may be asked for: what `semcast check` and `verify` share."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import print_json, print_table, print_words

if TYPE_CHECKING:
    from semcast.check import RunVerdict, Violation

VIOLATION: Final = 1
_NAMED_MAX: Final = 3
_MISSING_MAX: Final = 20
_EXCUSED_MAX: Final = 8

RunOption = Annotated[
    list[str] | None, typer.Option("--run", help="Only this run; may be repeated.")
]
PropertyOption = Annotated[
    list[str] | None,
    typer.Option("--property", help="Only this property, as in fifo-order; may be repeated."),
]
PerRunOption = Annotated[
    bool, typer.Option("--per-run", help="A table for each run, instead of one for all.")
]
RestOption = Annotated[
    bool | None,
    typer.Option(
        "--at-rest/--not-at-rest",
        help="Whether to judge what must hold in the end, whatever the journals say of theirs.",
        show_default=False,
    ),
]
ShowOption = Annotated[
    int, typer.Option("--show", min=0, help="Show so many violations, the first ones.")
]


def report(
    journal: Path, verdicts: "Sequence[RunVerdict]", show: int, per_run: bool, as_json: bool
) -> int:
    """Print the verdicts; returns the exit code."""
    if as_json:
        print_json(_as_json(journal, verdicts, show, per_run))
    else:
        _print(journal, verdicts, show, per_run)
    return 0 if all(verdict.ok for verdict in verdicts) else VIOLATION


def _summed(verdicts: "Sequence[RunVerdict]") -> dict[str, dict[str, int]]:
    """By property: what was judged in all runs that promised it, and what is broken."""
    from semcast.check import PROPERTIES

    table: dict[str, dict[str, int]] = {}
    for one in PROPERTIES:
        judged = [verdict for verdict in verdicts if one.name in verdict.judged]
        if judged:
            table[one.name] = {
                "runs": len(judged),
                "judged": sum(verdict.judged[one.name] for verdict in judged),
                "violations": sum(verdict.broken[one.name] for verdict in judged),
                "runs_broken": sum(verdict.broken[one.name] > 0 for verdict in judged),
            }
    return table


def _shown(verdicts: "Sequence[RunVerdict]", show: int) -> "list[tuple[str, Violation]]":
    found = [(verdict.run, one) for verdict in verdicts for one in verdict.shown]
    return found[:show]


def _as_json(
    journal: Path, verdicts: "Sequence[RunVerdict]", show: int, per_run: bool
) -> dict[str, object]:
    result: dict[str, object] = {
        "journal": str(journal),
        "runs": len(verdicts),
        "events": sum(verdict.events for verdict in verdicts),
        "ok": all(verdict.ok for verdict in verdicts),
        "properties": _summed(verdicts),
        "not_at_rest": {one.run: one.not_at_rest for one in verdicts if one.not_at_rest},
        "excused": {one.run: one.excused for one in verdicts if one.excused},
        "missing": [
            {
                "run": verdict.run,
                "node": one.node,
                "name": verdict.names.get(one.node),
                "sender": one.sender,
                "sender_name": verdict.names.get(one.sender),
                "messages": one.messages,
                "first_seqs": list(one.first),
            }
            for verdict in verdicts
            for one in verdict.missing
        ],
        "violations": [
            {
                "run": run,
                "property": one.property,
                "node": one.node,
                "messages": [str(message) for message in one.messages],
                "at_ns": one.time_ns,
                "text": one.text,
            }
            for run, one in _shown(verdicts, show)
        ],
    }
    if per_run:
        result["verdicts"] = [
            {
                "run": one.run,
                "events": one.events,
                "ok": one.ok,
                "judged": one.judged,
                "violations": one.broken,
            }
            for one in verdicts
        ]
    return result


def _print(journal: Path, verdicts: "Sequence[RunVerdict]", show: int, per_run: bool) -> None:
    for some in [[one] for one in verdicts] if per_run else [verdicts]:
        rows = [
            (name, f"{row['judged']:,}", f"{row['violations']:,}", _broken(row))
            for name, row in _summed(some).items()
        ]
        title = some[0].run if len(some) == 1 else f"{journal}: {len(some):,} runs"
        events = sum(one.events for one in some)
        print_table(
            f"{title}, {events:,} events", ["property", "judged", "violations", "runs"], rows
        )
    _print_missing(verdicts)
    _print_restless(verdicts)
    _print_excused(verdicts)
    total = sum(sum(verdict.broken.values()) for verdict in verdicts)
    found = _shown(verdicts, show)
    for run, one in found:
        about = ", ".join(str(message) for message in one.messages)
        print_words(f"{run}: {one}", f"    node {one.node}; messages {about or 'none'}")
    if total > len(found):
        print_words(f"and {total - len(found):,} more")
    if not total:
        print_words("Every promise that could be judged was kept.")


def _broken(row: dict[str, int]) -> str:
    return (
        f"{row['runs_broken']:,} of {row['runs']:,}" if row["runs_broken"] else f"{row['runs']:,}"
    )


def _print_missing(verdicts: "Sequence[RunVerdict]") -> None:
    found = [(verdict, one) for verdict in verdicts for one in verdict.missing]
    if not found:
        return
    several = len({verdict.run for verdict, _ in found}) > 1
    rows = []
    for verdict, one in found[:_MISSING_MAX]:
        first = ", ".join(map(str, one.first)) + (", …" if one.messages > len(one.first) else "")
        member = _called(verdict, one.node)
        row = [member, _called(verdict, one.sender), f"{one.messages:,}", first]
        rows.append([verdict.run, *row] if several else row)
    columns = ["member", "lacks of sender", "messages", "the first"]
    print_table(
        "Missing in the end, and not replaced", ["run", *columns] if several else columns, rows
    )
    if len(found) > _MISSING_MAX:
        print_words(f"and {len(found) - _MISSING_MAX:,} more members and senders")


def _called(verdict: "RunVerdict", node: str) -> str:
    name = verdict.names.get(node)
    return node if name is None else f"{name} ({node})"


def _print_excused(verdicts: "Sequence[RunVerdict]") -> None:
    for verdict in [one for one in verdicts if one.excused][:_NAMED_MAX]:
        some = [f"{_called(verdict, node)}: {why}" for node, why in verdict.excused.items()]
        more = len(some) - _EXCUSED_MAX
        print_words(
            f"{verdict.run}: not asked what they have in the end: "
            + "; ".join(some[:_EXCUSED_MAX])
            + (f"; and {more:,} more members." if more > 0 else ".")
        )


def _print_restless(verdicts: "Sequence[RunVerdict]") -> None:
    restless = [one for one in verdicts if one.not_at_rest]
    if not restless:
        return
    some = ", ".join(f"{one.run} ({one.not_at_rest})" for one in restless[:_NAMED_MAX])
    more = len(restless) - _NAMED_MAX
    print_words(
        f"Not at rest when cut short, so that only what holds at every moment was judged: {some}"
        + (f" and {more:,} more runs." if more > 0 else ".")
    )
