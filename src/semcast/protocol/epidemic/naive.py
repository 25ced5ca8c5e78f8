"""The naive composition of PSRM §2.3, as a baseline: purging in the gossip protocol's own buffer.

Messages wait here for the end of the period, and what one of them replaces is purged. So messages
are purged, and late, even where links are idle; that is what PSRM §4.3 shows.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Randomness
from semcast.protocol.epidemic.config import GossipConfig, Policy
from semcast.protocol.epidemic.copies import Spread
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.policy import BufferConfig, Purging
from semcast.wire.message import Message

_ROOM: Final = 1 << 40
PLACE: Final = "gossip"


@final
class PeriodBuffer:
    """Holds what is to be passed on until the period ends."""

    def __init__(self, config: GossipConfig, random: Randomness, observer: Observer | None) -> None:
        self._period_ns: Final[i64] = config.period_ns
        # Members do not begin their periods at the same time.
        self._phase_ns: Final[i64] = random.randrange(max(config.period_ns, 1))
        purging = Purging.EAGER if config.policy is Policy.EAGER else Purging.OFF
        self._buffer: Final = PurgingBuffer(BufferConfig(_ROOM, _ROOM, purging), PLACE, record=True)
        self._held: Final[dict[Message, tuple[Spread, list[int]]]] = {}
        self._observer: Final = observer
        self.purged: i64 = 0
        self.due_ns: i64 = NEVER

    def holds(self, spread: Spread, targets: list[int], now_ns: i64) -> bool:
        """Whether a message waits for the end of the period; if not, it goes now."""
        if self._period_ns == 0:
            return False
        self._buffer.insert(spread.message)
        self._held[spread.message] = (spread, targets)
        for one in self._buffer.drain_purged():
            self.purged += 1
            self._held.pop(one.message, None)
            if self._observer is not None:
                self._observer.message("purge", one.message, PLACE, one.cover)
        if self.due_ns == NEVER:
            begun = (now_ns + self._phase_ns) // self._period_ns
            self.due_ns = (begun + 1) * self._period_ns - self._phase_ns
        return True

    def end(self, now_ns: i64) -> list[tuple[Spread, list[int]]]:
        """What goes now: everything, if the period has ended."""
        if now_ns < self.due_ns:
            return []
        self.due_ns = NEVER
        found = [self._held.pop(one) for one in self._buffer.take_many(self._buffer.held)]
        self._buffer.forget_idle()
        return found

    @property
    def held(self) -> i64:
        """How many messages wait."""
        return self._buffer.held
