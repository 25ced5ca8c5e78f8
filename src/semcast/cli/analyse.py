"""`semcast analyse`: journals in; rates, purging, latencies, buffers out, at any size, by Spark."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, require_spark, spark_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from semcast.journal import Header
    from semcast.pipeline.analysis.questions import Analysis

Row = Mapping[str, Any]
Tables = dict[str, list[Row]]

# What the first screen is made of.
_FIRST: Final = ("throughput", "purging", "latency", "blocked")
# Rows of one table that are fetched, and that are shown, at most.
ROWS_MAX: Final = 200_000
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
            "rounds, occupancy, series, blocked, receivers, atomicity, stability, repair.",
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
    """What happened in these runs? From the journals alone, of any size, by Spark.

    First a line for each run and one for each member. --show adds tables, --all shows all of them,
    and --json prints all of them unless --show names some.

    \b
    Example:
      semcast sim run examples/scenarios/slow-reader.toml --journal journals
      semcast analyse journals --since-s 5 --until-s 20 --show semantic,occupancy
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    require_spark()
    from semcast.journal import chosen_runs
    from semcast.pipeline.analysis.questions import QUESTIONS, Analysis, Options
    from semcast.pipeline.analysis.runs import Span
    from semcast.pipeline.journals import read_journals

    options = Options(Span(since_s, until_s), window_s, round_ms)
    shown = _names(show, QUESTIONS)
    if everything or ((as_json or out is not None) and not shown):
        shown = list(QUESTIONS)
    asked = list(dict.fromkeys((*_FIRST, *shown)))
    chosen_runs(journal, runs)  # before the seconds that Spark takes to start
    with spark_session("analyse", master, conf) as spark:
        journals = read_journals(spark, journal, runs)
        with Analysis(journals, asked, options) as analysis:
            tables = {name: _rows(spark, analysis, name, out) for name in asked}
    summary = [_summary(run, header, tables) for run, header in journals.headers.items()]
    if as_json:
        print_json(
            {"journal": str(journal), "since_s": since_s, "until_s": until_s, "runs": summary}
            | {name: tables[name] for name in QUESTIONS if name in tables}
        )
        return
    _print_first(journals.headers, summary, tables)
    members = {(row["run"], row["node"]): _member(row) for row in tables["throughput"]}
    for name in shown:
        _print_rows(name, QUESTIONS[name].about, tables[name], members)
    if out is not None:
        print_words(f"Tables: {', '.join(str(out / name) for name in asked)}")


def _names(show: str, known: Mapping[str, object]) -> list[str]:
    from semcast.errors import ConfigError

    names = [name.strip() for name in show.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ConfigError(f"--show {name!r} is no table; choose from {', '.join(known)}")
    return list(dict.fromkeys(names))


def _rows(spark: "SparkSession", analysis: "Analysis", name: str, out: Path | None) -> list[Row]:
    """The rows of a table in order; with `out`, what was written there."""
    from semcast.errors import ConfigError
    from semcast.pipeline.spark.progress import run_job

    def fetch() -> list[Row]:
        table = analysis.table(name)
        if out is not None:
            table = _written(spark, table, out / name)
        return [row.asDict() for row in table.limit(ROWS_MAX + 1).collect()]

    rows = run_job(spark, name, fetch)
    if len(rows) > ROWS_MAX:
        raise ConfigError(
            f"more than {ROWS_MAX} rows about {name}; choose runs with --run, longer windows with "
            "--window-s, or read what --out writes"
        )
    return sorted(rows, key=_order)


def _written(spark: "SparkSession", table: "DataFrame", folder: Path) -> "DataFrame":
    table.coalesce(1).write.mode("overwrite").parquet(str(folder))
    return spark.read.schema(table.schema).parquet(str(folder))


def _order(row: Row) -> tuple[Any, ...]:
    """By run, member (p2.1 before p10.1), view, and whatever else names the row."""
    node = str(row.get("node", "p0.0"))
    number, _, life = node.removeprefix("p").partition(".")
    rest = [str(row.get(name, "")) for name in ("buffer", "place", "reason", "of", "own")]
    numbers = [-1 if row.get(name) is None else row[name] for name in _NUMBERS]
    return (row["run"], int(number), int(life), numbers[0], *rest, *numbers[1:])


_NUMBERS: Final = ("view", "window", "recipients", "receivers")


# -- the first screen ------------------------------------------------------------------------------


def _summary(run: str, header: "Header", tables: Tables) -> Row:
    """One run in a few numbers, each the group's or that of its worst member."""
    members = [row for row in tables["throughput"] if row["run"] == run]
    recorded = [row for row in members if row["recorded"]]
    here = {
        name: [row for row in tables[name] if row["run"] == run]
        for name in ("purging", "latency", "blocked")
    }
    length_s = max((row["measured_s"] for row in members), default=0.0)
    sent = sum(row["multicast"] for row in members)
    rates = [row["delivered_msg_s"] for row in recorded if row["measured_s"] == length_s > 0]
    return {
        "run": run,
        "group": header.group,
        "seed": header.seed,
        "one_clock": header.one_order,
        "members": len({row["node"] for row in members}),
        "measured_s": length_s,
        "sent": sent,
        "sent_rate_msg_s": sent / length_s if length_s else None,
        "delivered_rate_min_msg_s": min(rates, default=None),
        "delivered_rate_max_msg_s": max(rates, default=None),
        "not_delivered_share_max": max(_not_delivered(here["purging"]).values(), default=0.0),
        "latency_p99_max_ms": max((row["latency_p99_ms"] for row in here["latency"]), default=None),
        "blocked_share_max": max(
            (row["blocked_share"] or 0.0 for row in here["blocked"]), default=0.0
        ),
        "events_left_out": header.left_out,
    }


def _not_delivered(purging: Sequence[Row]) -> dict[tuple[Any, ...], float]:
    """By member and view: the share of what the group sent that it did not deliver (SRM §6.2)."""
    shares: dict[tuple[Any, ...], float] = {}
    for row in purging:
        if row["place"] in ("delivery", "network"):
            name = (row["run"], row["node"], row["view"])
            shares[name] = shares.get(name, 0.0) + (row["share_of_sent"] or 0.0)
    return shares


def _print_first(headers: Mapping[str, "Header"], summary: Sequence[Row], tables: Tables) -> None:
    columns = [
        "run", "members", "s", "sent", "sent/s", "taken/s", "at most", "replaced", "p99 ms",
        "blocked",
    ]  # fmt: skip
    rows = [
        (
            str(row["run"]),
            str(row["members"]),
            f"{row['measured_s']:.1f}",
            f"{row['sent']:,}",
            _number(row["sent_rate_msg_s"]),
            _number(row["delivered_rate_min_msg_s"]),
            _number(row["delivered_rate_max_msg_s"]),
            f"{row['not_delivered_share_max']:.1%}",
            _number(row["latency_p99_max_ms"]),
            f"{row['blocked_share_max']:.1%}",
        )
        for row in summary[:_SHOWN_MAX]
    ]
    print_table(f"{len(summary)} runs" if len(summary) > 1 else "The run", columns, rows)
    _print_members(tables)
    print_words(
        "Replaced: the share of what the group sent that a member did not take because a later "
        "message was, or will be. p50 and p99: from multicast until taken. A run's line has what "
        "its slowest and its fastest member took, and otherwise its worst member's numbers."
    )
    several = [run for run, header in headers.items() if not header.one_order]
    if several:
        print_words(
            f"Latencies of {', '.join(several[:3])}{', …' if len(several) > 3 else ''} compare "
            "the clocks of several members; they are off by as much as those differ."
        )
    left_out = sum(row["events_left_out"] for row in summary)
    if left_out:
        print_words(f"{left_out:,} events were never written down: these journals have gaps.")


def _print_members(tables: Tables) -> None:
    columns = [
        "member",
        "sent/s",
        "got/s",
        "taken/s",
        "replaced",
        "p50 ms",
        "p99 ms",
        "blocked",
    ]
    shares = _not_delivered(tables["purging"])
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
    if isinstance(value, float) and (name.endswith("_share") or name == "share_of_sent"):
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
