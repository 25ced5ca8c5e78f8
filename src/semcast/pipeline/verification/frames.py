"""The events of large runs as kernels want them: names as numbers, by node, sender and run.

Journals go in. Runs that lie in one file each, in order, are read from there by every task for
itself (`check.files`): no event goes through Spark. Others, put together from several logs, and
those with ranks, are sorted by Spark once for each way in which kernels want them (`check.kernel`).
Events are not kept: what kernels found is, which is little. What the numbers stand for is in
`check.facts`. Knows nothing of the properties.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from semcast.check.facts import NEVER, source_of
from semcast.check.kernel import (
    BY_LIVES,
    BY_NODE,
    BY_SENDER,
    BY_STREAM,
    FEDERATED,
    IN_ORDER,
    KINDS_OF,
    OF_RUN,
    Makers,
    feed_all,
)
from semcast.check.rows import (
    KINDS,
    MULTICAST,
    OTHER,
    PURGE_OTHER,
    PURGED_FROM,
    PURGES,
    SKIP,
)
from semcast.journal import Header
from semcast.pipeline.verification.survey import Survey
from semcast.pipeline.verification.tasks import (
    findings,
    judge_files,
    tallies_summed,
    those_that_stand,
)

# What kernels give, as `check.kernel.Finding`.
FOUND: Final = (
    "run_no int, property string, n int, messages array<struct<sender: string, seq: bigint>>, "
    "time_ns bigint, text string, `at` bigint, precedence int, `key` string, "
    "place struct<rank: bigint, source: bigint, life: bigint, seq: bigint>, "
    "tally struct<good: bigint, `all`: bigint>"
)
# What decides which findings stand; findings with the same cell are decided together.
_CELL: Final = ("run_no", "n", "at", "key")
_CELLS: Final = 64
_KINDS: Final = " ".join(f"when '{event}' then {kind}" for event, kind in KINDS.items())
_PURGES: Final = " ".join(f"when '{where}' then {kind}" for where, kind in PURGED_FROM.items())
_KIND: Final = (
    f"case when sender is null or seq is null then null when event = 'purge' "
    f"then case where {_PURGES} else {PURGE_OTHER} end else case event {_KINDS} end end"
)
# One event, as `check.rows`; `nid` numbers nodes of all runs.
_NAMES: Final = (
    "run_no", "nid", "n", "kind", "sid", "seq", "bsid", "bseq", "at", "time_ns", "size",
    "obsoletes", "key", "rank", "event", "gid", "graph",
)  # fmt: skip
_KEY_BITS_MAX: Final = 63
# A run is judged by so many tasks, unless a task had more groups than this.
_TASKS_PER_RUN: Final = 4
_GROUPS_PER_TASK: Final = 4


class Frames:
    """What properties judge. `close` when all are done."""

    def __init__(
        self,
        spark: SparkSession,
        events: DataFrame,
        survey: Survey,
        makers: Mapping[str, Makers],
        files: Mapping[str, Path],
    ) -> None:
        """`makers` says who judges, by sorting; at least one. `files` are those of runs that lie in
        one file each, in order.
        """
        self.spark: Final = spark
        self.events: Final = events
        self.survey: Final = survey
        self.facts: Final = survey.facts
        self.makers: Final = makers
        self.files: Final = files
        self._shared: Final[dict[str, DataFrame]] = {}
        self._kept: Final[list[DataFrame]] = []

    def close(self) -> None:
        """Let Spark forget what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()
        self._shared.clear()

    def keep(self, frame: DataFrame) -> DataFrame:
        """Have Spark keep a frame once it is computed."""
        self._kept.append(frame.persist())
        return frame

    def once(self, name: str, make: Callable[[], DataFrame]) -> DataFrame:
        """A frame that several stages ask for: it is made and kept once."""
        if name not in self._shared:
            self._shared[name] = self.keep(make())
        return self._shared[name]

    # -- what kernels found ------------------------------------------------------------------------

    def found(self, sorting: str) -> DataFrame:
        """What all kernels found that want events in this order; `FOUND`."""
        return self.once(sorting, partial(self._judged, sorting))

    def violations(self) -> DataFrame:
        """Stage: the findings that stand, of all sortings; `FOUND`."""
        found = reduce(DataFrame.unionByName, map(self.found, self.makers))
        cells = found.where("tally is null")
        cells = cells.withColumn("cell", F.pmod(F.hash(*_CELL), F.lit(_CELLS)))
        stand = cells.groupBy("cell").applyInArrow(those_that_stand, FOUND)
        if all(run.header.reliability != "gossip" for run in self.facts.runs):
            return stand
        tallies = found.where("tally is not null").groupBy("run_no")
        return stand.unionByName(tallies.applyInArrow(tallies_summed, FOUND))

    def _judged(self, sorting: str) -> DataFrame:
        # Only the driver can read Spark's words for a schema.
        words = StructType.fromDDL(FOUND)
        assert isinstance(words, StructType)
        about: dict[str, Any] = {
            "facts": self.facts,
            "sorting": sorting,
            "makers": self.makers[sorting],
        }
        work = partial(findings, arrow_schema=to_arrow_schema(words))
        in_files = all(run.header.run in self.files for run in self.facts.runs)
        if in_files and not self.facts.ranked:
            files = [str(self.files[run.header.run].absolute()) for run in self.facts.runs]
            read = partial(judge_files, files=files, **about)
            return self._shares(sorting).mapInArrow(partial(work, judge=read), FOUND)
        frames = {
            BY_NODE: self.by_node,
            BY_SENDER: self.by_sender,
            BY_LIVES: self.by_lives,
            IN_ORDER: self.in_order,
            BY_STREAM: self.by_stream,
            OF_RUN: self.of_run,
        }
        rows, column = frames[sorting]()
        # Arrow in Java needs time that grows with the square of a run of null lists, and most
        # events have none.
        if "obsoletes" in rows.columns:
            empty = F.array().cast("array<int>")
            rows = rows.withColumn("obsoletes", F.coalesce("obsoletes", empty))
        return rows.mapInArrow(
            partial(work, judge=partial(feed_all, column=column, **about)), FOUND
        )

    def _shares(self, sorting: str) -> DataFrame:
        """(share, run_no, groups): the groups that one task judges, each in a partition of its own.

        Every task reads its run's whole file, so there are only some for each run; but it holds
        what the senders of its groups multicast, so it has few of them.
        """
        facts = self.facts
        numbers: dict[str, Iterable[int]] = {
            BY_NODE: range(len(facts.nodes)),
            BY_SENDER: range(len(facts.senders)),
            BY_LIVES: sorted(set(facts.lives.values())),
            IN_ORDER: sorted(set(facts.group_of.values())),
            BY_STREAM: range(len(facts.senders)),
            OF_RUN: range(len(facts.runs)),
        }
        by_run: dict[int, list[int]] = {}
        for number in numbers[sorting]:
            run_no = number
            if sorting != OF_RUN:
                run_no = (facts.nodes if sorting == BY_NODE else facts.senders)[number][0]
            if sorting not in FEDERATED or facts.runs[run_no].header.federated:
                by_run.setdefault(run_no, []).append(number)
        shares: list[tuple[int, list[int]]] = []
        for run_no, groups in by_run.items():
            size = min(_GROUPS_PER_TASK, -(-len(groups) // _TASKS_PER_RUN))
            shares += [(run_no, groups[at : at + size]) for at in range(0, len(groups), size)]
        rows = [(share, *one) for share, one in enumerate(shares)]
        schema = "share int, run_no int, groups array<int>"
        frame = self.spark.createDataFrame(rows, schema)
        return frame.repartitionById(max(1, len(rows)), F.col("share"))

    # -- frames ------------------------------------------------------------------------------------

    def steps(self, *kinds: int, covers: bool = False) -> DataFrame:
        """Stage: the events of these kinds, with `_NAMES`.

        Where nobody asks for `covers`, there is none: looking them up is not for nothing. Nor is a
        second name to look up by, if all is of one run.
        """
        one_run = len(self.facts.runs) == 1
        run = [] if one_run else ["run"]
        nodes, senders = self.nodes, self.senders
        if one_run:
            nodes, senders = nodes.drop("run"), senders.drop("run")
        kind, join, event = F.expr(_KIND), "inner", F.lit(None).cast("string")
        if OTHER in kinds:
            # After a crash there should be nothing, so that everything counts.
            late = F.col("at") > F.col("crash_at")
            kind, join = F.coalesce(kind, F.when(late, OTHER)), "left"
            event = F.when(late, F.col("event"))
        found = self.events.join(F.broadcast(nodes), [*run, "node"])
        found = found.withColumns({"kind": kind, "event": event})
        found = found.where(f"kind in {(*kinds, -1)}")
        found = found.join(F.broadcast(senders), [*run, "sender"], join)
        known: dict[str, Column] = {"bsid": F.lit(-1), "bseq": F.lit(-1).cast("bigint")}
        if covers:
            others = senders.withColumnsRenamed({"sender": "by_sender", "sid": "bsid"})
            found = found.join(F.broadcast(others), [*run, "by_sender"], "left")
            bsid = F.when(F.isnull("by_seq"), -1).otherwise(F.coalesce("bsid", F.lit(-1)))
            known = {"bsid": bsid, "bseq": F.coalesce("by_seq", F.lit(-1))}
        for name, value in (("sid", -1), ("seq", -1), ("size", 0)):
            known[name] = F.coalesce(name, F.lit(value))
        known["graph"] = F.coalesce("view", F.lit(-1))
        known["gid"] = F.lit(-1)
        if self.federated:
            groups = self.groups.drop("run") if one_run else self.groups
            found = found.join(F.broadcast(groups), [*run, "group"], "left")
            known["gid"] = F.coalesce("gid", F.lit(-1))
        return found.withColumns(known).select(*_NAMES)

    def by_node(self) -> tuple[DataFrame, str]:
        """What each node did, in its order, and the column that groups it."""
        crashed = any(at != NEVER for run in self.facts.runs for at in run.crash_at)
        kinds = (kind for kind in KINDS_OF[BY_NODE] if crashed or kind != OTHER)
        rows = self.steps(*kinds, covers=True)
        columns = ["nid", "n", "kind", "sid", "seq", "bsid", "bseq", "size", "at", "time_ns"]
        rows = rows.select(*columns, *(["event"] if crashed else []))
        return self._sorted(rows, "nid", len(self.facts.nodes)), "nid"

    def by_sender(self) -> tuple[DataFrame, str]:
        """Of each sender: what was multicast; then what was delivered, who joined where, and what
        was purged or skipped for a message of it.
        """
        rows = self.steps(*KINDS_OF[BY_SENDER], covers=True)
        sent, purged = F.col("kind") == MULTICAST, F.col("kind").isin(*PURGES, SKIP)
        rows = rows.where(~purged | (F.col("bsid") >= 0))
        columns = {"of": F.when(purged, F.col("bsid")).otherwise(F.col("sid"))}
        # What others say of a message is not asked: not brought along, it costs nothing.
        columns |= {name: F.when(sent, F.col(name)) for name in ("key", "rank")}
        columns["chain_at"] = F.lit(None).cast("bigint")
        if self.facts.ranked:
            rows = rows.join(self.chains, ["sid", "seq"], "left")
            for name in ("key", "rank"):
                own = F.when(purged, F.col(f"chain_{name}"))
                columns[name] = F.coalesce(columns[name], own)
            columns["chain_at"] = F.when(sent, F.col("first_at"))
        rows = rows.withColumns(columns).select(
            "of", "n", "kind", "sid", "seq", "bsid", "bseq", "at", "time_ns", "obsoletes", "key",
            "rank", "chain_at", *(["gid"] if self.federated else []),
        )  # fmt: skip
        return self._sorted(rows, "of", len(self.facts.senders), sent_first=True), "of"

    def by_lives(self) -> tuple[DataFrame, str]:
        """Of each sender that came back: what it multicast in all of its lives, then what nodes
        received and delivered of it.
        """
        lives = self.spark.createDataFrame(list(self.facts.lives.items()), "sid int, lid int")
        rows = self.steps(*KINDS_OF[BY_LIVES]).join(F.broadcast(lives), "sid")
        columns = rows.select("lid", "sid", "n", "kind", "seq", "at", "time_ns", "key", "rank")
        return self._sorted(columns, "lid", len(self.facts.senders), sent_first=True), "lid"

    def in_order(self) -> tuple[DataFrame, str]:
        """What is known of each sender's messages in the order of the run, where that is known."""
        rows = self.steps(*KINDS_OF[IN_ORDER], covers=True)
        rows = self.only_runs(rows, lambda header: header.one_order)
        if self.facts.crossing:
            pairs = list(self.facts.group_of.items())
            groups = self.spark.createDataFrame(pairs, "sid int, gid int")
            # What the rows say of groups is of federations; here a group is one of an overlap.
            rows = rows.drop("gid").join(F.broadcast(groups), "sid")
        else:
            rows = rows.withColumn("gid", F.col("sid"))
        columns = rows.select("gid", "sid", "n", "kind", "seq", "bsid", "bseq", "at", "time_ns")
        return self._sorted(columns, "gid", len(self.facts.senders)), "gid"

    def by_stream(self) -> tuple[DataFrame, str]:
        """Of each site of a federation: what it multicast; then what sites received, delivered and
        undid of it.
        """
        rows = self.only_runs(self.steps(*KINDS_OF[BY_STREAM]), lambda header: header.federated)
        columns = rows.select(
            "sid", "n", "kind", "seq", "at", "time_ns", "obsoletes", "key", "rank", "gid", "graph",
        )  # fmt: skip
        return self._sorted(columns, "sid", len(self.facts.senders), sent_first=True), "sid"

    def of_run(self) -> tuple[DataFrame, str]:
        """What all sites of a federation delivered and undid: all of a run in one task."""
        rows = self.only_runs(self.steps(*KINDS_OF[OF_RUN]), lambda header: header.federated)
        columns = rows.select("run_no", "n", "kind", "sid", "seq", "at", "time_ns", "gid")
        return self._sorted(columns, "run_no", len(self.facts.runs)), "run_no"

    def only_runs(self, rows: DataFrame, wanted: Callable[[Header], bool]) -> DataFrame:
        """Stage: the rows of those runs alone."""
        numbers = [no for no, run in enumerate(self.facts.runs) if wanted(run.header)]
        if len(numbers) == len(self.facts.runs):
            return rows
        return rows.where(F.col("run_no").isin(numbers)) if numbers else rows.where(F.lit(False))

    def _sorted(
        self, rows: DataFrame, group: str, groups: int, sent_first: bool = False
    ) -> DataFrame:
        """Stage: the rows of each group in one task, and there by group and `at`; with
        `sent_first`, what was multicast before everything else.

        One number to sort by, if all fit into one: then Spark sorts by radix.
        """
        tasks = int(self.spark.conf.get("spark.sql.shuffle.partitions", "32") or "32")
        parts = [(F.col(group).cast("bigint"), groups.bit_length())]
        if sent_first:
            parts.append(((F.col("kind") != MULTICAST).cast("bigint"), 1))
        parts.append((F.col("at"), self.survey.at_max.bit_length()))
        keys = [column for column, _ in parts]
        if sum(bits for _, bits in parts) <= _KEY_BITS_MAX:
            key = F.lit(0).cast("bigint")
            for column, bits in parts:
                key = F.shiftleft(key, bits).bitwiseOR(column)
            keys = [key]
        spread = rows.repartitionById(max(1, min(groups, tasks)), F.col(group))
        return spread.sortWithinPartitions(*keys)

    @cached_property
    def chains(self) -> DataFrame:
        """Ranked messages (sid, seq), with their `chain_key` and `chain_rank`, and `first_at`,
        where the first message stands that replaces them by its rank; PSRM §2.4.
        """
        first = (
            self.steps(MULTICAST)
            .groupBy("run_no", "sid", "seq")
            .agg(F.min_by(F.struct("at", "rank", "key"), "at").alias("first"))
            .select("run_no", "sid", "seq", "first.*")
            .where("rank is not null")
            .withColumn("key", F.coalesce("key", F.lit("")))
        )
        first = self.only_runs(first, lambda header: header.purging)
        rows = [(sid, *source_of(name)) for sid, (_, name) in enumerate(self.facts.senders)]
        sources = self.spark.createDataFrame(rows, "sid int, source bigint, life bigint")
        order = [F.desc(name) for name in ("rank", "source", "life", "seq")]
        above = Window.partitionBy("run_no", "key").orderBy(*order)
        above = above.rowsBetween(Window.unboundedPreceding, -1)
        chains = first.join(F.broadcast(sources), "sid").withColumn(
            "first_at", F.min("at").over(above)
        )
        names = {"key": "chain_key", "rank": "chain_rank"}
        renamed = chains.withColumnsRenamed(names)
        return self.keep(renamed.select("sid", "seq", *names.values(), "first_at"))

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
    def federated(self) -> bool:
        """Whether any run is of a federation."""
        return any(run.sites is not None for run in self.facts.runs)

    @cached_property
    def groups(self) -> DataFrame:
        """(run, group, gid)."""
        rows = [
            (run.header.run, name, gid)
            for run in self.facts.runs
            if run.sites is not None
            for gid, name in enumerate(run.sites.groups)
        ]
        return self.spark.createDataFrame(rows, "run string, `group` string, gid int")

    @cached_property
    def senders(self) -> DataFrame:
        """(run, sender, sid)."""
        rows = [
            (self.facts.runs[no].header.run, name, sid)
            for sid, (no, name) in enumerate(self.facts.senders)
        ]
        return self.spark.createDataFrame(rows, "run string, sender string, sid int")
