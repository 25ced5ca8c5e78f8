"""Faults of the network: layers that may be put on any model, one fault each (as in JGroups).

A layer stands where copies leave the model, so that what it drops has used bandwidth, and so that
the copies of one multicast suffer independently. Copies go in; the same copies come out, but fewer,
later, twice, in another order or altered. Layers stack: a copy meets the last one added first.

Each layer draws from a generator of its own, by custom `random.Random(f"{seed}/faults/loss")`, so
that switching one on or off shifts no other. `active = False` heals it: it then lets all pass and
draws nothing. `to_nodes` limits it to what goes to those nodes. Knows nothing of what packets hold.
Faults of processes (crashes, pauses) belong to the world.
"""

from typing import Final, final

from librt.vecs import vec
from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError
from semcast.ids import NEVER, Randomness
from semcast.sim.network.base import Layer, Stage, Waiting
from semcast.sim.scheduler import Scheduler

_DELAY_NS_MAX: Final = 1 << 60


@mypyc_attr(allow_interpreted_subclasses=True)
class Fault(Layer):
    """Base of the faults: `strike` gets the copies that the fault may affect."""

    def __init__(self, to_nodes: frozenset[int] | None = None) -> None:
        super().__init__()
        self.active = True
        self.struck: i64 = 0  # copies that it dropped, delayed, doubled, altered...
        self.to_nodes: Final = to_nodes
        self.scheduler = Scheduler()

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:
        super().join(scheduler, nodes, above)
        self.scheduler = scheduler

    def take(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if self.active and (self.to_nodes is None or to_node in self.to_nodes):
            self.strike(from_node, to_node, size_bytes, packet)
        else:
            self.above.take(from_node, to_node, size_bytes, packet)

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define strike")


@final
class Loss(Fault):
    """Each copy is lost with the same probability, whatever happened to others."""

    def __init__(
        self, rate: float, random: Randomness, to_nodes: frozenset[int] | None = None
    ) -> None:
        super().__init__(to_nodes)
        self._rate: Final = _probability("loss rate", rate)
        self._random: Final = random

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if self._random.random() < self._rate:
            self.struck += 1
        else:
            self.above.take(from_node, to_node, size_bytes, packet)


@final
class BurstLoss(Fault):
    """Losses in bursts: a Gilbert–Elliott chain for each receiver, a step for each copy.

    A receiver is in a good or a bad state; in the bad one copies are lost with probability
    `bad_loss`, in the good one with `good_loss`. With 1 and 0 a burst lasts 1 / to_good copies on
    average, and the share lost is to_bad / (to_bad + to_good).
    """

    def __init__(
        self,
        to_bad: float,
        to_good: float,
        random: Randomness,
        bad_loss: float = 1.0,
        good_loss: float = 0.0,
        to_nodes: frozenset[int] | None = None,
    ) -> None:
        super().__init__(to_nodes)
        self._to_bad: Final = _probability("to_bad", to_bad)
        self._to_good: Final = _probability("to_good", to_good)
        self._bad_loss: Final = _probability("bad_loss", bad_loss)
        self._good_loss: Final = _probability("good_loss", good_loss)
        self._random: Final = random
        self._bad: list[bool] = []

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:
        super().join(scheduler, nodes, above)
        self._bad = [False] * nodes

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        bad = self._bad[to_node]
        if self._random.random() < (self._to_good if bad else self._to_bad):
            bad = not bad
            self._bad[to_node] = bad
        if self._random.random() < (self._bad_loss if bad else self._good_loss):
            self.struck += 1
        else:
            self.above.take(from_node, to_node, size_bytes, packet)


@final
class Delay(Fault):
    """Each copy comes later, by a fixed time and a uniform jitter, but never out of order:
    copies for one node leave in the order in which they came.
    """

    def __init__(
        self,
        fixed_ns: i64,
        jitter_ns: i64,
        random: Randomness,
        to_nodes: frozenset[int] | None = None,
    ) -> None:
        super().__init__(to_nodes)
        self._fixed_ns: Final[i64] = _duration("fixed delay", fixed_ns, 0)
        self._jitter_ns: Final[i64] = _duration("jitter", jitter_ns, 0)
        self._random: Final = random
        self._waiting: Waiting | None = None
        self._last_ns = vec[i64]()

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:
        super().join(scheduler, nodes, above)
        self._waiting = Waiting(scheduler, above)
        self._last_ns = vec[i64]([0] * nodes)

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        delay_ns = self._fixed_ns + self._random.randrange(self._jitter_ns + 1)
        until_ns = max(self.scheduler.now_ns + delay_ns, self._last_ns[to_node])
        self._last_ns[to_node] = until_ns
        self.struck += 1
        assert self._waiting is not None
        self._waiting.hold(until_ns, from_node, to_node, size_bytes, packet)


@final
class Reordering(Fault):
    """Some copies are held back, so that later ones overtake them, but never longer than
    `hold_ns_max`.
    """

    def __init__(
        self,
        rate: float,
        hold_ns_max: i64,
        random: Randomness,
        to_nodes: frozenset[int] | None = None,
    ) -> None:
        super().__init__(to_nodes)
        self._rate: Final = _probability("reordering rate", rate)
        self._hold_ns_max: Final[i64] = _duration("hold_ns_max", hold_ns_max, 1)
        self._random: Final = random
        self._waiting: Waiting | None = None

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:
        super().join(scheduler, nodes, above)
        self._waiting = Waiting(scheduler, above)

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if self._random.random() >= self._rate:
            self.above.take(from_node, to_node, size_bytes, packet)
            return
        self.struck += 1
        until_ns = self.scheduler.now_ns + 1 + self._random.randrange(self._hold_ns_max)
        assert self._waiting is not None
        self._waiting.hold(until_ns, from_node, to_node, size_bytes, packet)


@final
class Duplication(Fault):
    """Some copies arrive twice: at once, and again within `again_ns_max`."""

    def __init__(
        self,
        rate: float,
        again_ns_max: i64,
        random: Randomness,
        to_nodes: frozenset[int] | None = None,
    ) -> None:
        super().__init__(to_nodes)
        self._rate: Final = _probability("duplication rate", rate)
        self._again_ns_max: Final[i64] = _duration("again_ns_max", again_ns_max, 0)
        self._random: Final = random
        self._waiting: Waiting | None = None

    def join(self, scheduler: Scheduler, nodes: i64, above: Stage) -> None:
        super().join(scheduler, nodes, above)
        self._waiting = Waiting(scheduler, above)

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if self._random.random() < self._rate:
            self.struck += 1
            until_ns = self.scheduler.now_ns + self._random.randrange(self._again_ns_max + 1)
            assert self._waiting is not None
            self._waiting.hold(until_ns, from_node, to_node, size_bytes, packet)
        self.above.take(from_node, to_node, size_bytes, packet)


@final
class Corruption(Fault):
    """Some copies arrive with 1 to `bytes_max` of their bytes changed, at the same length."""

    def __init__(
        self,
        rate: float,
        random: Randomness,
        bytes_max: i64 = 4,
        to_nodes: frozenset[int] | None = None,
    ) -> None:
        super().__init__(to_nodes)
        if bytes_max < 1:
            raise ConfigError(f"bytes_max is {bytes_max}; corruption changes at least 1 byte")
        self._rate: Final = _probability("corruption rate", rate)
        self._bytes_max: Final[i64] = bytes_max
        self._random: Final = random

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        if packet and self._random.random() < self._rate:
            self.struck += 1
            packet = self._altered(packet)
        self.above.take(from_node, to_node, size_bytes, packet)

    def _altered(self, packet: bytes) -> bytes:
        altered = bytearray(packet)
        # No other change may hit the place of the first one: two at one place could cancel out.
        changes = self._random.randrange(min(self._bytes_max, len(packet)))
        spared = self._random.randrange(len(packet))
        altered[spared] ^= 1 + self._random.randrange(255)
        for _ in range(changes):
            at = self._random.randrange(len(packet))
            if at != spared:
                altered[at] ^= 1 + self._random.randrange(255)
        return bytes(altered)


@final
class Partition(Fault):
    """From `start_ns` until `end_ns` nothing passes between two sets of nodes, or, if `one_way`,
    from the first to the second. The cut is at the receivers' end: what arrives meanwhile is lost.
    """

    def __init__(
        self,
        some: frozenset[int],
        others: frozenset[int] | None = None,  # None: all that are not in the first set
        start_ns: i64 = 0,
        end_ns: i64 = NEVER,
        one_way: bool = False,
    ) -> None:
        super().__init__()
        if not some or (others is not None and not others):
            raise ConfigError("a partition of no nodes; name at least one on each side")
        if others is not None and some & others:
            raise ConfigError(f"nodes {sorted(some & others)} are on both sides of a partition")
        if start_ns >= end_ns:
            raise ConfigError(f"a partition from {start_ns} to {end_ns} ns; it must end later")
        self._some: Final = some
        self._others: Final = others
        self._start_ns: Final[i64] = start_ns
        self._end_ns: Final[i64] = end_ns
        self._one_way: Final = one_way

    def strike(self, from_node: i64, to_node: i64, size_bytes: i64, packet: bytes) -> None:
        now_ns = self.scheduler.now_ns
        if self._start_ns <= now_ns < self._end_ns and self._apart(from_node, to_node):
            self.struck += 1
        else:
            self.above.take(from_node, to_node, size_bytes, packet)

    def _apart(self, from_node: i64, to_node: i64) -> bool:
        if from_node in self._some and self._in_others(to_node):
            return True
        return not self._one_way and to_node in self._some and self._in_others(from_node)

    def _in_others(self, node: i64) -> bool:
        return node not in self._some if self._others is None else node in self._others


def _probability(what: str, value: float) -> float:
    if not 0.0 <= value <= 1.0:
        raise ConfigError(f"{what} is {value}; it must be a probability, from 0 to 1")
    return value


def _duration(what: str, value_ns: i64, least_ns: i64) -> i64:
    if value_ns < least_ns or value_ns > _DELAY_NS_MAX:
        raise ConfigError(f"{what} is {value_ns} ns; it must be from {least_ns} to {_DELAY_NS_MAX}")
    return value_ns
