"""`python -m bench.membership`: how quickly processes get in, get the state, and outlive others.

Processes join, leave and are killed over the loopback of a network namespace of their own (of this
machine's, without root). What they need stands beside the round trip of a bare datagram between the
same processes in the same minutes, so that the machine's own delays can be told.

    join      a process joins a running group, or a running feed
    state     a late one gets the value of each of 5,000 and of 10,000 keys while the feed runs
    forming   64 processes join at once
    idle      what one of many members takes of a processor when nothing happens
    churn     eight processes, 5% loss: how long senders wait because others come, go, or are killed
    crash     eight processes: from `kill -9` to the view without the dead one

JSON goes to standard output, a table to standard error.
"""

import argparse
import json
import multiprocessing
import os
import secrets
import signal
import socket
import statistics
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import semcast.blocking
from bench.network import cannot_lose, lose, own_loopback
from semcast.errors import GroupClosedError

PARTS: Final = ("join", "state", "forming", "idle", "churn", "crash")
SECRET: Final = secrets.token_hex(16)
DEADLINE_S: Final = 60.0
# A bare exchange of datagrams is tried so often beside each part.
ECHOES: Final = 200


# -- workers ---------------------------------------------------------------------------------------


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
    made = [Worker(f"w{number}") for number in range(count)]
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
        """Take everything from now on, and forget it."""
        group = self._in()

        def forget() -> None:
            with suppress(GroupClosedError):
                while True:
                    group.receive_many(1024)

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


# -- parts -----------------------------------------------------------------------------------------


def joins(rounds: int, reliability: str) -> dict[str, Any]:
    """A process joins a running group or feed of three, and leaves again."""
    group, settings = _name(), {"reliability": reliability}
    with workers(4) as some:
        *there, late = some
        for one in there:
            one.do("join", group, settings)
            one.do("take")
        there[0].do("feed", 50, 200.0)
        times, echoes = [], []
        for _ in range(rounds):
            times.append(late.do("join", group, settings))
            late.do("leave")
            echoes += _echoes(there[0], 5)
    return {"join_s": _spread(times), "bare_s": _spread(echoes)}


def states(rounds: int, keys: int) -> dict[str, Any]:
    """A late process gets the value of every key while the feed runs."""
    group, settings = _name(), {"reliability": "sender"}
    with workers(2) as (feed, late):
        feed.do("join", group, settings | {"deliver_own": False})
        feed.do("feed", keys, 1000.0)
        times, ins, came, echoes = [], [], [], []
        for _ in range(rounds):
            in_s, all_s, state = late.do("state", group, settings | {"role": "reader"}, keys)
            times.append(all_s)
            ins.append(in_s)
            came.append(state)
            late.do("leave")
            echoes += _echoes(feed, 5)
    return {
        "keys": keys,
        "all_keys_s": _spread(times),
        "join_s": _spread(ins),
        "state_messages": statistics.median(came),
        "bare_s": _spread(echoes),
    }


def forming(count: int) -> dict[str, Any]:
    """So many processes join at once."""
    group = _name()
    with workers(count) as some:
        at_s = time.monotonic() + 0.5
        for one in some:
            one.tell("join_at", at_s, group, {"deliver_own": False})
        times = [one.hear() for one in some]
        for one in some:
            one.tell("count", count)
        complete_s = max(one.hear() for one in some) - at_s
        return {"members": count, "join_s": _spread(times), "complete_s": complete_s}


def idle(count: int, seconds: float) -> dict[str, Any]:
    """What an idle member of so many takes of a processor."""
    group = _name()
    with workers(count) as some:
        for one in some:
            one.tell("join", group, {"deliver_own": False})
        for one in some:
            one.hear()
        time.sleep(2.0)
        before = [one.do("cpu") for one in some]
        began_s = time.monotonic()
        time.sleep(seconds)
        shares = [
            (one.do("cpu") - was) / (time.monotonic() - began_s)
            for one, was in zip(some, before, strict=True)
        ]
    return {"members": count, "processor_share": _spread(shares)}


def churn(seconds: float, loss_percent: float) -> dict[str, Any]:
    """Eight processes of which one after the other leaves, comes back, or is killed."""
    group, settings = _name(), {"deliver_own": False}
    held: list[float] = []
    calm: list[float] = []
    changes = 0
    with workers(6) as some:
        for one in some:
            one.do("join", group, settings)
            one.do("take")
        for one in some[:4]:
            one.do("feed", 10, 100.0)
        lose(loss_percent)
        time.sleep(2.0)
        for one in some[:4]:
            calm += one.do("gaps")
        until_s = time.monotonic() + seconds
        while time.monotonic() < until_s:
            with workers(2) as comers:
                for one in comers:
                    one.do("join", group, settings)
                    one.do("take")
                    changes += 1
                comers[0].do("leave")
                comers[1].kill()
                changes += 2
                time.sleep(2.5)
        for one in some[:4]:
            held += one.do("gaps")
        lose(0)
    return {
        "changes": changes,
        "loss_percent": loss_percent,
        "sends": len(held),
        "send_s": _spread(held),
        "send_without_changes_s": _spread(calm),
    }


def crash(rounds: int) -> dict[str, Any]:
    """From `kill -9` to the view without the dead process, at the last of seven survivors."""
    times: list[float] = []
    echoes: list[float] = []
    for _ in range(rounds):
        group, settings = _name(), {"deliver_own": False}
        with workers(8) as some:
            for one in some:
                one.do("join", group, settings)
                one.do("take")
            *rest, dying = some
            for one in rest:
                one.do("count", 8)
            rest[0].do("feed", 10, 100.0)
            time.sleep(1.0)
            echoes += _echoes(rest[0], 20)
            killed_s = time.monotonic()
            dying.kill()
            for one in rest:
                one.tell("count", 7)
            times.append(max(one.hear() for one in rest) - killed_s)
    return {"rounds": rounds, "to_view_s": _spread(times), "bare_s": _spread(echoes)}


# -- small parts -----------------------------------------------------------------------------------


def _name() -> str:
    return f"bench-{uuid.uuid4().hex[:8]}"


def _echoes(worker: Worker, count: int) -> list[float]:
    """How long a bare datagram takes there and back."""
    port = worker.do("ready")
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1.0)
        sock.connect(("127.0.0.1", port))
        for _ in range(count):
            began_s = time.monotonic()
            sock.send(b"x" * 64)
            with suppress(TimeoutError):
                sock.recv(2048)
                found.append(time.monotonic() - began_s)
    return found


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values) or [0.0]
    p50, p99 = (ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.99))
    return {"p50": p50, "p99": p99, "worst": ordered[-1]}


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m bench.membership", description=__doc__)
    add = parser.add_argument
    add("--only", action="append", choices=PARTS, help="a part; may be given several times")
    add("--rounds", type=int, default=100, help="joins, and a tenth as many crashes: 100")
    add("--members", type=int, default=64, help="processes that form a group, or are idle: 64")
    add("--seconds", type=float, default=30.0, help="of churn: 30")
    add("--json", type=Path, help="save the JSON here instead of printing it")
    chosen = parser.parse_args(words)
    if chosen.rounds < 1 or not 1 <= chosen.members <= 512 or not 0 < chosen.seconds <= 3600:
        parser.error("--rounds from 1, --members from 1 to 512, --seconds up to 3600")
    why = cannot_lose()
    if why:
        print(f"bench.membership: no loss, because {why}", file=sys.stderr)
    else:
        own_loopback()
    parts, rounds = chosen.only or PARTS, chosen.rounds
    found: dict[str, Any] = {}
    if "join" in parts:
        found["join, group"] = joins(rounds, "group")
        found["join, feed"] = joins(rounds, "sender")
    if "state" in parts:
        for keys in (5_000, 10_000):
            found[f"state, {keys:,} keys"] = states(max(1, rounds // 5), keys)
    if "forming" in parts:
        found["forming"] = forming(chosen.members)
    if "idle" in parts:
        found["idle"] = idle(chosen.members, 10.0)
    if "churn" in parts:
        found["churn"] = churn(chosen.seconds, 0.0 if why else 5.0)
    if "crash" in parts:
        found["crash"] = crash(max(1, rounds // 10))
    _show(found)
    text = json.dumps(found, indent=1)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    else:
        print(text)
    return 0


def _show(found: dict[str, Any]) -> None:
    table = Table(title="Milliseconds, unless it says otherwise")
    for name in ("what", "figure", "p50", "p99", "worst"):
        table.add_column(name, justify="left" if name in ("what", "figure") else "right")
    for what, figures in found.items():
        for name, value in figures.items():
            if isinstance(value, dict):
                scale, unit = (100, "% of a processor") if "share" in name else (1000, "")
                cells = [f"{value[one] * scale:,.2f}{unit}" for one in ("p50", "p99", "worst")]
                table.add_row(what, name, *cells)
            else:
                table.add_row(
                    what, name, f"{value:,.3f}" if isinstance(value, float) else str(value)
                )
    Console(stderr=True, width=None if sys.stderr.isatty() else 110).print(table)


if __name__ == "__main__":
    sys.exit(main())
