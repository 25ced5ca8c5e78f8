"""One piece of work, the same for every peer: what is sent, how fast, and who is slow."""

from dataclasses import asdict, dataclass
from typing import Any

from bench.peers.api import LATENCY, RECEIVERS_DEFAULT, SLOW_READER, THROUGHPUT
from bench.peers.payload import KEYS

# As many messages as a sender hands over at once where it can.
BATCH_MESSAGES = 256
SLOW_READER_RATE = 5_000
SLOW_READER_SIZE_BYTES = 64
# How long the slow reader is busy with each message.
SLOW_NS = 1_000_000
# A reader at 1,000 a second needs five times the run to take all that 5,000 a second left behind.
_DRAIN_FACTOR = 6.0
_DRAIN_S_MIN = 10.0
# On a busy machine it needs up to twice its time for a value of each key.
_DRAIN_TURNS_MIN = 2


@dataclass(frozen=True)
class Case:
    """A workload with its numbers."""

    workload: str
    size_bytes: int
    seconds: float
    # Messages a second; 0: as fast as it goes.
    rate: int = 0
    unreplaced_share: float = 1.0
    # Whether the second receiver needs SLOW_NS for each message.
    slow: bool = False
    receivers: int = RECEIVERS_DEFAULT
    # Over so many keys goes what can be replaced.
    keys: int = KEYS

    @property
    def messages_max(self) -> int:
        """What is sent by a sender that keeps its rate."""
        return int(self.rate * self.seconds)

    @property
    def drain_s(self) -> float:
        """How long receivers get, once the sender has stopped, for what they have not taken."""
        turn_s = self.keys * SLOW_NS / 1e9
        return max(_DRAIN_S_MIN, self.seconds * _DRAIN_FACTOR, _DRAIN_TURNS_MIN * turn_s)

    @property
    def mix(self) -> str:
        """What is sent, in words; the number of keys only where it is not the usual one."""
        over = "" if self.keys == KEYS else f" over {self.keys:,} keys"
        return f"{self.unreplaced_share:.0%} never replaced{over}"

    @property
    def name(self) -> str:
        if self.workload == THROUGHPUT:
            return f"throughput, {self.size_bytes:,} B"
        if self.workload == LATENCY:
            return f"latency, {self.rate:,} msg/s"
        who = "one slow reader" if self.slow else "no slow reader"
        return f"{self.mix}, {who}"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def throughput(size_bytes: int, seconds: float, receivers: int = RECEIVERS_DEFAULT) -> Case:
    return Case(THROUGHPUT, size_bytes, seconds, receivers=receivers)


def latency(rate: int, seconds: float) -> Case:
    return Case(LATENCY, 64, seconds, rate)


def slow_reader(unreplaced_share: float, slow: bool, seconds: float, keys: int = KEYS) -> Case:
    return Case(
        SLOW_READER,
        SLOW_READER_SIZE_BYTES,
        seconds,
        SLOW_READER_RATE,
        unreplaced_share,
        slow,
        keys=keys,
    )


def slow_reader_s(keys: int, seconds_min: float) -> float:
    """A run in which every key is sent twice, and the reader can take each of them once."""
    return max(seconds_min, 2 * keys / SLOW_READER_RATE + keys * SLOW_NS / 1e9)
