"""Quotes and trades for a fast reader and a slow one: python examples/quotes.py

Three processes on this machine. One sends 2,000 messages a second for some seconds: quotes of 50
stocks, each of which replaces the last quote of its stock, and trades (one message in ten), which
nothing replaces. One reader is fast. The other needs 2 ms for each message, so it could take only a
quarter of them. It skips quotes that are replaced before it comes to them, and never a trade; and
nobody waits for it.
"""

import argparse
import json
import multiprocessing
import random
import secrets
import time
import uuid
from multiprocessing.queues import Queue
from typing import Any

import semcast.blocking

STOCKS = [f"S{number:02}" for number in range(50)]
NAMES = ["feed", "fast", "slow"]
RATE_MSG_S = 2000
SLOW_S = 0.002
END = b"end"


def feed(
    group_name: str, settings: semcast.Settings, seconds: float, results: "Queue[dict[str, Any]]"
) -> None:
    """Send at a steady rate, and say how many quotes and trades there were."""
    prices = random.Random(1)
    trades = 0
    own: semcast.Settings = {"name": "feed", "deliver_own": False}
    with semcast.blocking.join(group_name, **(settings | own)) as group:
        began_s = time.monotonic()
        count = round(seconds * RATE_MSG_S)
        for number in range(count):
            due_s = began_s + number / RATE_MSG_S
            time.sleep(max(0.0, due_s - time.monotonic()))
            if number % 10 == 0:
                trades += 1
                group.send(b"trade %d" % trades)
            else:
                group.send(b"%.2f" % prices.uniform(90, 110), replaces=prices.choice(STOCKS))
        took_s = time.monotonic() - began_s
        group.send(END)
        results.put({"who": "feed", "sent": count, "trades": trades, "rate_msg_s": count / took_s})
        group.drain(60)


def reader(
    group_name: str,
    settings: semcast.Settings,
    name: str,
    busy_s: float,
    results: "Queue[dict[str, Any]]",
) -> None:
    """Take everything, and say what came, what was skipped and how old it was."""
    quotes, skipped = 0, 0
    trades: list[int] = []
    ages_ms: list[float] = []
    ended = False
    with semcast.blocking.join(group_name, **(settings | {"name": name})) as group:
        while True:
            try:
                # What is never replaced comes before quotes that wait, and so does the end.
                message = group.receive(timeout=0 if ended else None)
            except TimeoutError:
                break
            skipped += len(message.skipped)
            if message.payload == END:
                ended = True
                continue
            ages_ms.append((time.time_ns() - message.sent_ns) / 1e6)
            if message.key:
                quotes += 1
            else:
                trades.append(int(message.payload.split()[1]))
            if busy_s:
                time.sleep(busy_s)
    ages_ms.sort()
    results.put(
        {
            "who": name,
            "quotes": quotes,
            "trades": len(trades),
            "trades_in_order": trades == list(range(1, len(trades) + 1)),
            "skipped": skipped,
            "age_ms_p50": ages_ms[len(ages_ms) // 2],
            "age_ms_max": ages_ms[-1],
        }
    )


def run(seconds: float) -> dict[str, dict[str, Any]]:
    """What each of the three says, by name."""
    group_name = f"quotes-{uuid.uuid4()}"
    settings: semcast.Settings = {
        "secret": secrets.token_urlsafe(32),
        "members": NAMES,
        "interface": "lo",
        # A quote takes the place of the one that it replaces, and so does not wait behind
        # everything else.
        "order": "key",
    }
    context = multiprocessing.get_context("spawn")
    results: Queue[dict[str, Any]] = context.Queue()
    processes = [
        context.Process(target=feed, args=(group_name, settings, seconds, results)),
        context.Process(target=reader, args=(group_name, settings, "fast", 0.0, results)),
        context.Process(target=reader, args=(group_name, settings, "slow", SLOW_S, results)),
    ]
    for process in processes:
        process.start()
    try:
        return {one["who"]: one for one in (results.get(timeout=120) for _ in processes)}
    finally:
        for process in processes:
            process.join(30)
            process.kill()


def main() -> None:
    """Run, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="of traffic")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of sentences")
    options = parser.parse_args()
    found = run(options.seconds)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    sent = found["feed"]
    print(
        f"feed: sent {sent['sent']:,} messages, {sent['trades']:,} of them trades, "
        f"at {sent['rate_msg_s']:,.0f} a second"
    )
    for name in ("fast", "slow"):
        one = found[name]
        lost = sent["trades"] - one["trades"]
        print(
            f"{name}: took {one['quotes']:,} quotes and {one['trades']:,} trades, skipped "
            f"{one['skipped']:,} replaced quotes, lost {lost} trades; "
            f"age when taken: p50 {one['age_ms_p50']:.1f} ms, at most {one['age_ms_max']:.0f} ms"
        )
    if all(found[name]["trades"] == sent["trades"] for name in ("fast", "slow")):
        print("No trade was lost, and nobody waited for the slow reader.")


if __name__ == "__main__":
    main()
