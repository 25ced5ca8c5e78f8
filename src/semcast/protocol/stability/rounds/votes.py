"""Votes of one round at one member: arrays in; what enough members have, out.

A vote says, by column, "I have everything up to here". It stays true for ever within a life.
"""

from abc import ABC, abstractmethod
from typing import Final, final

import numpy as np

from semcast.protocol.stability.followed import ABSTAINS
from semcast.protocol.stability.rounds.round_message import Numbers


def lowest(one: Numbers, other: Numbers) -> Numbers:
    """The minimum by column. If that is one of the two it is not copied, as arrays are long."""
    if one is other or bool((one <= other).all()):
        return one
    return other if bool((other <= one).all()) else np.minimum(one, other)


def highest(one: Numbers, other: Numbers) -> Numbers:
    """The maximum by column, likewise."""
    if one is other or bool((one >= other).all()):
        return one
    return other if bool((other >= one).all()) else np.maximum(one, other)


class Votes(ABC):
    """The votes that have arrived."""

    # How many members' votes these are.
    count: int = 0

    @abstractmethod
    def add(self, values: Numbers, count: int) -> None:
        """So many members have at least this."""

    @abstractmethod
    def merged(self) -> Numbers | None:
        """What to pass on for all these votes; None: nobody has said anything."""

    @abstractmethod
    def sent_count(self) -> int:
        """How many votes `merged` stands for."""

    @abstractmethod
    def enough(self, wanted: Numbers) -> bool:
        """Whether no further vote is needed for `wanted` to be agreed."""


@final
class AllVotes(Votes):
    """Stability: the lowest of all counts, so every vote is needed."""

    def __init__(self) -> None:
        self.count = 0
        self._low: Numbers | None = None

    def add(self, values: Numbers, count: int) -> None:
        self.count += count
        self._low = values if self._low is None else lowest(self._low, values)

    def merged(self) -> Numbers | None:
        return self._low

    def sent_count(self) -> int:
        return self.count

    def enough(self, wanted: Numbers) -> bool:  # noqa: ARG002
        return False


@final
class SomeVotes(Votes):
    """Safety: by column, the highest that f+1 members have (SRM §5.3).

    A slow member's low vote does no harm once f+1 others have voted. What arrives merged already
    counts as so many equal votes, which it at least is.
    """

    def __init__(self, needed: int) -> None:
        self.count = 0
        self._needed: Final = needed
        self._low: Numbers | None = None
        # INV-TOP: by column the `needed` highest votes, highest first.
        self._top: list[Numbers] = []

    def add(self, values: Numbers, count: int) -> None:
        if count <= 0:
            return
        self.count += count
        self._low = values if self._low is None else lowest(self._low, values)
        for _ in range(min(count, self._needed)):
            rest = values
            for at, held in enumerate(self._top):
                self._top[at] = highest(held, rest)
                rest = lowest(held, rest)
            if len(self._top) < self._needed:
                self._top.append(rest)

    def merged(self) -> Numbers | None:
        return self._top[-1] if self.count >= self._needed else self._low

    def sent_count(self) -> int:
        return min(self.count, self._needed)

    def enough(self, wanted: Numbers) -> bool:
        return self.count >= self._needed and bool((self._top[-1] >= wanted).all())


def agreed_of(merged: Numbers, agreed: Numbers) -> Numbers:
    """What is agreed when a round ends: no column falls, and abstention says nothing."""
    said = merged if bool((merged != ABSTAINS).all()) else np.where(merged == ABSTAINS, 0, merged)
    return highest(agreed, said)
