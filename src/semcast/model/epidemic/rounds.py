"""The rounds: settings in, what became of the messages out. All members take each step together."""

from collections.abc import Callable, Iterator
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.errors import ConfigError
from semcast.model.epidemic.buffers import UNSEEN, Buffers, Held
from semcast.model.epidemic.links import Indices, Overlay, Words, each_link, random_sets, word_type
from semcast.model.epidemic.outcome import Measures, Outcome
from semcast.model.epidemic.settings import Epidemic
from semcast.model.epidemic.traffic import Multicast, multicasts

BYTES_MAX: Final = 8 << 30  # what messages that still wait somewhere may take


def run(settings: Epidemic, progress: Callable[[int, int], None] | None = None) -> Outcome:
    """Run all rounds. `progress` is told after each how many are done, and how many there are."""
    gossip = _Gossip(settings)
    for at in range(settings.rounds):
        gossip.round(at)
        if progress is not None:
            progress(at + 1, settings.rounds)
    return gossip.outcome()


def _stream(seed: int, purpose: int) -> np.random.Generator:
    """Draws for one purpose shift none for another: policies are compared on the same traffic."""
    return np.random.Generator(np.random.SFC64([seed, purpose]))


@final
class _Cohort:
    """Members that got one message in one round, in whose buffers it still waits."""

    def __init__(self, message: Held, members: Indices) -> None:
        self.message = message
        self.members = members


@final
class _Gossip:
    """A group while it runs: the messages that wait somewhere, and the buffers that they wait in.

    Links take what came first, first: cohorts are kept in the order in which they came in. Those of
    one round are in an order drawn at random, which is the same for all members.

    The dead are the members of the lowest numbers, which is as good as any choice: links are drawn.
    """

    def __init__(self, settings: Epidemic) -> None:
        traffic, views, self._targets, self._losses, drops, self._order = (
            _stream(settings.seed, purpose) for purpose in range(6)
        )
        self._settings = settings
        self._coming = iter(multicasts(settings, settings.dead, traffic))
        self._next = next(self._coming, None)
        self._overlay = Overlay(settings, views)
        self._buffers = Buffers(settings, drops)
        self._messages: list[Held] = []  # oldest first; those that wait somewhere
        self._cohorts: list[_Cohort] = []
        self._reached: dict[Held, list[Indices]] = {}  # who is to relay, from the next round on
        self._measures = Measures(settings)

    def round(self, at: int) -> None:
        """Messages are multicast, buffers are brought within bounds, each link carries one copy."""
        for multicast in self._born(at):
            self._begin(multicast)
        self._enter()
        self._buffers.settle(self._messages)
        self._measures.round(at, self._buffers.held)
        free: Words = np.full(
            self._settings.members,
            (1 << self._settings.used_links) - 1,
            word_type(self._settings.used_links),
        )
        still = []
        for cohort in self._cohorts:
            self._send(cohort, free, at)
            if len(cohort.members):
                still.append(cohort)
        self._cohorts = still
        self._retire()

    def outcome(self) -> Outcome:
        for message in self._messages:
            self._measures.message(message)
        return self._measures.outcome(self._buffers.purged_copies, self._buffers.dropped_copies)

    def _born(self, at: int) -> Iterator[Multicast]:
        while self._next is not None and self._next.born == at:
            yield self._next
            self._next = next(self._coming, None)

    def _begin(self, multicast: Multicast) -> None:
        message = Held(multicast, self._settings)
        taken = message.row_bytes * (len(self._messages) + 1)
        if taken > BYTES_MAX:
            raise ConfigError(
                f"{len(self._messages) + 1} messages that wait somewhere take "
                f"{taken / (1 << 30):.1f} GiB at {self._settings.members} members, and at most "
                f"{BYTES_MAX >> 30} GiB are allowed; lower the rate, the links or the members"
            )
        message.hops[multicast.source] = 0
        self._messages.append(message)
        self._reached[message] = [np.array([multicast.source])]

    def _enter(self) -> None:
        """Who got a message in the last round draws links for it, and it enters the buffers."""
        settings = self._settings
        messages = list(self._reached)
        for at in self._order.permutation(len(messages)).tolist():
            message = messages[at]
            members = _joined(self._reached[message])
            sets = random_sets(self._targets, len(members), settings.fanout, settings.used_links)
            self._buffers.enter(message, members, sets)
            self._cohorts.append(_Cohort(message, members))
        self._reached.clear()

    def _send(self, cohort: _Cohort, free: Words, at: int) -> None:
        """The members of a cohort send what their free links carry; the rest stays for later."""
        message = cohort.message
        leaving = self._buffers.send(message, cohort.members, free)
        counts = np.bitwise_count(leaving)
        some = np.flatnonzero(counts)
        if len(some):
            senders = cohort.members[some]
            self._measures.sent(at, senders, counts[some])
            which, links = each_link(leaving[some])
            self._receive(message, senders[which], links, at)
        cohort.members = cohort.members[message.waiting[cohort.members] != 0]

    def _receive(self, message: Held, senders: Indices, links: Indices, at: int) -> None:
        """Of the copies that are neither lost nor sent to the dead, the first of each counts."""
        targets = self._overlay.targets(senders, links)
        arrives = targets >= self._settings.dead
        if self._settings.loss > 0:
            arrives &= self._losses.random(len(targets), np.float32) >= self._settings.loss
        arrived = int(arrives.sum())
        arrives &= message.hops[targets] == UNSEEN
        targets = targets[arrives]
        message.hops[targets] = message.hops[senders[arrives]] + np.uint8(1)
        reached = _distinct(targets, self._settings.members)
        self._measures.arrived(at, arrived, len(reached))
        message.receivers += len(reached)
        message.received_by_age[at + 1 - message.multicast.born] += len(reached)
        relaying = reached[message.hops[reached] <= self._settings.relays_max]
        if len(relaying):
            self._reached.setdefault(message, []).append(relaying)

    def _retire(self) -> None:
        """A message that waits nowhere reaches nobody any more, and its arrays are given back."""
        still = []
        for message in self._messages:
            if message.copies or message in self._reached:
                still.append(message)
            else:
                self._measures.message(message)
        self._messages = still


def _joined(parts: list[Indices]) -> Indices:
    """One array, in order, so that walking along it walks along the members."""
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _distinct(members: Indices, count: int) -> Indices:
    """Each of them once, in order."""
    if len(members) < count // 32:
        return np.unique(members)
    found: NDArray[np.bool_] = np.zeros(count, np.bool_)
    found[members] = True
    return np.flatnonzero(found)
