"""What Validity, Agreement, Sender Reliability and FIFO Completeness have in common: who owes what.

A kernel for each sender unites, for every message m, the nodes that delivered some m' with m ⊑ m',
in one pass backwards over its annotations, and says who lacks it. Messages with ranks are replaced
by others of their key, of whatever sender: those that a node lacks are only candidates, which a
join with the highest rank that the node has of that key decides.

Judged at the end of a run, over its correct nodes, as `check._owed` explains.
"""

from typing import Any, Final, final

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check import agreement, fifo_completeness, sender_reliability, validity
from semcast.check.relation import NEVER
from semcast.pipeline.verify.columns import Columns, Longs
from semcast.pipeline.verify.facts import Facts, nodes_in
from semcast.pipeline.verify.frames import BY_SENDER, DELIVER, JOIN, MULTICAST, Frames
from semcast.pipeline.verify.sent import Order, Sent

PROPERTIES: Final = (
    validity.PROPERTY,
    agreement.PROPERTY,
    sender_reliability.PROPERTY,
    fifo_completeness.PROPERTY,
)
_HOLDS: Final = ("run_no", "key", "n")


# Sets of nodes are numbers of NumPy, if there are few enough.
_WORD: Final = 62


def of_property(frames: Frames, name: str) -> DataFrame:
    """Stage: the violations of one of the four."""
    found = frames.violations(BY_SENDER, name)
    if not frames.facts.ranked:
        return found
    return frames.once("owed", owed).where(F.col("property") == name)


def owed(frames: Frames) -> DataFrame:
    """Stage: the violations of all four, where there are ranks."""
    found = frames.found(BY_SENDER)
    has = found.where("property is null").groupBy(*_HOLDS).agg(F.max("place").alias("highest"))
    missing = found.where(F.col("property").isin(*PROPERTIES)).join(has, list(_HOLDS), "left")
    names = ["run", "property", "node", "messages", "at_ns", "text"]
    return missing.where("place is null or highest is null or highest <= place").select(*names)


def kernel(facts: Facts, sid: int) -> "OwedKernel":
    """Says what is owed of one sender's messages."""
    return OwedKernel(facts, sid)


@final
class OwedKernel:
    """The messages of one sender: all multicasts first, then deliveries and joins in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        self._run_no, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[self._run_no]
        self._sent: Final = Sent(self._run, self._sender)
        # By message: the nodes that delivered it, of all words but the first; and of that one.
        self._delivered: list[int] = []
        self._word: Longs = np.zeros(0, np.int64)
        self._joins: Final[dict[int, int]] = {}
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Collect who delivered what."""
        for part in rows.parts:
            if part.numbers("kind")[0] != MULTICAST:
                self._take(part)
            elif not self._sent.add_many(part):
                for at, seq in enumerate(part["seq"]):
                    annotation = (part["obsoletes"][at], part["key"][at], part["rank"][at])
                    self._sent.add(seq, part["at"][at], *annotation)

    def _take(self, rows: Columns) -> None:
        """Deliveries and joins; everything was multicast before."""
        kind, n, seq = (rows.numbers(name) for name in ("kind", "n", "seq"))
        if not len(self._word):
            self._word = np.zeros(len(self._sent.seqs), np.int64)
            self._delivered = [0] * len(self._sent.seqs)
        taken = kind == DELIVER
        message = self._sent.index.many(seq[taken])
        node = n[taken][message >= 0]
        message = message[message >= 0]
        few = node < _WORD
        np.bitwise_or.at(self._word, message[few], np.left_shift(1, node[few]))
        for one, at in zip(node[~few].tolist(), message[~few].tolist(), strict=True):
            self._delivered[at] |= 1 << one
        for at in np.flatnonzero(kind == JOIN).tolist():
            self._joins.setdefault(int(n[at]), int(seq[at]))

    def end(self) -> None:
        """Who has what is known: say who owes what."""
        words = self._word.tolist() if len(self._word) else [0] * len(self._sent.seqs)
        further = self._delivered
        self._delivered = [a | b for a, b in zip(words, further, strict=True)] if further else words
        satisfied = self._satisfied()
        self._tell_ranked(satisfied)
        run = self._run
        if not any(run.correct & ~mask for mask in satisfied):
            return
        sender = run.correct & run.only(self._sender)
        later = 0
        shown: dict[int, int] = {}
        for message in range(len(satisfied) - 1, -1, -1):
            missing = run.correct & ~satisfied[message]
            delivered = self._delivered[message] & run.correct
            trusted = self._delivered[message] & run.trusted
            if missing:
                for n in nodes_in(later & missing):
                    self._incomplete(message, n, shown[n])
                self._owe(message, missing, sender, trusted)
            later |= delivered
            for n in nodes_in(delivered):
                shown[n] = message

    def _owe(self, message: int, missing: int, sender: int, delivered: int) -> None:
        """Tell of what was not delivered, by the property that promised it."""
        if self._run.header.reliability == "sender":
            if self._run.trusted & self._run.only(self._sender):
                why = f"{self._sender} multicast it and did not crash"
                self._missing(sender_reliability.PROPERTY, message, missing, why)
            return
        self._missing(validity.PROPERTY, message, missing & sender, "it multicast it")
        if delivered:
            why = f"{self._run.nodes[nodes_in(delivered)[0]]} delivered it"
            self._missing(agreement.PROPERTY, message, missing, why)

    # -- who has what ------------------------------------------------------------------------------

    def _satisfied(self) -> list[int]:
        """By message m: the nodes that have delivered some m' with m ⊑ m', or need not."""
        had = list(self._delivered)
        if not self._run.header.deliver_own:
            own = self._run.only(self._sender)
            had = [mask | own for mask in had]
        points = [(self._join_point(n), n) for n in range(len(self._run.nodes))]
        self._mark_before(had, sorted(point for point in points if point[0] > 1))
        self._sent.spread(had)
        return had

    def _mark_before(self, had: list[int], points: list[tuple[int, int]]) -> None:
        """Every node of `points`, lowest first, has what lies before its point."""
        if not points:
            return
        mask = 0
        seqs = self._sent.seqs
        for message in sorted(range(len(seqs)), key=lambda message: -seqs[message]):
            while points and points[-1][0] > seqs[message]:
                mask |= 1 << points.pop()[1]
            had[message] |= mask

    def _join_point(self, n: int) -> int:
        """The first seq that a node owes anything about; as in `check.history`."""
        run = self._run
        if (run.initial >> n) & 1 or run.nodes[n] == self._sender:
            return 1
        told = self._joins.get(n)
        if told is not None:
            return told
        if run.header.one_order:
            came = run.first_at[n]
            for message, at in enumerate(self._sent.ats):
                if at > came:
                    return self._sent.seqs[message]
        return NEVER

    # -- what was found ----------------------------------------------------------------------------

    def _tell_ranked(self, satisfied: list[int]) -> None:
        """Of every key, and for every node: the highest place that it has."""
        highest: dict[tuple[str, int], Order] = {}
        for message, (key, place) in self._sent.ranked.items():
            for n in nodes_in(satisfied[message]):
                highest[key, n] = max(place, highest.get((key, n), place))
        nothing = (None,) * 9
        self.found += [
            (*nothing, self._run_no, n, key, place) for (key, n), place in highest.items()
        ]

    def _missing(self, name: str, message: int, missing: int, why: str) -> None:
        about = (self._sender, self._sent.seqs[message])
        for n in nodes_in(missing):
            text = (
                f"{self._run.nodes[n]} delivered neither {about[0]}#{about[1]} nor anything that "
                f"replaces it, although {why}"
            )
            self._tell(name, message, n, [about], text)

    def _incomplete(self, message: int, n: int, later: int) -> None:
        if self._run.header.reliability == "sender":
            return
        sender, seqs = self._sender, self._sent.seqs
        about = [(sender, seqs[message]), (sender, seqs[later])]
        text = (
            f"{self._run.nodes[n]} delivered {sender}#{seqs[later]} but neither "
            f"{sender}#{seqs[message]}, which was multicast before it, nor anything that "
            "replaces it"
        )
        self._tell(fifo_completeness.PROPERTY, message, n, about, text)

    def _tell(
        self, name: str, message: int, n: int, about: list[tuple[str, int]], text: str
    ) -> None:
        run = self._run
        row = (run.header.run, name, run.nodes[n], about, run.end_ns, text)
        key, place = self._sent.ranked.get(message, (None, None))
        self.found.append((*row, None, None, None, self._run_no, n, key, place))
