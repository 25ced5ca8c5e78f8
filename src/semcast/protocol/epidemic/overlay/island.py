"""Islands: which members are connected with each other, without anybody knowing them all.

Each member takes the member with the lowest source that it hears of for the beacon of its island.
The beacon counts its rounds, and these beats go from neighbour to neighbour. Members that have had
different beacons for a while are on different islands, since news of the lower one would have come
over. A beacon of which no news comes is dead, or cut off: its members look for another, and take
nothing of what it said before.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.wire.families.overlay import STEADY_MAX


@final
class Island:
    """What one member knows of the island that it is on."""

    def __init__(self, me: Source, beacon_rounds: i64, steady_rounds: i64) -> None:
        self._me: Final = me
        self._beacon_rounds: Final[i64] = beacon_rounds
        self._steady_rounds: Final[i64] = steady_rounds
        self.beacon = me
        self.beat: i64 = 0
        # For how many rounds this has been the beacon, and since how many nothing new came of it.
        self.steady: i64 = 0
        self._silent: i64 = 0
        # Beacons that fell silent, and their last beats: what is no newer comes from memory.
        self._dead: Final[dict[Source, int]] = {}
        self._own_round: i64 = 0

    def on_round(self) -> None:
        """Another round begins here."""
        self._own_round += 1
        self.steady = min(self.steady + 1, STEADY_MAX)
        if self.beacon == self._me:
            self.beat = self._own_round
            return
        self._silent += 1
        if self._silent > self._beacon_rounds:
            self._bury()

    def on_news(self, beacon: Source, number: i64) -> None:
        """A neighbour has heard of this beat of that beacon."""
        if beacon == self.beacon:
            if number > self.beat:
                self.beat = number
                self._silent = 0
            return
        if self.beacon < beacon or beacon == self._me or number <= self._dead.get(beacon, -1):
            return
        self._take(beacon, number)

    def differs(self, beacon: Source, steady: i64) -> bool:
        """Whether a member with that beacon must be on another island.

        One that has just come finds out sooner: where many come at once, a few may be left with
        each other only. It may be wrong then, which costs no more than a link.
        """
        young = self._own_round < 4 * self._steady_rounds
        needed = self._steady_rounds // 3 if young else self._steady_rounds
        return beacon != self.beacon and min(steady, self.steady) >= needed

    def _bury(self) -> None:
        if len(self._dead) >= self._beacon_rounds:
            del self._dead[next(iter(self._dead))]
        self._dead[self.beacon] = int(self.beat)
        self._take(self._me, self._own_round)

    def _take(self, beacon: Source, number: i64) -> None:
        self.beacon = beacon
        self.beat = number
        self.steady = 0
        self._silent = 0
