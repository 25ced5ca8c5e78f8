"""A group of round trackers on a network that loses, repeats, delays and reorders.

Members may crash and come back without memory. Then they say so, as `RoundDetection` has them do:
again and again until they have a vote, and to whoever speaks of another epoch.
"""

import heapq
import random
from collections import Counter
from itertools import count
from typing import Final

import numpy as np

from semcast.protocol.membership.view import View
from semcast.protocol.stability.rounds.coordp import CoordP
from semcast.protocol.stability.rounds.fulldist import FullDist
from semcast.protocol.stability.rounds.s_coordp import SCoordP
from semcast.protocol.stability.rounds.s_train import STrain
from semcast.protocol.stability.rounds.shape import Shape, filled_tree
from semcast.protocol.stability.rounds.tracker import EVERYBODY, RoundMessage, RoundTracker
from semcast.protocol.stability.rounds.train import Train

TRACKERS: Final[dict[str, type[RoundTracker]]] = {
    "coordp": CoordP,
    "fulldist": FullDist,
    "train": Train,
    "s_coordp": SCoordP,
    "s_train": STrain,
}
MS: Final = 1_000_000
NEVER_NS: Final = 1 << 62


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
        self.trackers: Final = [self.make(at) for at in range(self.size)]
        # Who is there, and in which life, as far as each member knows.
        self.views: Final = [self.first_view] * self.size
        for tracker in self.trackers:
            tracker.roll.install(self.first_view)
        # What is really there, by member.
        self.has: Final = [np.zeros(width, np.int64) for _ in range(self.size)]
        self.now_ns = 0
        self.loss = self.repeat = self.latency_ms = 0.0
        self.gone: Final[set[int]] = set()
        # Which life each is in, and when somebody who came back says so again.
        self.lives: Final = [0] * self.size
        # Who has a vote: somebody who came back has none at first.
        self.joined: Final = [True] * self.size
        self.says_ns: Final = [NEVER_NS] * self.size
        self.paused: Final[dict[int, int]] = {}
        self.processed: Final[Counter[int]] = Counter()
        self._number: Final = count()
        # When, its number, from whom, from which life, to whom, and what; or "I came back", and
        # whether that is to be answered.
        self._queue: Final[list[tuple[int, int, int, int, int, RoundMessage | bool]]] = []

    def make(self, at: int) -> RoundTracker:
        return self.kind(
            self.size,
            at,
            self.width,
            self.votes,
            self.shape,
            timeout_ns=20 * MS,
            quiet_ns=10 * MS,
        )

    @property
    def first_view(self) -> View:
        return View.first(list(range(self.size)), 0, 0)

    def install(self, at: int, view: View) -> None:
        self.views[at] = view
        self.trackers[at].roll.install(view)

    @property
    def alive(self) -> list[int]:
        return [at for at in range(self.size) if at not in self.gone]

    def advance(self, at: int, column: int, seq: int) -> None:
        if seq > self.has[at][column]:
            self.has[at][column] = seq
            self.trackers[at].advance(column, seq)
            self.trackers[at].watch(self.now_ns)

    def come_back(self, at: int) -> None:
        """Somebody who is gone begins another life, with nothing."""
        self.gone.remove(at)
        self.lives[at] += 1
        self.has[at] = np.zeros(self.width, np.int64)
        self.trackers[at] = self.make(at)
        self.install(at, self.first_view.with_life(at, self.lives[at]))
        self.joined[at] = self.votes < self.size
        if not self.joined[at]:
            self.trackers[at].abstain_on(list(range(self.width)), [])
        self.says_ns[at] = self.now_ns
        self.trackers[at].watch(self.now_ns)

    @property
    def voters(self) -> list[int]:
        """Those alive whose streams have begun."""
        return [at for at in self.alive if self.joined[at]]

    def start(self, at: int) -> None:
        self.trackers[at].start(self.now_ns)
        self.send(at)

    def send(self, at: int) -> None:
        """Whatever a tracker wants to say goes on its way, or not."""
        for to, message in self.trackers[at].take_out():
            self.processed[at] += 1
            self._send(at, to, message)

    def _send(self, at: int, to: int, message: RoundMessage | bool) -> None:
        for one in range(self.size) if to == EVERYBODY else [to]:
            copies = 2 if self.stream.random() < self.repeat else 1
            for _ in range(copies):
                if one != at and self.stream.random() < self.loss:
                    continue
                late_ns = round(self.stream.random() * self.latency_ms * MS)
                if self.stream.random() < self.repeat:
                    late_ns *= 20
                when_ns, life = self.now_ns + late_ns, self.lives[at]
                heapq.heappush(self._queue, (when_ns, next(self._number), at, life, one, message))

    def run(self, for_ms: float) -> None:
        """Let messages arrive and timers fire for a while."""
        until_ns = self.now_ns + round(for_ms * MS)
        while True:
            due = [
                (max(min(tracker.next_deadline_ns(), self.says_ns[at]), self.paused.get(at, 0)), at)
                for at, tracker in enumerate(self.trackers)
                if at not in self.gone
            ]
            timer_ns, at = min(due)
            arrival_ns = self._queue[0][0] if self._queue else until_ns + 1
            if min(timer_ns, arrival_ns) > until_ns:
                break
            if timer_ns < arrival_ns:
                self.now_ns = max(self.now_ns, timer_ns)
                self._say_again(at)
                self.trackers[at].on_timer(self.now_ns)
                self._join(at)
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
        time_ns, number, sender, life, to, message = heapq.heappop(self._queue)
        self.now_ns = max(self.now_ns, time_ns)
        if self.paused.get(to, 0) > self.now_ns:
            heapq.heappush(self._queue, (self.paused[to], number, sender, life, to, message))
            return
        tracker = self.trackers[to]
        if to in self.gone or life < self.views[to].life(sender):
            return
        if isinstance(message, bool):
            self._on_reborn(to, sender, life, message)
        else:
            self.processed[to] += 1
            tracker.on_round_message(message, sender, self.now_ns)
            if tracker.strange and self.lives[to] > 0:
                self._send(to, sender, False)
            tracker.strange = False
        self._join(to)
        self.send(to)

    def _join(self, at: int) -> None:
        """INV-JOIN, as in `Page`: whoever abstained in a round has a vote after it. Its streams
        begin at what all others had: what came before is none of its business.
        """
        tracker = self.trackers[at]
        result = tracker.result()
        if not self.joined[at] and result is not None and tracker.abstained_on(0):
            assert result.values is not None
            self.joined[at] = True
            for column in range(self.width):
                seq = max(int(self.has[at][column]), int(result.values[column]))
                self.has[at][column] = seq
                tracker.begin_at(column, seq)
            tracker.abstain_on([], [])
        if self.joined[at]:
            self.says_ns[at] = NEVER_NS

    def _say_again(self, at: int) -> None:
        if self.now_ns >= self.says_ns[at]:
            self._send(at, EVERYBODY, True)
            self.says_ns[at] = self.now_ns + 30 * MS

    def _on_reborn(self, at: int, sender: int, life: int, answer: bool) -> None:
        tracker = self.trackers[at]
        if life > self.views[at].life(sender):
            self.install(at, self.views[at].with_life(sender, life))
            tracker.wanted = True
            tracker.epoch_changed(self.now_ns)
        if answer and self.lives[at] > 0 and at != sender:
            self._send(at, sender, False)

    def check(self) -> None:
        """Nobody takes anything for agreed that too few have."""
        held = np.sort(np.stack([self.has[at] for at in range(self.size)]), axis=0)[::-1]
        if not self.voters:
            return
        alive = np.stack([self.has[at] for at in self.voters])
        for at in self.voters:
            agreed = self.trackers[at].agreed
            if self.votes < self.size:
                assert (agreed <= held[self.votes - 1]).all(), (at, agreed, held)
            else:
                assert (agreed <= alive.min(axis=0)).all(), (at, agreed, alive)

    def all_agreed(self) -> bool:
        most = np.stack([self.has[at] for at in self.alive]).max(axis=0)
        return all((self.trackers[at].agreed == most).all() for at in self.alive)


def settle(group: LossyGroup) -> None:
    """Calm: nothing is lost any more, everybody gets everything, and there is time."""
    group.loss = group.repeat = 0.0
    for _ in range(400):
        most = np.stack([group.has[at] for at in group.alive]).max(axis=0)
        for at in group.voters:
            for column in range(group.width):
                group.advance(at, column, int(most[column]))
        group.run(50)
        if group.voters == group.alive and group.all_agreed():
            break


def restless_group(kind: str, members: int, votes: int, stream: random.Random) -> LossyGroup:
    """A group in which some members get on; with all votes needed, they crash and come back too."""
    shape = filled_tree(members, stream.choice((1, 2, 3)))
    group = LossyGroup(kind, shape, 2, votes, stream)
    group.loss, group.repeat = stream.choice((0.0, 0.1, 0.3)), stream.choice((0.0, 0.2))
    group.latency_ms = stream.choice((0.1, 1.0, 10.0))
    for _ in range(stream.randrange(10, 40)):
        at, column = stream.choice(group.voters), stream.randrange(group.width)
        group.advance(at, column, int(group.has[at][column]) + stream.randrange(1, 5))
        for other in group.voters:
            # Messages spread sooner or later, as if by repair.
            if stream.random() < 0.6:
                group.advance(other, column, int(group.has[at][column]))
        group.start(stream.choice(group.voters))
        if group.gone:
            group.come_back(group.gone.copy().pop())
        elif votes == members and group.voters == group.alive and stream.random() < 0.3:
            group.gone.add(stream.choice(group.alive))
        group.run(stream.random() * stream.choice((1, 10, 40)))
    for at in list(group.gone):
        group.come_back(at)
    return group
