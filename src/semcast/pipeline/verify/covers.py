"""Whether what was purged or skipped was really replaced by its cover: for every pair of messages.

Each pair is asked about once, however many nodes purged for it: a kernel for each sender of covers
has what it multicast, and follows the untruncated relation down from the cover. As in
`check.accounting`; a message skipped for itself must have been replaced by something.
"""

from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.relation import NEVER
from semcast.pipeline.verify.facts import Facts, source_of
from semcast.pipeline.verify.frames import (
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGE_RETRANSMIT,
    SKIP,
    Frames,
)
from semcast.pipeline.verify.kernel import Columns, judge
from semcast.pipeline.verify.sent import Sent

_KINDS: Final = (PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_OTHER, SKIP)
_PAIR: Final = ("run_no", "sid", "seq", "bsid", "bseq", "itself")
# A pair of which something is wrong: from where on the cover was there, and whether it covers.
_BAD: Final = (
    "run_no int, sid int, seq bigint, bsid int, bseq bigint, itself boolean, "
    "from_at bigint, covers boolean"
)
_ITSELF: Final = f"kind = {SKIP} and sid = bsid and seq = bseq"


def cover_faults(frames: Frames, name: str, precedence: int) -> DataFrame:
    """Stage: every purge and skip for a cover that was not there or covers something else."""
    about = frames.by_node.where(f"kind in {_KINDS} and bsid >= 0").withColumn(
        "itself", F.expr(_ITSELF)
    )
    bad = bad_pairs(frames, about.groupBy(*_PAIR).agg(F.min("at").alias("at")))
    one_order = F.col("run_no").isin(
        [no for no, run in enumerate(frames.facts.runs) if run.header.one_order]
    )
    there = F.when(one_order, F.col("from_at") < F.col("at")).otherwise(F.col("from_at") != NEVER)
    found = about.join(bad, list(_PAIR)).withColumn("there", there).where("not (there and covers)")
    return _described(frames, found, name, precedence)


def bad_pairs(frames: Frames, pairs: DataFrame) -> DataFrame:
    """Stage: pairs (`_PAIR`, and where the first stands) in; those with a fault out (`_BAD`)."""
    asked = pairs.select(
        F.col("bsid").alias("cid"), F.lit(True).alias("asks"), "at", *_PAIR,
        F.lit(None).cast("array<int>").alias("obsoletes"),
        F.lit(None).cast("bigint").alias("chain_at"),
    )  # fmt: skip
    if frames.facts.ranked:
        ranks = frames.chains.select("sid", "seq", "key", "rank")
        asked = asked.join(ranks, ["sid", "seq"], "left")
    else:
        asked = asked.selectExpr("*", "cast(null as string) as key", "cast(null as bigint) as rank")
    told = frames.by_sender.where(f"kind = {MULTICAST}").select(
        F.col("sid").alias("cid"), F.lit(False).alias("asks"), "at", "run_no", "sid", "seq",
        F.lit(-1).alias("bsid"), F.lit(-1).cast("bigint").alias("bseq"),
        F.lit(False).alias("itself"), "obsoletes", "chain_at", "key", "rank",
    )  # fmt: skip
    rows = told.unionByName(asked).repartition("cid").sortWithinPartitions("cid", "asks", "at")
    return judge(rows, "cid", partial(CoversKernel, frames.facts), _BAD)


@final
class CoversKernel:
    """The covers of one sender: what it multicast first, then what others are said to be for."""

    def __init__(self, facts: Facts, sid: int) -> None:
        self._facts: Final = facts
        self._sid: Final = sid
        run_no, sender = facts.senders[sid]
        run = facts.runs[run_no]
        self._one_order: Final = run.header.one_order
        self._sent: Final = Sent(run, sender)
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Learn what was multicast, then answer."""
        for row in range(len(rows["asks"])):
            if rows["asks"][row]:
                self._ask(rows, row)
            else:
                self._sent.add(
                    rows["seq"][row],
                    rows["at"][row],
                    rows["obsoletes"][row],
                    rows["key"][row],
                    rows["rank"][row],
                    rows["chain_at"][row],
                )

    def end(self) -> None:
        """Everything was said."""

    def _ask(self, rows: Columns, row: int) -> None:
        sid, seq, bseq, rank = (rows[name][row] for name in ("sid", "seq", "bseq", "rank"))
        sent = self._sent
        cover = sent.index[bseq]
        covers = True
        from_at = NEVER
        if cover >= 0 and rows["itself"][row]:
            from_at = sent.covered_at[cover]
        elif cover >= 0:
            from_at = sent.ats[cover]
            ranked = None
            if rank is not None:
                source = source_of(self._facts.senders[sid][1])
                ranked = (rows["key"][row], (rank, *source, seq))
            older = sent.index[seq] if sid == self._sid else -1
            covers = sent.covers(cover, older, ranked)
        there = from_at < rows["at"][row] if self._one_order else from_at != NEVER
        if not (there and covers):
            pair = tuple(rows[name][row] for name in _PAIR)
            self.found.append((*pair, from_at, covers))


def _described(frames: Frames, found: DataFrame, name: str, precedence: int) -> DataFrame:
    """Stage: numbers back to names, and a sentence (schema `accounting.FAULTS`)."""
    nodes = F.broadcast(frames.nodes.select("nid", "run", "node"))
    senders = frames.senders.select("sid", "sender")
    covers = F.broadcast(senders.toDF("bsid", "by_sender"))
    found = found.join(nodes, "nid").join(F.broadcast(senders), "sid").join(covers, "bsid")
    sentence = F.expr(
        f"""concat(node, if(kind = {SKIP}, ' skips ', ' purges '), sender, '#', seq,
            if(itself, ', and nothing that was multicast replaces it',
               concat(' for ', by_sender, '#', bseq,
                      if(there, ', which does not replace it',
                         ', which nobody had multicast'))))"""
    )
    return found.select(
        "run",
        F.lit(name).alias("property"),
        "node",
        F.expr("array(struct(sender, seq), struct(by_sender as sender, bseq as seq))").alias(
            "messages"
        ),
        F.col("time_ns").alias("at_ns"),
        sentence.alias("text"),
        "nid",
        "at",
        F.lit(precedence).alias("precedence"),
    )
