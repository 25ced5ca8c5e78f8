"""What `semcast analyse` says, worked out one event after the other, for journals of any kind.

The plainest Python that follows the definitions: no windows, no chains of keys, but the whole
obsolescence relation, and buffers as sets that messages enter and leave.
"""

import math
from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.check.brute import Facts

from semcast.check import MessageId
from semcast.journal import Event, Journal

Answer = dict[tuple[Any, ...], dict[str, Any]]
Message = tuple[str, int]
GONE = ("crash", "leave", "end")


def percentiles(values: list[int], prefix: str, unit: float = 1e6) -> dict[str, Any]:
    ranked = sorted(values)

    def at(share: float) -> float | None:
        if not ranked:
            return None
        return ranked[max(1, math.ceil(share * len(ranked))) - 1] / unit

    shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
    return {f"{prefix}_{name}_ms": at(share) for name, share in shares.items()}


def message_of(event: Event) -> Message:
    assert event.sender is not None
    assert event.seq is not None
    return event.sender, event.seq


class Naive:
    """One run, within a span of nanoseconds."""

    def __init__(self, journal: Journal, since_ns: int, until_ns: int) -> None:
        self.run = journal.header.run
        self.header = journal.header
        self.journal = journal
        self.facts = Facts(journal)
        self.events = list(journal)
        self.since_ns, self.until_ns = since_ns, until_ns
        self.nodes = list(dict.fromkeys([*journal.header.members, *(e.node for e in journal)]))
        self.sent = {message_of(e): e for e in self.events if e.event == "multicast"}
        last_ns = max((e.time_ns for e in self.events), default=0)
        self.lives: dict[str, tuple[int, int]] = {}
        for node in self.nodes:
            own = [e for e in self.events if e.node == node]
            begin_ns = 0 if node in journal.header.members else own[0].time_ns
            gone = [e.time_ns for e in own if e.event in GONE]
            self.lives[node] = begin_ns, min(gone, default=last_ns)

    def inside(self, time_ns: int | None) -> bool:
        return time_ns is not None and self.since_ns <= time_ns < self.until_ns

    def measured_s(self, node: str) -> float:
        begin_ns, end_ns = self.lives[node]
        return max(0, min(end_ns, self.until_ns) - max(begin_ns, self.since_ns)) / 1e9

    # -- counts ------------------------------------------------------------------------------------

    def throughput(self) -> Answer:
        found: Answer = {}
        for node in self.nodes:
            row: dict[str, Any] = {"measured_s": self.measured_s(node)}
            for name, kind in (
                ("multicast", "multicast"),
                ("received", "receive"),
                ("delivered", "deliver"),
            ):
                sizes = [
                    e.size or 0
                    for e in self.events
                    if e.node == node and e.event == kind and self.inside(e.time_ns)
                ]
                row |= {name: len(sizes), f"{name}_bytes": sum(sizes)}
            found[self.run, node] = row
        return found

    def purging(self) -> Answer:
        found: Answer = {}
        sent = sum(self.inside(e.time_ns) for e in self.sent.values())
        for e in self.events:
            if e.event not in ("purge", "skip") or not self.inside(e.time_ns):
                continue
            itself = (e.by_sender, e.by_seq) == (e.sender, e.seq)
            if e.event == "purge":
                place, reason = e.where, "dropped" if e.by_seq is None else "replaced"
            else:
                place, reason = "network", "cover forgotten" if itself else "covered"
            row = found.setdefault((self.run, e.node, place, reason), {"messages": 0, "bytes": 0})
            row["messages"] += 1
            row["bytes"] += e.size or 0
            row["share_of_sent"] = row["messages"] / sent if sent else None
        return found

    def repair(self) -> Answer:
        found: Answer = {}
        for node in {e.node for e in self.events}:
            own = [e for e in self.events if e.node == node and self.inside(e.time_ns)]
            again = [e.size or 0 for e in own if e.event == "retransmit"]
            found[self.run, node] = {
                "naks": sum(e.event == "nak" for e in own),
                "retransmitted": len(again),
                "retransmitted_bytes": sum(again),
            }
        return found

    def latency(self) -> Answer:
        took: defaultdict[str, list[int]] = defaultdict(list)
        for e in self.events:
            if e.event == "deliver" and self.inside(e.time_ns) and self.inside(e.sent_ns):
                assert e.sent_ns is not None
                took[e.node].append(e.time_ns - e.sent_ns)
        return {
            (self.run, node): {"messages": len(some)} | percentiles(some, "latency")
            for node, some in took.items()
        }

    # -- what made up for what ---------------------------------------------------------------------

    def covers_of(self, message: Message) -> list[Message]:
        """The message and all that replace it."""
        mine = MessageId(*message)
        return [message, *[m for m in self.sent if self.facts.replaced(mine, MessageId(*m))]]

    def made_up(self) -> list[tuple[str, Message, bool, Event | None]]:
        """Node, message, whether it was delivered itself, and the delivery that made up for it."""
        deliveries: defaultdict[str, dict[Message, Event]] = defaultdict(dict)
        rows: list[tuple[str, Message, bool]] = []
        for e in self.events:
            if e.time_ns >= self.until_ns:
                continue
            if e.event == "deliver":
                deliveries[e.node][message_of(e)] = e
            if e.event in ("deliver", "skip") or (e.event == "purge" and e.where == "delivery"):
                rows.append((e.node, message_of(e), e.event == "deliver"))
        cover_lists = {message: self.covers_of(message) for message in self.sent}
        found = []
        for node, message, delivered in rows:
            if not self.inside(self.sent[message].sent_ns):
                continue
            got = [deliveries[node][m] for m in cover_lists[message] if m in deliveries[node]]
            first = min(got, key=lambda e: (e.time_ns, e.lsn), default=None)
            found.append((node, message, delivered, first))
        return found

    def semantic(self) -> Answer:
        rows: defaultdict[str, list[tuple[bool, int | None]]] = defaultdict(list)
        for node, message, delivered, first in self.made_up():
            sent_ns = self.sent[message].sent_ns
            assert sent_ns is not None
            took = None if first is None else max(0, first.time_ns - sent_ns)
            rows[node].append((delivered, took))
        return {
            (self.run, node): {
                "messages": len(some),
                "replaced": sum(not delivered for delivered, _ in some),
                "waiting": sum(took is None for _, took in some),
            }
            | percentiles([took for _, took in some if took is not None], "semantic_latency")
            | percentiles(
                [took for delivered, took in some if not delivered and took is not None],
                "replaced_latency",
            )
            for node, some in rows.items()
        }

    def rounds(self, round_ns: int) -> Answer:
        rows: defaultdict[str, list[int]] = defaultdict(list)
        for node, message, _, first in self.made_up():
            event = self.sent[message]
            if event.key is not None and first is not None:
                assert event.sent_ns is not None
                assert first.sent_ns is not None
                late = first.sent_ns // round_ns - event.sent_ns // round_ns
                rows[node].append(max(0, late))
        found: Answer = {}
        for node, some in rows.items():
            shares = percentiles(some, "rounds", 1)
            found[self.run, node] = {
                "updates": len(some),
                "same_round_share": some.count(0) / len(some),
                "within_10_rounds_share": sum(late <= 10 for late in some) / len(some),
                "rounds_mean": sum(some) / len(some),
            } | {name.removesuffix("_ms"): value for name, value in shares.items()}
        return found

    # -- buffers -----------------------------------------------------------------------------------

    def occupancy(self) -> Answer:
        found: Answer = {}
        for node in self.nodes:
            for buffer, follow in (
                ("delivery", self._follow_delivery),
                ("retransmit", self._follow_retransmit),
            ):
                begin_ns, end_ns = self.lives[node]
                held: dict[Message, int] = {}
                states = [(begin_ns, 0, 0)]
                for e in (e for e in self.events if e.node == node):
                    follow(e, held)
                    states.append((e.time_ns, len(held), sum(held.values())))
                states.append((end_ns, 0, 0))
                found[self.run, node, buffer] = self._integrated(states)
        return found

    def _integrated(self, states: list[tuple[int, int, int]]) -> dict[str, Any]:
        messages_ns = bytes_ns = 0
        for (from_ns, count, size), (to_ns, _, _) in pairwise(states):
            part = max(0, min(to_ns, self.until_ns) - max(from_ns, self.since_ns))
            messages_ns += count * part
            bytes_ns += size * part
        length_ns = max(0, min(states[-1][0], self.until_ns) - max(states[0][0], self.since_ns))
        return {
            "messages_mean": messages_ns / length_ns if length_ns else None,
            "bytes_mean": bytes_ns / length_ns if length_ns else None,
        }

    @staticmethod
    def _follow_delivery(e: Event, held: dict[Message, int]) -> None:
        if e.event == "receive":
            held[message_of(e)] = e.size or 0
        elif e.event == "deliver" or (e.event == "purge" and e.where == "delivery"):
            held.pop(message_of(e), None)

    def _follow_retransmit(self, e: Event, held: dict[Message, int]) -> None:
        received = e.event == "receive" and self.header.reliability == "group"
        if e.event == "multicast" or (received and e.node != e.sender):
            held[message_of(e)] = e.size or 0
        elif e.event == "purge" and e.where == "retransmit":
            held.pop(message_of(e), None)
        elif e.event == "stable":
            for sender, seq in list(held):
                if sender == e.sender and seq <= (e.seq or 0):
                    del held[sender, seq]

    def blocked(self) -> Answer:
        found: Answer = {}
        for node in self.nodes:
            spells, since = [], None
            for e in (e for e in self.events if e.node == node):
                if e.event == "block":
                    since = e.time_ns
                elif e.event == "unblock" and since is not None:
                    spells.append((since, e.time_ns))
                    since = None
            if since is not None:
                spells.append((since, self.lives[node][1]))
            parts = [
                max(0, min(to_ns, self.until_ns) - max(from_ns, self.since_ns))
                for from_ns, to_ns in spells
            ]
            found[self.run, node] = {
                "blocks": sum(self.inside(from_ns) for from_ns, _ in spells),
                "blocked_s": sum(parts) / 1e9,
                "longest_ms": max(parts, default=0) / 1e6,
            }
        return found

    # -- messages ----------------------------------------------------------------------------------

    def receivers(self) -> Answer:
        found: Answer = {}
        for message, event in self.sent.items():
            if not self.inside(event.time_ns):
                continue
            got = sum(e.event == "deliver" and message_of(e) == message for e in self.events
                      if e.event == "deliver")  # fmt: skip
            wanted = sum(
                begin_ns <= event.time_ns <= end_ns
                and (self.header.deliver_own or node != event.node)
                for node, (begin_ns, end_ns) in self.lives.items()
            )
            replaced = len(self.covers_of(message)) > 1 if self.header.purging else None
            name = (self.run, None if replaced is None else not replaced, wanted, got)
            found.setdefault(name, {"messages": 0})["messages"] += 1
        return found

    def stability(self) -> Answer:
        lags: defaultdict[tuple[Any, ...], dict[str, list[int]]] = defaultdict(
            lambda: {"messages": [], "stable": [], "safe": []}
        )
        for e in self.events:
            had = e.event == "multicast" or (e.event == "receive" and e.node != e.sender)
            if not had or not self.inside(e.sent_ns):
                continue
            assert e.sent_ns is not None
            row = lags[self.run, e.node, e.node == e.sender]
            row["messages"].append(0)
            for kind in ("stable", "safe"):
                times = [
                    told.time_ns
                    for told in self.events
                    if (told.node, told.event, told.sender) == (e.node, kind, e.sender)
                    and (told.seq or 0) >= (e.seq or 0)
                ]
                if times and min(times) < self.until_ns:
                    row[kind].append(min(times) - e.sent_ns)
        return {
            name: {kind: len(values) for kind, values in row.items()}
            | percentiles(row["stable"], "stable_lag")
            | percentiles(row["safe"], "safe_lag")
            for name, row in lags.items()
        }
