"""What the header of a run says, beside its events: headers in, columns and a small frame out.

Stages never see headers. What they need of one becomes a column of the events: a literal where all
runs agree, as those of a sweep mostly do, and otherwise a broadcast join. Views become a column of
every event, where there are any.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from semcast.ids import SEQ_MAX
from semcast.journal import Header

# Far outside of any clock, and far enough from the ends of a long to be added to.
EVER_NS: Final = 1 << 62
_NS_PER_S: Final = 1_000_000_000

MEMBERS: Final = "run string, node string, name string, initial boolean, recorded boolean"


@dataclass(frozen=True)
class Span:
    """The part of every run that is measured, in seconds from its beginning; None: no bound.

    A simulated run begins at its time 0, a live one with its first event.
    """

    since_s: float | None = None
    until_s: float | None = None


@dataclass(frozen=True)
class Facts:
    """What stages need to know of one run."""

    since_ns: int
    until_ns: int
    group_reliable: bool
    one_order: bool
    deliver_own: bool
    k: int
    gossip: bool = False


def facts_of(
    headers: Mapping[str, Header], span: Span, origins_ns: Mapping[str, int] | None = None
) -> dict[str, Facts]:
    """Facts by run. `origins_ns`: when live runs began, which only matters if there is a span."""
    found = {}
    for run, header in headers.items():
        origin_ns = 0 if origins_ns is None else origins_ns.get(run, 0)
        found[run] = Facts(
            since_ns=-EVER_NS if span.since_s is None else origin_ns + _ns(span.since_s),
            until_ns=EVER_NS if span.until_s is None else origin_ns + _ns(span.until_s),
            group_reliable=header.reliability == "group",
            one_order=header.one_order,
            deliver_own=header.deliver_own,
            k=SEQ_MAX if header.replacement == "key" else header.k,
            gossip=header.reliability == "gossip",
        )
    return found


def _ns(seconds: float) -> int:
    return round(seconds * _NS_PER_S)


def with_facts(frame: DataFrame, facts: Mapping[str, Facts], *names: str) -> DataFrame:
    """The frame, which has a column `run`, with these facts as further columns."""
    rows = {run: tuple(getattr(one, name) for name in names) for run, one in facts.items()}
    if len(set(rows.values())) == 1:
        values = next(iter(rows.values()))
        literals = {name: F.lit(value) for name, value in zip(names, values, strict=True)}
        return frame.withColumns(literals)
    kinds = {name: "boolean" if isinstance(_KINDS[name], bool) else "long" for name in names}
    ddl = "run string, " + ", ".join(f"{name} {kind}" for name, kind in kinds.items())
    there = frame.sparkSession.createDataFrame([(run, *row) for run, row in rows.items()], ddl)
    return frame.join(F.broadcast(there), "run", "left")


_KINDS: Final[Mapping[str, object]] = vars(Facts(0, 0, True, True, True, 0))


def members_of(spark: SparkSession, headers: Mapping[str, Header]) -> DataFrame:
    """Who was there from the start, or wrote a journal; schema MEMBERS.

    In a simulated run everybody is recorded. Of a live one those are whose files are there; of the
    others it is only known what somebody received from them.
    """
    rows = []
    for run, header in headers.items():
        names = dict(line.partition(" ")[::2] for line in header.names)
        for node in dict.fromkeys((*header.members, *names)):
            recorded = node in names or not header.names
            rows.append((run, node, names.get(node, ""), node in header.members, recorded))
    return spark.createDataFrame(rows, MEMBERS)


def with_views(events: DataFrame) -> DataFrame:
    """Every event with the view that its node was in.

    That is the event's own view, else the last one installed at the node before it, else the
    node's first.

    Views are few, so each node's go with its events as an array; events are not sorted.
    """
    installed = F.when(F.col("event") == "view", F.struct("lsn", "view"))
    first = F.min(F.when(F.col("event") != "view", F.col("view")))
    views = (
        events.where("view is not null")
        .groupBy("run", "node")
        .agg(F.sort_array(F.collect_list(installed)).alias("views"), first.alias("first"))
    )
    return (
        events.withColumnRenamed("view", "own")
        .join(F.broadcast(views), ["run", "node"], "left")
        .withColumn("before", F.expr("filter(views, one -> one.lsn <= lsn)"))
        .withColumn("view", F.coalesce("own", F.expr("try_element_at(before, -1).view"), "first"))
        .drop("own", "views", "before", "first")
    )
