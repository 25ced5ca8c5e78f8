"""`semcast plan`: a trace and a slow receiver in; the buffer that carries it, out."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from semcast.cli._output import JsonOption, print_json, print_table, print_words
from semcast.cli._spark import ConfOption, MasterOption, spark_opener
from semcast.cli._trace import (
    ColumnOption,
    FormatOption,
    PerSenderOption,
    TimeUnitOption,
    trace_options,
)

if TYPE_CHECKING:
    from semcast.pipeline.planning.confirm import Trial
    from semcast.pipeline.planning.run import Plan

NOT_CARRIED: Final = 1
SEEDS_MAX: Final = 50
ROWS: Final = {
    "sender_rate_msg_s": "sent, msg/s",
    "slow_receiver_rate_msg_s": "taken by the slow receiver, msg/s",
    "purged_share": "purged for it",
    "semantic_latency_mean_ms": "semantic latency, mean ms",
    "semantic_latency_max_ms": "semantic latency, max ms",
    "occupancy_mean_messages": "waiting, mean messages",
    "blocked_share": "sender blocked, of the time",
}


def plan(
    trace: Annotated[
        str,
        typer.Argument(
            help="CSV, JSON lines or Parquet: a file or a folder; what `semcast ingest` wrote; or "
            "a journal."
        ),
    ],
    receiver_rate: Annotated[
        float | None,
        typer.Option("--receiver-rate", help="What the slow receiver can do, in msg/s."),
    ] = None,
    receiver_share: Annotated[
        float | None,
        typer.Option("--receiver-share", help="The same as a share of the trace's mean rate."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", min=2, max=SEEDS_MAX, help="Samples drawn from the trace.")
    ] = 10,
    blocked_max: Annotated[
        float,
        typer.Option("--blocked-max", help="How much of the time the sender may be blocked."),
    ] = 0.01,
    per_sender: PerSenderOption = False,
    replacement: Annotated[
        str,
        typer.Option(
            "--replacement",
            metavar="key|bitmap",
            help="By key at any distance, or by the smallest bitmap that will do.",
        ),
    ] = "key",
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="NAME", help="Which trace, or run, if there are several."),
    ] = None,
    column: ColumnOption = None,
    time_unit: TimeUnitOption = "s",
    kind: FormatOption = None,
    work: Annotated[
        Path | None,
        typer.Option("--work", help="Keep the replayed samples here; a cluster must see it."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> int:
    """The smallest buffer that carries a slow receiver, confirmed by simulation.

    The closed form makes a guess from the trace's distances; a sweep that replays the trace, and
    samples drawn from it, shows whether it holds and enlarges the buffer until it does. Prints a
    GroupConfig to paste. The exit code is 1 if no buffer can carry that receiver. With --per-sender
    a message replaces those of its own sender only, and the buffer holds the messages of all.

    \b
    Example:
      semcast plan quotes.csv.gz --receiver-share 0.6
      semcast plan quotes.csv.gz --receiver-rate 40 --json
      semcast plan positions.csv.gz --per-sender --receiver-share 0.6
      semcast plan journals --only quotes-1 --receiver-share 0.5
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    from semcast.pipeline import plan as find_plan

    options = trace_options(column, time_unit, kind)
    with spark_opener("plan", master, conf) as spark:
        found = find_plan(
            trace,
            receiver_rate_msg_s=receiver_rate,
            receiver_share=receiver_share,
            seeds=seeds,
            blocked_share_max=blocked_max,
            per_sender=per_sender,
            replacement=replacement,
            only=only,
            options=options,
            work=work,
            spark=spark,
        )
    if as_json:
        from semcast.pipeline.planning.run import as_json as object_of

        print_json(object_of(found))
    else:
        _print(found)
    return 0 if found.final is not None else NOT_CARRIED


# -- output ----------------------------------------------------------------------------------------


def _print(found: "Plan") -> None:
    demand = found.forecast.demand
    profile = found.profile
    print_words(
        f"{profile.name}: {profile.messages:,} messages, {demand.sender_rate_msg_s:.1f} msg/s in "
        f"the mean; {profile.never_replaced_share:.1%} are never replaced. The receiver takes "
        f"{demand.receiver_rate_msg_s:.1f} msg/s, "
        f"{demand.receiver_rate_msg_s / demand.sender_rate_msg_s:.0%} of that. "
        + (
            f"Each of its {profile.senders:,} senders is a member of its own."
            if found.per_sender
            else "One member sends all of it."
        )
    )
    if profile.by_number:
        print_words(
            f"{profile.by_number:,} messages replace others by number, not by key: that is not "
            "counted here, so that less may do."
        )
    if found.confirmed is None:
        _print_impossible(found)
        return
    trial = found.final or found.confirmed.first
    _print_trial(trial, found.wish.seeds)
    if found.final is None:
        _print_not_carried(found)
        return
    _print_carried(found, found.final)
    assert found.group_config is not None
    print_words("", found.group_config)


def _print_impossible(found: "Plan") -> None:
    hoped = found.forecast
    demand = hoped.demand
    print_words(
        f"No buffer can carry it: {1 - hoped.ratio_limit:.1%} of the messages are never replaced"
        + ("" if found.wish.by_key else _beyond_bitmaps(found))
        + ". That is "
        f"{hoped.receiver_rate_min_msg_s:.1f} msg/s, and the receiver takes "
        f"{demand.receiver_rate_msg_s:.1f}.",
        f"A receiver of at least {hoped.receiver_rate_min_msg_s:.1f} msg/s "
        f"({hoped.receiver_rate_min_msg_s / demand.sender_rate_msg_s:.0%} of the mean rate) "
        "could be carried.",
        *_other_sense(found),
    )


def _other_sense(found: "Plan") -> list[str]:
    """Bitmaps reach further where each sender counts its own messages only."""
    if found.wish.by_key or found.per_sender or found.profile.senders < 2:
        return []
    return [
        f"That is for one member that sends all of it. Is each of the {found.profile.senders:,} "
        "senders a member of its own, plan with --per-sender."
    ]


def _beyond_bitmaps(found: "Plan") -> str:
    of = " of one sender" if found.per_sender else ""
    return f", or from further away than the longest bitmap reaches (1,024 messages{of})"


def _marks(k: int | None) -> str:
    return "replaced by key" if k is None else f"k = {k}"


def _print_trial(trial: "Trial", seeds: int) -> None:
    rows = []
    for name, words in ROWS.items():
        form = ".2%" if name.endswith("_share") else ",.1f"
        on_trace = "" if trial.trace is None else f"{trial.trace[name]:{form}}"
        on_drawn = ""
        if trial.drawn is not None:
            one = trial.drawn[name]
            on_drawn = f"{one.mean:{form}} ± {one.ci95 or 0.0:{form}}"
        rows.append((words, on_trace, on_drawn))
    title = f"Simulated with N = {trial.buffer_messages:,}, {_marks(trial.k)}"
    print_table(title, ["", "the trace", f"{seeds} samples drawn from it"], rows)


def _print_carried(found: "Plan", final: "Trial") -> None:
    assert found.confirmed is not None
    hoped, first = found.forecast, found.confirmed.first
    model = found.expected(final)
    bound = model.sender_rate_max_msg_s
    sentences = [
        f"Carried with N = {final.buffer_messages:,} messages, {_marks(final.k)}: the sender is "
        f"blocked no more than {found.wish.blocked_share_max:.1%} of the time (mean and 95% "
        "confidence interval).",
        f"Under lasting congestion the closed form expects {model.purge_ratio:.1%} purged and "
        + ("any sender carried" if bound is None else f"a sender of {bound:,.0f} msg/s carried")
        + f"; a full buffer is {model.latency_full_ms:,.0f} ms of reading.",
    ]
    if final.buffer_messages != hoped.buffer_messages or final.k != hoped.k:
        sentences.append(
            f"The closed form alone asks for N = {hoped.buffer_messages:,}"
            + ("" if hoped.k is None else f" and k = {hoped.k}")
            + ". It "
            f"knows no bursts: with that the sender was blocked {first.blocked_share:.1%} of the "
            "time, so the buffer was enlarged until the sweep carried it."
        )
    if found.k_per_sender is not None and not found.per_sender:
        sentences.append(
            f"k is for one member that sends all of it. If each of the {found.profile.senders} "
            f"senders is a member of its own, k = {found.k_per_sender} tells as much "
            "(--per-sender)."
        )
    print_words(*sentences)


def _print_not_carried(found: "Plan") -> None:
    assert found.confirmed is not None
    print_words(
        f"Not carried by any buffer up to {found.confirmed.buffer_tried_max_messages:,} messages, "
        f"{'by key' if found.wish.by_key else 'with k up to 1,024'}: the sender is blocked more "
        f"than {found.wish.blocked_share_max:.1%} "
        "of the time. In the long run the closed form sees no obstacle, so bursts last too long, "
        "or the trace is too short to tell with larger buffers. Give a faster receiver, more "
        "--blocked-max, or a longer trace.",
    )
