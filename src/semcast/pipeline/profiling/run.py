"""Rows of a trace in, its profile out: two jobs, whatever the size.

The first reads every row once and counts block by block; the second puts the counts together.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.pipeline.ingest.blocks import BLOCK_ROWS
from semcast.pipeline.ingest.inputs import TraceOptions
from semcast.pipeline.ingest.trouble import run_on_files
from semcast.pipeline.profiling import kernel, totals
from semcast.pipeline.profiling.find import Files, Found, find_traffic
from semcast.pipeline.profiling.kernel import Question
from semcast.pipeline.profiling.partials import partials
from semcast.pipeline.profiling.source import open_traffic
from semcast.pipeline.profiling.summary import Counted, Histogram, Span, TrafficProfile
from semcast.pipeline.spark.progress import run_job


def profile_rows(
    spark: SparkSession,
    rows: DataFrame,
    name: str,
    question: Question | None = None,
    block_rows: int = BLOCK_ROWS,
    files: Sequence[Path] = (),
) -> TrafficProfile:
    """The profile of some traffic; `rows` as `ingest.read.ROWS_SCHEMA`, read from these files."""
    question = question or Question()
    if not (math.isfinite(question.window_s) and question.window_s > 0):
        raise InputError(f"a window of {question.window_s} s; give one above 0")
    found = partials(rows, question, block_rows).persist(StorageLevel.MEMORY_AND_DISK)
    heads = found.where(F.col("what").isin(kernel.BLOCK, kernel.REASON))
    try:
        few = run_on_files(spark, "read", files or [Path(name)], heads.collect)
        blocks = sorted(
            (row for row in few if row.what == kernel.BLOCK),
            key=lambda row: (row.file, row.start, row.row),
        )
        if not blocks:
            raise InputError(_nothing(name, few))
        span = _span(blocks, question.window_s)
        everything = _totals(spark, found, blocks, question.per_sender, span)
    finally:
        found.unpersist()
    return _profile(name, question, blocks, span, everything)


def _totals(
    spark: SparkSession,
    found: DataFrame,
    blocks: list[Row],
    per_sender: bool,
    span: tuple[int, int] | None,
) -> list[Row]:
    """Run the second job. It may shuffle as many rows as keys, so its first result is kept."""
    across = totals.distances_across(found, _places(spark, blocks), per_sender)
    added = totals.totals(found, across).persist(StorageLevel.MEMORY_AND_DISK)
    try:
        counts = totals.counts(added, span or (0, 0)).union(totals.most(added, per_sender))
        return run_job(spark, "put together", counts.collect)
    finally:
        added.unpersist()


def profile_trace(
    spark: SparkSession,
    given: str | Path,
    question: Question | None = None,
    options: TraceOptions | None = None,
    only: str | None = None,
) -> TrafficProfile:
    """The profile of files, of a trace in a lake or of a journal; `only` chooses one of several."""
    return profile_found(spark, find_traffic(given, options, only), question)


def profile_found(
    spark: SparkSession, found: Found, question: Question | None = None
) -> TrafficProfile:
    """The profile of what `find_traffic` found."""
    traffic = open_traffic(spark, found)
    files = [file.path for file in found.files] if isinstance(found, Files) else []
    profile = profile_rows(spark, traffic.rows, traffic.name, question, files=files)
    if traffic.by_number is None:
        return profile
    return replace(profile, by_number=run_job(spark, "count", traffic.by_number.count))


def _nothing(name: str, heads: Iterable[Row]) -> str:
    bad: Counter[str] = Counter()
    for row in heads:
        bad[row.key] += row.n
    if not bad:
        return f"{name}: no messages in it"
    why = "; ".join(f"{n}: {reason}" for reason, n in bad.most_common())
    return f"{name}: no messages in it, only bad rows ({why})"


def _places(spark: SparkSession, blocks: list[Row]) -> DataFrame:
    rows, offset = [], 0
    for at, block in enumerate(blocks):
        rows.append((block.file, block.start, block.row, at, offset))
        offset += block.n
    return spark.createDataFrame(rows, totals.PLACES_SCHEMA)


def _span(blocks: list[Row], window_s: float) -> tuple[int, int] | None:
    """The first and the last window of time; None where there are no times."""
    timed = [block for block in blocks if block.low_s is not None]
    if not timed:
        return None
    low_s, high_s = min(one.low_s for one in timed), max(one.high_s for one in timed)
    return math.floor(low_s / window_s), math.floor(high_s / window_s)


def _profile(
    name: str,
    question: Question,
    blocks: list[Row],
    span: tuple[int, int] | None,
    everything: list[Row],
) -> TrafficProfile:
    by_what: dict[str, list[Row]] = {}
    for row in everything:
        by_what.setdefault(row.what, []).append(row)

    def histogram(what: str, empty: int = 0) -> Histogram:
        rows = by_what.get(what, ())
        counts = {row.x: row.n for row in rows} | ({0: empty} if empty else {})
        return Histogram(counts, max((row.peak or row.x for row in rows), default=0))

    filled = sum(row.n for row in by_what.get(totals.WINDOWS_WITH, ()))
    empty = 0 if span is None else span[1] - span[0] + 1 - filled
    return TrafficProfile(
        name,
        question.per_sender,
        question.window_s,
        messages=sum(block.n for block in blocks),
        distances=histogram(kernel.DISTANCE),
        keys_with=histogram(totals.KEYS_WITH),
        windows_with=histogram(totals.WINDOWS_WITH, empty),
        sizes=histogram(kernel.SIZE),
        senders=by_what[totals.SENDERS][0].n,
        bytes_total=by_what[totals.BYTES][0].n,
        top_keys=_top(by_what.get(totals.TOP_KEY, ())),
        top_senders=_top(by_what.get(totals.TOP_SENDER, ())),
        spans=_spans(by_what.get(totals.RATE, ()), question.window_s, span),
        times_back=_times_back(blocks),
        rejected={row.label: row.n for row in by_what.get(kernel.REASON, ())},
        **_ends(blocks),
    )


def _top(rows: Iterable[Row]) -> tuple[Counted, ...]:
    found = [Counted(row.label, row.n, row.x) for row in rows]
    return tuple(sorted(found, key=lambda one: (-one.messages, one.name)))


def _spans(rows: Iterable[Row], window_s: float, span: tuple[int, int] | None) -> tuple[Span, ...]:
    if span is None:
        return ()
    first, last = span
    width = totals.span_width(span)
    there = {row.x: row for row in rows}
    spans = []
    for at in range((last - first) // width + 1):
        # The last one may be shorter.
        length_s = (min(width, last - first + 1 - at * width)) * window_s
        row = there.get(at)
        rate, peak = (row.n / length_s, row.peak / window_s) if row else (0.0, 0.0)
        spans.append(Span((first + at * width) * window_s, rate, peak))
    return tuple(spans)


def _times_back(blocks: list[Row]) -> int:
    """How many messages have a time before that of the message above them."""
    within: int = sum(block.x for block in blocks)
    across: int = sum(
        after.first_s < before.last_s
        for before, after in pairwise(blocks)
        if after.first_s is not None and before.last_s is not None
    )
    return within + across


def _ends(blocks: list[Row]) -> Mapping[str, Any]:
    timed = [block for block in blocks if block.low_s is not None]
    if not timed:
        return {}
    first_s, last_s = min(one.low_s for one in timed), max(one.high_s for one in timed)
    return {"first_s": first_s, "last_s": last_s}
