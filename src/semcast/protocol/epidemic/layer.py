"""The middle tier of PSRM Figure 1: what waits between the gossip protocol and the network.

Messages and their targets go in; copies come out when their links may carry them. Where links are
idle nothing waits, so that nothing is purged and no time is lost. Knows nothing of fan-out, rounds
or bandwidth.
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness
from semcast.protocol.epidemic.config import GossipConfig, Policy, Room, Scope
from semcast.protocol.epidemic.copies import Spread
from semcast.protocol.epidemic.pool import LINK, RELAY, Pool, PoolCounts, PoolRules
from semcast.protocol.observer import Observer


class PurgingLayer(ABC):
    """Holds copies for links that are busy."""

    def __init__(self) -> None:
        self.counts: Final = PoolCounts()

    @abstractmethod
    def offer(self, spread: Spread, busy: list[int]) -> bool:
        """Copies for links that are `busy` wait. Returns whether those for idle links may go at
        once: not if something that waits here replaces the message already.
        """

    @abstractmethod
    def take(self, to: int) -> Spread | None:
        """The next message for a link, whose copy leaves."""

    @abstractmethod
    def waits_for(self, to: int) -> bool:
        """Whether a copy waits for this link."""

    @abstractmethod
    def held(self) -> int:
        """How many copies wait."""

    @abstractmethod
    def resize(self, links: int) -> None:
        """So many links share the room."""

    @abstractmethod
    def forget(self, to: int) -> None:
        """That target is gone: drop its copies."""


@final
class NodeLayer(PurgingLayer):
    """One pool for all links."""

    def __init__(
        self,
        config: GossipConfig,
        policy: Policy,
        links: int,
        random: Randomness,
        observer: Observer | None,
    ) -> None:
        super().__init__()
        self._each: Final = config.buffer_messages
        self._shared: Final = config.room is Room.SHARED
        rules = PoolRules(RELAY, policy, config.late, not self._shared)
        self._pool: Final = Pool(rules, self._each, random, self.counts, observer)
        self.resize(links)

    def offer(self, spread: Spread, busy: list[int]) -> bool:
        pool = self._pool
        if not pool.admit(spread):
            return False
        for to in busy:
            pool.wait(spread, to)
        pool.end(spread)
        # Lazy purging finds out only when there is no room for a copy.
        return not spread.obsolete

    def take(self, to: int) -> Spread | None:
        return self._pool.take(to)

    def waits_for(self, to: int) -> bool:
        return self._pool.waits_for(to)

    def held(self) -> int:
        return self._pool.held

    def resize(self, links: int) -> None:
        if self._shared:
            self._pool.copies_max = self._each * max(links, 1)

    def forget(self, to: int) -> None:
        self._pool.forget(to)


@final
class LinkLayer(PurgingLayer):
    """A pool for each link, made when the link is busy for the first time."""

    def __init__(
        self, config: GossipConfig, policy: Policy, random: Randomness, observer: Observer | None
    ) -> None:
        super().__init__()
        self._rules: Final = PoolRules(LINK, policy, config.late, False)
        self._each: Final[i64] = config.buffer_messages
        self._random: Final = random
        self._observer: Final = observer
        self._pools: Final[dict[int, Pool]] = {}

    def offer(self, spread: Spread, busy: list[int]) -> bool:
        for to in busy:
            pool = self._pools.get(to)
            if pool is None:
                pool = Pool(self._rules, self._each, self._random, self.counts, self._observer)
                self._pools[to] = pool
            # A message has copies in several pools here, each with its own books.
            own = Spread(spread.message, spread.round, spread.frames)
            if pool.admit(own):
                pool.wait(own, to)
                pool.end(own)
        return True

    def take(self, to: int) -> Spread | None:
        pool = self._pools.get(to)
        return None if pool is None else pool.take(to)

    def waits_for(self, to: int) -> bool:
        pool = self._pools.get(to)
        return pool is not None and pool.waits_for(to)

    def held(self) -> int:
        held: i64 = 0
        for pool in self._pools.values():
            held += pool.held
        return held

    def resize(self, links: int) -> None:
        """Each link has its own room."""

    def forget(self, to: int) -> None:
        self._pools.pop(to, None)


def make_layer(
    config: GossipConfig,
    policy: Policy,
    links: int,
    random: Randomness,
    observer: Observer | None,
) -> PurgingLayer:
    """The layer that a configuration asks for."""
    if config.scope is Scope.LINK:
        return LinkLayer(config, policy, random, observer)
    return NodeLayer(config, policy, links, random, observer)
