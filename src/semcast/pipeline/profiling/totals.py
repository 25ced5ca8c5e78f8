"""The counts of blocks in, those of all traffic out. No stage here sees a row of the trace.

Distances that cross blocks: from the last position of a key in one block to its first in the next
one that has it. Positions count from the beginning of the block, so `places` says where blocks
begin; the driver makes it, since there is one block to a million rows. What may grow with the
trace, its keys, is never on the driver.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.pipeline.profiling import kernel

PLACES_SCHEMA: Final = "file int, start bigint, row bigint, block bigint, offset bigint"
TOTALS_SCHEMA: Final = (
    "what string, sender string, key string, x bigint, n bigint, bytes bigint, peak bigint"
)
COUNTS_SCHEMA: Final = "what string, label string, x bigint, n bigint, peak bigint"

# Numbers are counted one by one up to here, and then in classes of a 1,024th of their size: then
# no histogram has more than about a hundred thousand rows, however long the trace.
EXACT_MAX: Final = 1 << 16
_CLASS_BITS: Final = 11

# What is counted of totals, besides distances, sizes and reasons.
KEYS_WITH: Final = "keys_with"  # n keys have x messages
WINDOWS_WITH: Final = "windows_with"  # n windows have x messages
RATE: Final = "rate"  # n messages in the x-th span of time, at most `peak` in a window of it
SENDERS: Final = "senders"  # n senders
BYTES: Final = "bytes"  # n bytes in all
TOP_KEY: Final = "top_key"
TOP_SENDER: Final = "top_sender"
SPANS_MAX: Final = 600
TOP_MAX: Final = 10


def distances_across(partials: DataFrame, places: DataFrame, per_sender: bool) -> DataFrame:
    """One row for each distance that crosses blocks: `x bigint`."""
    keys = _placed(partials.where(F.col("what") == kernel.KEY), places)
    owner = ["sender", "key"] if per_sender else ["key"]
    if per_sender:
        keys = keys.drop("offset").join(_sender_offsets(partials, places), ["block", "sender"])
    before = F.lag(F.col("last") + F.col("offset")).over(
        Window.partitionBy(*owner).orderBy("block")
    )
    across = keys.select((F.col("first") + F.col("offset") - before).alias("x"))
    return across.where(F.col("x").isNotNull())


def totals(partials: DataFrame, across: DataFrame) -> DataFrame:
    """The counts of all blocks added up (TOTALS_SCHEMA): of a key, a sender, a window, a class.

    `x` is the least number of its class, `peak` the largest that was seen in it.
    """
    crossing = across.select(F.lit(kernel.DISTANCE).alias("what"), "x", F.lit(1).alias("n"))
    counted = partials.where(F.col("what") != kernel.BLOCK)
    both = counted.select("what", "sender", "key", "x", "n", "bytes").unionByName(
        crossing, allowMissingColumns=True
    )
    return both.groupBy("what", "sender", "key", _class_of(F.col("x")).alias("x")).agg(
        F.sum("n").alias("n"), F.sum("bytes").alias("bytes"), F.max("x").alias("peak")
    )


def counts(added: DataFrame, span: tuple[int, int]) -> DataFrame:
    """Totals in; what the driver needs to know (COUNTS_SCHEMA) out, which always fits it.

    The numbers of messages of all keys add up to the messages of the trace, so only few of these
    numbers can differ: as many rows as there are keys become a handful. `span` is the first and the
    last window of time.
    """
    what, x, n = F.col("what"), F.col("x"), F.col("n")
    one = F.lit(1).cast("bigint")
    about = (
        F.when(what == kernel.KEY, F.array(_count(KEYS_WITH, n, one)))
        .when(
            what == kernel.WINDOW,
            F.array(_count(WINDOWS_WITH, n, one), _count(RATE, _span_of(x, span), n, n)),
        )
        .when(
            what == kernel.SENDER,
            F.array(_count(SENDERS, None, one), _count(BYTES, None, F.col("bytes"))),
        )
        .when(what == kernel.REASON, F.array(_count(kernel.REASON, None, n, label=F.col("key"))))
        .otherwise(F.array(_count(what, x, n, F.col("peak"))))
    )
    each = added.select(F.explode(about).alias("one")).select("one.*")
    return each.groupBy("what", "label", "x").agg(
        F.sum("n").alias("n"), F.max("peak").alias("peak")
    )


def most(added: DataFrame, per_sender: bool) -> DataFrame:
    """Totals in; the keys and the senders that have most messages out (COUNTS_SCHEMA)."""
    label = F.concat_ws(" ", "sender", "key") if per_sender else F.col("key")
    found = [
        added.where(F.col("what") == what)
        .select(F.lit(name).alias("what"), named.alias("label"), F.col("bytes").alias("x"), "n")
        .orderBy(F.desc("n"), "label")
        .limit(TOP_MAX)
        for what, name, named in (
            (kernel.KEY, TOP_KEY, label),
            (kernel.SENDER, TOP_SENDER, F.col("sender")),
        )
    ]
    return found[0].union(found[1]).withColumn("peak", F.lit(None).cast("bigint"))


def span_width(span: tuple[int, int]) -> int:
    """How many windows make a span, so that there are not too many spans."""
    first, last = span
    return -(-(last - first + 1) // SPANS_MAX)


def _span_of(window: Column, span: tuple[int, int]) -> Column:
    return F.floor((window - F.lit(span[0])) / F.lit(span_width(span)))


def _count(
    what: str | Column, x: Column | None, n: Column, peak: Column | None = None,
    label: Column | None = None,
) -> Column:  # fmt: skip
    nothing = F.lit(None)
    return F.struct(
        (what if isinstance(what, Column) else F.lit(what)).alias("what"),
        (nothing if label is None else label).cast("string").alias("label"),
        (nothing if x is None else x).cast("bigint").alias("x"),
        n.cast("bigint").alias("n"),
        (nothing if peak is None else peak).cast("bigint").alias("peak"),
    )


def _placed(partials: DataFrame, places: DataFrame) -> DataFrame:
    """The counts with the number of their block and the position at which it begins."""
    return partials.join(F.broadcast(places), ["file", "start", "row"])


def _sender_offsets(partials: DataFrame, places: DataFrame) -> DataFrame:
    """How many messages a sender sent before a block: `block, sender, offset`."""
    senders = _placed(partials.where(F.col("what") == kernel.SENDER), places)
    earlier = (
        Window.partitionBy("sender").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    )
    before = F.coalesce(F.sum("n").over(earlier), F.lit(0))
    return senders.select("block", "sender", before.alias("offset"))


def _class_of(x: Column) -> Column:
    """The class that a number is counted in. Windows of time keep their number."""
    width = F.expr(f"shiftleft(1L, length(bin(x)) - {_CLASS_BITS})")
    exact = (x <= EXACT_MAX) | (F.col("what") == kernel.WINDOW)
    return F.when(exact | x.isNull(), x).otherwise(x - x % width)
