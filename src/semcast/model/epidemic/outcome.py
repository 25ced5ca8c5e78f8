"""What is counted while rounds run, and the measures that follow from it (PSRM §4.1, §4.2)."""

from dataclasses import dataclass
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from semcast.model.epidemic.buffers import Held
from semcast.model.epidemic.links import Indices
from semcast.model.epidemic.settings import Epidemic

ATOMIC_ABOVE: Final = 0.95  # a message counts as delivered to all if more than this share got it


@final
@dataclass(frozen=True)
class Outcome:
    """One run. Members are those that have not crashed; the source of a message has it too."""

    members: int
    messages: int  # that were measured
    never_obsolete: int  # of these
    # Of the messages that are never obsolete: how many reach more than 95% of members, the mean
    # share of members that get one, and the deviation of that share over its mean.
    atomic_share: float | None
    receivers_share_mean: float | None
    receivers_cv: float | None
    all_receivers_share_mean: float | None  # of all messages, also of those that are obsolete
    # From the multicast to the first reception by a member; a hop takes at least one round.
    latency_mean_rounds: float | None
    latency_p50_rounds: int | None
    latency_p99_rounds: int | None
    # Copies that a member sends in a round, of `links` at most; the busiest over the whole run.
    load_mean_copies_round: float
    load_max_copies_round: float
    waiting_mean_copies: float  # in the buffer of a member
    redundancy: float | None  # copies that arrive at a member for each first one
    purged_copies: int  # in all rounds, because a later message of the chain waited there too
    dropped_copies: int  # in all rounds, for want of room


@final
class Measures:
    """Counts in; an outcome out. Knows which rounds and messages are measured."""

    def __init__(self, settings: Epidemic) -> None:
        self._settings = settings
        self._live = settings.members - settings.dead
        first = settings.settling
        self._measured = range(first, first + settings.measured_rounds)
        self._sent: NDArray[np.int64] = np.zeros(settings.members, np.int64)
        self._waiting_copies = 0
        self._arrived = 0
        self._first = 0
        self._messages: list[tuple[float, bool]] = []  # the share reached; is it never obsolete?
        # First receptions of measured messages in the round of the multicast (place 1), the next, …
        self._by_age: NDArray[np.int64] = np.zeros(settings.rounds + 1, np.int64)

    def round(self, at: int, held: NDArray[np.int32]) -> None:
        if at in self._measured:
            self._waiting_copies += int(held.sum())

    def sent(self, at: int, members: Indices, counts: NDArray[np.uint8]) -> None:
        if at in self._measured:
            self._sent[members] += counts

    def arrived(self, at: int, copies: int, first: int) -> None:
        if at in self._measured:
            self._arrived += copies
            self._first += first

    def message(self, message: Held) -> None:
        """The message waits nowhere any more, or the run is over."""
        if message.multicast.born not in self._measured:
            return
        share = message.receivers / self._live
        self._messages.append((share, message.multicast.never_obsolete))
        for age, count in message.received_by_age.items():
            self._by_age[age] += count

    def outcome(self, purged_copies: int, dropped_copies: int) -> Outcome:
        shares = np.array([share for share, never in self._messages if never])
        everything = np.array([share for share, _ in self._messages])
        rounds = len(self._measured)
        mean = _mean(shares)
        return Outcome(
            members=self._live,
            messages=len(everything),
            never_obsolete=len(shares),
            atomic_share=_mean(shares > ATOMIC_ABOVE),
            receivers_share_mean=mean,
            receivers_cv=None if mean is None else float(shares.std()) / mean,
            all_receivers_share_mean=_mean(everything),
            latency_mean_rounds=self._latency_mean(),
            latency_p50_rounds=self._latency_at(0.5),
            latency_p99_rounds=self._latency_at(0.99),
            load_mean_copies_round=float(self._sent.sum()) / self._live / rounds,
            load_max_copies_round=int(self._sent.max()) / rounds,
            waiting_mean_copies=self._waiting_copies / self._live / rounds,
            redundancy=self._arrived / self._first if self._first else None,
            purged_copies=purged_copies,
            dropped_copies=dropped_copies,
        )

    def _latency_mean(self) -> float | None:
        total = int(self._by_age.sum())
        ages = np.arange(len(self._by_age))
        return float(ages @ self._by_age) / total if total else None

    def _latency_at(self, share: float) -> int | None:
        """By how many rounds so many of the first receptions have happened."""
        upto = np.cumsum(self._by_age)
        return int(np.searchsorted(upto, share * upto[-1])) if upto[-1] else None


def _mean(values: NDArray[np.floating | np.bool_]) -> float | None:
    return float(values.mean()) if len(values) else None
