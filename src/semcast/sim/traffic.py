"""Traffic: settings and random numbers in; messages to send, one after the other, out.

An `Item` says of each message how long after the previous one it comes, how large it is, what it
replaces, and which of the senders sends it. Generators know nothing of protocols, buffers or the
time of day; a sender that is blocked simply takes the next item later.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from semcast.errors import ConfigError
from semcast.obsolescence import Keys, Ranked, Replaces
from semcast.sim.ranges import Between, Settings
from semcast.sim.trace import SIZE_BYTES_MAX, read_trace

SECOND_NS: Final = 1_000_000_000

Share: TypeAlias = Annotated[float, Between(0, 1)]
RateMsgS: TypeAlias = Annotated[float, Between(1e-3, 1e7)]
SizeBytes: TypeAlias = Annotated[int, Between(0, SIZE_BYTES_MAX)]
Gaps: TypeAlias = Literal["constant", "exponential"]


class Item(NamedTuple):
    """One message to send."""

    gap_ns: int  # after the previous item
    size_bytes: int
    replaces: Replaces
    sender: int  # which of the senders, from 0
    group: str = ""  # in a federation: which group it goes to


@dataclass(frozen=True)
class Overwrites(Settings):
    """f_{r,d}: a share r of the messages overwrites, spread evenly over d chains (SRM eq. 3)."""

    kind: Literal["overwrites"] = "overwrites"
    rate_msg_s: RateMsgS = 100.0
    gaps: Gaps = "constant"
    size_bytes: SizeBytes = 64
    r: Share = 0.5
    d: Annotated[int, Between(1, 1_000_000)] = 1
    # The share of the overwriting messages that are about several chains.
    several: Share = 0.0

    def items(self, rng: random.Random, senders: int = 1) -> Iterator[Item]:
        """An endless stream of one sender."""
        assert senders == 1
        for gap_ns in gaps_ns(self.rate_msg_s, self.gaps, rng):
            overwrites = rng.random() < self.r
            replaces: Replaces = f"chain {rng.randrange(self.d)}" if overwrites else None
            if overwrites and self.several > 0 and rng.random() < self.several:
                replaces = _several("chain ", self.d, rng)
            yield Item(gap_ns, self.size_bytes, replaces, 0)


@dataclass(frozen=True)
class Trading(Settings):
    """Quotes of stocks in classes of equally busy ones, as in OBS table 1."""

    kind: Literal["trading"] = "trading"
    rate_msg_s: RateMsgS = 100.0
    gaps: Gaps = "exponential"
    size_bytes: SizeBytes = 64
    stocks: Annotated[tuple[int, ...], Between(1, 1_000_000)] = (25, 100, 750)
    shares: Annotated[tuple[float, ...], Between(0, 1)] = (0.5, 0.4, 0.1)
    # The share of messages that are about several stocks of a class.
    several: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.stocks) != len(self.shares) or abs(sum(self.shares) - 1) > 1e-9:
            raise ConfigError(
                f"stocks {list(self.stocks)} and shares {list(self.shares)}: give one share for "
                "each class of stocks, and shares that sum to 1"
            )

    def items(self, rng: random.Random, senders: int = 1) -> Iterator[Item]:
        """An endless stream of one sender."""
        assert senders == 1
        classes, sums = range(len(self.stocks)), list(accumulate(self.shares))
        for gap_ns in gaps_ns(self.rate_msg_s, self.gaps, rng):
            chosen = rng.choices(classes, cum_weights=sums)[0]
            stock = rng.randrange(self.stocks[chosen])
            replaces: Replaces = f"stock {chosen}.{stock}"
            if self.several > 0 and rng.random() < self.several:
                replaces = _several(f"stock {chosen}.", self.stocks[chosen], rng)
            yield Item(gap_ns, self.size_bytes, replaces, 0)


@dataclass(frozen=True)
class Game(Settings):
    """A Quake-like server: rounds of one reliable message and a few updates of items (SRM §7.1).

    SRM prints 1.39 updates a round and 41.88% of messages never obsolete. The latter is
    1 / (1 + 1.388), so the default is 1.388. 42 items are active, few of them busy and some never
    changed: frequencies fall as 1 / rank^skew. The paper does not print the skew; with this one,
    k = 32 and a buffer of 40 purge 54% and so carry a receiver of 30 ms, as SRM §7.2 says.
    """

    kind: Literal["game"] = "game"
    rounds_s: Annotated[float, Between(1e-3, 1e6)] = 30.0
    updates_per_round: Annotated[float, Between(0, 1000)] = 1.388
    entities: Annotated[int, Between(1, 100_000)] = 42
    skew: Annotated[float, Between(0, 10)] = 2.9
    update_bytes: SizeBytes = 52
    reliable_bytes_max: Annotated[int, Between(1, 1 << 20)] = 32
    # Updates come together at the start of a round, or are evenly spread at the mean rate.
    gaps: Literal["rounds", "constant"] = "rounds"

    @property
    def rate_msg_s(self) -> float:
        """The mean rate of messages."""
        return self.rounds_s * (1 + self.updates_per_round)

    def items(self, rng: random.Random, senders: int = 1) -> Iterator[Item]:
        """An endless stream of one sender."""
        assert senders == 1
        even_ns = round(SECOND_NS / self.rate_msg_s)
        round_ns = round(SECOND_NS / self.rounds_s)
        names = range(self.entities)
        sums = list(accumulate(1 / (1 + name) ** self.skew for name in names))
        while True:
            size = 1 + rng.randrange(self.reliable_bytes_max)
            bursts = self.gaps == "rounds"
            yield Item(round_ns if bursts else even_ns, size, None, 0)
            whole, fraction = divmod(self.updates_per_round, 1)
            count = min(int(whole) + (rng.random() < fraction), self.entities)
            # An item is sent once in a round, however often it changed.
            changed: dict[int, None] = {}
            while len(changed) < count:
                changed[rng.choices(names, cum_weights=sums)[0]] = None
            for name in changed:
                yield Item(0 if bursts else even_ns, self.update_bytes, f"item {name}", 0)


@dataclass(frozen=True)
class Chains(Settings):
    """Concurrent chains of fixed length, each message from a random sender (PSRM §4.2).

    A share `ratio` of the messages goes to one of `diversity` chains, evenly; a chain that has
    `length` messages ends and another begins. Across senders the relation is ranked, by the order
    in which messages were made.
    """

    kind: Literal["chains"] = "chains"
    rate_msg_s: RateMsgS = 100.0
    gaps: Gaps = "constant"
    size_bytes: SizeBytes = 100
    ratio: Share = 1.0
    diversity: Annotated[int, Between(1, 1_000_000)] = 5
    length: Annotated[int, Between(1, 1_000_000)] = 10

    def items(self, rng: random.Random, senders: int = 1) -> Iterator[Item]:
        """An endless stream that any of the senders sends."""
        sent = [0] * self.diversity
        for number, gap_ns in enumerate(gaps_ns(self.rate_msg_s, self.gaps, rng), start=1):
            sender = rng.randrange(senders)
            replaces: Replaces = None
            if rng.random() < self.ratio:
                chain = rng.randrange(self.diversity)
                name = f"chain {chain}.{sent[chain] // self.length}"
                sent[chain] += 1
                replaces = Ranked(name, number) if senders > 1 else name
            yield Item(gap_ns, self.size_bytes, replaces, sender)


@dataclass(frozen=True)
class Replay(Settings):
    """A recorded trace: its keys and sizes, at its own speed, a multiple of it, or a given rate."""

    file: str
    kind: Literal["replay"] = "replay"
    speed: Annotated[float, Between(1e-6, 1e9)] = 1.0
    # If given, gaps are constant or exponential instead of the recorded ones.
    rate_msg_s: RateMsgS | None = None
    gaps: Gaps = "constant"
    # Used where the trace has no sizes.
    size_bytes: SizeBytes = 64

    def items(self, rng: random.Random, senders: int = 1) -> Iterator[Item]:
        """The messages of the trace; its senders are dealt out to those of the group in turn."""
        paced = gaps_ns(self.rate_msg_s, self.gaps, rng) if self.rate_msg_s else None
        numbers: dict[str, int] = {}
        before_s: float | None = None
        for row in read_trace(Path(self.file), self.size_bytes, timed=True):
            if paced is not None:
                gap_ns = next(paced)
            else:
                since_s = row.time_s - (row.time_s if before_s is None else before_s)
                gap_ns, before_s = round(since_s / self.speed * SECOND_NS), row.time_s
            sender = numbers.setdefault(row.sender, len(numbers)) % senders
            yield Item(gap_ns, row.size_bytes, row.key or None, sender)


Traffic: TypeAlias = Overwrites | Trading | Game | Chains | Replay


def gaps_ns(rate_msg_s: float, gaps: Gaps, rng: random.Random) -> Iterator[int]:
    """Endless gaps between messages, with this mean rate."""
    while True:
        if gaps == "constant":
            yield round(SECOND_NS / rate_msg_s)
        else:
            yield round(rng.expovariate(rate_msg_s) * SECOND_NS)


def _several(name: str, names: int, rng: random.Random) -> Keys:
    """Two or three names; if there are fewer, more are made up."""
    count = rng.choice((2, 2, 3))
    chosen = rng.sample(range(max(names, count)), count)
    return Keys(tuple(f"{name}{number}" for number in chosen))


def of_sender(items: Iterator[Item], sender: int) -> Iterator[Item]:
    """The part of one sender in traffic that several share, with the gaps added up."""
    gap_ns = 0
    for item in items:
        gap_ns += item.gap_ns
        if item.sender == sender:
            yield item._replace(gap_ns=gap_ns)
            gap_ns = 0
