"""Key Completeness, as `check.key_completeness` has it: a kernel for each sender."""

from typing import Any, Final, final

from pyspark.sql import DataFrame

from semcast.check.key_completeness import PROPERTY as PROPERTY
from semcast.check.relation import NEVER
from semcast.pipeline.verify.columns import Columns
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import BY_SENDER, DELIVER, MULTICAST, Frames
from semcast.pipeline.verify.sent import Sent, Streams


def violations(frames: Frames) -> DataFrame:
    """Stage: what a node passed over in a stream although nothing had replaced it."""
    return frames.violations(BY_SENDER, PROPERTY)


def kernel(facts: Facts, sid: int) -> "KeyCompletenessKernel | None":
    """Follows the streams of one sender."""
    run = facts.runs[facts.senders[sid][0]]
    return KeyCompletenessKernel(facts, sid) if run.header.order == "key" else None


@final
class KeyCompletenessKernel:
    """The messages of one sender: all multicasts first, then deliveries and joins in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        number, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[number]
        self._sent: Final = Sent(self._run, self._sender)
        self._streams: Final = Streams()
        # By node and stream: the place of the first message that is still to come.
        self._following: Final[dict[tuple[int, int], int]] = {}
        # By node: the first seq that it is to have.
        self._owes_from: Final = [self._owed_at_first(n) for n in range(len(self._run.nodes))]
        self.found: list[tuple[Any, ...]] = []

    def _owed_at_first(self, n: int) -> int:
        if self._run.nodes[n] == self._sender:
            return 1 if self._run.header.deliver_own else NEVER
        return 1 if (self._run.initial >> n) & 1 else NEVER

    def feed(self, rows: Columns) -> None:
        """Follow each node along each stream; what it passes over must be replaced."""
        for at, kind in enumerate(rows["kind"]):
            n, seq = rows["n"][at], rows["seq"][at]
            if kind == DELIVER:
                self._on_delivery(n, seq, rows["at"][at], rows["time_ns"][at])
            elif kind == MULTICAST:
                annotation = (rows["obsoletes"][at], rows["key"][at], rows["rank"][at])
                if self._sent.add(seq, rows["at"][at], *annotation, rows["chain_at"][at]):
                    self._streams.add(*annotation)
            else:
                self._on_join(n, seq)

    def _on_join(self, n: int, seq: int) -> None:
        at_first = (self._run.initial >> n) & 1 or self._run.nodes[n] == self._sender
        # The first that it told counts.
        if not at_first and self._owes_from[n] == NEVER:
            self._owes_from[n] = seq

    def _on_delivery(self, n: int, seq: int, at: int, time_ns: int) -> None:
        sent, streams = self._sent, self._streams
        message = sent.index[seq]
        if message < 0:
            return
        # Each once, though it be about several of the keys.
        passed: dict[int, None] = {}
        for stream, place in streams.of(message):
            first = self._following.get((n, stream), 0)
            passed.update(dict.fromkeys(streams.messages[stream][first:place]))
            self._following[n, stream] = max(first, place + 1)
        for older in passed:
            if sent.seqs[older] >= self._owes_from[n] and not self._is_replaced(older, at):
                self._passed_over(n, sent.seqs[older], seq, time_ns)

    def _is_replaced(self, message: int, at: int) -> bool:
        replaced_at = self._sent.covered_at[message]
        return replaced_at < at if self._run.header.one_order else replaced_at != NEVER

    def end(self) -> None:
        """Everything was said."""

    def _passed_over(self, n: int, older: int, seq: int, time_ns: int) -> None:
        node, sender = self._run.nodes[n], self._sender
        text = (
            f"{node} delivers {sender}#{seq} but not {sender}#{older}, which was multicast before "
            "it, of the same key or as unmarked, and which nothing replaces"
        )
        about = [(sender, older), (sender, seq)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
