"""The end of a run of a small group: states and datagrams on their way in, a group at rest out.

There is one schedule only; `exhaust` says why that is enough. This module knows nothing of what
came before the end, or of judging.
"""

from typing import Final, TypeAlias, final

from semcast.sim.exhausting.automaton import RECEIVE, TAKE, Action, Automaton, Queues, Step
from semcast.sim.exhausting.scope import NOBODY

# For each step: which member did what, and what that led to. A crash has neither action nor step.
Path: TypeAlias = list[tuple[int, Action | None, Step | None]]


@final
class Closing:
    """The closing phase of one run: one schedule, until everything has come to rest."""

    def __init__(
        self,
        members: list[Automaton],
        queues: Queues,
        state: list[int],
        alive: list[int],
        slow: int,
        path: Path,
    ) -> None:
        self.members: Final = members
        self.queues: Final = queues
        self.state: Final = state
        self.alive: Final = alive
        self.slow: Final = slow
        self.path: Final = path

    def do(self, actor: int, action: Action, read: int) -> None:
        state, count = self.state, len(self.members)
        step = self.members[actor].step(state[actor], action)
        assert step is not None, "only a multicast is refused"
        self.path.append((actor, action, step))
        state[actor] = step.state
        if read != NOBODY:
            at = count + read * count + actor
            state[at] = self.queues.shorter(state[at])
        for to, datagrams in step.sent:
            if to in self.alive:
                at = count + actor * count + to
                state[at] = self.queues.longer(state[at], datagrams)

    def settle(self) -> None:
        """Deliver everything, and let the slow reader take, until nothing moves."""
        count, slow = len(self.members), self.slow
        moved = True
        while moved:
            moved = False
            if slow in self.alive and not self.members[slow].taken[self.state[slow]]:
                self.do(slow, (TAKE, 0, 0), NOBODY)
                moved = True
            for actor in self.alive:
                for other in self.alive:
                    while queue := self.state[count + other * count + actor]:
                        datagram = self.queues.contents[queue][0]
                        self.do(actor, (RECEIVE, other, datagram), other)
                        moved = True
