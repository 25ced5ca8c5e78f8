"""A late one gets what stands: python examples/late_joiner.py

One process sends the prices of 1,000 stocks, once, and then only those of a few. A reader that
joins later gets the price of every stock all the same: first what stands, marked as `state`, then
what is new, in order. It never says how many processes there are, and nobody waits for it.
"""

import argparse
import json
import multiprocessing
import secrets
import threading
import time
import uuid

import semcast.blocking

STOCKS = [f"S{number:03}" for number in range(1000)]


def feed(
    group_name: str, settings: semcast.Settings, begun: threading.Event, ended: threading.Event
) -> None:
    """Send every price once, and then the same ten again and again."""
    own: semcast.Settings = {"name": "feed", "deliver_own": False}
    with semcast.blocking.join(group_name, **(settings | own)) as group:
        group.send_many([b"100.00"] * len(STOCKS), STOCKS)
        begun.set()
        number = 0
        while not ended.is_set():
            number += 1
            group.send(b"%.2f" % (100 + number / 100), replaces=STOCKS[number % 10])
            time.sleep(0.001)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    group_name = f"late-joiner-{uuid.uuid4().hex[:8]}"
    settings: semcast.Settings = {
        "secret": secrets.token_hex(16),
        "reliability": "sender",
        "interface": "lo",
    }
    context = multiprocessing.get_context("spawn")
    begun, ended = context.Event(), context.Event()
    sender = context.Process(target=feed, args=(group_name, settings, begun, ended), daemon=True)
    sender.start()
    begun.wait(60)
    prices: dict[bytes, bytes] = {}
    state = live = 0
    began_s = time.monotonic()
    own: semcast.Settings = {"name": "late", "role": "reader"}
    with semcast.blocking.join(group_name, **(settings | own)) as group:
        in_s = time.monotonic() - began_s
        while len(prices) < len(STOCKS) or live < 100:
            message = group.receive(timeout=30)
            prices[message.key] = message.payload
            state += message.state
            live += not message.state
    took_s = time.monotonic() - began_s
    ended.set()
    sender.join()
    if chosen.json:
        print(json.dumps({"stocks": len(prices), "state": state, "live": live, "join_s": in_s}))
        return
    print(f"The late reader was in after {in_s * 1000:.0f} ms.")
    print(f"It knows {len(prices)} prices: {state} came as state, and {live} messages were new.")
    print(f"All of that took {took_s * 1000:.0f} ms.")


if __name__ == "__main__":
    main()
