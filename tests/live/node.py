"""A member in a process of its own: commands as JSON lines in, one answer for each out.

Run as `python -m tests.live.node`. Threads of its own send and receive when told to, so that the
process always answers. Everything it is told comes from `tests/live/groups.py`.
"""

import dataclasses
import json
import os
import random
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.config import configure
from semcast.live.meeting import joining
from semcast.obsolescence.tagger import Replaces
from semcast.wire.message import Message


def told(message: Message) -> list[Any]:
    """A message as JSON; payloads are latin-1, ages in milliseconds, send times in nanoseconds."""
    return [
        message.sender,
        message.source.incarnation,
        message.seq,
        message.key.decode("latin-1"),
        message.payload.decode("latin-1"),
        list(message.skipped),
        (time.time_ns() - int(message.sent_ns)) / 1e6,
        int(message.sent_ns),
    ]


class Node:
    """One member, and the threads that use it."""

    group: semcast.blocking.Group

    def __init__(self) -> None:
        self._collected: list[list[Any]] = []
        self._sent: list[list[str]] = []
        self._busy_s = 0.0
        self._stopping = threading.Event()
        self._reading = threading.Event()
        self._silenced = threading.Event()
        self._departing = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._failed: list[str] = []

    # -- joining and leaving -----------------------------------------------------------------------

    def clock(self, ahead_s: float) -> None:
        """From now on the clock of this process is wrong by so much."""
        real = time.time_ns
        time.time_ns = lambda: real() + round(ahead_s * 1e9)

    def begin(self, settings: dict[str, Any]) -> str:
        """Look for the others; says where this member is, for others to be told.

        A process may do so again and again, each time when it has left the last group.
        """
        self._stopping.clear()
        self._departing.clear()
        self._threads.clear()
        self._collected.clear()
        self._sent.clear()
        self.group = semcast.blocking.Group(configure(settings))
        host, port = self.group._engine.session.transport.address
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def complete(self) -> int:
        """Wait until all are there; says in which life this member is."""
        joining.wait_complete(self.group._engine)
        return self.group._engine.session.me.incarnation

    def leave(self, drain_s: float = 10.0) -> None:
        self.halt()
        self.group.leave(drain_s)

    def depart(self, drain_s: float) -> bool:
        """Leave while the threads go on."""
        self._departing.set()
        safe = self.group.leave(drain_s)
        self.halt()
        return safe

    def exit(self) -> None:
        """End the interpreter with the group open."""
        self.halt()
        print(json.dumps({"ok": None}), flush=True)
        sys.exit(0)

    # -- messages ----------------------------------------------------------------------------------

    def send(
        self,
        payloads: list[str],
        replaces: list[Replaces] | None = None,
        timeout: float | None = 60.0,
    ) -> int:
        return self.group.send_many([one.encode("latin-1") for one in payloads], replaces, timeout)

    def receive(self, count: int, timeout: float = 60.0) -> list[list[Any]]:
        """So many messages; fewer only if no more come in time."""
        got: list[Message] = []
        try:
            while len(got) < count:
                got += self.group.receive_many(count - len(got), timeout)
        except TimeoutError:
            pass
        return [told(message) for message in got]

    def traffic(
        self,
        count: int,
        keys: int = 0,
        marked: float = 0.5,
        gap_s: float = 0.0,
        size: int = 0,
        prefix: str = "",
    ) -> None:
        """Begin to send numbered messages, a share of them marked with one of some keys."""
        stream = random.Random(f"traffic/{prefix}/{self.group.name}")
        self._silenced.clear()

        def send() -> None:
            began_s = time.monotonic()
            for number in range(count):
                if self._stopping.is_set() or self._silenced.is_set():
                    return
                key = f"k{stream.randrange(keys)}" if keys and stream.random() < marked else ""
                text = f"{prefix}{number}:".ljust(size, ".")
                # First noted, then sent, so that nobody ever has what is not known to be sent.
                about = f"{self.group.name}/{key}" if key else ""
                self._sent.append([about, text])
                self.group.send(text.encode(), replaces=about or None)
                time.sleep(max(0.0, began_s + (number + 1) * gap_s - time.monotonic()))

        self._begin("traffic", send)

    def collect(self, busy_s: float = 0.0) -> None:
        """Begin to receive everything; each message takes so long to deal with."""
        self._busy_s = busy_s
        self._reading.set()

        def receive() -> None:
            while not self._stopping.is_set():
                if not self._reading.wait(0.2):
                    continue
                try:
                    message = self.group.receive(0.2)
                except TimeoutError:
                    continue
                except GroupClosedError:
                    if self._departing.is_set():
                        return
                    raise
                self._collected.append(told(message))
                if self._busy_s:
                    time.sleep(self._busy_s)

        if "collect" not in self._threads:
            self._begin("collect", receive)

    def read(self, on: bool) -> None:
        """Whether the application takes anything; its member goes on all the same."""
        if on:
            self._reading.set()
        else:
            self._reading.clear()

    def collected(self, forget: bool = False) -> list[list[Any]]:
        """What was received so far."""
        got = list(self._collected)
        if forget:
            del self._collected[: len(got)]
        self._raise_failure()
        return got

    def count(self, sender: str, text: str = "") -> int:
        """How many messages of a sender were received so far; those that begin so."""
        self._raise_failure()
        return sum(one[0] == sender and one[4].startswith(text) for one in self._collected)

    def sent(self, forget: bool = False) -> list[list[str]]:
        """What `traffic` has sent so far, as pairs of key and payload."""
        got = list(self._sent)
        if forget:
            del self._sent[: len(got)]
        return got

    def sending(self) -> bool:
        self._raise_failure()
        return "traffic" in self._threads and self._threads["traffic"].is_alive()

    def stop_sending(self) -> None:
        """End `traffic`; what is sent by now is all."""
        self._silenced.set()
        self._threads["traffic"].join()

    def drain(self, timeout: float = 60.0) -> None:
        self.group.drain(timeout)

    # -- looking -----------------------------------------------------------------------------------

    def stats(self) -> dict[str, float]:
        return self.group.stats()

    def view(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(one) for one in self.group.view]

    def events(self) -> list[dict[str, Any]]:
        return [dataclasses.asdict(one) for one in self.group.past_events()]

    def memory_kb(self) -> int:
        with open(f"/proc/{os.getpid()}/statm") as statm:  # noqa: PTH123
            return int(statm.read().split()[1]) * resource.getpagesize() // 1024

    def ended(self) -> str:
        """Why this member can go on no longer, if so."""
        return str(self.group._engine.session.ended or "")

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def compute(self, seconds: float) -> None:
        """Keep the interpreter busy."""
        give_up_s = time.monotonic() + seconds
        while time.monotonic() < give_up_s:
            sum(range(10_000))

    # -- threads -----------------------------------------------------------------------------------

    def _begin(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:
                if not self._stopping.is_set():
                    self._failed.append(f"{name}: {type(error).__name__}: {error}")

        self._threads[name] = threading.Thread(target=run, name=name, daemon=True)
        self._threads[name].start()

    def _raise_failure(self) -> None:
        if self._failed:
            raise RuntimeError(self._failed[0])

    def halt(self) -> None:
        """End the threads."""
        self._stopping.set()
        for thread in self._threads.values():
            thread.join(5)


def main() -> None:
    node = Node()
    for line in sys.stdin:
        command = json.loads(line)
        try:
            answer = {"ok": getattr(node, command.pop("do"))(**command)}
        except Exception as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
