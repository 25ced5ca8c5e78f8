"""The events of all runs as kernels want them: names as numbers, sorted by sender, node and run.

Journals go in. Events are sorted three times, and those of senders that came back once more, each
time judged by all kernels that want them so, and not kept: what kernels found is, which is little.
What the numbers stand for is in `facts`. Knows nothing of the properties.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.journal import Header
from semcast.pipeline.verify.facts import Facts, source_of
from semcast.pipeline.verify.kernel import Kernel, judge

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
# How events are sorted, and by what column they are grouped then.
BY_NODE: Final = "by node"
BY_SENDER: Final = "by sender"
BY_LIVES: Final = "by lives"
IN_ORDER: Final = "in order"
# Makes the kernel of one property for a group; none if its run did not promise it.
Maker: TypeAlias = Callable[[Facts, int], Kernel | None]
# By sorting: who judges.
Makers: TypeAlias = Mapping[str, Sequence[Maker]]
# One event: `nid` and `sid` number nodes and senders of all runs, `n` the nodes of one run. The
# cover of a purge or skip is `bsid`, `bseq`; -1 where there is none.
STEPS: Final = (
    "run_no int, nid int, n int, kind int, sid int, seq bigint, bsid int, bseq bigint, "
    "at bigint, time_ns bigint, size int, obsoletes array<int>, `key` string, rank bigint"
)
_NAMES: Final = [column.split()[0].strip("`") for column in STEPS.split(", ")]
_KEY_BITS_MAX: Final = 63


def steps_of(
    events: DataFrame,
    nodes: DataFrame,
    senders: DataFrame,
    covers: bool = True,
    one_run: bool = False,
) -> DataFrame:
    """Stage: events, (run, node, run_no, nid, n) and (run, sender, sid) in; schema `STEPS` out.

    Where nobody asks for `covers`, there is none: looking them up is not for nothing. Nor is a
    second name to look up by, if all is of `one_run`.
    """
    run = [] if one_run else ["run"]
    if one_run:
        nodes, senders = nodes.drop("run"), senders.drop("run")
    found = (
        events.withColumn("kind", F.expr(_KIND))
        .where("kind is not null and sender is not null and seq is not null")
        .join(F.broadcast(nodes), [*run, "node"])
        .join(F.broadcast(senders), [*run, "sender"])
    )
    if covers:
        others = senders.withColumnsRenamed({"sender": "by_sender", "sid": "bsid"})
        found = found.join(F.broadcast(others), [*run, "by_sender"], "left")
        known = F.when(F.isnull("by_seq"), -1).otherwise(F.coalesce("bsid", F.lit(-1)))
        found = found.withColumns({"bsid": known, "bseq": F.coalesce("by_seq", F.lit(-1))})
    else:
        found = found.withColumns({"bsid": F.lit(-1), "bseq": F.lit(-1).cast("bigint")})
    return found.withColumn("size", F.coalesce("size", F.lit(0))).select(*_NAMES)


class Frames:
    """What properties judge. `close` when all are done."""

    def __init__(
        self,
        spark: SparkSession,
        events: DataFrame,
        counts: DataFrame,
        facts: Facts,
        makers: Makers,
    ) -> None:
        self.spark: Final = spark
        self.events: Final = events
        # As `survey.COUNTS`.
        self.counts: Final = counts
        self.facts: Final = facts
        self.makers: Final = makers
        self._shared: Final[dict[str, DataFrame]] = {}
        self._kept: Final[list[DataFrame]] = []

    def close(self) -> None:
        """Forget what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self.counts.unpersist()
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

    def found(self, sorting: str) -> DataFrame:
        """What all kernels found that want events in this order; `kernel.FOUND`."""
        return self.once(sorting, lambda frames: frames.judged(sorting))

    def violations(self, sorting: str, name: str) -> DataFrame:
        """Stage: those of one property, of what was found."""
        named = self.found(sorting).where(F.col("property") == name)
        return named.select("run", "property", "node", "messages", "at_ns", "text")

    def judged(self, sorting: str) -> DataFrame:
        """Stage: the same, computed anew."""
        frames = {
            BY_NODE: self.by_node,
            BY_SENDER: self.by_sender,
            BY_LIVES: self.by_lives,
            IN_ORDER: self.in_order,
        }
        rows, group = frames[sorting]()
        make = partial(_kernels, self.facts, tuple(self.makers.get(sorting, ())))
        return judge(rows, group, make)

    def only_runs(self, rows: DataFrame, wanted: Callable[[Header], bool]) -> DataFrame:
        """Stage: the rows of those runs alone."""
        numbers = [no for no, run in enumerate(self.facts.runs) if wanted(run.header)]
        if len(numbers) == len(self.facts.runs):
            return rows
        return rows.where(F.col("run_no").isin(numbers)) if numbers else rows.where(F.lit(False))

    # -- frames ------------------------------------------------------------------------------------

    def steps(self, *kinds: int, covers: bool = False) -> DataFrame:
        """The events of these kinds; schema `STEPS`."""
        one_run = len(self.facts.runs) == 1
        found = steps_of(self.events, self.nodes, self.senders, covers, one_run)
        return found.where(f"kind in {(*kinds, -1)}")

    def by_node(self) -> tuple[DataFrame, str]:
        """What each node did, in its order, and the column that groups it."""
        kinds = (MULTICAST, RECEIVE, DELIVER, PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_OTHER, SKIP)
        rows = self.steps(*kinds, STABLE, covers=True)
        columns = rows.select("nid", "kind", "sid", "seq", "bsid", "bseq", "size", "at", "time_ns")
        return self._sorted(columns, "nid", len(self.facts.nodes)), "nid"

    def by_sender(self) -> tuple[DataFrame, str]:
        """Of each sender: what was multicast, then what was delivered, and who joined where."""
        rows = self.with_chains(self.steps(MULTICAST, DELIVER, JOIN))
        # What others say of a message is not asked: not brought along, it costs nothing.
        sent = F.col("kind") == MULTICAST
        rows = rows.withColumns({name: F.when(sent, F.col(name)) for name in ("key", "rank")})
        columns = rows.select(
            "sid", "n", "kind", "seq", "at", "time_ns", "obsoletes", "key", "rank", "chain_at"
        )
        later = (F.col("kind") != MULTICAST).cast("bigint")
        return self._sorted(columns, "sid", len(self.facts.senders), (later, 1)), "sid"

    def by_lives(self) -> tuple[DataFrame, str]:
        """Of each sender that came back: what it multicast in all of its lives, then what nodes
        received and delivered of it.
        """
        lives = self.spark.createDataFrame(list(self.facts.lives.items()), "sid int, lid int")
        rows = self.steps(MULTICAST, RECEIVE, DELIVER).join(F.broadcast(lives), "sid")
        columns = rows.select("lid", "sid", "n", "kind", "seq", "at", "time_ns", "key", "rank")
        later = (F.col("kind") != MULTICAST).cast("bigint")
        return self._sorted(columns, "lid", len(self.facts.senders), (later, 1)), "lid"

    def in_order(self) -> tuple[DataFrame, str]:
        """What is known of each sender's messages in the order of the run, where that is known.

        Grouped by `gid`: the sender, or the whole run if covers are of other senders there.
        """
        kinds = (MULTICAST, RECEIVE, PURGE_RETRANSMIT, SKIP, STABLE, JOIN)
        rows = self.only_runs(self.steps(*kinds, covers=True), lambda header: header.one_order)
        rows = rows.withColumn("gid", F.col("sid"))
        crossing = sorted(self.facts.crossing)
        if crossing:
            first = {no: sid for sid, (no, _) in reversed(list(enumerate(self.facts.senders)))}
            pairs = [(no, first[no]) for no in crossing]
            groups = self.spark.createDataFrame(pairs, "run_no int, first int")
            rows = rows.join(F.broadcast(groups), "run_no", "left")
            rows = rows.withColumn("gid", F.coalesce("first", "sid"))
        columns = rows.select("gid", "sid", "n", "kind", "seq", "bsid", "bseq", "at", "time_ns")
        return self._sorted(columns, "gid", len(self.facts.senders)), "gid"

    def _sorted(
        self, rows: DataFrame, group: str, groups: int, before: tuple[Column, int] | None = None
    ) -> DataFrame:
        """Stage: the rows of each group in one task, and there by group, `before` and `at`.

        One number to sort by, if all fit into one: then Spark sorts by radix.
        """
        tasks = int(self.spark.conf.get("spark.sql.shuffle.partitions", "32") or "32")
        parts = [(F.col(group).cast("bigint"), groups.bit_length())]
        parts += [] if before is None else [before]
        parts.append((F.col("at"), self.facts.at_max.bit_length()))
        keys = [column for column, _ in parts]
        if sum(bits for _, bits in parts) <= _KEY_BITS_MAX:
            key = F.lit(0).cast("bigint")
            for column, bits in parts:
                key = F.shiftleft(key, bits).bitwiseOR(column)
            keys = [key]
        spread = rows.repartitionById(max(1, min(groups, tasks)), F.col(group))
        return spread.sortWithinPartitions(*keys)

    def with_chains(self, rows: DataFrame) -> DataFrame:
        """Stage: the rows with `chain_at`, where the first message stands that replaces a ranked
        one by its rank.
        """
        if self.facts.ranked:
            return rows.join(self.chains.select("sid", "seq", "chain_at"), ["sid", "seq"], "left")
        return rows.withColumn("chain_at", F.lit(None).cast("bigint"))

    @cached_property
    def chains(self) -> DataFrame:
        """Ranked messages (sid, seq, key, rank), with `chain_at`; PSRM §2.4."""
        first = (
            self.steps(MULTICAST)
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


def _kernels(facts: Facts, makers: Sequence[Maker], number: int) -> list[Kernel]:
    """The kernels of one group."""
    return [kernel for make in makers if (kernel := make(facts, number)) is not None]
