"""Accounting (SRM §4.3), as `check.accounting` has it: a kernel for each node keeps its books.

Whether covers really replace what was purged for them is asked for each pair of messages once, in
`covers`. Of an event with several faults the first is told, in the order in which check looks.
"""

from collections import defaultdict
from functools import partial
from typing import Any, Final, final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.accounting import PROPERTY as PROPERTY
from semcast.check.relation import NEVER
from semcast.pipeline.verify.covers import cover_faults
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import (
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGE_RETRANSMIT,
    RECEIVE,
    SKIP,
    Frames,
)
from semcast.pipeline.verify.kernel import VIOLATIONS, Columns, SeqBytes, judge

# Violations, with the event and with what comes first if it has several faults.
FAULTS: Final = f"{VIOLATIONS}, nid int, at bigint, precedence int"
_CRASHED, _STATE, NO_COVER, BAD_COVER, _NOT_HERE = range(5)
# What became of a message at a node, in the low bits of its byte; the text ends a sentence.
_UNKNOWN, _HELD, _DELIVERED, _PURGED, _SKIPPED = range(5)
_TEXTS: Final = (
    "it was never received there",
    "is held there",
    "was delivered there",
    "was purged there",
    "was skipped there",
)
_STATES: Final = 7
# It was multicast or received there; it was purged from retransmission.
_ENTERED: Final = 8
_RETAINED_PURGED: Final = 16
_ABOUT: Final = "('multicast', 'receive', 'deliver', 'purge', 'skip', 'retransmit')"


def violations(frames: Frames) -> DataFrame:
    """Stage: every event that the books of its node do not allow."""
    kinds = (MULTICAST, RECEIVE, DELIVER, PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_OTHER, SKIP)
    rows = frames.by_node.where(f"kind in {kinds}")
    columns = rows.select("nid", "kind", "sid", "seq", "bsid", "bseq", "at", "time_ns")
    faults = judge(columns, "nid", partial(AccountingKernel, frames.facts), FAULTS)
    faults = faults.unionByName(cover_faults(frames, PROPERTY, BAD_COVER))
    if any(at != NEVER for run in frames.facts.runs for at in run.crash_at):
        faults = faults.unionByName(_after_crashes(frames))
    first = Window.partitionBy("nid", "at").orderBy("precedence")
    one = faults.withColumn("place", F.row_number().over(first)).where("place = 1")
    return one.drop("nid", "at", "precedence", "place")


def _after_crashes(frames: Frames) -> DataFrame:
    """Stage: a crashed node does nothing any more."""
    crashed = F.broadcast(frames.nodes.where(F.col("crash_at") != NEVER))
    late = frames.events.join(crashed, ["run", "node"]).where("at > crash_at")
    text = F.concat("node", F.lit(" crashed, and yet there is a later event of it: "), "event")
    about = F.expr(
        f"filter(if(event in {_ABOUT}, array(struct(sender, seq), "
        "struct(by_sender as sender, by_seq as seq)), array()), one -> one.seq is not null)"
    )
    return late.select(
        "run",
        F.lit(PROPERTY).alias("property"),
        "node",
        about.alias("messages"),
        F.col("time_ns").alias("at_ns"),
        text.alias("text"),
        "nid",
        "at",
        F.lit(_CRASHED).alias("precedence"),
    )


@final
class AccountingKernel:
    """The messages at one node, whose events come in their order."""

    def __init__(self, facts: Facts, nid: int) -> None:
        number, n = facts.nodes[nid]
        self._facts: Final = facts
        self._nid: Final = nid
        self._run: Final = facts.runs[number]
        self._node: Final = self._run.nodes[n]
        self._crash_at: Final = self._run.crash_at[n]
        # By sender: a byte for each message.
        self._books: Final[defaultdict[int, SeqBytes]] = defaultdict(SeqBytes)
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Keep the books of this node."""
        books = self._books
        for row in zip(
            rows["kind"], rows["sid"], rows["seq"], rows["bsid"], rows["bseq"], rows["at"],
            rows["time_ns"], strict=True,
        ):  # fmt: skip
            kind, sid, seq = row[:3]
            if row[5] > self._crash_at:
                return
            page, at = books[sid].chunk(seq), seq & SeqBytes.MASK
            byte = page[at]
            state = byte & _STATES
            if kind == RECEIVE:
                page[at] = byte & ~_STATES | _HELD | _ENTERED
                if state:
                    self._fault(row, _STATE, f"receives {{}} again: it {_TEXTS[state]}")
            elif kind == DELIVER:
                page[at] = byte & ~_STATES | _DELIVERED
                # A second delivery is Integrity's business.
                if state not in (_HELD, _DELIVERED):
                    self._fault(
                        row, _STATE, f"delivers {{}}, which it does not hold: {_why(state)}"
                    )
            elif kind == MULTICAST:
                page[at] = byte | _ENTERED
            elif kind == SKIP:
                page[at] = byte & ~_STATES | _SKIPPED
                if state:
                    self._fault(row, _STATE, f"skips {{}}, which {_TEXTS[state]}")
                elif row[3] < 0:
                    self._fault(row, NO_COVER, "skips {} for no other message")
            else:
                page[at] = self._purge(row, byte)

    def end(self) -> None:
        """Everything was said."""

    def _purge(self, row: tuple[int, ...], byte: int) -> int:
        """The byte of a message after its purge."""
        kind, bsid, bseq = row[0], row[3], row[4]
        state = byte & _STATES
        if kind == PURGE_DELIVERY:
            if state != _HELD:
                fault = f"purges {{}} from delivery, which does not hold it: {_why(state)}"
                self._fault(row, _STATE, fault)
            byte = byte & ~_STATES | _PURGED
        elif kind == PURGE_RETRANSMIT:
            twice = byte & _RETAINED_PURGED
            if twice or not byte & _ENTERED:
                why = "it was purged there" if twice else "it was never received there"
                fault = f"purges {{}} from retransmission, which does not hold it: {why}"
                self._fault(row, _STATE, fault)
            byte |= _RETAINED_PURGED
        if bsid < 0:
            self._fault(row, NO_COVER, "purges {} for no other message")
        elif kind != PURGE_OTHER:
            # A message that is purged for itself is here or not like any other.
            own = row[1] == bsid and row[2] == bseq
            there = byte if own else self._books[bsid].chunk(bseq)[bseq & SeqBytes.MASK]
            if not there & _ENTERED:
                cover = self._facts.message(bsid, bseq)
                fault = f"purges {{}} for {cover}, which it has not received"
                self._fault(row, _NOT_HERE, fault)
        return byte

    def _fault(self, row: tuple[int, ...], precedence: int, fault: str) -> None:
        _, sid, seq, bsid, bseq, at, time_ns = row
        name = self._facts.message(sid, seq)
        about = [tuple(name)]
        if bsid >= 0:
            about.append(tuple(self._facts.message(bsid, bseq)))
        text = f"{self._node} {fault.format(name)}"
        run = self._run.header.run
        violation = (run, PROPERTY, self._node, about, time_ns, text)
        self.found.append((*violation, self._nid, at, precedence))


def _why(state: int) -> str:
    return _TEXTS[state] if state == _UNKNOWN else f"it {_TEXTS[state]}"
