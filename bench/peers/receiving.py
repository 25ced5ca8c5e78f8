"""A receiver's part of a run: take everything, note what came, when, and how old it was.

Ends when all that was sent has come, or when nothing more came for a while after the sender
stopped, or when the harness says so.
"""

import time
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, Protocol

from bench.peers import payload
from bench.peers.api import LATENCY, THROUGHPUT, Receiver
from bench.peers.case import SLOW_NS, Case
from bench.peers.orders import Orders
from bench.peers.usage import MemoryLog, cpu_s, percentile

_TIMEOUT_S = 0.1
_NEVER = -1
# Longer than any pause between repeated requests.
_QUIET_NS = 2_500_000_000
_BATCH_MAX = 1024
# A sleep wakes up to 0.1 ms late; the rest of the time is spent computing.
_SLEEP_S = SLOW_NS * 0.8 / 1e9


class Record(Protocol):
    """What is noted of the messages that came."""

    count: int

    def add(self, batch: Sequence[bytes], now_ns: int) -> None: ...

    def found(self, stopped_ns: int | None) -> dict[str, Any]:
        """All of it; `stopped_ns` is when the sender stopped, None if that is not known."""
        ...


class Counting:
    """How many came. Only the ends of a batch are looked at, so that counting costs nothing."""

    def __init__(self) -> None:
        self.count = 0
        self._expected = 0
        self._gaps = 0

    def add(self, batch: Sequence[bytes], now_ns: int) -> None:  # noqa: ARG002
        first, last = payload.number(batch[0]), payload.number(batch[-1])
        # INV-CONTIGUOUS: while _gaps is 0, exactly 0.._expected-1 came, in order.
        if first != self._expected or last - first != len(batch) - 1:
            self._gaps += 1
        self._expected = last + 1
        self.count += len(batch)

    def found(self, stopped_ns: int | None) -> dict[str, Any]:  # noqa: ARG002
        return {"gaps": self._gaps}


class Aging:
    """How old each message was when it was taken, and the last value of each key.

    What it needs for each key and message is there from the start, but for 8 or 16 bytes of times:
    a receiver's memory is measured, and must not grow because of what is noted here.
    """

    def __init__(self, keys: int, messages_max: int) -> None:
        self.count = 0
        self._keyed_ns = array("q")
        self._unreplaced_ns = array("q")
        self._unreplaced_taken_ns = array("q")
        # One byte for each number: whether it came, and is never replaced.
        self._unreplaced = bytearray(messages_max)
        self._last = array("q", [_NEVER]) * keys

    def add(self, batch: Sequence[bytes], now_ns: int) -> None:
        for message in batch:
            seq, sent_ns, key = payload.unpack(message)
            if key == payload.UNREPLACED:
                self._add_unreplaced(seq, now_ns - sent_ns, now_ns)
            else:
                self._keyed_ns.append(now_ns - sent_ns)
                self._last[key] = seq
        self.count += len(batch)

    def found(self, stopped_ns: int | None) -> dict[str, Any]:
        every = self._keyed_ns + self._unreplaced_ns
        kinds = {"": every, "keyed_": self._keyed_ns, "unreplaced_": self._unreplaced_ns}
        ages = {
            f"{kind}age_p{share}_ns": percentile(values, share / 100)
            for kind, values in kinds.items()
            for share in (50, 99)
        }
        unreplaced = len(self._unreplaced_taken_ns)
        taken = unreplaced
        if stopped_ns is not None:
            taken = bisect_right(self._unreplaced_taken_ns, stopped_ns)
        return {
            **ages,
            "unreplaced": unreplaced,
            # They waited when the sender stopped, for they came out later.
            "unreplaced_waited": unreplaced - taken,
            "last": [(key, seq) for key, seq in enumerate(self._last) if seq != _NEVER],
        }

    def _add_unreplaced(self, seq: int, age_ns: int, now_ns: int) -> None:
        # A warm-up message that comes late has no place here, and one that comes twice has one.
        if seq == payload.WARM_UP or self._unreplaced[seq]:
            return
        self._unreplaced[seq] = 1
        self._unreplaced_ns.append(age_ns)
        self._unreplaced_taken_ns.append(now_ns)


class Receiving:
    """One run of one receiver."""

    def __init__(
        self,
        receiver: Receiver,
        case: Case,
        slow: bool,
        orders: Orders,
    ) -> None:
        self._receiver = receiver
        self._orders = orders
        self._slow = slow
        # One that computes takes one message at a time, so that the rest stays where it can still
        # be replaced; and how late a message is shows best when each is taken as it comes.
        self._single = slow or case.workload == LATENCY
        self._record: Record = (
            Counting() if case.workload == THROUGHPUT else Aging(case.keys, case.messages_max)
        )
        self._memory = MemoryLog()

    def run(self) -> dict[str, Any]:
        """Take everything; gives what was found."""
        batch = self._first()
        began_s = cpu_s()
        first_ns = last_ns = time.monotonic_ns()
        drained, cut_off = True, ""
        while not self._over(last_ns):
            if batch:
                last_ns = time.monotonic_ns()
                self._record.add(batch, last_ns)
                self._memory.tick(last_ns)
                if self._slow:
                    _compute(last_ns + SLOW_NS)
            if self._orders.finish.is_set():
                drained = False
                break
            try:
                batch = self._take()
            except Exception as error:  # whatever a peer raises: it cut this receiver off
                drained, cut_off = False, f"{type(error).__name__}: {error}"
                break
        # Before the record is summed up, which takes memory that is not the peer's.
        rss_bytes = self._memory.end()
        return {
            **self._record.found(self._orders.stopped_ns),
            "count": self._record.count,
            "first_ns": first_ns,
            "last_ns": last_ns,
            "drained": drained,
            "cut_off": cut_off,
            "cpu_s": cpu_s() - began_s,
            "rss_bytes": rss_bytes,
        }

    def _take(self) -> Sequence[bytes]:
        if self._single:
            message = self._receiver.receive(_TIMEOUT_S)
            return () if message is None else (message,)
        return self._receiver.receive_many(_BATCH_MAX, _TIMEOUT_S)

    def _first(self) -> Sequence[bytes]:
        """The first messages that count; says once that it hears the sender."""
        said = False
        while not self._orders.finish.is_set():
            batch = self._take()
            if not batch:
                continue
            if not said:
                said = True
                self._orders.say("ready")
            counts = [m for m in batch if payload.number(m) != payload.WARM_UP]
            if counts:
                return counts
        return ()

    def _over(self, last_ns: int) -> bool:
        sent = self._orders.sent
        if sent is None:
            return False
        if self._record.count >= sent:
            return True
        since_ns = max(last_ns, self._orders.sent_ns)
        return time.monotonic_ns() - since_ns > _QUIET_NS


def _compute(until_ns: int) -> None:
    """Be busy until a time: most of it asleep, the rest computing."""
    time.sleep(_SLEEP_S)
    while time.monotonic_ns() < until_ns:
        pass
