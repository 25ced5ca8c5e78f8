"""Who comes, goes, dies and is stopped, and when: a seed goes in, a list of deeds comes out.

What comes of the deeds has no part in it, so the same seed is the same schedule on any machine.

INV-MAJORITY: after every deed, more members run than may be in the view without running, which are
those that are stopped and those that were killed in the last `FORGET_S` seconds. So a majority of
any view can answer, and whatever is lost is lost although there was one.
"""

import random
from dataclasses import dataclass, field
from typing import Final

JOIN: Final = "join"
LEAVE: Final = "leave"
KILL: Final = "kill"
STOP: Final = "stop"
RESUME: Final = "resume"
# How often each is drawn, where it is possible.
WEIGHTS: Final = {JOIN: 5, LEAVE: 2, KILL: 2, STOP: 3}
# For how long a process is stopped: some are noticed by nobody, some are put out.
STOPPED_S: Final = (0.3, 8.0)
# By then the others have put out one that was killed.
FORGET_S: Final = 6.0
# A process that has just been told to join is left alone for so long, but for a kill.
SETTLE_S: Final = 3.0
RUNNING_MIN: Final = 3


@dataclass(frozen=True)
class Deed:
    """One thing to do to one process."""

    at_s: float
    what: str
    process: str
    # By which name a process joins.
    name: str = ""


@dataclass
class _Population:
    """Who is there, as far as the schedule knows."""

    # By process: since when it runs. Then: until when it is stopped. Then: when it was killed.
    running: dict[str, float] = field(default_factory=dict)
    stopped: dict[str, float] = field(default_factory=dict)
    killed: dict[str, float] = field(default_factory=dict)

    def lacking(self, now_s: float) -> int:
        """How many may be in the view and cannot answer."""
        recent = sum(now_s - at_s < FORGET_S for at_s in self.killed.values())
        return len(self.stopped) + recent


class Drawing:
    """Draws the deeds of one run."""

    def __init__(self, seed: int, processes: int, period_s: float) -> None:
        self._stream = random.Random(f"{seed}/churn")
        self._processes = processes
        self._period_s = period_s
        self._there = _Population()
        self._count = 0
        # Names that nobody has any more: another process may come back by one of them.
        self._free: list[str] = []
        self._names: dict[str, str] = {}
        self._deeds: list[Deed] = []

    def draw(self, seconds: float) -> list[Deed]:
        """All deeds of so many seconds, in order; nobody is left stopped."""
        for _ in range(self._processes):
            self._join(0.0)
        rounds = int(seconds / self._period_s)
        for number in range(1, rounds):
            self._next(number * self._period_s)
        self._resume(float("inf"))
        return sorted(self._deeds, key=lambda deed: deed.at_s)

    def _next(self, now_s: float) -> None:
        self._resume(now_s)
        settled = [
            one for one, since_s in self._there.running.items() if now_s - since_s >= SETTLE_S
        ]
        running, lacking = len(self._there.running), self._there.lacking(now_s)
        possible = []
        if running + len(self._there.stopped) < self._processes:
            possible.append(JOIN)
        if settled and running - 1 >= RUNNING_MIN and running - 1 > lacking:
            possible.append(LEAVE)
        # The one that is killed or stopped runs no longer, and may be in the view all the same.
        if running - 1 >= RUNNING_MIN and running - 1 > lacking + 1:
            possible += [KILL, STOP] if settled else [KILL]
        if not possible:
            return
        what = self._stream.choices(possible, [WEIGHTS[one] for one in possible])[0]
        if what == JOIN:
            self._join(now_s)
            return
        anybody = sorted(self._there.running if what == KILL else settled)
        self._end(now_s, what, self._stream.choice(anybody))

    def _join(self, now_s: float) -> None:
        """Half of those that come have a name that nobody had before."""
        process = f"p{self._count}"
        self._count += 1
        name = f"m{self._count}"
        if self._free and self._stream.random() < 0.5:
            name = self._free.pop(self._stream.randrange(len(self._free)))
        self._names[process] = name
        self._there.running[process] = now_s
        self._deeds.append(Deed(now_s, JOIN, process, name))

    def _end(self, now_s: float, what: str, process: str) -> None:
        del self._there.running[process]
        self._deeds.append(Deed(now_s, what, process))
        if what == STOP:
            self._there.stopped[process] = now_s + self._stream.uniform(*STOPPED_S)
            return
        if what == KILL:
            self._there.killed[process] = now_s
        # One that leaves may still do so while another comes by its name, which is refused.
        if what == KILL:
            self._free.append(self._names[process])

    def _resume(self, now_s: float) -> None:
        """Those whose time has come go on."""
        for process, until_s in sorted(self._there.stopped.items()):
            if until_s <= now_s:
                del self._there.stopped[process]
                self._there.running[process] = until_s
                self._deeds.append(Deed(until_s, RESUME, process))


def schedule(seed: int, seconds: float, processes: int = 8, period_s: float = 1.0) -> list[Deed]:
    """The deeds of a run: all processes join at first, and then there is one deed a period."""
    return Drawing(seed, processes, period_s).draw(seconds)
