"""The demo's live group: a feed, a fast reader and a slow one, each a process, all recorded.

A folder for the journal goes in; what the feed and the readers saw themselves comes out. The feed
sends quotes, each of which replaces the last quote of its stock, and trades, which nothing
replaces. Knows nothing of what the journal is for.
"""

import contextlib
import multiprocessing
import queue
import random
import secrets
import time
import uuid
from dataclasses import asdict, dataclass
from multiprocessing.queues import Queue
from pathlib import Path
from typing import Any, Final

from semcast.errors import SemcastError

FEED, FAST, SLOW = "feed", "fast", "slow"
NAMES: Final = (FEED, FAST, SLOW)
_END: Final = b"end"
_QUIET_S: Final = 1.0
_START_S_MAX: Final = 60.0
_DRAIN_S_MAX: Final = 60.0


@dataclass(frozen=True)
class Traffic:
    """What is sent, and how slow the slow reader is."""

    seconds: float
    rate_msg_s: int = 2000
    stocks: int = 50
    # One message in so many is a trade.
    trade_every: int = 10
    slow_ms: float = 2.0
    # How many messages a member holds that it has not taken yet.
    buffer_messages: int = 150
    seed: int = 1

    @property
    def messages(self) -> int:
        """How many the feed sends, the last of which says that there are no more."""
        return round(self.seconds * self.rate_msg_s) + 1


def run_group(traffic: Traffic, journal: Path) -> dict[str, dict[str, Any]]:
    """What each of the three says, by name; SemcastError if one of them failed."""
    settings = {
        "group": f"demo-{uuid.uuid4()}",
        "secret": secrets.token_urlsafe(32),
        "members": list(NAMES),
        "interface": "lo",
        "order": "key",
        "delivery_messages": traffic.buffer_messages,
        "window_messages": traffic.buffer_messages,
        "record": str(journal),
        "record_run": "demo",
        "join_timeout_s": _START_S_MAX,
    }
    context = multiprocessing.get_context("spawn")
    results: Queue[dict[str, Any]] = context.Queue()
    processes = [
        context.Process(target=_run, args=(name, settings, asdict(traffic), results), daemon=True)
        for name in NAMES
    ]
    for process in processes:
        process.start()
    try:
        patience_s = _START_S_MAX + traffic.seconds + _DRAIN_S_MAX
        found = {one["who"]: one for one in (results.get(timeout=patience_s) for _ in processes)}
        for process in processes:
            process.join(_DRAIN_S_MAX)
    except queue.Empty:
        raise SemcastError("the demo's group did not finish; see `semcast doctor`") from None
    finally:
        for process in processes:
            process.kill()
    for one in found.values():
        if "failed" in one:
            raise SemcastError(f"the demo's group: {one['who']}: {one['failed']}")
    return found


def _run(
    name: str, settings: dict[str, Any], traffic: dict[str, Any], results: "Queue[dict[str, Any]]"
) -> None:
    """What one of the processes does."""
    import semcast.blocking

    given = Traffic(**traffic)
    try:
        with semcast.blocking.join(name=name, deliver_own=False, **settings) as group:
            if name == FEED:
                found = _send(group, given)
            else:
                found = _take(group, given.slow_ms / 1e3 if name == SLOW else 0.0)
    except (SemcastError, OSError, TimeoutError) as error:
        found = {"failed": f"{error}"}
    except KeyboardInterrupt:
        found = {"failed": "interrupted"}
    results.put({"who": name, **found})


def _send(group: Any, traffic: Traffic) -> dict[str, Any]:
    prices = random.Random(traffic.seed)
    stocks = [f"S{number:02}" for number in range(traffic.stocks)]
    began_s = time.monotonic()
    for number in range(traffic.messages - 1):
        time.sleep(max(0.0, began_s + number / traffic.rate_msg_s - time.monotonic()))
        if number % traffic.trade_every == 0:
            group.send(b"trade %d" % number)
        else:
            group.send(b"%.2f" % prices.uniform(90, 110), replaces=prices.choice(stocks))
    took_s = time.monotonic() - began_s
    group.send(_END)
    group.drain(_DRAIN_S_MAX)
    return {"sent": traffic.messages, "rate_msg_s": (traffic.messages - 1) / took_s}


def _take(group: Any, busy_s: float) -> dict[str, Any]:
    taken = skipped = 0
    # By key, so the last quotes may come after the end of the trades.
    patience_s: float | None = None
    with contextlib.suppress(TimeoutError):
        while True:
            message = group.receive(patience_s)
            taken += 1
            skipped += len(message.skipped)
            if message.payload == _END:
                patience_s = _QUIET_S
            if busy_s:
                time.sleep(busy_s)
    return {"taken": taken, "skipped": skipped}
