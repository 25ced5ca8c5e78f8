"""Flow control (SRM §5.3), as `check.flow_bounds` has it: a kernel for each node.

Mostly messages come once and leave once: then what is held after each row is a sum, and NumPy tells
of all rows at once that no bound is passed. Otherwise the kernel looks at every row.
"""

from collections import defaultdict
from typing import Any, Final, final

import numpy as np
from pyspark.sql import DataFrame

from semcast.check.flow_bounds import PROPERTY as PROPERTY
from semcast.journal import Header
from semcast.pipeline.verify.columns import Columns, slices_of
from semcast.pipeline.verify.facts import Facts, source_of
from semcast.pipeline.verify.flow_held import PURGES, Arrival, Delivery, Retained, arrivals_end
from semcast.pipeline.verify.frames import (
    BY_NODE,
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_RETRANSMIT,
    RECEIVE,
    STABLE,
    Frames,
)


def violations(frames: Frames) -> DataFrame:
    """Stage: every arrival after which a buffer held more than it was given room for."""
    return frames.violations(BY_NODE, PROPERTY)


def kernel(facts: Facts, nid: int) -> "FlowBoundsKernel | None":
    """Follows the buffers of one node."""
    run = facts.runs[facts.nodes[nid][0]]
    return FlowBoundsKernel(facts, nid) if is_bounded(run.header) else None


def is_bounded(header: Header) -> bool:
    """Whether there is any bound to check."""
    bounds = (header.delivery_messages, header.delivery_bytes)
    return any((*bounds, header.window_messages, header.window_bytes))


@final
class FlowBoundsKernel:
    """The buffers of one node, whose events come in their order."""

    def __init__(self, facts: Facts, nid: int) -> None:
        number, n = facts.nodes[nid]
        run = facts.runs[number]
        self._facts: Final = facts
        self._header: Final = run.header
        self._node: Final = run.nodes[n]
        self._group: Final = run.header.reliability == "group"
        kept = len({source_of(name)[0] for name in run.nodes}) if self._group else 1
        self._retained_bytes_max: Final = run.header.window_bytes * kept
        self._window: Final = run.header.window_messages > 0 or run.header.window_bytes > 0
        self._delivery: Final = Delivery()
        self._retained: Final[defaultdict[int, Retained]] = defaultdict(Retained)
        self._retained_bytes = 0
        # How the last message came, until the purges that it causes are through.
        self._arrival: Arrival | None = None
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Follow what the buffers hold."""
        caused = self._caused_first(rows)
        if caused:
            self._feed_each(rows.slice(0, caused))
            rows = rows.slice(caused, len(rows))
        if len(rows):
            self.end()
            if not self._feed_many(rows):
                self._feed_each(rows)

    def _caused_first(self, rows: Columns) -> int:
        """How many rows there are before the last arrival can be judged."""
        arrival = self._arrival
        columns = (rows.numbers(name) for name in ("kind", "sid", "seq", "bsid", "bseq"))
        for at, (kind, sid, seq, bsid, bseq) in enumerate(zip(*columns, strict=True)):
            messages = ((sid, seq), (bsid, bseq))
            if arrival is None or kind not in PURGES or arrival.message not in messages:
                return at
        return len(rows)

    # -- all rows at once --------------------------------------------------------------------------

    def _feed_many(self, rows: Columns) -> bool:
        """Follow all rows; False, and nothing followed, if one of them looks wrong."""
        kind, sid = rows.numbers("kind"), rows.numbers("sid")
        ends = arrivals_end(rows)
        if ends is None:
            return False
        delivery = self._delivery.after(rows)
        bounds = (self._header.delivery_messages, self._header.delivery_bytes)
        received = ends.last[kind[ends.row] == RECEIVE]
        if delivery is None or not delivery.within(received, *bounds):
            return False
        by_sender = np.argsort(sid, kind="stable")
        sums = np.zeros(len(rows), np.int64)
        after: dict[int, Retained] = {}
        for number, part in slices_of(sid[by_sender]) if self._window else ():
            here = by_sender[part]
            own = self._facts.senders[number][1] == self._node
            enters = (kind[here] == MULTICAST) | ((kind[here] == RECEIVE) & self._group & (not own))
            stream = self._retained[number].after(rows, here, enters, sums)
            mine = ends.last[sid[ends.row] == number]
            if stream is None or not stream.within(mine, self._header.window_messages):
                return False
            after[number] = stream.held
        held_bytes = self._retained_bytes + np.cumsum(sums)
        if 0 < self._retained_bytes_max < held_bytes[ends.last].max(initial=0):
            return False
        self._delivery.take(delivery)
        self._retained.update(after)
        self._retained_bytes = int(held_bytes[-1])
        self._arrival = ends.pending
        return True

    # -- row by row --------------------------------------------------------------------------------

    def _feed_each(self, rows: Columns) -> None:
        for kind, sid, seq, bsid, bseq, size, time_ns in zip(
            rows["kind"], rows["sid"], rows["seq"], rows["bsid"], rows["bseq"], rows["size"],
            rows["time_ns"], strict=True,
        ):  # fmt: skip
            message = (sid, seq)
            arrival = self._arrival
            if arrival is not None and not (
                kind in PURGES and arrival.message in (message, (bsid, bseq))
            ):
                self.end()
            if kind == RECEIVE:
                self._arrival = Arrival(kind, message, time_ns)
                self._delivery.enter(message, size)
                if self._group and self._facts.senders[sid][1] != self._node:
                    self._retained_bytes += self._retained[sid].enter(seq, size)
            elif kind in (DELIVER, PURGE_DELIVERY):
                self._delivery.leave(message)
            elif kind == PURGE_RETRANSMIT:
                self._retained_bytes -= self._retained[sid].sizes.pop(seq, 0)
            elif kind == STABLE:
                self._retained_bytes -= self._retained[sid].release(seq)
            elif kind == MULTICAST:
                self._arrival = Arrival(kind, message, time_ns)
                self._retained_bytes += self._retained[sid].enter(seq, size)

    def end(self) -> None:
        """The last arrival has caused all that it will."""
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self._judge(arrival)

    def _judge(self, arrival: Arrival) -> None:
        """Whether anything is beyond its bound after a message came."""
        header = self._header
        sid, seq = arrival.message
        if arrival.kind == RECEIVE:
            held, held_max = len(self._delivery.sizes), header.delivery_messages
            if 0 < held_max < held:
                self._beyond(arrival, held, held_max, "messages", "delivery")
            held, held_max = self._delivery.bytes, header.delivery_bytes
            if 0 < held_max < held:
                self._beyond(arrival, held, held_max, "bytes", "delivery")
        retained = self._retained[sid]
        if seq in retained.sizes:
            held, held_max = len(retained.sizes), header.window_messages
            if 0 < held_max < held:
                where = f"retransmission of {self._facts.senders[sid][1]}"
                self._beyond(arrival, held, held_max, "messages", where)
            held, held_max = self._retained_bytes, self._retained_bytes_max
            if 0 < held_max < held:
                self._beyond(arrival, held, held_max, "bytes", "retransmission")

    def _beyond(self, arrival: Arrival, held: int, held_max: int, unit: str, where: str) -> None:
        name = self._facts.message(*arrival.message)
        text = f"{self._node} holds {held} {unit} for {where} after {name}; the bound is {held_max}"
        row = (self._header.run, PROPERTY, self._node, [tuple(name)], arrival.time_ns, text)
        self.found.append(row)
