"""Processes that are told what to do with a group, and say what they saw; for benchmarks."""

import itertools
import multiprocessing
import os
import secrets
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from typing import Any, Final

import semcast.blocking
from semcast.errors import GroupClosedError

SECRET: Final = secrets.token_hex(16)
DEADLINE_S: Final = 60.0
# No two workers have the same name, since no two members of a group may.
_numbers: Final = itertools.count()


class Worker:
    """One process, which does what it is told, and says what it saw."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.Process(target=_work, args=(name, theirs, SECRET))
        self.process.start()
        theirs.close()

    def tell(self, what: str, *more: Any) -> None:
        """Have it do something; `hear` says what came of it."""
        self._pipe.send((what, *more))

    def hear(self) -> Any:
        """What came of what it was last told to do."""
        if not self._pipe.poll(DEADLINE_S):
            raise TimeoutError(f"{self.name} does not answer")
        return self._pipe.recv()

    def do(self, what: str, *more: Any) -> Any:
        """Both."""
        self.tell(what, *more)
        return self.hear()

    def kill(self) -> None:
        os.kill(self.process.pid or 0, signal.SIGKILL)
        self.process.join()

    def stop(self) -> None:
        with suppress(OSError, ValueError):
            self._pipe.send(("end",))
        self.process.join(5)
        if self.process.is_alive():
            self.kill()


@contextmanager
def workers(count: int) -> Iterator[list[Worker]]:
    made = [Worker(f"w{next(_numbers)}") for _ in range(count)]
    try:
        for one in made:
            one.do("ready")
        yield made
    finally:
        for one in made:
            one.stop()


def _work(name: str, pipe: Connection, secret: str) -> None:
    """The other process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.pop("SEMCAST_CONFIG", None)
    held = _Held(name, secret)
    echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    echo.bind(("127.0.0.1", 0))
    threading.Thread(target=_echo, args=(echo,), daemon=True).start()
    while True:
        try:
            what, *more = pipe.recv()
        except EOFError:
            what, more = "end", []
        if what == "end":
            held.leave()
            os._exit(0)
        elif what == "ready":
            pipe.send(echo.getsockname()[1])
        else:
            pipe.send(getattr(held, what)(*more))


def _echo(sock: socket.socket) -> None:
    while True:
        data, address = sock.recvfrom(2048)
        sock.sendto(data, address)


class _Held:
    """A worker's member, and what it does."""

    def __init__(self, name: str, secret: str) -> None:
        self._name, self._secret = name, secret
        self._group: semcast.blocking.Group | None = None
        self._sending = False
        self._gaps: list[float] = []
        self._taken = 0

    def _in(self) -> semcast.blocking.Group:
        assert self._group is not None
        return self._group

    def join(self, group: str, settings: dict[str, Any]) -> float:
        began_s = time.monotonic()
        self._group = semcast.blocking.join(
            group, name=self._name, secret=self._secret, interface="lo", **settings
        )
        return time.monotonic() - began_s

    def join_at(self, at_s: float, group: str, settings: dict[str, Any]) -> float:
        time.sleep(max(0.0, at_s - time.monotonic()))
        return self.join(group, settings)

    def count(self, members: int) -> float:
        """When this member knew of so many."""
        while sum(one.state != "left" for one in self._in().view) != members:
            time.sleep(0.005)
        return time.monotonic()

    def leave(self) -> float:
        self._sending = False
        began_s = time.monotonic()
        if self._group is not None:
            self._group.leave(2.0)
            self._group = None
        return time.monotonic() - began_s

    def cpu(self) -> float:
        return time.process_time()

    def take(self) -> None:
        """Take everything from now on, count it, and forget it."""
        group = self._in()

        def forget() -> None:
            with suppress(GroupClosedError):
                while True:
                    self._taken += len(group.receive_many(1024))

        threading.Thread(target=forget, daemon=True).start()

    def feed(self, keys: int, rate: float) -> None:
        """Send the value of each key once, and then go on at this rate."""
        group = self._in()
        group.send_many([b"x" * 32] * keys, [f"key {at}" for at in range(keys)])
        self._sending = True
        self._gaps = []

        def go_on() -> None:
            number = 0
            began_s = last_s = time.monotonic()
            with suppress(GroupClosedError):
                while self._sending:
                    group.send(b"y" * 32, replaces=f"key {number % max(keys, 1)}")
                    number += 1
                    now_s = time.monotonic()
                    self._gaps.append(now_s - last_s)
                    time.sleep(max(0.0, began_s + number / rate - now_s))
                    last_s = time.monotonic()

        threading.Thread(target=go_on, daemon=True).start()

    def taken(self) -> int:
        """How many messages came in since `take`."""
        return self._taken

    def gaps(self) -> list[float]:
        """How long each send took since this was last asked."""
        found, self._gaps = self._gaps, []
        return found

    def state(self, group: str, settings: dict[str, Any], keys: int) -> tuple[float, float, int]:
        """Join late: when it was in, when it had all keys, how many of them were state."""
        began_s = time.monotonic()
        self.join(group, settings)
        in_s = time.monotonic() - began_s
        seen: set[bytes] = set()
        states = 0
        while len(seen) < keys:
            for message in self._in().receive_many(1024, DEADLINE_S):
                seen.add(message.key)
                states += getattr(message, "state", 0)
        return in_s, time.monotonic() - began_s, states
