"""`python -m bench.groups`: what it costs a process to be in many groups at once.

This process and another one join so many groups of two over loopback. Then it says how many threads
and sockets this process has, what a further group takes of memory, what all of them take of a
processor while nobody sends, and how long it takes to send messages through all of them in turn,
until the other process has taken them. Everything is in comparison to one group.

JSON goes to standard output, a table to standard error.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import semcast.blocking
from semcast import ids

ROOT: Final = Path(__file__).resolve().parent.parent
SECRET: Final = "a secret that only benchmarks have"
KINDS: Final = ("multicast", "unicast")
PAYLOAD: Final = b"x" * 64
ROUNDS: Final = 100
DEADLINE_S: Final = 60.0

Group = semcast.blocking.Group


def join(prefix: str, number: int, kind: str, name: str, **way: Any) -> Group:
    place: dict[str, Any] = {"interface": "lo"} if kind == "multicast" else {"host": "127.0.0.1"}
    return semcast.blocking.join(
        f"{prefix}-{number}",
        name=name,
        members=["a", "b"],
        secret=SECRET,
        transport=kind,
        deliver_own=False,
        **place,
        **way,
    )


def answer(prefix: str, count: int, kind: str, peer: str) -> None:
    """The other process: joins, takes what comes and says when it has all of it."""
    peers = [peer] if peer else []
    with ExitStack() as stack:
        groups = [
            stack.enter_context(join(prefix, number, kind, "b", peers=peers))
            for number in range(count)
        ]
        for line in sys.stdin:
            wanted = int(line)
            for group in groups:
                left = wanted
                while left:
                    left -= len(group.receive_many(left, DEADLINE_S))
            print("taken", flush=True)


def sockets() -> int:
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(OSError):  # the folder's own is gone by now
            found += str(link.readlink()).startswith("socket:")
    return found


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def measure(count: int, kind: str, idle_s: float) -> dict[str, float]:
    """What it is for this process to be in so many groups."""
    prefix = f"bench-{os.getpid()}-{kind}-{count}"
    before_bytes, before_sockets = rss_bytes(), sockets()
    # Without multicast one of both has to be where the other looks for it.
    port = free_port() if kind == "unicast" else 0
    peer = f"127.0.0.1:{port}" if port else ""
    other = subprocess.Popen(
        [sys.executable, "-m", "bench.groups", "--answer", prefix, str(count), kind, peer],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    with other, ExitStack() as stack:
        stack.callback(other.stdin.close)
        way = {"port": port} if port else {}
        groups = [
            stack.enter_context(join(prefix, number, kind, "a", **way)) for number in range(count)
        ]
        joined_bytes = rss_bytes()
        time.sleep(1.0)
        idle_began, idle_cpu = time.monotonic(), time.process_time()
        time.sleep(idle_s)
        idle_share = (time.process_time() - idle_cpu) / (time.monotonic() - idle_began)
        threads, open_sockets = threading.active_count(), sockets() - before_sockets
        began = time.monotonic()
        for _ in range(ROUNDS):
            for group in groups:
                group.send(PAYLOAD, timeout=DEADLINE_S)
        other.stdin.write(f"{ROUNDS}\n")
        other.stdin.flush()
        if other.stdout.readline().strip() != "taken":
            sys.exit("bench: the other process has not got every message")
        took_s = time.monotonic() - began
    return {
        "groups": count,
        "threads": threads,
        "sockets": open_sockets,
        "memory_bytes": joined_bytes - before_bytes,
        "idle_cpu_share": idle_share,
        "messages": ROUNDS * count,
        "messages_s": ROUNDS * count / took_s,
    }


def in_process(count: int, kind: str, idle_s: float) -> dict[str, float]:
    """The same in a process of its own, whose memory nobody else has used before."""
    arguments = ["--measure", str(count), kind, str(idle_s)]
    done = subprocess.run(
        [sys.executable, "-m", "bench.groups", *arguments],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"bench: the run with {count} groups failed, see above")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def show(console: Console, kind: str, one: dict[str, float], many: dict[str, float]) -> None:
    further = many["groups"] - one["groups"]
    table = Table(title=f"{kind}, {many['groups']} groups of two", title_justify="left")
    for name in ("", "one group", f"{many['groups']} groups", "each further group"):
        table.add_column(name, justify="right" if name else "left")
    for name, key, unit, scale in (
        ("threads", "threads", "", 1.0),
        ("sockets", "sockets", "", 1.0),
        ("memory", "memory_bytes", " kB", 1e-3),
        ("idle processor time", "idle_cpu_share", " ms/s", 1e3),
    ):
        cells = [one[key], many[key], (many[key] - one[key]) / further]
        table.add_row(name, *(f"{cell * scale:,.5g}{unit}" for cell in cells))
    table.add_row("messages", f"{one['messages_s']:,.0f}/s", f"{many['messages_s']:,.0f}/s", "")
    console.print(table)


def main() -> None:
    if sys.argv[1:2] == ["--answer"]:
        prefix, count, kind, peer = sys.argv[2:6]
        answer(prefix, int(count), kind, peer)
        return
    if sys.argv[1:2] == ["--measure"]:
        count, kind, idle_s = sys.argv[2:5]
        print(json.dumps(measure(int(count), kind, float(idle_s))))
        return
    asked = argparse.ArgumentParser(prog="python -m bench.groups", description=__doc__)
    asked.add_argument("--groups", type=int, default=50, help="how many (50)")
    asked.add_argument("--seconds", type=float, default=5.0, help="how long nobody sends (5)")
    given = asked.parse_args()
    if given.groups < 2 or given.seconds <= 0:
        asked.error("take at least two groups, and some time")
    console = Console(stderr=True)
    report: dict[str, object] = {
        "python": platform.python_version(),
        "compiled": not str(ids.__file__).endswith(".py"),
    }
    for kind in KINDS:
        one, many = (in_process(count, kind, given.seconds) for count in (1, given.groups))
        show(console, kind, one, many)
        report[kind] = {"one": one, "many": many}
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
