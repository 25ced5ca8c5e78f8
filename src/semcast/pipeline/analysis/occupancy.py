"""Occupancy: how much each buffer of each member held, over time.

The delivery buffer holds what was received and neither delivered nor purged there; the
retransmission buffer what `retained` says. Both follow from the events alone. A full buffer may
take a message in place of those that it replaces; the journal has its arrival first and the purges
after it, so what is held in between does not count for the maximum (as in `check.flow_bounds`).
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.members import BUFFERS, buffer_number, member_number
from semcast.pipeline.analysis.runs import EVER_NS
from semcast.pipeline.analysis.schema import declared, share_of

MOVES: Final = (
    "buffer_id long, view long, time_ns long, lsn long, "
    "messages int, bytes long, message long, cover long"
)
SERIES: Final = (
    "run string, node string, view long, buffer string, window long, start_s double, "
    "covered_s double, messages_mean double, messages_max long, bytes_mean double, bytes_max long"
)
OCCUPANCY: Final = (
    "run string, node string, view long, buffer string, covered_s double, "
    "messages_mean double, messages_max long, bytes_mean double, bytes_max long"
)
_NS_PER_S: Final = 1_000_000_000


def moves(events: DataFrame, kept: DataFrame, lived: DataFrame, window_s: float) -> DataFrame:
    """Whatever enters or leaves a buffer, from events, RETAINED and LIVES; schema MOVES.

    `message` and, on purges, `cover` are hashes that only show what caused what. At the beginning
    and end of a member, and of each window of this length, nothing moves, but time is cut.
    """
    marks = _marks(lived, window_ns(window_s))
    found = _delivery(events).unionByName(_retransmit(kept)).unionByName(marks)
    return declared(found, MOVES)


def _name(sender: str, seq: str) -> Column:
    return F.xxhash64(sender, seq)


def _delivery(events: DataFrame) -> DataFrame:
    here = "event in ('receive', 'deliver') or (event = 'purge' and where = 'delivery')"
    step = F.when(F.col("event") == "receive", 1).otherwise(-1)
    size = F.coalesce(F.col("size"), F.lit(0)).cast("long")
    return events.where(here).select(
        buffer_number("delivery", member_number()).alias("buffer_id"), "view", "time_ns", "lsn",
        step.alias("messages"), (step * size).alias("bytes"),
        _name("sender", "seq").alias("message"),
        F.when(F.col("event") == "purge", _name("by_sender", "by_seq")).alias("cover"),
    )  # fmt: skip


def _retransmit(kept: DataFrame) -> DataFrame:
    """An entry, and a leave if it left: by its purge or by stability, whichever came first."""
    nothing = F.lit(None).cast("long")
    entry = _move(F.col("entered_ns"), F.col("entered_lsn"), 1, nothing)
    purge = _move(F.col("purged_ns"), F.col("purged_lsn"), -1, F.col("cover"))
    release = _move(F.col("stable_ns"), F.col("stable_lsn"), -1, nothing)
    stays = F.col("stable_ns").isNull()
    purged = F.col("purged_ns").isNotNull() & (stays | (F.col("purged_lsn") < F.col("stable_lsn")))
    both = (
        F.when(purged, F.array(entry, purge))
        .when(stays, F.array(entry))
        .otherwise(F.array(entry, release))
    )
    return kept.where("kept").select(
        buffer_number("retransmit", F.col("member")).alias("buffer_id"), "view", "message",
        F.inline(both),
    )  # fmt: skip


def _move(time_ns: Column, lsn: Column, step: int, cover: Column) -> Column:
    size = F.coalesce(F.col("size"), F.lit(0)).cast("long")
    return F.struct(
        time_ns.alias("time_ns"),
        lsn.alias("lsn"),
        F.lit(step).alias("messages"),
        (size * step).alias("bytes"),
        cover.alias("cover"),
    )


def window_ns(window_s: float) -> int:
    """The length of a window."""
    return max(1, round(window_s * _NS_PER_S))


def _marks(lived: DataFrame, length_ns: int) -> DataFrame:
    """A small frame, so that no state of the large one lasts beyond a window."""
    nothing = F.lit(None).cast("long")
    last = F.max("end_ns").over(Window.partitionBy("run", "node")) == F.col("end_ns")
    cuts = F.expr(
        f"transform(sequence(begin_ns div {length_ns}, end_ns div {length_ns}), "
        f"at -> struct(greatest(begin_ns, at * {length_ns}) as time_ns, -1L as lsn))"
    )
    end = F.array(F.struct(F.col("end_ns").alias("time_ns"), F.lit(EVER_NS).alias("lsn")))
    marks = F.when(last, F.concat(cuts, end)).otherwise(cuts)
    buffers = F.explode(F.array(*[buffer_number(name, member_number()) for name in BUFFERS]))
    return (
        lived.where("recorded and begin_ns <= end_ns")
        .select("view", buffers.alias("buffer_id"), marks.alias("marks"))
        .select("view", "buffer_id", F.inline("marks"))
        .withColumns({"messages": F.lit(0), "bytes": F.lit(0).cast("long")})
        .withColumns({"message": nothing, "cover": nothing})
    )


def series(moved: DataFrame, names: DataFrame, window_s: float) -> DataFrame:
    """From MOVES cut by windows of this length (with the span), their means and maxima. SERIES.

    `names` is BUFFER_NAMES.

    Means are weighted by time. Windows are counted from time 0 of a simulated run's clock and from
    the epoch of a live one's. A window that a member did not live through is covered in part.
    """
    length_ns = window_ns(window_s)
    order = Window.partitionBy("buffer_id").orderBy("time_ns", "lsn")
    so_far = order.rowsBetween(Window.unboundedPreceding, 0)
    next_cover, next_message = F.lead("cover").over(order), F.lead("message").over(order)
    cause = F.coalesce("cover", "message")
    passing = next_cover.isNotNull() & ((next_cover == cause) | (next_message == F.col("message")))
    held = moved.select(
        "*",
        F.sum("messages").over(so_far).alias("held"),
        F.sum("bytes").over(so_far).alias("held_bytes"),
        F.lead("time_ns").over(order).alias("next_ns"),
        F.coalesce(passing, F.lit(False)).alias("passing"),
    )
    held = held.withColumns(
        {
            "from_ns": F.greatest("time_ns", "since_ns"),
            "to_ns": F.least(F.coalesce("next_ns", "time_ns"), "until_ns"),
        }
    ).where("from_ns <= to_ns and from_ns < until_ns")
    part = F.col("to_ns") - F.col("from_ns")
    settled = ~F.col("passing")
    found = (
        held.withColumn("part_ns", part)
        .withColumn("window", F.expr(f"from_ns div {length_ns}"))
        .groupBy("buffer_id", "view", "window")
        .agg(
            (F.col("window") * length_ns / _NS_PER_S).alias("start_s"),
            F.sum("part_ns").alias("part_ns"),
            F.sum(F.col("held") * F.col("part_ns").cast("double")).alias("messages_ns"),
            F.sum(F.col("held_bytes") * F.col("part_ns").cast("double")).alias("bytes_ns"),
            F.coalesce(F.max(F.when(settled, F.col("held"))), F.lit(0)).alias("messages_max"),
            F.coalesce(F.max(F.when(settled, F.col("held_bytes"))), F.lit(0)).alias("bytes_max"),
        )
    )
    found = found.withColumns(
        {
            "covered_s": F.col("part_ns") / 1e9,
            "messages_mean": share_of(F.col("messages_ns"), F.col("part_ns")),
            "bytes_mean": share_of(F.col("bytes_ns"), F.col("part_ns")),
        }
    )
    return declared(found.join(F.broadcast(names), "buffer_id"), SERIES)


def occupancy(windows: DataFrame) -> DataFrame:
    """From SERIES, one row for each member, view and buffer; schema OCCUPANCY."""

    def mean(name: str) -> Column:
        weighted = F.sum(F.coalesce(F.col(name), F.lit(0.0)) * F.col("covered_s"))
        return share_of(weighted, F.sum("covered_s"))

    found = windows.groupBy("run", "node", "view", "buffer").agg(
        F.sum("covered_s").alias("covered_s"),
        mean("messages_mean").alias("messages_mean"),
        F.max("messages_max").alias("messages_max"),
        mean("bytes_mean").alias("bytes_mean"),
        F.max("bytes_max").alias("bytes_max"),
    )
    return declared(found, OCCUPANCY)
