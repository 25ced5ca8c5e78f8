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
    readers   a hundred readers come and go, some killed, beside a feed and its one steady reader

JSON goes to standard output, a table to standard error.
"""

import argparse
import json
import socket
import statistics
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from bench.network import cannot_lose, lose, own_loopback
from bench.workers import Worker, workers

PARTS: Final = ("join", "state", "forming", "idle", "churn", "crash", "readers")


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
        # The processes are new, so this is all that they have taken, their start included.
        took_s = sum(one.do("cpu") for one in some)
        found = {"members": count, "join_s": _spread(times), "complete_s": complete_s}
        return found | {"processor_s": took_s}


def idle(count: int, seconds: float) -> dict[str, Any]:
    """What an idle member of so many takes of a processor."""
    group = _name()
    with workers(count) as some:
        for first in range(0, count, 8):
            few = some[first : first + 8]
            for one in few:
                one.tell("join", group, {"deliver_own": False})
            for one in few:
                one.hear()
        for one in some:
            one.tell("count", count)
        for one in some:
            one.hear()
        time.sleep(5.0)
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


def readers(comings: int, rate: float = 2000.0, hands: int = 4) -> dict[str, Any]:
    """What a steady reader gets of a paced feed while others come, go and are killed."""
    group, settings = _name(), {"reliability": "sender", "deliver_own": False}
    reading = settings | {"role": "reader"}
    with workers(2) as (feed, steady):
        feed.do("join", group, settings)
        steady.do("join", group, reading)
        steady.do("take")
        feed.do("feed", 50, rate)
        time.sleep(1.0)
        alone = _rates(steady, 5.0)
        beside: list[float] = []
        for begun in range(0, comings, hands):
            with workers(hands) as some:
                before, began_s = steady.do("taken"), time.monotonic()
                for one in some:
                    one.do("join", group, reading)
                    one.do("take")
                time.sleep(0.5)
                # Every fifth is killed; its place is kept until it counts as dead.
                if (begun // hands) % 5 == 0:
                    some[0].kill()
                for one in some[1:]:
                    one.do("leave")
                beside.append((steady.do("taken") - before) / (time.monotonic() - began_s))
    return {
        "comings": comings,
        "alone_msg_s": statistics.mean(alone),
        "beside_msg_s": statistics.mean(beside),
        "worst_msg_s": min(beside),
        "kept": statistics.mean(beside) / statistics.mean(alone),
    }


# -- small parts -----------------------------------------------------------------------------------


def _name() -> str:
    return f"bench-{uuid.uuid4().hex[:8]}"


def _rates(worker: Worker, seconds: float) -> list[float]:
    """What a worker takes in each half second."""
    found, before, was_s = [], worker.do("taken"), time.monotonic()
    for _ in range(int(seconds * 2)):
        time.sleep(0.5)
        now, now_s = worker.do("taken"), time.monotonic()
        found.append((now - before) / (now_s - was_s))
        before, was_s = now, now_s
    return found


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
    parser = argparse.ArgumentParser(
        "python -m bench.membership",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", choices=PARTS, help="a part; may be given several times")
    add("--rounds", type=int, default=100, help="joins, and a tenth as many crashes: 100")
    add("--members", type=int, default=64, help="processes that form a group: 64")
    add("--idle", type=int, default=100, help="members that do nothing: 100")
    add("--seconds", type=float, default=30.0, help="of churn: 30")
    add("--json", type=Path, help="save the JSON here instead of printing it")
    chosen = parser.parse_args(words)
    if (
        chosen.rounds < 1
        or not 1 <= chosen.members <= 512
        or not 1 <= chosen.idle <= 512
        or not 0 < chosen.seconds <= 3600
    ):
        parser.error("--rounds from 1, --members and --idle from 1 to 512, --seconds up to 3600")
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
        found["idle"] = idle(chosen.idle, 10.0)
    if "churn" in parts:
        found["churn"] = churn(chosen.seconds, 0.0 if why else 5.0)
    if "crash" in parts:
        found["crash"] = crash(max(1, rounds // 10))
    if "readers" in parts:
        found["readers"] = readers(rounds)
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
