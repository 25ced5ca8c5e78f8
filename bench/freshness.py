"""How fresh a slow reader is, with order "fifo" and "key", on a trace replayed in virtual time.

Run as `python -m bench.freshness ../shared/traces/binance_quotes.csv.gz --speed 2 --share 0.4`. One
member sends the trace, and the reader takes that share of its mean rate. Two things are measured.
The *age* of a value when it is taken says how old what comes is; but an order that never hands over
a hot key has no ages of it. So there is also by how much what the reader *knows* of a key is
outdated: the time since the key first changed after its last value was taken, averaged over all
keys and all the time.
"""

import argparse
import csv
import gzip
from dataclasses import dataclass
from pathlib import Path

from semcast.ids import Source
from semcast.protocol import BufferConfig, PurgingBuffer
from semcast.wire.message import Message

SOURCE = Source(1, 1)
ROOM = 1 << 20
Row = tuple[float, bytes]


@dataclass(frozen=True)
class Freshness:
    """In seconds."""

    taken: int
    age_p50_s: float
    age_p99_s: float
    wait_max_s: float
    outdated_mean_s: float


def read(path: Path, speed: float) -> list[Row]:
    """Times and keys; no key: never replaced."""
    with gzip.open(path, "rt") as file:
        return [(float(row["time_s"]) / speed, row["key"].encode()) for row in csv.DictReader(file)]


def measure(rows: list[Row], share: float, order: str) -> Freshness:
    """What a reader gets that takes such a share of the messages, one at a time."""
    buffer = PurgingBuffer(BufferConfig(messages_max=ROOM, in_place=order == "key"))
    began_s, ended_s = rows[0][0], rows[-1][0]
    step_s = (ended_s - began_s) / len(rows) / share
    # By key: since when what the reader knows of it is outdated.
    since_s: dict[bytes, float] = {}
    ages_s: list[float] = []
    waits_s: list[float] = []
    taken = at = 0
    now_s = began_s
    while at < len(rows):
        while at < len(rows) and rows[at][0] <= now_s:
            sent_s, key = rows[at]
            at += 1
            buffer.insert(Message(SOURCE, at, key, len(key), by_key=bool(key)))
            if key:
                since_s.setdefault(key, sent_s)
        message = buffer.take()
        if message is None:
            now_s = max(now_s, rows[at][0]) if at < len(rows) else now_s
            continue
        taken += 1
        if message.key:
            ages_s.append(now_s - rows[message.seq - 1][0])
            waits_s.append(now_s - since_s.pop(message.key))
        now_s += step_s
    waits_s += [now_s - since for since in since_s.values()]
    ages_s.sort()
    keys = len({key for _, key in rows if key})
    return Freshness(
        taken,
        ages_s[len(ages_s) // 2],
        ages_s[len(ages_s) * 99 // 100],
        max(waits_s),
        sum(wait * wait / 2 for wait in waits_s) / (ended_s - began_s) / keys,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("trace", type=Path)
    parser.add_argument("--speed", type=float, default=2.0)
    parser.add_argument("--share", type=float, default=0.4, help="of the messages, for the reader")
    asked = parser.parse_args()
    if asked.speed <= 0 or not 0 < asked.share <= 1:
        parser.error("--speed is above 0, and --share above 0 and at most 1")
    try:
        rows = read(asked.trace, asked.speed)
    except (OSError, KeyError, ValueError) as error:
        parser.error(f"{asked.trace} is no .csv.gz with time_s and key: {error}")
    if len(rows) < 2:
        parser.error(f"{asked.trace}: a trace has two messages or more")
    print("order   taken  age p50 ms  age p99 ms  longest wait ms  outdated, mean ms")
    for order in ("fifo", "key"):
        found = measure(rows, asked.share, order)
        print(
            f"{order:5} {found.taken:7,} {1e3 * found.age_p50_s:11,.1f} "
            f"{1e3 * found.age_p99_s:11,.1f} {1e3 * found.wait_max_s:16,.0f} "
            f"{1e3 * found.outdated_mean_s:18,.1f}"
        )


if __name__ == "__main__":
    main()
