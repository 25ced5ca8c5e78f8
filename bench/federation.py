"""`python -m bench.federation`: messages a second through live trees of 3 and of 7 processes.

So many processes take a place in one federation of overlapping groups over the loopback. First each
sends a few messages to its groups, at a pace, and the delay from `send` to `receive` at every
member is measured; then all send as fast as they are let, and the time is taken until everybody has
everything. The same is done with the propagation graph, with one central site, and with two phases
of votes (PROP §4), in one sitting. All sites say in which order they received what; the orders are
compared. JSON goes to standard output, a table to standard error.

The machine may be noisy, so all protocols run in turn, several times, and the fastest run of each
counts. More processes than processors wait for each other more than they compute. So the table also
says how much time of processors all sites together spent on one message, which depends on the
protocol more than on the machine's other work.
"""

import argparse
import itertools
import json
import secrets
import statistics
import sys
import threading
import time
import uuid
from multiprocessing.connection import Connection
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import semcast.blocking
from bench.members import DEADLINE_S, hear, processes

SECRET: Final = secrets.token_hex(16)
PROTOCOLS: Final = ("propagation", "central", "two-phase")
# By how many processes there are: the sites of each group.
SHAPES: Final[dict[int, dict[str, tuple[int, ...]]]] = {
    3: {"alpha": (0, 1, 2), "beta": (0, 1), "gamma": (1, 2)},
    7: {"alpha": (0, 1, 2), "beta": (1, 3, 4), "gamma": (2, 5, 6)},
}
PACED: Final = 50
PACE_S: Final = 0.01
PAYLOAD_BYTES: Final = 100
# What is measured is no failure: a site may have to wait for a processor.
SILENCE_MS: Final = 10_000.0


def sites_of(count: int) -> dict[str, tuple[str, ...]]:
    """By site: its groups."""
    shape = SHAPES[count]
    return {
        f"s{number}": tuple(one for one, sites in shape.items() if number in sites)
        for number in range(count)
    }


def site(pipe: Connection, bank: str, name: str, settings: dict[str, Any], each: int) -> None:
    """One process: waits for the others, sends its part to its groups, and takes what comes."""
    sites = settings["sites"]
    # Every member of a group sends to it, in both parts.
    senders = {one: sum(one in groups for groups in sites.values()) for one in sites[name]}
    with semcast.blocking.federate(bank, name=name, **settings) as joined:
        pipe.send((joined.graph or {}).get("parent", {}))
        for count in (PACED, each):
            pipe.recv()
            expected = sum(count * senders[one] for one in sites[name])
            sending = threading.Thread(
                target=_send, args=(joined, sites[name], count, count == PACED)
            )
            began_s, began_cpu_s = time.monotonic(), time.process_time()
            sending.start()
            order, delays_ms = _take(joined, expected)
            sending.join()
            seconds, cpu_s = time.monotonic() - began_s, time.process_time() - began_cpu_s
            pipe.send((seconds, order, delays_ms, cpu_s))
        pipe.recv()  # nobody leaves while others still need it


def _send(joined: Any, groups: tuple[str, ...], count: int, paced: bool) -> None:
    for _ in range(count):
        for group in groups:
            joined.send(group, time.monotonic_ns().to_bytes(8) + bytes(PAYLOAD_BYTES - 8))
        if paced:
            time.sleep(PACE_S)


def _take(joined: Any, expected: int) -> tuple[list[tuple[str, str, int]], list[float]]:
    """What came, in its order, and how old each was."""
    order: list[tuple[str, str, int]] = []
    delays_ms: list[float] = []
    while len(order) < expected:
        taken = joined.receive_many(timeout=DEADLINE_S)
        now_ns = time.monotonic_ns()
        for one in taken:
            order.append((one.group, one.sender, one.seq))
            delays_ms.append((now_ns - int.from_bytes(one.payload[:8])) / 1e6)
    return order, delays_ms


def run(protocol: str, count: int, each: int) -> dict[str, Any]:
    """One federation with this protocol."""
    bank, sites = f"bench-{uuid.uuid4().hex[:8]}", sites_of(count)
    settings = {
        "secret": SECRET, "interface": "lo", "sites": sites, "protocol": protocol,
        "silence_ms": SILENCE_MS, "join_timeout_s": DEADLINE_S / 2,
    }  # fmt: skip
    with processes(site, [(bank, name, settings, each) for name in sites]) as pipes:
        parents = [hear(pipe) for pipe in pipes]
        paced, flood = [_part(pipes), _part(pipes)]
        for pipe in pipes:
            pipe.send("leave")
    seconds = max(one[0] for one in flood)
    delays_ms = sorted(delay for one in paced for delay in one[2])
    multicasts = each * sum(len(groups) for groups in sites.values())
    return {
        "protocol": protocol,
        "processes": count,
        "parent": parents[0],
        "multicasts": multicasts,
        "multicasts_s": multicasts / seconds,
        "deliveries_s": sum(len(one[1]) for one in flood) / seconds,
        # Of all sites together, for each multicast.
        "cpu_us": sum(one[3] for one in flood) / multicasts * 1e6,
        "delay_ms_median": statistics.median(delays_ms),
        "delay_ms_p99": delays_ms[int(len(delays_ms) * 0.99)],
        "agree": agree([one[1] for one in flood]) and agree([one[1] for one in paced]),
    }


def _part(pipes: list[Connection]) -> list[Any]:
    for pipe in pipes:
        pipe.send("go")
    return [hear(pipe) for pipe in pipes]


def agree(orders: list[list[tuple[str, str, int]]]) -> bool:
    """Whether any two sites received what both received in the same order."""
    for one, other in itertools.combinations(orders, 2):
        both = set(one) & set(other)
        if [at for at in one if at in both] != [at for at in other if at in both]:
            return False
    return True


def fastest(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Of several runs of one protocol the fastest; orders must have agreed in all of them."""
    best = max(runs, key=lambda one: float(one["multicasts_s"]))
    return {**best, "agree": all(one["agree"] for one in runs)}


def main(arguments: list[str] | None = None) -> int:
    """All protocols and sizes; 1 if orders do not agree."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=10_000, help="of each site to each group")
    parser.add_argument("--rounds", type=int, default=2, help="how often all run")
    parser.add_argument("--processes", default="3,7", help="how many sites, written with commas")
    parser.add_argument("--only", default=",".join(PROTOCOLS), help="protocols, with commas")
    chosen = parser.parse_args(arguments)
    cases = list(itertools.product(chosen.processes.split(","), chosen.only.split(",")))
    rounds = [
        [run(protocol, int(count), chosen.messages) for count, protocol in cases]
        for _ in range(chosen.rounds)
    ]
    found = [fastest(list(runs)) for runs in zip(*rounds, strict=True)]
    print(json.dumps({"runs": found}, indent=2))
    _show(found)
    return 0 if all(one["agree"] for one in found) else 1


def _show(found: list[dict[str, Any]]) -> None:
    # Short, so that nothing is cut off in 80 columns.
    table = Table("sites", "protocol", "sent/s", "got/s", "CPU µs", "ms", "p99 ms", "agree")
    for one in found:
        table.add_row(
            f"{one['processes']}", one["protocol"], f"{one['multicasts_s']:,.0f}",
            f"{one['deliveries_s']:,.0f}", f"{one['cpu_us']:.1f}",
            f"{one['delay_ms_median']:.2f}", f"{one['delay_ms_p99']:.2f}",
            "yes" if one["agree"] else "NO",
        )  # fmt: skip
    Console(stderr=True).print(table)


if __name__ == "__main__":
    sys.exit(main())
