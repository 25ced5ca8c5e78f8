"""Integrity (SRM Figure 2), as `check.integrity` has it: a kernel for each sender."""

from typing import Any, Final, final

import numpy as np
from pyspark.sql import DataFrame

from semcast.check.integrity import PROPERTY as PROPERTY
from semcast.pipeline.verify.columns import Columns
from semcast.pipeline.verify.facts import Facts
from semcast.pipeline.verify.frames import BY_SENDER, DELIVER, JOIN, MULTICAST, Frames
from semcast.pipeline.verify.tables import SeqTable

# Nodes in one number of a table.
_WORD: Final = 62


def violations(frames: Frames) -> DataFrame:
    """Stage: every multicast and every delivery of which something is wrong."""
    return frames.violations(BY_SENDER, PROPERTY)


def kernel(facts: Facts, sid: int) -> "IntegrityKernel":
    """Looks at the messages of one sender."""
    return IntegrityKernel(facts, sid)


@final
class IntegrityKernel:
    """The messages of one sender: all multicasts first, then deliveries in order."""

    def __init__(self, facts: Facts, sid: int) -> None:
        number, self._sender = facts.senders[sid]
        self._run: Final = facts.runs[number]
        self._multicast_at: Final = SeqTable()
        # By word of nodes: the bits of those that delivered a message.
        words = len(self._run.nodes) // _WORD + 1
        self._delivered: Final = [SeqTable(0) for _ in range(words)]
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Look at every row."""
        for part in rows.parts:
            many = self._send_many if part.numbers("kind")[0] == MULTICAST else self._take_many
            if not many(part):
                self._feed_each(part)

    def _send_many(self, rows: Columns) -> bool:
        """Take all multicasts at once; False, and nothing taken, if one of them looks wrong."""
        seq = rows.numbers("seq")
        own = self._run.numbers.get(self._sender, -1)
        fine = (seq[1:] > seq[:-1]).all() and (rows.numbers("n") == own).all()
        if not fine or (self._multicast_at.many(seq) >= 0).any():
            return False
        self._multicast_at.set_many(seq, rows.numbers("at"))
        return True

    def _take_many(self, rows: Columns) -> bool:
        """The same of all deliveries."""
        taken = rows.numbers("kind") == DELIVER
        node, number, at = (rows.numbers(name)[taken] for name in ("n", "seq", "at"))
        known = self._multicast_at.many(number)
        if (known < 0).any() or (self._run.header.one_order and (known >= at).any()):
            return False
        order = np.lexsort((node, number))
        same = (number[order][1:] == number[order][:-1]) & (node[order][1:] == node[order][:-1])
        if same.any():
            return False
        bits = np.left_shift(1, node % _WORD)
        parts = [(word, node // _WORD == word) for word in range(len(self._delivered))]
        for word, part in parts:
            if (self._delivered[word].many(number[part]) & bits[part]).any():
                return False
        for word, part in parts:
            self._delivered[word].or_many(number[part], bits[part])
        return True

    def _feed_each(self, rows: Columns) -> None:
        multicast_at, delivered = self._multicast_at, self._delivered
        one_order = self._run.header.one_order
        for kind, n, seq, at, time_ns in zip(
            rows["kind"], rows["n"], rows["seq"], rows["at"], rows["time_ns"], strict=True
        ):
            if kind == JOIN:
                continue
            position = multicast_at[seq]
            if kind == DELIVER:
                word, bit = delivered[n // _WORD], 1 << n % _WORD
                nodes = word[seq]
                if nodes & bit:
                    self._fault(n, seq, time_ns, "delivers {} again")
                elif position < 0 or (one_order and position >= at):
                    self._fault(n, seq, time_ns, "delivers {}, which nobody had multicast")
                word[seq] = nodes | bit
            elif position >= 0:
                self._fault(n, seq, time_ns, "multicasts {} a second time")
            else:
                multicast_at[seq] = at
                if self._run.nodes[n] != self._sender:
                    self._fault(n, seq, time_ns, "multicasts {} in the name of another")

    def end(self) -> None:
        """Everything was said."""

    def _fault(self, n: int, seq: int, time_ns: int, fault: str) -> None:
        node = self._run.nodes[n]
        text = f"{node} {fault.format(f'{self._sender}#{seq}')}"
        about = [(self._sender, seq)]
        self.found.append((self._run.header.run, PROPERTY, node, about, time_ns, text))
