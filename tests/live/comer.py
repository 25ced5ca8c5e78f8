"""A process that comes, sends and reads all the time, and goes; for `churn`.

Settings and a pipe go in. Out come, through the pipe, figures twice a second and what was asked
for, and, if the process ends by itself, an `Account`: what it sent, what it took, and when it was
in. One that is killed leaves no account, as in life; of it only its journal remains.
"""

import logging
import random
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.ids import Source
from semcast.protocol.member import Member

FIGURES_S = 0.5
# A message that took longer to send than this is told.
PAUSE_S = 0.02
MARKED = 0.6
KEYS = 5
# One that reads slowly takes what waits so often.
SLOW_S = 0.7
BYTES = 100


@dataclass
class Account:
    """What a process says in the end. Times are of the clock that all processes here share."""

    process: str
    in_s: float = 0.0
    # Whether it only reads.
    reads: bool = False
    # When it began to leave, whether what it sent was safe then, and when it came back by itself.
    leaving_s: float = 0.0
    safe: bool = False
    back_s: list[float] = field(default_factory=list)
    # What it sent: text, key, and when it began to be sent. What it took: text and key.
    sent: list[tuple[str, str, float]] = field(default_factory=list)
    taken: list[tuple[str, str]] = field(default_factory=list)


class Comer:
    """The member of this process, and the threads that use it."""

    def __init__(self, process: str, settings: dict[str, Any], rate_s: float, slow: bool) -> None:
        self.account = Account(process)
        self._rate_s, self._slow = rate_s, slow
        self.account.reads = settings.get("role") == "reader"
        self._group = semcast.blocking.join(**settings)
        self.account.in_s = time.monotonic()
        self._hushed = threading.Event()
        self._leaving = threading.Event()
        self._kinds: Counter[str] = Counter()
        # When a send began, and how long it took.
        self._pauses: list[tuple[float, float]] = []
        self._failed = ""
        self._threads = [self._begin(self._listen), self._begin(self._take)]
        self._sending = self._begin(self._send)

    def figures(self) -> dict[str, Any]:
        """How it is doing."""
        stats, member = self._group.stats(), self._group._engine.session.member
        assert member is None or isinstance(member, Member)
        view = None if member is None else member.view
        pauses, self._pauses = self._pauses, []
        return {
            "me": self._group._engine.session.me,
            "view": view.number if view else 0,
            "present": [Source(one, view.life(one)) for one in view.present] if view else [],
            "pending": bool(member is not None and member.transfer.pending),
            "sent": len(self.account.sent),
            "taken": len(self.account.taken),
            "waiting": stats["delivery_held"],
            "purged": stats["purged_delivery"] + stats["purged_retransmit"],
            "kinds": dict(self._kinds),
            "pauses": pauses,
            "failed": self._failed,
            "hushed": not self._sending.is_alive(),
        }

    def hush(self) -> None:
        """Send no more."""
        self._hushed.set()

    def drain(self) -> bool:
        """Whether everybody has soon all that was sent."""
        try:
            self._group.drain(60.0)
        except (TimeoutError, GroupClosedError) as error:
            self._failed = self._failed or f"drain: {type(error).__name__}: {error}"
        return not self._failed

    def leave(self, drain_s: float) -> Account:
        """Go, and give the account."""
        self._hushed.set()
        self._sending.join(60.0)
        self.account.leaving_s = time.monotonic()
        self._leaving.set()
        self.account.safe = self._group.leave(drain_s)
        for thread in self._threads:
            thread.join(10.0)
        return self.account

    # -- threads -----------------------------------------------------------------------------------

    def _begin(self, work: Any) -> threading.Thread:
        def run() -> None:
            try:
                work()
            except Exception as error:
                if not self._leaving.is_set():
                    self._failed = f"{work.__name__}: {type(error).__name__}: {error}"

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    def _send(self) -> None:
        if self.account.reads:
            return
        process = self.account.process
        stream = random.Random(f"traffic/{process}")
        due_s = time.monotonic()
        while not self._hushed.is_set():
            number = len(self.account.sent)
            key = f"{process}/k{stream.randrange(KEYS)}" if stream.random() < MARKED else ""
            text = f"{process}/{number}"
            began_s = time.monotonic()
            self._group.send(text.ljust(BYTES, ".").encode(), replaces=key or None)
            took_s = time.monotonic() - began_s
            self.account.sent.append((text, key, began_s))
            if took_s > PAUSE_S:
                self._pauses.append((began_s, took_s))
            # After a pause it does not send all at once what it would have sent meanwhile.
            due_s = max(due_s + stream.expovariate(self._rate_s), time.monotonic() - 1.0)
            self._hushed.wait(max(0.0, due_s - time.monotonic()))

    def _take(self) -> None:
        while True:
            try:
                some = self._group.receive_many(1024, 0.5)
            except TimeoutError:
                if self._leaving.is_set():
                    return
                continue
            taken = self.account.taken
            for one in some:
                taken.append((one.payload.decode().rstrip("."), one.key.decode()))
            if self._slow and not self._leaving.is_set():
                time.sleep(SLOW_S)

    def _listen(self) -> None:
        for event in self._group.events():
            self._kinds[event.kind] += 1
            if event.kind == "rejoined":
                self.account.back_s.append(time.monotonic())


def work(
    process: str, pipe: Connection, settings: dict[str, Any], rate_s: float, slow: bool
) -> None:
    """Join, and do what the pipe says until it says "leave" or ends."""
    # Suspicions and verdicts are expected here, and counted.
    logging.getLogger("semcast").setLevel(logging.ERROR)
    began_s = time.monotonic()
    try:
        comer = Comer(process, settings, rate_s, slow)
    except Exception as error:
        pipe.send(("failed", f"join: {type(error).__name__}: {error}"))
        return
    pipe.send(("in", (began_s, time.monotonic() - began_s)))
    with suppress(EOFError, BrokenPipeError):
        while True:
            if not pipe.poll(FIGURES_S):
                pipe.send(("figures", comer.figures()))
                continue
            what, *more = pipe.recv()
            if what == "leave":
                pipe.send(("figures", comer.figures()))
                pipe.send(("left", comer.leave(*more)))
                return
            pipe.send((what, getattr(comer, what)(*more)))
