"""Gossip with a purging layer, copy by copy and member by member: slow, and plain to read.

The same rules as the round model's (PSRM §3), with lists instead of arrays: messages enter a buffer
one after the other in an order drawn at random, each makes room as the policy says, and each link
takes the copy that has waited longest.
"""

import random
from dataclasses import dataclass, field

import numpy as np

from semcast.model.epidemic.settings import Epidemic
from semcast.model.epidemic.traffic import Multicast, multicasts


@dataclass(eq=False)
class Copy:
    message: Multicast
    link: int
    hop: int


@dataclass
class Naive:
    """What came of a run, by the number of the message."""

    receivers: dict[int, set[int]] = field(default_factory=dict)
    latencies: dict[int, list[int]] = field(default_factory=dict)
    sent_copies: int = 0  # in measured rounds


class NaiveGossip:
    def __init__(self, settings: Epidemic) -> None:
        self.settings = settings
        self.rng = random.Random(settings.seed)
        self.buffers: list[list[Copy]] = [[] for _ in range(settings.members)]
        self.found = Naive()
        others = range(1, settings.members)
        self.views = [self.rng.sample(others, settings.used_links) for _ in self.buffers]

    def run(self) -> Naive:
        settings = self.settings
        messages = multicasts(settings, settings.dead, np.random.default_rng(settings.seed))
        first = settings.settling
        entering: list[tuple[int, Multicast, int]] = []  # member, message, hop
        for at in range(settings.rounds):
            for message in messages:
                if message.born == at:
                    self.found.receivers[message.number] = {message.source}
                    self.found.latencies[message.number] = []
                    entering.append((message.source, message, 0))
            self.rng.shuffle(entering)
            for member, message, hop in entering:
                self.enter(member, message, hop)
            sent = self.send()
            if first <= at < first + settings.measured_rounds:
                self.found.sent_copies += len(sent)
            entering = self.receive(sent, at)
        return self.found

    def enter(self, member: int, message: Multicast, hop: int) -> None:
        buffer = self.buffers[member]
        if self.settings.policy == "eager":
            if any(replaces(copy.message, message) for copy in buffer):
                return
            buffer[:] = [copy for copy in buffer if not replaces(message, copy.message)]
        for link in self.rng.sample(range(self.settings.used_links), self.settings.fanout):
            if len(buffer) < self.settings.capacity_copies or self.make_room(buffer, message):
                buffer.append(Copy(message, link, hop))

    def make_room(self, buffer: list[Copy], message: Multicast) -> bool:
        policy = self.settings.policy
        if policy == "lazy":
            obsolete = [
                copy for copy in buffer if any(replaces(by.message, copy.message) for by in buffer)
            ]
            if obsolete:
                buffer[:] = [copy for copy in buffer if copy not in obsolete]
                return True
        if policy == "drop-new":
            return False
        if policy == "age":
            oldest = min(buffer, key=lambda copy: copy.message.number)
            if message.number < oldest.message.number:
                return False
            buffer.remove(oldest)
            return True
        buffer.pop(self.rng.randrange(len(buffer)))
        return True

    def send(self) -> list[tuple[int, Copy]]:
        sent = []
        for member, buffer in enumerate(self.buffers):
            busy: set[int] = set()
            for copy in list(buffer):
                if copy.link not in busy:
                    busy.add(copy.link)
                    buffer.remove(copy)
                    sent.append((member, copy))
        return sent

    def receive(self, sent: list[tuple[int, Copy]], at: int) -> list[tuple[int, Multicast, int]]:
        relaying = []
        for sender, copy in sent:
            target = self.target(sender, copy.link)
            reached = self.found.receivers[copy.message.number]
            lost = self.rng.random() < self.settings.loss
            if lost or target < self.settings.dead or target in reached:
                continue
            reached.add(target)
            self.found.latencies[copy.message.number].append(at + 1 - copy.message.born)
            if copy.hop + 1 <= self.settings.relays_max:
                relaying.append((target, copy.message, copy.hop + 1))
        return relaying

    def target(self, sender: int, link: int) -> int:
        members = self.settings.members
        if self.settings.view == "partial" or self.settings.used_links == members - 1:
            ahead = self.views[sender][link]
        else:
            ahead = self.rng.randrange(1, members)
        return (sender + ahead) % members


def replaces(later: Multicast, earlier: Multicast) -> bool:
    return (
        later.chain is not None and later.chain == earlier.chain and later.number > earlier.number
    )


@dataclass(frozen=True)
class Summary:
    atomic_share: float
    receivers_share_mean: float
    latency_mean_rounds: float
    load_mean_copies_round: float


def summary(settings: Epidemic) -> Summary:
    """The measures that the round model has too."""
    found = NaiveGossip(settings).run()
    live = settings.members - settings.dead
    messages = multicasts(settings, settings.dead, np.random.default_rng(settings.seed))
    first, last = settings.settling, settings.settling + settings.measured_rounds
    measured = [message for message in messages if first <= message.born < last]
    shares = [
        len(found.receivers[message.number]) / live
        for message in measured
        if message.never_obsolete
    ]
    latencies = [age for message in measured for age in found.latencies[message.number]]
    return Summary(
        atomic_share=sum(share > 0.95 for share in shares) / len(shares),
        receivers_share_mean=sum(shares) / len(shares),
        latency_mean_rounds=sum(latencies) / len(latencies),
        load_mean_copies_round=found.sent_copies / live / settings.measured_rounds,
    )
