"""The events of all runs as kernels want them: names as numbers, sorted by sender, node and run.

Journals go in. Each frame is computed when a property first asks for it, and kept for the next.
What the numbers stand for is in `facts`. Knows nothing of the properties.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.journal import Header
from semcast.pipeline.verify.facts import Facts, source_of

MULTICAST: Final = 0
RECEIVE: Final = 1
DELIVER: Final = 2
PURGE_DELIVERY: Final = 3
PURGE_RETRANSMIT: Final = 4
PURGE_OTHER: Final = 5
SKIP: Final = 6
STABLE: Final = 7
JOIN: Final = 8
_KIND: Final = f"""
    case event
    when 'multicast' then {MULTICAST} when 'receive' then {RECEIVE} when 'deliver' then {DELIVER}
    when 'skip' then {SKIP} when 'stable' then {STABLE} when 'join' then {JOIN}
    when 'purge' then case where
        when 'delivery' then {PURGE_DELIVERY} when 'retransmit' then {PURGE_RETRANSMIT}
        else {PURGE_OTHER} end
    end
"""
# One event: `nid` and `sid` number nodes and senders of all runs, `n` the nodes of one run. The
# cover of a purge or skip is `bsid`, `bseq`; -1 where there is none.
STEPS: Final = (
    "run_no int, nid int, n int, kind int, sid int, seq bigint, bsid int, bseq bigint, "
    "at bigint, time_ns bigint, size int, obsoletes array<int>, `key` string, rank bigint"
)
_NAMES: Final = [column.split()[0].strip("`") for column in STEPS.split(", ")]


def steps_of(events: DataFrame, nodes: DataFrame, senders: DataFrame) -> DataFrame:
    """Stage: events, (run, node, run_no, nid, n) and (run, sender, sid) in; schema `STEPS` out."""
    covers = senders.toDF("run", "by_sender", "bsid")
    return (
        events.withColumn("kind", F.expr(_KIND))
        .where("kind is not null and sender is not null and seq is not null")
        .join(F.broadcast(nodes), ["run", "node"])
        .join(F.broadcast(senders), ["run", "sender"])
        .join(F.broadcast(covers), ["run", "by_sender"], "left")
        .withColumn("bsid", F.when(F.isnull("by_seq"), -1).otherwise(F.coalesce("bsid", F.lit(-1))))
        .withColumn("bseq", F.coalesce("by_seq", F.lit(-1)))
        .withColumn("size", F.coalesce("size", F.lit(0)))
        .select(*_NAMES)
    )


class Frames:
    """What properties judge. `close` when all are done."""

    def __init__(self, spark: SparkSession, events: DataFrame, facts: Facts) -> None:
        self.spark: Final = spark
        self.events: Final = events
        self.facts: Final = facts
        self._shared: Final[dict[str, DataFrame]] = {}
        self._kept: Final[list[DataFrame]] = []

    def close(self) -> None:
        """Forget what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()
        self._shared.clear()

    def keep(self, frame: DataFrame) -> DataFrame:
        """Compute it once only."""
        self._kept.append(frame.persist())
        return frame

    def once(self, name: str, make: "Callable[[Frames], DataFrame]") -> DataFrame:
        """What several properties share."""
        if name not in self._shared:
            self._shared[name] = self.keep(make(self))
        return self._shared[name]

    def only_runs(self, rows: DataFrame, wanted: Callable[[Header], bool]) -> DataFrame:
        """Stage: the rows of those runs alone."""
        numbers = [no for no, run in enumerate(self.facts.runs) if wanted(run.header)]
        if len(numbers) == len(self.facts.runs):
            return rows
        return rows.where(F.col("run_no").isin(numbers)) if numbers else rows.where(F.lit(False))

    # -- frames ------------------------------------------------------------------------------------

    @cached_property
    def steps(self) -> DataFrame:
        """Every event that is about a message, or about how far a node is; schema `STEPS`."""
        return steps_of(self.events, self.nodes, self.senders)

    @cached_property
    def by_node(self) -> DataFrame:
        """What each node did, in its order; all others are made from this one."""
        sorted_rows = self.steps.repartition("nid").sortWithinPartitions("nid", "at")
        return self.keep(sorted_rows)

    @cached_property
    def by_sender(self) -> DataFrame:
        """Of each sender: what was multicast, then what was delivered, and who joined where.

        With `chain_at`: where the first message stands that replaces a ranked one by its rank.
        """
        rows = self.by_node.where(f"kind in ({MULTICAST}, {DELIVER}, {JOIN})").drop(
            "nid", "bsid", "bseq", "size"
        )
        if self.facts.ranked:
            rows = rows.join(self.chains.select("sid", "seq", "chain_at"), ["sid", "seq"], "left")
        else:
            rows = rows.withColumn("chain_at", F.lit(None).cast("bigint"))
        order = ("sid", F.col("kind") != MULTICAST, "at")
        return self.keep(rows.repartition("sid").sortWithinPartitions(*order))

    @cached_property
    def in_order(self) -> DataFrame:
        """What is known of each sender's messages in the order of the run, where that is known.

        Grouped by `gid`: the sender, or the whole run if covers are of other senders there.
        """
        kinds = (MULTICAST, RECEIVE, PURGE_RETRANSMIT, SKIP, STABLE, JOIN)
        rows = self.by_node.where(f"kind in {kinds}").drop(
            "nid", "size", "obsoletes", "key", "rank"
        )
        rows = self.only_runs(rows, lambda header: header.one_order)
        crossing = sorted(self.facts.crossing)
        if crossing:
            first = {no: sid for sid, (no, _) in reversed(list(enumerate(self.facts.senders)))}
            pairs = [(no, first[no]) for no in crossing]
            groups = self.spark.createDataFrame(pairs, "run_no int, first int")
            rows = rows.join(F.broadcast(groups), "run_no", "left")
            rows = rows.withColumn("gid", F.coalesce("first", "sid")).drop("first")
        else:
            rows = rows.withColumn("gid", F.col("sid"))
        return self.keep(rows.repartition("gid").sortWithinPartitions("gid", "at"))

    @cached_property
    def chains(self) -> DataFrame:
        """Ranked messages (sid, seq, key, rank), with `chain_at`; PSRM §2.4."""
        first = (
            self.by_node.where(f"kind = {MULTICAST}")
            .groupBy("run_no", "sid", "seq")
            .agg(F.min_by(F.struct("at", "rank", "key"), "at").alias("first"))
            .select("run_no", "sid", "seq", "first.*")
            .where("rank is not null")
            .withColumn("key", F.coalesce("key", F.lit("")))
        )
        first = self.only_runs(first, lambda header: header.purging)
        order = [F.desc(name) for name in ("rank", "source", "life", "seq")]
        above = Window.partitionBy("run_no", "key").orderBy(*order)
        above = above.rowsBetween(Window.unboundedPreceding, -1)
        return self.keep(
            first.join(F.broadcast(self.sources), "sid")
            .withColumn("chain_at", F.min("at").over(above))
            .select("sid", "seq", "key", "rank", "chain_at")
        )

    # -- names -------------------------------------------------------------------------------------

    @cached_property
    def nodes(self) -> DataFrame:
        """(run, node, run_no, nid, n, crash_at)."""
        rows = []
        for nid, (no, n) in enumerate(self.facts.nodes):
            run = self.facts.runs[no]
            rows.append((run.header.run, run.nodes[n], no, nid, n, run.crash_at[n]))
        schema = "run string, node string, run_no int, nid int, n int, crash_at bigint"
        return self.spark.createDataFrame(rows, schema)

    @cached_property
    def senders(self) -> DataFrame:
        """(run, sender, sid)."""
        rows = [
            (self.facts.runs[no].header.run, name, sid)
            for sid, (no, name) in enumerate(self.facts.senders)
        ]
        return self.spark.createDataFrame(rows, "run string, sender string, sid int")

    @cached_property
    def sources(self) -> DataFrame:
        """(sid, source, life)."""
        rows = [(sid, *source_of(name)) for sid, (_, name) in enumerate(self.facts.senders)]
        return self.spark.createDataFrame(rows, "sid int, source bigint, life bigint")
