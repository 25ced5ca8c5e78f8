"""What each node of a simulated run did, counted as it happens: events in, rates and shares out.

Counts begin after the warm-up and end with the traffic, so that neither an empty group nor the
draining of its buffers is measured. Everything is passed on to the journal, if one is kept.
"""

import math
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.wire.message import Message

_COUNTED: Final = (
    "multicast", "deliver", "state", "ignore", "delivery", "retransmit", "skip", "nak", "resend",
)  # fmt: skip


@dataclass(frozen=True)
class Span:
    """The part of a run that is measured."""

    since_ns: int
    until_ns: int

    @property
    def length_s(self) -> float:
        """How long it is."""
        return (self.until_ns - self.since_ns) / 1e9

    def holds(self, time_ns: int) -> bool:
        """Whether something at this time counts."""
        return self.since_ns <= time_ns < self.until_ns

    def part_ns(self, from_ns: int, to_ns: int) -> int:
        """How much of an interval counts."""
        return max(0, min(to_ns, self.until_ns) - max(from_ns, self.since_ns))


@dataclass(frozen=True)
class NodeOutcome:
    """What one node did while it was measured."""

    node: str
    sent_rate_msg_s: float
    delivered_rate_msg_s: float
    # The share of all messages of the group that were purged here before they were taken, or never
    # came because they were covered.
    not_delivered_share: float
    sent: int
    delivered: int
    purged_delivery: int
    purged_retransmit: int
    skipped: int
    # From multicast until taken; none if nothing was taken.
    latency_p50_ms: float | None
    latency_p99_ms: float | None
    latency_max_ms: float | None
    blocked_share: float
    naks: int
    retransmissions: int
    datagrams_sent: int
    bytes_sent: int
    datagrams_received: int
    datagrams_refused: int  # by the seal, as garbage, or by a full socket


class Tally(Observer):
    """Counts what one node reports."""

    def __init__(
        self, node: str, span: Span, clock: Callable[[], int], journal: Observer | None
    ) -> None:
        super().__init__()
        self.node: Final = node
        self._span: Final = span
        self._clock: Final = clock
        self._journal: Final = journal
        self._latencies_ns: Final = array("q")
        self._counts: Final = dict.fromkeys(_COUNTED, 0)
        self._born_ns: Final = clock()
        self._died_ns = span.until_ns
        self._blocked_since_ns = -1
        self._blocked_ns = 0
        # From when until when each time its sender found no room.
        self.held_up: Final[list[tuple[int, int]]] = []
        # Called when another view counts.
        self.on_view: Callable[[str, View], None] | None = None
        self.datagrams_sent = 0
        self.bytes_sent = 0
        self.datagrams_received = 0
        self.datagrams_refused = 0

    @property
    def sent(self) -> int:
        """Messages multicast while measured."""
        return self._counts["multicast"]

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        """Something happened to a message."""
        if self._journal is not None:
            self._journal.message(event, message, where, cover)
        now_ns = self._clock()
        if event in ("receive", "ignore", "state") or not self._span.holds(now_ns):
            return
        if event == "deliver" and self._span.holds(message.sent_ns):
            self._latencies_ns.append(now_ns - message.sent_ns)
        name = where if event == "purge" else "resend" if event == "retransmit" else event
        # Other kinds of members report more than is counted here.
        if name in self._counts:
            self._counts[name] += 1

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        """Something is known of a source."""
        if self._journal is not None:
            self._journal.progress(event, source, seq, by_source, by_seq)
        now_ns = self._clock()
        if event == "block":
            self._blocked_since_ns = now_ns
        elif event == "unblock":
            self.unblock()
        elif event in ("skip", "nak") and self._span.holds(now_ns):
            self._counts[event] += 1

    def opened(self, number: int, groups: tuple[str, ...]) -> None:
        """In a federation, another graph counts."""
        if self._journal is not None:
            self._journal.opened(number, groups)

    def view(self, view: View) -> None:
        """Another view counts."""
        if self._journal is not None:
            self._journal.view(view)
        if self.on_view is not None:
            self.on_view(self.node, view)

    def unblock(self) -> None:
        """The sender is not blocked any more, or is gone."""
        if self._blocked_since_ns >= 0:
            self.held_up.append((self._blocked_since_ns, self._clock()))
            self._blocked_ns += self._span.part_ns(self._blocked_since_ns, self._clock())
        self._blocked_since_ns = -1

    def end(self) -> None:
        """The node crashed: its rates are per second that it lived."""
        self.unblock()
        self._died_ns = self._clock()

    @property
    def whole(self) -> bool:
        """Whether the node lived all the time that is measured."""
        return self._born_ns <= self._span.since_ns and self._died_ns >= self._span.until_ns

    def sent_datagram(self, size_bytes: int) -> None:
        """A datagram left; a multicast one counts once."""
        if self._span.holds(self._clock()):
            self.datagrams_sent += 1
            self.bytes_sent += size_bytes

    def received_datagram(self) -> None:
        """A datagram came."""
        self.datagrams_received += self._span.holds(self._clock())

    def refused_datagram(self) -> None:
        """A datagram came that is not used."""
        self.datagrams_refused += self._span.holds(self._clock())

    def outcome(self, sent_by_all: int) -> NodeOutcome:
        """The counts as rates and shares, once the run is over."""
        self.unblock()
        counts = self._counts
        # For a node that was not there while measured this avoids a division by zero.
        length_s = max(self._span.part_ns(self._born_ns, self._died_ns), 1) / 1e9
        latencies = sorted(self._latencies_ns)
        return NodeOutcome(
            node=self.node,
            sent_rate_msg_s=self.sent / length_s,
            delivered_rate_msg_s=counts["deliver"] / length_s,
            not_delivered_share=(counts["delivery"] + counts["skip"]) / max(sent_by_all, 1),
            sent=self.sent,
            delivered=counts["deliver"],
            purged_delivery=counts["delivery"],
            purged_retransmit=counts["retransmit"],
            skipped=counts["skip"],
            latency_p50_ms=percentile_ms(latencies, 0.5),
            latency_p99_ms=percentile_ms(latencies, 0.99),
            latency_max_ms=percentile_ms(latencies, 1),
            blocked_share=self._blocked_ns / 1e9 / length_s,
            naks=counts["nak"],
            retransmissions=counts["resend"],
            datagrams_sent=self.datagrams_sent,
            bytes_sent=self.bytes_sent,
            datagrams_received=self.datagrams_received,
            datagrams_refused=self.datagrams_refused,
        )


def percentile_ms(sorted_ns: Sequence[int], share: float) -> float | None:
    """The smallest value that at least this share of the values does not exceed."""
    if not sorted_ns:
        return None
    return sorted_ns[max(1, math.ceil(share * len(sorted_ns))) - 1] / 1e6
