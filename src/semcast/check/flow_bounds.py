"""Flow control (SRM §5.3): no buffer ever holds more than it was given room for.

What a node holds follows from its events. The delivery buffer holds what was received and neither
delivered nor purged there. For retransmission a node keeps its own messages and, in S-RM, those it
received, until they are stable or purged there; that bound is per source, in messages, while bytes
are bounded for all sources together. A run may also bound all messages that a node holds. Holds on
every prefix.

A full buffer may take a message in place of those that it replaces, and may refuse one that is
obsolete already; the log then has its arrival first and the purges after it. So what a node holds
is looked at when those purges are through.

Mostly messages come once and leave once: then what is held after each row is a sum, and NumPy shows
of all rows at once that no bound is passed. Otherwise the kernel looks at every row.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final, final

import numpy as np

from semcast.check.facts import source_of
from semcast.check.flow_held import Arrival, Delivery, Retained, arrivals_end
from semcast.check.kernel import BY_NODE, MANY_ROWS, Group, Kernel
from semcast.check.property import Property
from semcast.check.rows import (
    DELIVER,
    IGNORE,
    MULTICAST,
    PURGE_DELIVERY,
    PURGE_RETRANSMIT,
    PURGES,
    RECEIVE,
    STABLE,
    Row,
    Rows,
    slices_of,
)


def _kernel(group: Group) -> "FlowBoundsKernel | None":
    """No kernel for a node that has no bounds."""
    header = group.run.header
    bounds = (header.delivery_messages, header.delivery_bytes, header.total_messages)
    bounded = any((*bounds, header.window_messages, header.window_bytes))
    return FlowBoundsKernel(group) if bounded else None


@final
class FlowBoundsKernel(Kernel):
    """The buffers of one node, whose events come in their order."""

    def __init__(self, group: Group) -> None:
        super().__init__(group)
        run = self.run
        self._header: Final = run.header
        self._node: Final = run.nodes[group.n]
        keeps = not (run.readers >> group.n) & 1
        self._group: Final = run.header.reliability == "group" and keeps
        kept = len({source_of(name)[0] for name in run.nodes}) if self._group else 1
        self._retained_bytes_max: Final = run.header.window_bytes * kept
        self._window: Final = run.header.window_messages > 0 or run.header.window_bytes > 0
        self._delivery: Final = Delivery()
        self._retained: Final[defaultdict[int, Retained]] = defaultdict(Retained)
        self._retained_bytes = 0
        # How the last message came, until the purges that it causes are through.
        self._arrival: Arrival | None = None

    def feed(self, rows: Rows) -> None:
        """Follow what the buffers hold."""
        if len(rows) < MANY_ROWS:
            self.feed_each(rows.each)
            return
        caused = self._caused_first(rows)
        if caused:
            self.feed_each(rows.slice(0, caused).each)
            rows = rows.slice(caused, len(rows))
        if len(rows):
            self.end()
            if not self.feed_many(rows):
                self.feed_each(rows.each)

    def _caused_first(self, rows: Rows) -> int:
        """How many rows there are before the last arrival can be judged."""
        arrival = self._arrival
        columns = (rows.numbers(name) for name in ("kind", "sid", "seq", "bsid", "bseq"))
        for at, (kind, sid, seq, bsid, bseq) in enumerate(zip(*columns, strict=True)):
            messages = ((sid, seq), (bsid, bseq))
            if arrival is None or kind not in PURGES or arrival.message not in messages:
                return at
        return len(rows)

    # -- all rows at once --------------------------------------------------------------------------

    def feed_many(self, rows: Rows) -> bool:
        """Follow all rows."""
        kind, sid = rows.numbers("kind"), rows.numbers("sid")
        ends = arrivals_end(rows)
        if ends is None or self._header.total_messages or (kind == IGNORE).any():
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
            own = self.group.facts.senders[number][1] == self._node
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

    def feed_each(self, rows: Iterable[Row]) -> None:
        """Follow row by row."""
        delivery, retained = self._delivery, self._retained
        own = self.group.facts.senders
        for kind, _, sid, seq, bsid, bseq, _, time_ns, size, *_ in rows:
            message = (sid, seq)
            arrival = self._arrival
            if arrival is not None and not (
                kind in PURGES and arrival.message in (message, (bsid, bseq))
            ):
                self.end()
            if kind == RECEIVE:
                self._arrival = Arrival(kind, message, time_ns)
                delivery.enter(message, size)
                if self._group and own[sid][1] != self._node:
                    self._retained_bytes += retained[sid].enter(seq, size)
            elif kind == IGNORE:
                # Kept for others, and never for the application.
                self._arrival = Arrival(kind, message, time_ns)
                if self._group and own[sid][1] != self._node:
                    self._retained_bytes += retained[sid].enter(seq, size)
            elif kind in (DELIVER, PURGE_DELIVERY):
                delivery.leave(message)
            elif kind == PURGE_RETRANSMIT:
                self._retained_bytes -= retained[sid].sizes.pop(seq, 0)
            elif kind == STABLE:
                self._retained_bytes -= retained[sid].release(seq)
            elif kind == MULTICAST:
                self._arrival = Arrival(kind, message, time_ns)
                self._retained_bytes += retained[sid].enter(seq, size)

    def end(self) -> None:
        """Judge the last arrival: no more purges can follow it."""
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
        if header.total_messages:
            held = len(self._delivery.sizes)
            held += sum(len(kept.sizes) for kept in self._retained.values())
            if held > header.total_messages:
                self._beyond(arrival, held, header.total_messages, "messages", "all purposes")
        retained = self._retained[sid]
        if seq in retained.sizes:
            held, held_max = len(retained.sizes), header.window_messages
            if 0 < held_max < held:
                where = f"retransmission of {self.group.facts.senders[sid][1]}"
                self._beyond(arrival, held, held_max, "messages", where)
            held, held_max = self._retained_bytes, self._retained_bytes_max
            if 0 < held_max < held:
                self._beyond(arrival, held, held_max, "bytes", "retransmission")

    def _beyond(self, arrival: Arrival, held: int, held_max: int, unit: str, where: str) -> None:
        name = self.message(*arrival.message)
        text = f"holds {held} {unit} for {where} after {name}; the bound is {held_max}"
        self.report(PROPERTY.name, self.group.n, [name], arrival.time_ns, text)


PROPERTY: Final = Property("Flow Bounds", {BY_NODE: _kernel}, ("multicast", "receive", "ignore"))
