"""The sender's part of a run: warm up until told to go, do the work, say what was sent.

Times are `time.monotonic_ns`, which all processes of one Linux machine share.
"""

import time
from array import array
from typing import Any

from bench.peers import payload
from bench.peers.api import Sender
from bench.peers.case import BATCH_MESSAGES, Case
from bench.peers.orders import Orders
from bench.peers.usage import MemoryLog, cpu_s

_WARM_UP_PAUSE_S = 0.02
# Between the last warm-up message and the first that counts.
_SETTLE_S = 0.3
_NEVER = -1


class Sending:
    """One run of one sender."""

    def __init__(self, sender: Sender, case: Case, orders: Orders) -> None:
        self._sender = sender
        self._case = case
        self._orders = orders
        self._memory = MemoryLog()
        self._sent = 0
        self._unreplaced = 0
        # Made before the work, and memory for the last number of each key too: what grows later
        # is the peer's.
        self._pattern = payload.KeyPattern(case.unreplaced_share, case.keys)
        self._last = array("q", [_NEVER]) * case.keys

    def warm_up(self) -> None:
        """Send what does not count until both receivers have had some of it."""
        size_bytes = self._case.size_bytes
        while not self._orders.go.is_set():
            now_ns = time.monotonic_ns()
            warm = payload.pack(payload.WARM_UP, now_ns, payload.UNREPLACED, size_bytes)
            self._sender.send(warm, None)
            self._sender.flush()
            self._orders.go.wait(_WARM_UP_PAUSE_S)
        time.sleep(_SETTLE_S)

    def run(self) -> dict[str, Any]:
        """Do the work; gives what the harness and the receivers must know of it."""
        self._cpu_s = cpu_s()
        began_ns = time.monotonic_ns()
        until_ns = began_ns + int(self._case.seconds * 1e9)
        if self._case.rate:
            self._paced(began_ns, until_ns)
        else:
            self._in_batches(until_ns)
        stopped_ns = time.monotonic_ns()
        self._sender.flush()
        return {
            "sent": self._sent,
            "unreplaced": self._unreplaced,
            "last": [(key, seq) for key, seq in enumerate(self._last) if seq != _NEVER],
            "began_ns": began_ns,
            "stopped_ns": stopped_ns,
        }

    def used(self) -> dict[str, Any]:
        """What it cost, once the receivers have all they will get."""
        return {"cpu_s": cpu_s() - self._cpu_s, "rss_bytes": self._memory.end()}

    def _in_batches(self, until_ns: int) -> None:
        send_many, size_bytes = self._sender.send_many, self._case.size_bytes
        now_ns = time.monotonic_ns()
        while now_ns < until_ns:
            self._memory.tick(now_ns)
            send_many(payload.pack_many(self._sent, BATCH_MESSAGES, now_ns, size_bytes))
            self._sent += BATCH_MESSAGES
            now_ns = time.monotonic_ns()

    def _paced(self, began_ns: int, until_ns: int) -> None:
        """Send what is due. One that was held up catches up as fast as it can, until time is up."""
        pattern = self._pattern
        step_ns = 1_000_000_000 // self._case.rate
        for seq in range(self._case.messages_max):
            due_ns = began_ns + seq * step_ns
            now_ns = time.monotonic_ns()
            while now_ns < due_ns:
                time.sleep((due_ns - now_ns) / 1e9)
                now_ns = time.monotonic_ns()
            if now_ns >= until_ns:
                break
            self._memory.tick(now_ns)
            key = pattern.key(seq)
            message = payload.pack(seq, now_ns, key, self._case.size_bytes)
            if key == payload.UNREPLACED:
                self._sender.send(message, None)
                self._unreplaced += 1
            else:
                self._sender.send(message, pattern.names[key])
                self._last[key] = seq
            self._sent += 1
