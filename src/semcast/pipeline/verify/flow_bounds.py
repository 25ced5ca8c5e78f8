"""Flow control (SRM §5.3), as `check.flow_bounds` has it: a kernel for each node."""

import heapq
from collections import defaultdict
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias, final

from pyspark.sql import DataFrame

from semcast.check.flow_bounds import PROPERTY as PROPERTY
from semcast.journal import Header
from semcast.pipeline.verify.facts import Facts, source_of
from semcast.pipeline.verify.frames import (
    DELIVER,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_OTHER,
    PURGE_RETRANSMIT,
    RECEIVE,
    STABLE,
    Frames,
)
from semcast.pipeline.verify.kernel import Columns, judge

# A message: the number of its sender, and its own.
_Id: TypeAlias = tuple[int, int]
_PURGES: Final = (PURGE_DELIVERY, PURGE_RETRANSMIT, PURGE_OTHER)


def violations(frames: Frames) -> DataFrame:
    """Stage: every arrival after which a buffer held more than it was given room for."""
    rows = frames.only_runs(frames.by_node, is_bounded)
    columns = rows.select("nid", "kind", "sid", "seq", "bsid", "bseq", "size", "time_ns")
    return judge(columns, "nid", partial(FlowBoundsKernel, frames.facts))


def is_bounded(header: Header) -> bool:
    """Whether there is any bound to check."""
    bounds = (header.delivery_messages, header.delivery_bytes)
    return any((*bounds, header.window_messages, header.window_bytes))


class _Arrival(NamedTuple):
    kind: int
    message: _Id
    time_ns: int


@final
class _Retained:
    """What is kept of one sender for retransmission, with sizes."""

    def __init__(self) -> None:
        self.sizes: Final[dict[int, int]] = {}
        self._by_seq: Final[list[int]] = []

    def enter(self, seq: int, size_bytes: int) -> int:
        """The bytes that this took."""
        if seq in self.sizes:
            return 0
        self.sizes[seq] = size_bytes
        heapq.heappush(self._by_seq, seq)
        return size_bytes

    def release(self, seq: int) -> int:
        """Everything up to `seq` leaves; the bytes that this freed."""
        freed = 0
        while self._by_seq and self._by_seq[0] <= seq:
            freed += self.sizes.pop(heapq.heappop(self._by_seq), 0)
        return freed


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
        self._delivery: Final[dict[_Id, int]] = {}
        self._delivery_bytes = 0
        self._retained: Final[defaultdict[int, _Retained]] = defaultdict(_Retained)
        self._retained_bytes = 0
        # How the last message came, until the purges that it causes are through.
        self._arrival: _Arrival | None = None
        self.found: list[tuple[Any, ...]] = []

    def feed(self, rows: Columns) -> None:
        """Follow what the buffers hold."""
        for kind, sid, seq, bsid, bseq, size, time_ns in zip(
            rows["kind"], rows["sid"], rows["seq"], rows["bsid"], rows["bseq"], rows["size"],
            rows["time_ns"], strict=True,
        ):  # fmt: skip
            message = (sid, seq)
            arrival = self._arrival
            if arrival is not None and not (
                kind in _PURGES and arrival.message in (message, (bsid, bseq))
            ):
                self._arrival = None
                self._judge(arrival)
            if kind == RECEIVE:
                self._arrival = _Arrival(kind, message, time_ns)
                if message not in self._delivery:
                    self._delivery[message] = size
                    self._delivery_bytes += size
                if self._group and self._facts.senders[sid][1] != self._node:
                    self._retained_bytes += self._retained[sid].enter(seq, size)
            elif kind in (DELIVER, PURGE_DELIVERY):
                self._delivery_bytes -= self._delivery.pop(message, 0)
            elif kind == PURGE_RETRANSMIT:
                self._retained_bytes -= self._retained[sid].sizes.pop(seq, 0)
            elif kind == STABLE:
                self._retained_bytes -= self._retained[sid].release(seq)
            elif kind == MULTICAST:
                self._arrival = _Arrival(kind, message, time_ns)
                self._retained_bytes += self._retained[sid].enter(seq, size)

    def end(self) -> None:
        """The last arrival has caused all that it will."""
        if self._arrival is not None:
            self._judge(self._arrival)

    def _judge(self, arrival: _Arrival) -> None:
        """Whether anything is beyond its bound after a message came."""
        header = self._header
        sid, seq = arrival.message
        if arrival.kind == RECEIVE:
            held, held_max = len(self._delivery), header.delivery_messages
            if 0 < held_max < held:
                self._beyond(arrival, held, held_max, "messages", "delivery")
            held, held_max = self._delivery_bytes, header.delivery_bytes
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

    def _beyond(self, arrival: _Arrival, held: int, held_max: int, unit: str, where: str) -> None:
        name = self._facts.message(*arrival.message)
        text = f"{self._node} holds {held} {unit} for {where} after {name}; the bound is {held_max}"
        row = (self._header.run, PROPERTY, self._node, [tuple(name)], arrival.time_ns, text)
        self.found.append(row)
