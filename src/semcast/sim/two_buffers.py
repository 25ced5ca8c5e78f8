"""One sender, a fast and a slow receiver, and nothing else: the simulation of SRM §5.2.

Settings and a seed go in, rates and latencies come out. Buffers, bitmaps and guards are the
library's own; network, protocol and crashes do not exist here. Time is virtual, in nanoseconds.

How the model is read (SRM §5.1, §6.1; OBS §4.4). A receiver takes the head of its buffer and is
then busy; what it works on is no longer in the buffer and cannot be purged. A sender that finds no
room keeps its message, stores it the instant there is room, and makes the next one a gap later.
`single`: one buffer of N between sender and slow receiver. `split`: N at the sender's side and N
at the receiver's; whatever the receiver's side admits moves on at once, and a full buffer admits a
message that obsoletes one it holds. With a safety latency L, a message may purge others from the
retransmission buffer (the only one, or the sender's side) from L after it was sent.

With several `senders` the traffic is theirs together: each has numbers and marks of its own, and
all of them share the buffers. Messages come in the traffic's order, so that one that finds no room
holds up those behind it, whoever sends them.
"""

import heapq
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.obsolescence import Annotation, Tagger
from semcast.protocol import BufferConfig, Purging, PurgingBuffer, Reason, SafeUpTo, Verdict
from semcast.sim.ranges import Between, Settings
from semcast.sim.traffic import SECOND_NS, Chains, Item, Overwrites, Replay, Traffic
from semcast.wire.message import Message

DelayMs: TypeAlias = Annotated[float, Between(0, 3_600_000)]


@dataclass(frozen=True)
class Buffers(Settings):
    """The buffer, or the two buffers, on the way to the slow receiver."""

    messages: Annotated[int, Between(1, 1_000_000)] = 20
    layout: Literal["single", "split"] = "single"
    purging: Literal["off", "eager", "lazy", "watermark"] = "eager"
    # Only for watermark: purge when more than the former are held, down to the latter.
    high_messages: Annotated[int, Between(0, 1_000_000)] | None = None
    low_messages: Annotated[int, Between(0, 1_000_000)] | None = None
    # By a bitmap of k bits, as in the papers; or by key, at any distance.
    replacement: Literal["bitmap", "key"] = "bitmap"
    k: Annotated[int, Between(0, 1024)] = 64
    safety_latency_ms: DelayMs = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.config()

    def config(self) -> BufferConfig:
        """The same, as the library's buffers take it."""
        return BufferConfig(
            self.messages,
            purging=Purging(self.purging),
            high_messages=self.high_messages,
            low_messages=self.low_messages,
        )


@dataclass(frozen=True)
class TwoBuffers(Settings):
    """A whole run of the model."""

    traffic: Traffic = field(default_factory=Overwrites)
    buffers: Buffers = field(default_factory=Buffers)
    slow_delay_ms: DelayMs = 20.0
    duration_s: Annotated[float, Between(1e-3, 1e7)] = 400.0
    warm_up_s: Annotated[float, Between(0, 1e7)] = 100.0
    # A trace, or chains, may be dealt out to several senders, each with a bitmap of its own.
    senders: Annotated[int, Between(1, 1_000_000)] = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.senders > 1 and not isinstance(self.traffic, Chains | Replay):
            raise ConfigError(
                f"senders is {self.senders}, but traffic of kind {self.traffic.kind!r} is of one "
                "sender; use replay or chains"
            )
        if self.warm_up_s >= self.duration_s:
            raise ConfigError(
                f"warm_up_s is {self.warm_up_s:g} and duration_s {self.duration_s:g}; "
                "nothing would be left to measure"
            )


@dataclass(frozen=True)
class Outcome:
    """What was measured after the warm-up; shares are of the messages sent."""

    sent: int
    sender_rate_msg_s: float
    fast_receiver_rate_msg_s: float
    slow_receiver_rate_msg_s: float
    purged_share: float
    purged_at_sender_share: float
    purged_fast_share: float
    occupancy_mean_messages: float
    latency_mean_ms: float
    latency_max_ms: float
    # Until the message itself, or one that replaces it, is taken (OBS §5.3).
    semantic_latency_mean_ms: float
    semantic_latency_max_ms: float
    blocked_share: float  # of the time


class Mean:
    """A count, a sum and a maximum."""

    def __init__(self) -> None:
        self.count = 0
        self._sum = 0
        self._max = 0

    def add(self, value: int) -> None:
        self.count += 1
        self._sum += value
        self._max = max(self._max, value)

    @property
    def mean_ms(self) -> float:
        return self._sum / self.count / 1e6 if self.count else 0.0

    @property
    def max_ms(self) -> float:
        return self._max / 1e6


class Receiver:
    """Takes the head of its buffer whenever it is not busy with the one before."""

    def __init__(self, buffer: PurgingBuffer, delay_ns: int) -> None:
        self.buffer: Final = buffer
        self.delay_ns: Final = delay_ns
        self.busy = False
        self.taken = 0
        self.latency = Mean()
        self.semantic = Mean()
        # By sender and number of a cover that has not been taken yet: when the messages were sent
        # that were purged because of it.
        self._owed: dict[tuple[int, int], list[int]] = {}

    def owe(self, buffer: PurgingBuffer) -> None:
        """Note what a buffer on the way to this receiver purged."""
        for purged in buffer.drain_purged():
            assert purged.cover is not None
            victim = purged.message
            owed = self._owed.pop((victim.source.sender, victim.seq), [])
            owed.append(victim.sent_ns)
            cover = (purged.cover.source.sender, purged.cover.seq)
            before = self._owed.get(cover)
            if before is not None:
                owed += before
            self._owed[cover] = owed

    def take(self, now_ns: int, since_ns: int) -> bool:
        """Take one message, if there is one; what was sent before `since_ns` is not measured."""
        message = self.buffer.take()
        if message is None:
            return False
        self.taken += now_ns >= since_ns
        owed = self._owed.pop((message.source.sender, message.seq), [])
        if message.sent_ns >= since_ns:
            self.latency.add(now_ns - message.sent_ns)
        for sent_ns in [*owed, message.sent_ns]:
            if sent_ns >= since_ns:
                self.semantic.add(now_ns - sent_ns)
        return True


class Event(NamedTuple):
    """At equal times receivers come first, then safety, then the sender: room is made first."""

    time_ns: int
    priority: int
    number: int
    action: Callable[[], None]


class Sender:
    """Numbers its messages, and marks what each of them replaces."""

    def __init__(self, number: int, k: int, by_key: bool) -> None:
        self.source: Final = Source(1 + number, 1)
        self.tagger: Final = Tagger(k, by_key=by_key)
        self.seq = 0


class Model:
    """The state of one run."""

    def __init__(self, settings: TwoBuffers, seed: int) -> None:
        self._delay_ns = round(settings.slow_delay_ms * 1e6)
        self._end_ns = round(settings.duration_s * SECOND_NS)
        self._since_ns = round(settings.warm_up_s * SECOND_NS)
        self._safety_ns = round(settings.buffers.safety_latency_ms * 1e6)
        config = settings.buffers.config()
        self._guard = SafeUpTo() if self._safety_ns else None
        split = settings.buffers.layout == "split"
        # The buffer that the sender stores into. It is the receiver's own unless there are two.
        near = PurgingBuffer(config, "retransmit", self._guard, record=True)
        self._near = near
        self._slow = Receiver(PurgingBuffer(config, record=True) if split else near, self._delay_ns)
        self._fast = Receiver(PurgingBuffer(config, record=True), 0)
        self._k = settings.buffers.k
        self._by_key = settings.buffers.replacement == "key"
        self._senders: dict[int, Sender] = {}
        rng = random.Random(f"{seed}/sender/traffic")
        traffic = settings.traffic
        self._items: Iterator[Item] = (
            traffic.items(rng, settings.senders)
            if isinstance(traffic, Chains | Replay)
            else traffic.items(rng)
        )
        self._events: list[Event] = []
        self._numbers = 0
        self._now_ns = 0
        # A message that is made but finds no room: its sender is blocked.
        self._waiting: Annotation | None = None
        self._source = Source(1, 1)
        self._seq = 0
        self._blocked_ns = 0
        self._sent = 0
        self._held_ns = 0  # the sum of messages held times how long
        self._purged_before = (0, 0, 0)

    # -- events --------------------------------------------------------------------------------

    def run(self, progress: Callable[[float], None] | None) -> Outcome:
        """Run to the end and measure."""
        self._at(self._since_ns, 0, self._measure_from_here)
        self._prepare()
        while self._events and self._events[0].time_ns <= self._end_ns:
            event = heapq.heappop(self._events)
            self._pass_time(event.time_ns)
            event.action()
            self._move_on()
            if progress is not None and event.number % 1024 == 0:
                progress(self._now_ns / self._end_ns)
        self._pass_time(self._end_ns)
        return self._outcome()

    def _at(self, time_ns: int, priority: int, action: Callable[[], None]) -> None:
        self._numbers += 1
        heapq.heappush(self._events, Event(time_ns, priority, self._numbers, action))

    def _pass_time(self, now_ns: int) -> None:
        passed_ns = now_ns - max(self._now_ns, self._since_ns)
        if passed_ns > 0:
            self._held_ns += passed_ns * self._held()
            self._blocked_ns += passed_ns if self._waiting is not None else 0
        self._now_ns = now_ns

    def _held(self) -> int:
        far = self._slow.buffer
        return self._near.held + (far.held if far is not self._near else 0)

    def _measure_from_here(self) -> None:
        self._purged_before = self._purged()

    # -- the sender ----------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Plan the next message, if the traffic has one: it is made a gap from now."""
        item = next(self._items, None)
        if item is not None:
            self._at(self._now_ns + item.gap_ns, 2, lambda: self._make(item))

    def _make(self, item: Item) -> None:
        sender = self._senders.get(item.sender)
        if sender is None:
            sender = self._senders[item.sender] = Sender(item.sender, self._k, self._by_key)
        sender.seq += 1
        self._source, self._seq = sender.source, sender.seq
        self._waiting = sender.tagger.tag(sender.seq, item.replaces)

    def _store(self) -> bool:
        """Store the message that waits, if there is room for it."""
        mark = self._waiting
        assert mark is not None
        message = Message(
            self._source,
            self._seq,
            mark.key,
            len(mark.key),
            mark.bitmap,
            mark.rank,
            mark.ranked,
            self._now_ns,
            mark.several,
            mark.by_key,
        )
        if self._near.insert(message) is Verdict.FULL:
            return False
        self._waiting = None
        self._fast.buffer.insert(message)
        self._fast.owe(self._fast.buffer)
        while self._fast.take(self._now_ns, self._since_ns):
            pass
        self._sent += self._now_ns >= self._since_ns
        if self._guard is not None:
            self._at(self._now_ns + self._safety_ns, 1, lambda: self._safe(message))
        self._prepare()
        return True

    def _safe(self, message: Message) -> None:
        assert self._guard is not None
        self._guard.advance(message.source, message.seq)
        self._near.covers_released(message.source)

    # -- on the way ----------------------------------------------------------------------------

    def _move_on(self) -> None:
        """Move whatever can move: into service, to the receiver's side, into the buffer."""
        moved = True
        while moved:
            moved = self._serve() or self._forward()
            if not moved and self._waiting is not None:
                moved = self._store()
            self._slow.owe(self._near)
            self._slow.owe(self._slow.buffer)

    def _serve(self) -> bool:
        if self._slow.busy or not self._slow.take(self._now_ns, self._since_ns):
            return False
        if self._delay_ns > 0:
            self._slow.busy = True
            self._at(self._now_ns + self._delay_ns, 0, self._served)
        return True

    def _served(self) -> None:
        self._slow.busy = False

    def _forward(self) -> bool:
        """The head of the sender's side goes to the receiver's, if that admits it."""
        far = self._slow.buffer
        head = self._near.peek()
        if far is self._near or head is None or far.insert(head) is Verdict.FULL:
            return False
        self._near.take()
        return True

    # -- the end -------------------------------------------------------------------------------

    def _purged(self) -> tuple[int, int, int]:
        """What was purged so far: in all, on the sender's side, for the fast receiver."""
        far = self._slow.buffer
        near_purged = self._near.counts[Reason.REPLACED]
        far_purged = far.counts[Reason.REPLACED]
        split = far is not self._near
        at_sender = near_purged if split else 0
        return far_purged + at_sender, at_sender, self._fast.buffer.counts[Reason.REPLACED]

    def _outcome(self) -> Outcome:
        elapsed_s = (self._end_ns - self._since_ns) / SECOND_NS
        pairs = zip(self._purged(), self._purged_before, strict=True)
        shares = [(now - before) / max(self._sent, 1) for now, before in pairs]
        return Outcome(
            sent=self._sent,
            sender_rate_msg_s=self._sent / elapsed_s,
            fast_receiver_rate_msg_s=self._fast.taken / elapsed_s,
            slow_receiver_rate_msg_s=self._slow.taken / elapsed_s,
            purged_share=shares[0],
            purged_at_sender_share=shares[1],
            purged_fast_share=shares[2],
            occupancy_mean_messages=self._held_ns / (elapsed_s * SECOND_NS),
            latency_mean_ms=self._slow.latency.mean_ms,
            latency_max_ms=self._slow.latency.max_ms,
            semantic_latency_mean_ms=self._slow.semantic.mean_ms,
            semantic_latency_max_ms=self._slow.semantic.max_ms,
            blocked_share=self._blocked_ns / (elapsed_s * SECOND_NS),
        )


def run(
    settings: TwoBuffers, seed: int, progress: Callable[[float], None] | None = None
) -> Outcome:
    """One run of the model; the same settings and seed give the same outcome.

    `progress`, if given, is called now and then with the share of the run that is over.
    """
    return Model(settings, seed).run(progress)
