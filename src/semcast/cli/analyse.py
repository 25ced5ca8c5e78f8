"""`semcast analyse`: journals in; rates, purging, latencies, buffers out, at any size, by Spark."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_opener

if TYPE_CHECKING:
    from semcast.pipeline.analysis.answers import Answers, Tables

Row = Mapping[str, Any]
# More rows of one table are not shown.
_SHOWN_MAX: Final = 40


def analyse(
    journal: Annotated[Path, typer.Argument(help="A folder of journals: run=<name>/*.parquet.")],
    runs: Annotated[
        list[str] | None,
        typer.Option("--run", help="Only this run; may be repeated. Default: all runs."),
    ] = None,
    show: Annotated[
        str,
        typer.Option(
            "--show",
            help="More tables, by name, with commas: throughput, purging, latency, semantic, "
            "rounds, occupancy, series, blocked, receivers, atomicity, stability, repair, gossip, "
            "losses. The last two are shown of groups that gossip in any case.",
        ),
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Show all tables.")] = False,
    since_s: Annotated[
        float | None,
        typer.Option("--since-s", help="Measure from here on, in seconds from the run's start."),
    ] = None,
    until_s: Annotated[
        float | None, typer.Option("--until-s", help="Measure until here; the end is left out.")
    ] = None,
    window_s: Annotated[
        float, typer.Option("--window-s", help="Length of the windows of the series.")
    ] = 1.0,
    round_ms: Annotated[
        float, typer.Option("--round-ms", help="Length of a round, for rounds outdated.")
    ] = 1000 / 30,
    out: Annotated[
        Path | None, typer.Option("--out", help="Write every table below this folder, as Parquet.")
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """What happened in these runs? Spark works it out from the journals alone, of any size.

    It prints a line for each run and one for each member. --show adds tables, --all shows all of
    them, and --json prints all of them unless --show names some.

    \b
    Example:
      semcast sim run examples/scenarios/slow-reader.toml --journal journals
      semcast analyse journals --since-s 5 --until-s 20 --show semantic,occupancy
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.pipeline import analyse as answer
    from semcast.pipeline.spark import require_spark

    require_spark()
    from semcast.pipeline.analysis.questions import QUESTIONS

    shown = list(dict.fromkeys(name.strip() for name in show.split(",") if name.strip()))
    if everything or ((as_json or out is not None) and not shown):
        shown = list(QUESTIONS)
    with spark_opener("analyse", master, conf) as spark:
        found = answer(
            journal,
            shown,
            runs=runs,
            since_s=since_s,
            until_s=until_s,
            window_s=window_s,
            round_ms=round_ms,
            out=out,
            spark=spark,
        )
    if as_json:
        about: dict[str, object] = {"journal": str(journal), "since_s": since_s, "until_s": until_s}
        print_json({**about, "runs": [asdict(one) for one in found.runs], **found.tables})
        return
    _print_first(found)
    members = {(row["run"], row["node"]): _member(row) for row in found.tables["throughput"]}
    for name in dict.fromkeys((*shown, *_of_gossip(found))):
        _print_rows(name, QUESTIONS[name].about, found.tables[name], members)
    if out is not None:
        print_words(f"Tables: {', '.join(str(out / name) for name in found.tables)}")


def _of_gossip(found: "Answers") -> Sequence[str]:
    """The tables that nobody has to ask for."""
    from semcast.pipeline.analysis.answers import OF_GOSSIP

    gossips = any(header.reliability == "gossip" for header in found.headers.values())
    return OF_GOSSIP if gossips else ()


# -- the first screen ------------------------------------------------------------------------------


def _print_first(found: "Answers") -> None:
    columns = ["run", "members", "s", "sent/s", "taken/s", "replaced", "p99 ms", "blocked"]
    rows = [
        (
            row.run,
            str(row.members),
            f"{row.measured_s:.1f}",
            _number(row.sent_rate_msg_s),
            _number(row.delivered_rate_min_msg_s),
            f"{row.not_delivered_share_max:.1%}",
            _number(row.latency_p99_max_ms),
            f"{row.blocked_share_max:.1%}",
        )
        for row in found.runs[:_SHOWN_MAX]
    ]
    print_table(f"{len(found.runs)} runs" if len(found.runs) > 1 else "The run", columns, rows)
    _print_members(found.tables)
    print_words(
        "Replaced: the share of what the group sent that a member did not take because a later "
        "message was, or will be. p50 and p99: from multicast until taken. Beside what the group "
        "sent, a run's line has the numbers of its slowest or worst member."
    )
    several = [run for run, header in found.headers.items() if not header.one_order]
    if several:
        print_words(
            f"Latencies of {', '.join(several[:3])}{', …' if len(several) > 3 else ''} compare "
            "the clocks of several members; they are off by as much as those differ."
        )
    left_out = sum(row.events_left_out for row in found.runs)
    if left_out:
        print_words(f"{left_out:,} events were never written down: these journals have gaps.")


def _print_members(tables: "Tables") -> None:
    columns = [
        "member", "sent/s", "got/s", "taken/s", "replaced", "p50 ms", "p99 ms", "blocked",
    ]  # fmt: skip
    from semcast.pipeline.analysis.answers import not_delivered

    shares = not_delivered(tables["purging"])
    latency = {_name(row): row for row in tables["latency"]}
    blocked = {_name(row): row for row in tables["blocked"]}
    by_run: dict[str, list[tuple[str, ...]]] = {}
    for row in tables["throughput"]:
        name, taken = _name(row), latency.get(_name(row), {})
        label = _label(row)
        sent = _number(row["multicast_msg_s"]) if row["multicast"] else ""
        if not row["recorded"]:
            cells = (f"{label} (no journal)", sent, "", "", "", "", "", "")
        else:
            cells = (
                label,
                sent,
                _number(row["received_msg_s"]),
                _number(row["delivered_msg_s"]),
                f"{shares.get(name, 0.0):.1%}",
                _number(taken.get("latency_p50_ms")),
                _number(taken.get("latency_p99_ms")),
                f"{(blocked[name]['blocked_share'] or 0.0):.1%}",
            )
        by_run.setdefault(row["run"], []).append(cells)
    left = _SHOWN_MAX
    for run, rows in by_run.items():
        if left <= 0:
            break
        print_table(f"Members of {run}", columns, rows[:left])
        left -= len(rows)
    if left < 0 or len(by_run) > _SHOWN_MAX:
        print_words("More members are in the output of --json.")


def _label(row: Row) -> str:
    """What people call the member, and in which view it was."""
    view = "" if row["view"] is None else f", view {row['view']}"
    return f"{_member(row)}{view}"


def _member(row: Row) -> str:
    """What people call the member, and in which life if not in its first; or its number."""
    life = row["node"].partition(".")[2]
    known = f"{row['name']}.{life}" if row["name"] and life != "1" else row["name"]
    return str(known or row["node"])


def _name(row: Row) -> tuple[Any, ...]:
    return row["run"], row["node"], row["view"]


# -- the other tables ------------------------------------------------------------------------------


# What of each table is shown to people, and how it is called there; the rest is in the JSON.
_PERCENTILES: Final = ("p50", "p90", "p99", "max")
_COLUMNS: Final[Mapping[str, Mapping[str, str]]] = {
    "throughput": {
        "multicast": "sent",
        "multicast_bytes_s": "sent B/s",
        "received": "received",
        "received_bytes_s": "received B/s",
        "delivered": "taken",
        "delivered_bytes_s": "taken B/s",
    },
    "purging": {
        "place": "where", "reason": "why", "messages": "messages", "bytes": "bytes",
        "share_of_sent": "of all sent",
    },
    "latency": {"messages": "messages", "latency_mean_ms": "mean ms"}
    | {f"latency_{name}_ms": name for name in _PERCENTILES},
    "semantic": {"messages": "messages", "replaced": "replaced", "waiting": "waiting"}
    | {f"semantic_latency_{name}_ms": name for name in _PERCENTILES}
    | {"replaced_latency_p99_ms": "p99 of replaced"},
    "rounds": {
        "updates": "updates",
        "same_round_share": "same round",
        "within_10_rounds_share": "within 10",
        "rounds_mean": "mean",
    }
    | {f"rounds_{name}": name for name in _PERCENTILES}
    | {"values_behind_mean": "values behind", "values_behind_max": "most"},
    "occupancy": {
        "buffer": "buffer", "messages_mean": "messages, mean", "messages_max": "max",
        "bytes_mean": "bytes, mean", "bytes_max": "max",
    },
    "series": {
        "buffer": "buffer", "start_s": "from s", "messages_mean": "messages, mean",
        "messages_max": "max", "bytes_mean": "bytes, mean", "bytes_max": "max",
    },
    "blocked": {
        "blocks": "blocks", "blocked_s": "s", "blocked_share": "of the time",
        "longest_ms": "longest ms",
    },
    "receivers": {
        "never_replaced": "never replaced", "recipients": "of members", "receivers": "got by",
        "messages": "messages",
    },
    "atomicity": {
        "of": "of messages", "messages": "messages", "receivers_mean": "got by",
        "receivers_variation": "variation", "to_all_share": "by all",
        "to_over_95_percent_share": "by over 95%", "to_none_share": "by none",
    },
    "stability": {"own": "own", "messages": "messages"}
    | {f"stable_lag_{name}_ms": f"stable {name}" for name in ("p50", "p99", "max")}
    | {f"safe_lag_{name}_ms": f"safe {name}" for name in ("p50", "p99", "max")},
    "repair": {
        "naks": "asked for", "retransmitted": "sent again", "naks_per_message": "asked per message",
        "retransmitted_per_message": "sent again per message",
        "retransmitted_bytes_share": "of all bytes",
    },
    "gossip": {
        "never_obsolete": "never replaced", "atomic_share": "atomic", "atomic_share_low": "from",
        "atomic_share_high": "to", "receivers_mean": "got by", "receivers_cv": "variation",
        "latency_mean_ms": "mean ms", "latency_p99_ms": "p99",
        "copies_per_delivery": "copies per delivery",
    },
    "losses": {
        "event": "what", "place": "where", "reason": "why", "cover": "cover", "times": "times",
        "messages": "messages",
    },
}  # fmt: skip


def _print_rows(
    name: str, about: str, rows: Sequence[Row], members: Mapping[tuple[str, str], str]
) -> None:
    """A table, its rows named by run, member and view as far as these differ."""
    columns = {"node": "member", **_COLUMNS[name]}
    heading = [one for one in ("run", "node", "view") if len({row.get(one) for row in rows}) > 1]
    names = [*heading, *_COLUMNS[name]]
    if "node" not in heading and rows and "node" in rows[0]:
        names.insert(0, "node")
    cells = []
    for row in rows[:_SHOWN_MAX]:
        member = members.get((row["run"], row.get("node", "")), "")
        shown = {**row, "node": member} if member else row
        cells.append([_cell(one, shown[one]) for one in names])
    print_table(f"{name}: {about}", [columns.get(one, one) for one in names], cells)
    if len(rows) > _SHOWN_MAX:
        print_words(f"{len(rows) - _SHOWN_MAX:,} more rows are in the output of --json.")


def _cell(name: str, value: object) -> str:
    if isinstance(value, float) and ("_share" in name or name == "share_of_sent"):
        return f"{value:.1%}"
    return _number(value)


def _number(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3g}"
    return str(value)
