"""Waits: what is known of a member and of oneself in; for how long it may be silent, out."""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.protocol.membership.health import Health
from semcast.protocol.membership.watched import Watched

# A silence before accusation is longer by this many times the lateness of timers.
_LATE_TIMES: Final = 1
# A member that has just come in is given this many times as long for its first sign of life, and
# one about which nobody answers this many times as long: perhaps it is this member that is cut off.
_FRESH_TIMES: Final = 4
_ALONE_TIMES: Final = 2
# Suspicion begins at this part of the wait before accusation, at the latest.
_SUSPECT_PART: Final = 2
# Nobody is accused before so many periods have passed without a sign of life, nor suspected before
# half of them: a sign of life that is a little late should raise no questions.
_PERIODS_MIN: Final = 3
# In how many steps the others are asked, and how close together at the most.
_STEPS: Final = 4
_STEP_NS_MIN: Final = 50_000_000


@dataclass(frozen=True)
class WatchConfig:
    """How closely members watch each other."""

    # A member sends something to each of its watchers at least so often.
    heartbeat_ns: int = 250_000_000
    # In a group of more than `few` it need do so only half as often, and in one of more than `many`
    # a quarter as often, so that it costs less.
    few: int = 16
    many: int = 64
    # How many members watch each.
    watchers: int = 2
    # How many others are asked about a suspected member at a time.
    relays: int = 3
    # How many times they are asked, at least, before it is accused.
    tries: int = 3
    # Levels of suspicion (see `accrual`) at which a member is suspected, and accused.
    suspect_level: int = 4
    accuse_level: int = 6
    # A member is accused after a silence that is no shorter and no longer than these.
    accuse_after_ns_min: int = 750_000_000
    accuse_after_ns_max: int = 10_000_000_000
    # A timer that goes off later than this says that this member is slow.
    late_ns: int = 50_000_000

    def __post_init__(self) -> None:
        if min(self.heartbeat_ns, self.watchers, self.tries, self.late_ns) < 1 or self.relays < 0:
            raise ConfigError(f"{self}: no times or counts below 1, and relays no less than 0")
        if not 0 < self.suspect_level <= self.accuse_level:
            raise ConfigError(
                f"suspect_level {self.suspect_level}, accuse_level {self.accuse_level}: both are "
                "above 0, and nobody is accused before it is suspected"
            )
        if (
            not _PERIODS_MIN * self.heartbeat_ns
            <= self.accuse_after_ns_min
            <= self.accuse_after_ns_max
        ):
            raise ConfigError(
                f"accuse_after_ns_min {self.accuse_after_ns_min} goes from three heartbeats, "
                f"{3 * self.heartbeat_ns}, to accuse_after_ns_max, {self.accuse_after_ns_max}"
            )

    def period_ns(self, members: int) -> int:
        """How often a member of a group of so many gives a sign of life."""
        if members <= self.few:
            return self.heartbeat_ns
        return (2 if members <= self.many else 4) * self.heartbeat_ns


@final
class Waits:
    """For how long one member waits for others."""

    def __init__(self, config: WatchConfig, health: Health) -> None:
        self._health: Final = health
        self._suspect_level: Final[i64] = config.suspect_level
        self._accuse_level: Final[i64] = config.accuse_level
        self._min_ns: Final[i64] = config.accuse_after_ns_min
        self._max_ns: Final[i64] = config.accuse_after_ns_max

    def suspect_after_ns(self, peer: Watched) -> i64:
        """The silence after which others are asked about a member."""
        level_ns = peer.gaps.silence_ns(self._suspect_level) * self._health.factor
        return min(level_ns, self.accuse_after_ns(peer) // _SUSPECT_PART)

    def accuse_after_ns(self, peer: Watched) -> i64:
        """The silence after which it is accused, if nobody vouches for it."""
        level_ns = max(peer.gaps.silence_ns(self._accuse_level), self._min_ns)
        level_ns = max(level_ns, _PERIODS_MIN * peer.gaps.period_ns)
        wait_ns = max(level_ns * self._health.factor, peer.wait_ns)
        wait_ns += _LATE_TIMES * self._health.late_ns
        if peer.fresh and peer.heard_ns < 0:
            wait_ns *= _FRESH_TIMES
        if peer.alone:
            wait_ns *= _ALONE_TIMES
        return min(wait_ns, self._max_ns)

    def own_ns(self) -> i64:
        """How long others should wait for this member; 0 if all is well."""
        health = self._health
        if health.factor == 1 and health.late_ns == 0:
            return 0
        return min(self._min_ns * health.factor + _LATE_TIMES * health.late_ns, self._max_ns)

    def ask_again_after_ns(self, peer: Watched) -> i64:
        """How long to wait for answers about a suspected member."""
        if peer.refusals > 0:
            return _STEP_NS_MIN
        wait_ns = self.accuse_after_ns(peer) - self.suspect_after_ns(peer)
        return max(wait_ns // _STEPS, _STEP_NS_MIN * self._health.factor)
