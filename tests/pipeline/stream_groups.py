"""Groups that Spark joins, for tests: members in this process, on loopback, and what they do."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.live.groups import ROOT, address_of, common, new_group

import semcast.blocking
from semcast.errors import GroupClosedError
from semcast.live.config import configure
from semcast.live.meeting import joining
from semcast.pipeline.streaming.segment import ROWS, arrow_schema, frames
from semcast.wire.message import Message

DEADLINE_S = 240.0
SPARK = "spark"
GAP_S = 0.005


def wait_until(true: Callable[[], bool], what: str, seconds: float = DEADLINE_S) -> None:
    """Look again and again, seldom: Spark needs the machine more."""
    give_up_s = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < give_up_s, f"not in {seconds:g} s: {what}"
        time.sleep(0.05)


class Party:
    """Members in this process that wait for one more: Spark's."""

    def __init__(self, names: Sequence[str], stack: ExitStack, **settings: Any) -> None:
        everybody = [*names, SPARK]
        self._given = common(everybody) | {
            "group": new_group(),
            "transport": "unicast",
            "host": "127.0.0.1",
            "join_timeout_s": DEADLINE_S,
        }
        self._given |= settings
        self._stack = stack
        self.members: dict[str, semcast.blocking.Group] = {}
        self.taken: dict[str, list[Message]] = {name: [] for name in names}
        for name in names:
            peers = [address_of(one) for one in self.members.values()]
            config = configure(self._given | {"name": name, "peers": peers})
            self.members[name] = semcast.blocking.Group(config)
            stack.callback(self.members[name].leave, 0.0)

    def __getitem__(self, name: str) -> semcast.blocking.Group:
        return self.members[name]

    @property
    def options(self) -> dict[str, str]:
        """What Spark is told of it."""
        told = {
            name: ",".join(value) if isinstance(value, list) else str(value)
            for name, value in self._given.items()
        }
        peers = ",".join(address_of(one) for one in self.members.values())
        return told | {"name": SPARK, "peers": peers}

    def wait_complete(self) -> None:
        """Until Spark's member is there; from then on these take all that comes."""
        for name, member in self.members.items():
            joining.wait_complete(member._engine)
            threading.Thread(target=self._take, args=(name,), daemon=True).start()

    def _take(self, name: str) -> None:
        with suppress(GroupClosedError):
            while True:
                self.taken[name] += self.members[name].receive_many()

    def state_of(self, name: str = SPARK) -> str:
        """How the first member sees another."""
        first = next(iter(self.members.values()))
        return next((one.state for one in first.view if one.name == name), "unknown")


@contextmanager
def party(names: Sequence[str] = ("a", "b"), **settings: Any) -> Iterator[Party]:
    with ExitStack() as stack:
        yield Party(names, stack, **settings)


@contextmanager
def traffic(group: Party) -> Iterator[None]:
    """`a` sends marked messages, `b` unmarked ones, whatever happens to Spark meanwhile."""
    enough = threading.Event()

    def send(name: str, keys: int) -> None:
        number = 0
        while not enough.wait(GAP_S):
            number += 1
            key = f"{name}/{number % keys}" if keys else None
            group[name].send(f"{name}{number}".encode(), replaces=key)

    threads = [threading.Thread(target=send, args=told) for told in (("a", 5), ("b", 0))]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        enough.set()
        for thread in threads:
            thread.join()


def spooled(folder: Path) -> list[dict[str, Any]]:
    """All rows that are whole by now, while another process writes."""
    return [
        row
        for path in sorted(folder.glob("*.spool"))
        for one in frames(path.read_bytes())
        if one.kind == ROWS
        for row in pa.ipc.read_record_batch(pa.py_buffer(one.body), arrow_schema()).to_pylist()
    ]


def has_come(folder: Path, sent: dict[str, int]) -> bool:
    """Whether the newest rows of each sender are at least so new."""
    newest = {row["sender"]: row["seq"] for row in spooled(folder)}
    return all(newest.get(name, 0) >= seq for name, seq in sent.items())


# -- a query in a process of its own ---------------------------------------------------------------


class Query:
    """`stream_query` in a process that can be killed with all that belongs to it."""

    def __init__(self, **told: Any) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.pipeline.stream_query", json.dumps(told)],
            stdin=subprocess.PIPE,
            cwd=ROOT,
        )

    def kill(self) -> None:
        """SIGKILL to the whole tree: first whoever is the member, then Spark and its driver."""
        for pid in reversed(_tree(self.process.pid)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(DEADLINE_S)
        assert self.process.stdin is not None
        self.process.stdin.close()

    def stop(self) -> int:
        """Let the query end as it should."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        return self.process.wait(DEADLINE_S)


def _tree(pid: int) -> list[int]:
    """A process and all below it, parents first."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            after = stat.read_text().rpartition(")")[2].split()
            children.setdefault(int(after[1]), []).append(int(stat.parent.name))
    found = [pid]
    for one in found:
        found += children.get(one, [])
    return found
