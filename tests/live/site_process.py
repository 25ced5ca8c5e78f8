"""A site of a federation in a process of its own, told what to do over a pipe.

Its application takes all that comes, undoes what it is told to, and remembers the rest in order;
with a `ledger`, in a file, so that the application of a later process goes on with it.
"""

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Self

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.journal.growing_log import GROWING_SUFFIX, has_begun, read_growing_log
from semcast.live.meeting.roster import member_id
from semcast.wire.message import Message

ANSWER_S = 120.0
# A group, a sender, in which life, and the number of its message.
Place = tuple[str, str, int, int]


def place(message: Message) -> Place:
    return message.group, message.sender, int(message.source.incarnation), int(message.seq)


class _Application:
    """What runs in the process."""

    def __init__(self, federation: str, settings: dict[str, Any]) -> None:
        ledger = settings.pop("ledger", "")
        record = settings.get("record")
        self._journal = None if not record else Path(record) / f"run={settings.get('record_run')}"
        self._id = member_id(settings["name"])
        self._took = 0
        self.taken: list[Place] = []
        self.undone: list[Place] = []
        self.wrong: list[str] = []
        # Held while it deals with a message; it begins with the next one only if it may.
        self._dealing = threading.Lock()
        self._may_take = threading.Event()
        self._may_take.set()
        self._ledger = None if not ledger else Path(ledger).open("a+")  # noqa: SIM115
        self._read_ledger()
        self._stopping = threading.Event()
        self.site = semcast.blocking.federate(federation, undo=self._undo, **settings)
        self._threads = [threading.Thread(target=self._take, daemon=True)]
        self._threads[0].start()

    def _read_ledger(self) -> None:
        if self._ledger is None:
            return
        self._ledger.seek(0)
        for line in self._ledger:
            kind, group, sender, life, seq = json.loads(line)
            if kind == "take":
                self.taken.append((group, sender, life, seq))
            else:
                self.taken.pop()

    def _write(self, kind: str, at: Place) -> None:
        if self._ledger is not None:
            self._ledger.write(json.dumps([kind, *at]) + "\n")
            self._ledger.flush()

    def _undo(self, messages: list[Message]) -> None:
        for message in messages:
            self._write("undo", place(message))
            last = self.taken.pop() if self.taken else None
            if last != place(message):
                self.wrong.append(f"to undo {place(message)}, and {last} was the last")
            self.undone.append(place(message))

    def _take(self) -> None:
        with suppress(GroupClosedError):
            while True:
                self._may_take.wait()
                with self._dealing, suppress(TimeoutError):
                    message = self.site.receive(timeout=0.05)
                    self._took += 1
                    self.taken.append(place(message))
                    self._write("take", place(message))

    @contextmanager
    def _between_messages(self) -> Iterator[None]:
        """Nothing is in its hands meanwhile: what it was handed is in `taken`."""
        self._may_take.clear()
        try:
            with self._dealing:
                yield
        finally:
            self._may_take.set()

    def die(self) -> None:
        """Be killed between two messages, under traffic, when the journal has what was taken."""
        with self._between_messages():
            while self._journal is not None and self._recorded(self._journal) < self._took:
                time.sleep(0.02)
            os.kill(os.getpid(), signal.SIGKILL)

    def _recorded(self, folder: Path) -> int:
        """How many deliveries of its present life are in its log, which is not finished."""
        newest = max(folder.glob(f"p{self._id}.*{GROWING_SUFFIX}"), default=None)
        if newest is None or not has_begun(newest):
            return 0
        kinds: list[str] = read_growing_log(newest).column("event").to_pylist()
        return kinds.count("deliver")

    def traffic(self, groups: list[str], gap_s: float) -> None:
        """Begin to send to these groups, until told to stop."""
        self._stopping.clear()

        def send() -> None:
            with suppress(GroupClosedError):
                while not self._stopping.is_set():
                    for group in groups:
                        with suppress(TimeoutError):
                            self.site.send(group, b"x" * 50, timeout=1.0)
                    time.sleep(gap_s)

        self._threads.append(threading.Thread(target=send, daemon=True))
        self._threads[-1].start()

    def quiet(self) -> None:
        """Send no more."""
        self._stopping.set()
        for thread in self._threads[1:]:
            thread.join(30)

    def state(self) -> dict[str, Any]:
        with self._between_messages():
            return self._state()

    def _state(self) -> dict[str, Any]:
        stats = self.site.stats()
        return {
            "taken": list(self.taken),
            "undone": list(self.undone),
            "wrong": list(self.wrong),
            "graph": self.site.graph,
            "groups": self.site.groups,
            "stable": stats["retained_held"] == 0 and stats["delivery_held"] == 0,
            "events": [event.kind for event in self.site.past_events()],
            "stats": stats,
            "members": [one.name for one in self.site.view],
            "address": self.site.view[0].address,
        }

    def change(self, groups: list[str]) -> None:
        self.site.change(groups, timeout=60.0)

    def leave(self) -> bool:
        self.quiet()
        return self.site.leave(30.0)


def _run(pipe: Connection, federation: str, settings: dict[str, Any]) -> None:
    try:
        application = _Application(federation, settings)
        pipe.send(("ok", None))
        while True:
            name, arguments = pipe.recv()
            pipe.send(("ok", getattr(application, name)(*arguments)))
            if name == "leave":
                return
    except (EOFError, KeyboardInterrupt):
        return
    except Exception as error:
        pipe.send(("error", repr(error)))


class SiteProcess:
    """One process; started at once."""

    def __init__(self, federation: str, name: str, **settings: Any) -> None:
        self.name = name
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, federation, {"name": name, **settings})
        self._process = context.Process(target=_run, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def answer(self) -> Any:
        assert self._pipe.poll(ANSWER_S), f"{self.name} does not answer"
        kind, found = self._pipe.recv()
        assert kind == "ok", f"{self.name}: {found}"
        return found

    def call(self, name: str, *arguments: Any) -> Any:
        self._pipe.send((name, arguments))
        return self.answer()

    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = self.call("state")
        assert not found["wrong"], f"{self.name}: {found['wrong']}"
        return found

    def signal(self, number: int) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, number)

    def die(self) -> None:
        """Have it killed, as by `kill -9`, when its application deals with no message."""
        self._pipe.send(("die", ()))
        self._process.join(ANSWER_S)
        assert self._process.exitcode == -signal.SIGKILL

    def kill(self) -> None:
        """End it at once, and wait until it is gone."""
        if self._process.is_alive():
            self.signal(signal.SIGCONT)
            self._process.kill()
        self._process.join(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
