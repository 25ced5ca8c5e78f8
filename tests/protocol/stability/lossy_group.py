"""A group of round trackers on a network that loses, repeats, delays and reorders."""

import heapq
import random
from collections import Counter
from itertools import count
from typing import Final

import numpy as np

from semcast.protocol.stability.coordp import CoordP
from semcast.protocol.stability.fulldist import FullDist
from semcast.protocol.stability.rounds import EVERYBODY, RoundTracker, Told
from semcast.protocol.stability.s_coordp import SCoordP
from semcast.protocol.stability.s_train import STrain
from semcast.protocol.stability.shape import Shape
from semcast.protocol.stability.train import Train

TRACKERS: Final[dict[str, type[RoundTracker]]] = {
    "coordp": CoordP,
    "fulldist": FullDist,
    "train": Train,
    "s_coordp": SCoordP,
    "s_train": STrain,
}
MS: Final = 1_000_000


class LossyGroup:
    """Trackers, what they have, and the messages on their way."""

    def __init__(
        self, kind: str, shape: Shape, width: int, votes: int, stream: random.Random | None = None
    ) -> None:
        self.kind: Final = TRACKERS[kind]
        self.shape: Final = shape
        self.width: Final = width
        self.votes: Final = votes
        self.stream: Final = stream or random.Random(0)
        self.size: Final = shape.members
        self.trackers: Final = [self.make(at, False) for at in range(self.size)]
        # What is really there, by member.
        self.has: Final = [np.zeros(width, np.int64) for _ in range(self.size)]
        self.now_ns = 0
        self.loss = self.repeat = self.latency_ms = 0.0
        self.gone: Final[set[int]] = set()
        self.paused: Final[dict[int, int]] = {}
        self.processed: Final[Counter[int]] = Counter()
        self._number: Final = count()
        self._queue: Final[list[tuple[int, int, int, int, Told]]] = []

    def make(self, at: int, joining: bool) -> RoundTracker:
        return self.kind(
            self.size,
            at,
            self.width,
            self.votes,
            self.shape,
            timeout_ns=20 * MS,
            quiet_ns=10 * MS,
            joining=joining,
        )

    @property
    def alive(self) -> list[int]:
        return [at for at in range(self.size) if at not in self.gone]

    def advance(self, at: int, column: int, seq: int) -> None:
        if seq > self.has[at][column]:
            self.has[at][column] = seq
            self.trackers[at].advance(column, seq)
            self.trackers[at].watch(self.now_ns)

    def start(self, at: int) -> None:
        self.trackers[at].start(self.now_ns)
        self.send(at)

    def send(self, at: int) -> None:
        """Whatever a tracker wants to say goes on its way, or not."""
        for to, told in self.trackers[at].take_out():
            self.processed[at] += 1
            for one in range(self.size) if to == EVERYBODY else [to]:
                copies = 2 if self.stream.random() < self.repeat else 1
                for _ in range(copies):
                    if one != at and self.stream.random() < self.loss:
                        continue
                    late_ns = round(self.stream.random() * self.latency_ms * MS)
                    if self.stream.random() < self.repeat:
                        late_ns *= 20
                    event = (self.now_ns + late_ns, next(self._number), at, one, told)
                    heapq.heappush(self._queue, event)

    def run(self, for_ms: float) -> None:
        """Let messages arrive and timers fire for a while."""
        until_ns = self.now_ns + round(for_ms * MS)
        while True:
            due = [
                (max(tracker.next_deadline_ns(), self.paused.get(at, 0)), at)
                for at, tracker in enumerate(self.trackers)
                if at not in self.gone
            ]
            timer_ns, at = min(due)
            arrival_ns = self._queue[0][0] if self._queue else until_ns + 1
            if min(timer_ns, arrival_ns) > until_ns:
                break
            if timer_ns < arrival_ns:
                self.now_ns = max(self.now_ns, timer_ns)
                self.trackers[at].on_timer(self.now_ns)
                self.send(at)
            else:
                self._arrive()
            self.check()
        self.now_ns = until_ns

    def settle(self) -> None:
        """Deliver all that is on its way and what follows from it, without any timer."""
        while self._queue:
            self._arrive()

    def _arrive(self) -> None:
        time_ns, number, sender, to, told = heapq.heappop(self._queue)
        self.now_ns = max(self.now_ns, time_ns)
        if self.paused.get(to, 0) > self.now_ns:
            heapq.heappush(self._queue, (self.paused[to], number, sender, to, told))
            return
        if to not in self.gone:
            self.processed[to] += 1
            self.trackers[to].on_told(told, sender, self.now_ns)
            self.send(to)

    def check(self) -> None:
        """Nobody takes anything for agreed that too few have."""
        held = np.sort(np.stack([self.has[at] for at in range(self.size)]), axis=0)[::-1]
        alive = np.stack([self.has[at] for at in self.alive])
        for at in self.alive:
            agreed = self.trackers[at].agreed
            if self.votes < self.size:
                assert (agreed <= held[self.votes - 1]).all(), (at, agreed, held)
            else:
                assert (agreed <= alive.min(axis=0)).all(), (at, agreed, alive)

    def all_agreed(self) -> bool:
        most = np.stack([self.has[at] for at in self.alive]).max(axis=0)
        return all((self.trackers[at].agreed == most).all() for at in self.alive)
