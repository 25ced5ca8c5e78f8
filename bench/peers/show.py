"""Rows and requirements as tables for people, on a page, and as JSON for programs."""

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from bench.page import mark_of
from bench.peers.api import LATENCY, SLOW_READER, THROUGHPUT
from bench.peers.judge import Requirement
from bench.peers.outcome import Figures
from bench.peers.plan import Row

# Before the tables of docs/peers.md.
BEGIN: Final = mark_of("python -m bench.peers --markdown")
_HEADS = {
    THROUGHPUT: ("messages/s", "lost", "CPU s/million", ""),
    LATENCY: ("p50 µs", "p99 µs", "rate kept", "lost", "CPU s/million"),
    SLOW_READER: (
        "rate kept",
        "A p99 µs",
        "(alone)",
        "B lost",
        "B stale",
        "B value age p50 ms",
        "p99 ms",
        "one turn ms",
        "B any age p50 ms",
        "p99 ms",
        "drain s",
        "sender MiB",
        "B MiB",
    ),
}


@dataclass(frozen=True)
class Sheet:
    """A table, however it is shown. Of words the first column is, and whatever is in `words`."""

    title: str
    heads: tuple[str, ...]
    lines: list[list[str]]
    words: tuple[str, ...] = ()


def sheets(rows: Iterable[Row]) -> list[Sheet]:
    """One for each case; the run without a slow reader is a column of the run with one."""
    every = list(rows)
    found = []
    for case in dict.fromkeys(row.case for row in every):
        if case.workload == SLOW_READER and not case.slow:
            continue
        lines = [[row.entry.variant.name, *_cells(row, every)] for row in every if row.case == case]
        found.append(Sheet(case.name, ("", *_HEADS[case.workload]), lines))
    return found


def verdicts(required: Iterable[Requirement]) -> Sheet:
    heads = ("requirement", "semcast", "peer", "best peer", "ratio", "bound", "met")
    words = {True: "yes", False: "no", None: "not measured"}
    lines = []
    for one in required:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}×"
        cells = [_number(one.ours), _number(one.theirs), one.peer, ratio, one.bound]
        lines.append([one.name, *cells, words[one.met]])
    return Sheet("What semcast is held to", heads, lines, words=("bound",))


def _table(sheet: Sheet) -> Table:
    table = Table(title=sheet.title, title_justify="left")
    for at, head in enumerate(sheet.heads):
        table.add_column(head, justify="left" if at == 0 or head in sheet.words else "right")
    colours = {"yes": "green", "no": "red"}
    for line in sheet.lines:
        table.add_row(*(Text(cell, style=colours.get(cell, "")) for cell in line))
    return table


def to_markdown(rows: list[Row], required: list[Requirement], about: dict[str, Any]) -> str:
    """All tables, with the command that makes them and where it ran."""
    machine = about["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    page = [
        f"    {about['command']}",
        "",
        f"{machine['cores']} cores, {machine['system']}, Python {machine['python']}; semcast "
        f"{about['semcast_build']}; {versions}. What the columns mean is in "
        "[how it is measured](design/bench-peers.md).",
    ]
    for sheet in [*sheets(rows), *([verdicts(required)] if required else [])]:
        page += ["", f"### {sheet.title[0].upper()}{sheet.title[1:]}", ""]
        page.append(f"| {' | '.join(sheet.heads)} |")
        left = [at == 0 or head in sheet.words for at, head in enumerate(sheet.heads)]
        page.append(f"|{'|'.join('---' if one else '---:' for one in left)}|")
        page += [f"| {' | '.join(line)} |" for line in sheet.lines]
    page += [f"\n{line}" for line in absences(rows)]
    return "\n".join(page) + "\n"


def absences(rows: Iterable[Row]) -> list[str]:
    """Why variants have no figures: a line for each reason, with all that it holds for."""
    who: dict[str, list[str]] = {}
    for row in rows:
        if row.figures is None:
            names = who.setdefault(row.reason or "not run", [])
            if row.entry.variant.name not in names:
                names.append(row.entry.variant.name)
    return [f"{'; '.join(names)}: {reason}" for reason, names in who.items()]


def show(console: Console, rows: list[Row], required: list[Requirement]) -> None:
    for sheet in sheets(rows):
        console.print(_table(sheet))
    for line in absences(rows):
        console.print(line, markup=False, highlight=False)
    if required:
        console.print(_table(verdicts(required)))


def to_json(rows: list[Row], required: list[Requirement], about: dict[str, Any]) -> str:
    document = {
        **about,
        "rows": [
            {
                "case": row.case.to_json(),
                "peer": row.entry.peer.name,
                "variant": row.entry.variant.name,
                "figures": row.figures,
                "rounds": row.rounds,
                "reason": row.reason,
            }
            for row in rows
        ],
        "requirements": [one.to_json() for one in required],
    }
    return json.dumps(_finite(document), indent=2, allow_nan=False)


def _cells(row: Row, every: list[Row]) -> list[str]:
    found = row.figures
    width = len(_HEADS[row.case.workload])
    if found is None:
        return ["–"] * width
    if row.case.workload == THROUGHPUT:
        rate, cpu_s = f"{found['delivered_per_s']:,.0f}", f"{found['cpu_s_per_million']:.1f}"
        return [rate, _share(found["lost_share"]), cpu_s, _note(found)]
    if row.case.workload == LATENCY:
        times = [f"{found['p50_us']:,.0f}", f"{found['p99_us']:,.0f}"]
        cpu_s = f"{found['cpu_s_per_million']:.0f}"
        return [*times, f"{found['kept_share']:.0%}", _share(found["lost_share"]), cpu_s]
    return _slow_cells(row, found, every)


def _slow_cells(row: Row, found: Figures, every: list[Row]) -> list[str]:
    without = replace(row.case, slow=False)
    alone = [twin.figures for twin in every if twin.entry == row.entry and twin.case == without]
    return [
        f"{found['kept_share']:.0%}",
        _number(found["fast_p99_us"]),
        _number(alone[0]["fast_p99_us"]) if alone and alone[0] else "",
        _share(found["slow_unreplaced_lost_share"]),
        str(found["slow_stale_keys"]),
        _number(found["slow_keyed_age_p50_ms"]),
        _number(found["slow_keyed_age_p99_ms"]),
        _number(found["slow_turn_ms"]),
        _number(found["slow_age_p50_ms"]),
        _number(found["slow_age_p99_ms"]),
        f"{found['slow_drain_s']:.1f}" if found["drained"] else (_note(found)),
        f"{found['sender_rss_start_mib']:.0f}→{found['sender_rss_end_mib']:.0f}",
        f"{found['slow_rss_start_mib']:.0f}→{found['slow_rss_end_mib']:.0f}",
    ]


def _note(found: Figures) -> str:
    if found.get("cut_off"):
        return "cut off"
    return "" if found.get("drained", True) else "still behind"


def _share(share: float) -> str:
    """A percentage in which only nothing is written as nothing."""
    return "0" if share == 0 else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def _number(value: float | None) -> str:
    if value is None:
        return ""
    if math.isinf(value):
        return "never"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _finite(value: Any) -> Any:
    """JSON has no infinity: what never came is null."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
