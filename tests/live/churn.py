"""Processes that come, go, die and are stopped, as a schedule says, in one live group or feed.

A schedule goes in (`churn_schedule`); the processes (`comer`) do as it says, and record what they
do. In the end all are hushed, everybody gets everything, and they leave together. Journals and
accounts come out, which `churn_verdict` judges. A progress line tells how it goes.
"""

import multiprocessing
import os
import signal
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tests.live import comer
from tests.live.churn_schedule import JOIN, KILL, LEAVE, RESUME, STOP, Deed
from tests.live.comer import Account
from tests.live.groups import new_group

SECRET = "a secret that only tests have..."
RUN = "churn"
# One in so many reads slowly.
SLOW_EVERY = 3
DRAIN_S = 30.0
# How long all may take in the end to agree on who is there, to get everything, and to go.
REST_S = 120.0
# A machine that is busy with other things may need so long to let a process in.
JOIN_S = 90.0
SAY_S = 5.0


class ChurnError(Exception):
    """A process did not do what it should."""


@dataclass
class Outcome:
    """What is known when all is over."""

    rested: list[Account] = field(default_factory=list)
    left: list[Account] = field(default_factory=list)
    # By process: from when until when it was stopped.
    stopped: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    killed: set[str] = field(default_factory=set)
    # Sends that took long, of processes that were not stopped meanwhile, and how many sends.
    pauses_s: list[float] = field(default_factory=list)
    sent: int = 0
    joins_s: list[float] = field(default_factory=list)
    # For how long deeds had to wait, in all.
    waited_s: float = 0.0


class Process:
    """One process, as the driver sees it."""

    def __init__(self, context: Any, process: str, settings: dict[str, Any], rate_s: float) -> None:
        self.process = process
        self.reads = settings.get("role") == "reader"
        slow = int(process[1:]) % SLOW_EVERY == SLOW_EVERY - 1
        self.pipe, theirs = context.Pipe()
        self._worker = context.Process(
            target=comer.work, args=(process, theirs, settings, rate_s, slow), daemon=True
        )
        self._worker.start()
        theirs.close()
        self.inside = False
        self.stopped = False
        self.leaving = False
        self.hushed = False
        self.drained = False
        self.account: Account | None = None
        self.figures: dict[str, Any] = {}

    def tell(self, what: str, *more: Any) -> None:
        with suppress(BrokenPipeError):
            self.pipe.send((what, *more))

    def signal(self, number: int) -> None:
        os.kill(self._worker.pid or 0, number)

    def kill(self) -> None:
        self._worker.kill()
        self._worker.join()
        self.pipe.close()

    def end(self) -> None:
        """It has left: wait for it."""
        self._worker.join(10.0)
        if self._worker.is_alive():
            self._worker.kill()
            self._worker.join()
        self.pipe.close()

    def exit_code(self) -> int | None:
        self._worker.join(5.0)
        code: int | None = self._worker.exitcode
        return code


class Churn:
    """Runs a schedule. `senders`: so many processes send, if there are enough; the others read."""

    def __init__(
        self,
        folder: Path,
        rate_s: float,
        reliability: str,
        senders: int,
        say: Callable[[str], None],
        **settings: Any,
    ) -> None:
        self._rate_s = rate_s
        self._feeds = reliability == "sender"
        self._senders = senders
        # So many there are at most: those that join at first.
        self._processes = 0
        self._settings = {
            "group": new_group(), "secret": SECRET, "interface": "lo", "record": str(folder),
            "record_run": RUN, "reliability": reliability, "join_timeout_s": JOIN_S,
        } | settings  # fmt: skip
        self._say = say
        self._said_s = 0.0
        self._began_s = time.monotonic()
        self._there: dict[str, Process] = {}
        self._kinds: Counter[str] = Counter()
        self._deeds: Counter[str] = Counter()
        self._totals: Counter[str] = Counter()
        self.outcome = Outcome()
        # Each process is forked from one that has imported everything and runs no thread.
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload([comer.__name__])

    def run(self, deeds: list[Deed]) -> Outcome:
        """All deeds, and the end. Raises ChurnError if a process fails."""
        try:
            first = [deed for deed in deeds if deed.at_s == 0]
            self._processes = len(first)
            for deed in first:
                self._do(deed)
            self._until("the first are in", lambda: all(o.inside for o in self._there.values()))
            began_s = time.monotonic()
            for deed in deeds[len(first) :]:
                self._listen(began_s + deed.at_s)
                waited_s = self._wait_for(deed)
                began_s += waited_s
                self.outcome.waited_s += waited_s
                self._do(deed)
            self._rest()
        finally:
            for one in list(self._there.values()):
                with suppress(ProcessLookupError):
                    one.kill()
        return self.outcome

    # -- deeds -------------------------------------------------------------------------------------

    def _wait_for(self, deed: Deed) -> float:
        return self._until(f"a majority is left for: {deed}", lambda: self._may(deed))

    def _may(self, deed: Deed) -> bool:
        """Whether a majority of the newest view runs after this deed. The schedule sees to it that
        it does if dead members are put out in time; on a machine that is busy with other things
        they may not be, and then what follows waits.
        """
        if deed.what == JOIN:
            return len(self._there) < self._processes  # one that leaves may take its time
        if self._feeds or deed.what == RESUME:
            return True
        members = [one for one in self._there.values() if one.figures and not one.reads]
        running = [one for one in members if not one.stopped]
        newest = max(running, key=lambda one: int(one.figures["view"]), default=None)
        if newest is None:
            return False
        present = newest.figures["present"]
        left = [one for one in running if one.process != deed.process]
        return 2 * sum(one.figures["me"] in present for one in left) > len(present)

    def _do(self, deed: Deed) -> None:
        self._deeds[deed.what] += 1
        if deed.what == JOIN:
            self._join(deed)
            return
        one = self._there[deed.process]
        windows = self.outcome.stopped.setdefault(deed.process, [])
        if deed.what == LEAVE:
            one.leaving = True
            one.tell("leave", DRAIN_S)
        elif deed.what == KILL:
            one.kill()
            self.outcome.killed.add(deed.process)
            self._forget(one)
        elif deed.what == STOP:
            one.stopped = True
            windows.append((time.monotonic(), float("inf")))
            one.signal(signal.SIGSTOP)
        elif deed.what == RESUME:
            one.stopped = False
            one.signal(signal.SIGCONT)
            windows[-1] = (windows[-1][0], time.monotonic())

    def _join(self, deed: Deed) -> None:
        settings = self._settings | {"name": deed.name}
        senders = sum(not one.reads for one in self._there.values() if not one.leaving)
        if senders >= self._senders:
            settings["role"] = "reader"
        self._there[deed.process] = Process(self._context, deed.process, settings, self._rate_s)

    def _forget(self, one: Process) -> None:
        """It is gone; what it counted stays in the totals."""
        del self._there[one.process]
        self._totals += self._countable(one)
        self._kinds += Counter(one.figures.get("kinds", {}))

    @staticmethod
    def _countable(one: Process) -> Counter[str]:
        return Counter({name: one.figures.get(name, 0) for name in ("sent", "taken", "purged")})

    # -- what processes say ------------------------------------------------------------------------

    def _listen(self, until_s: float) -> None:
        """Hear what processes say until then."""
        while True:
            left_s = until_s - time.monotonic()
            pipes: dict[Connection, Process] = {one.pipe: one for one in self._there.values()}
            for pipe in wait(list(pipes), max(0.0, min(left_s, 0.2))):
                self._hear(pipes[pipe])  # type: ignore[index]
            if time.monotonic() - self._said_s > SAY_S:
                self._progress()
            if left_s <= 0:
                return

    def _hear(self, one: Process) -> None:
        try:
            what, told = one.pipe.recv()
        except (EOFError, ConnectionResetError):
            raise ChurnError(f"{one.process} ended by itself: {one.exit_code()}") from None
        if what == "failed":
            raise ChurnError(f"{one.process}: {told}")
        if what == "in":
            one.inside = True
            self.outcome.joins_s += self._undisturbed(one.process, [told])
        elif what == "figures":
            one.figures = told
            self.outcome.pauses_s += self._undisturbed(one.process, told["pauses"])
            if told["failed"]:
                raise ChurnError(f"{one.process}: {told['failed']}")
            one.hushed = told["hushed"]
        elif what == "drain":
            one.drained = told
        elif what == "left":
            self._left(one, told)

    def _undisturbed(self, process: str, times: list[tuple[float, float]]) -> list[float]:
        """What took how long, without what the process was stopped in. `times`: when it began, and
        how long it took.
        """
        windows = self.outcome.stopped.get(process, [])
        return [
            took_s
            for at_s, took_s in times
            if not any(at_s < end_s and begin_s < at_s + took_s for begin_s, end_s in windows)
        ]

    def _left(self, one: Process, account: Account) -> None:
        one.account = account
        self.outcome.sent += len(account.sent)
        one.end()
        self._forget(one)
        (self.outcome.rested if one.drained else self.outcome.left).append(account)

    # -- the end -----------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Nobody sends any more, all are in one view, and have everything; then all leave."""
        staying = [one for one in self._there.values() if not one.leaving]
        for one in staying:
            one.tell("hush")
        self._until(
            "all are in, and hushed, and those that leave have left",
            lambda: (
                len(self._there) == len(staying) and all(o.hushed and o.inside for o in staying)
            ),
        )
        members = [one for one in staying if not one.reads]
        self._until(
            f"all are in one view, of {len(members)}",
            lambda: self._feeds or all(len(o.figures["present"]) == len(members) for o in members),
        )
        for one in staying:
            one.tell("drain")
        self._until("everybody has everything", lambda: all(one.drained for one in staying))
        self._listen(time.monotonic() + 2.0)
        self._until(
            "everybody has taken everything", lambda: all(not o.figures["waiting"] for o in staying)
        )
        self._progress()
        for one in staying:
            one.tell("leave", DRAIN_S)
        self._until("all have left", lambda: not self._there)

    def _until(self, what: str, true: Callable[[], bool]) -> float:
        """Wait until something is so; says for how long."""
        began_s = time.monotonic()
        while not true():
            if time.monotonic() > began_s + REST_S:
                raise ChurnError(f"not in {REST_S:g} s: {what}; {self._state()}")
            self._listen(time.monotonic() + 0.1)
        return time.monotonic() - began_s

    def _state(self) -> str:
        shown = ("view", "waiting", "pending", "hushed")
        return "; ".join(
            f"{one.process} inside={one.inside} leaving={one.leaving} drained={one.drained} "
            + " ".join(f"{name}={one.figures.get(name)}" for name in shown)
            for one in self._there.values()
        )

    def _progress(self) -> None:
        self._said_s = time.monotonic()
        totals, kinds = Counter(self._totals), Counter(self._kinds)
        for one in self._there.values():
            totals += self._countable(one)
            kinds += Counter(one.figures.get("kinds", {}))
        views = max((one.figures.get("view", 0) for one in self._there.values()), default=0)
        pauses = self.outcome.pauses_s
        inside = sum(one.inside and not one.stopped for one in self._there.values())
        stopped = sum(one.stopped for one in self._there.values())
        self._say(
            f"{time.monotonic() - self._began_s:5.0f} s: view {views}, {inside} members run, "
            f"{stopped} stopped; {totals['sent']} sent, {totals['taken']} taken, "
            f"{totals['purged']} purged; {self._deeds[JOIN]} joined, {self._deeds[LEAVE]} left, "
            f"{self._deeds[KILL]} killed, {self._deeds[STOP]} stopped; suspected "
            f"{kinds['suspected']}, evicted {kinds['evicted']}, rejoined {kinds['rejoined']}; "
            f"longest pause of a sender {1000 * max(pauses, default=0.0):.0f} ms"
        )
