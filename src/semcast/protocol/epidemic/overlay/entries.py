"""A bounded set of entries: members that are known, one of them to ask next, some to tell of.

Entries go in and come out at random, or in the order in which they were last confirmed, with the
age that they have by then. A later life of a member takes the place of an earlier one, and younger
news that of older, never the other way round. Time is counted in rounds.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source
from semcast.wire.families.overlay import AGE_MAX, Entry


@final
class Entries:
    """At most so many entries, one for each member."""

    def __init__(self, entries_max: i64, random: Randomness) -> None:
        assert entries_max > 0
        self._entries_max: Final[i64] = entries_max
        self._random: Final = random
        # INV-ENTRIES: at most `entries_max`; those that were confirmed longest ago come first.
        self._entries: Final[dict[int, Entry]] = {}
        # In which round the member of each was heard of from itself.
        self._heard: Final[dict[int, int]] = {}
        self.round: i64 = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, sender: int) -> Entry | None:
        """The entry of a member, if it is here; its age is that of when it came."""
        return self._entries.get(sender)

    def all(self) -> list[Entry]:
        """All of them, those confirmed longest ago first."""
        return list(self._entries.values())

    def knows_later(self, source: Source) -> bool:
        """Whether a later life of this member is here."""
        known = self._entries.get(int(source.sender))
        return known is not None and known.source.incarnation > source.incarnation

    def add(self, entry: Entry) -> None:
        """Add a member, or take in newer news of it. If there is no room, a random one goes."""
        sender = int(entry.source.sender)
        heard = int(self.round - entry.age)
        known = self._entries.get(sender)
        if known is not None:
            if known.source.incarnation > entry.source.incarnation:
                return
            if known.source == entry.source and self._heard[sender] >= heard:
                return
            self.discard(sender)
        elif len(self._entries) >= self._entries_max:
            evicted = self.random()
            assert evicted is not None
            self.discard(int(evicted.source.sender))
        self._entries[sender] = entry
        self._heard[sender] = heard

    def discard(self, sender: int) -> Entry | None:
        """Forget a member; returns its entry if it was here."""
        self._heard.pop(sender, None)
        return self._entries.pop(sender, None)

    def on_round(self, age_max: i64) -> None:
        """Another round begins: whoever was not heard of for longer than this is forgotten."""
        self.round += 1
        oldest = int(self.round - age_max)
        stale = [sender for sender, heard in self._heard.items() if heard < oldest]
        for sender in stale:
            self.discard(sender)

    def random(self) -> Entry | None:
        """A random one, which stays."""
        if not self._entries:
            return None
        those = list(self._entries.values())
        return those[self._random.randrange(len(those))]

    def next(self) -> Entry | None:
        """The one that was confirmed longest ago; it goes to the end of the line."""
        for sender, entry in self._entries.items():
            del self._entries[sender]
            self._entries[sender] = entry
            return entry
        return None

    def sample(self, count: i64) -> list[Entry]:
        """So many different ones at random, or all, with their ages."""
        told = []
        for entry in draw(list(self._entries.values()), count, self._random):
            age = min(self.round - self._heard[int(entry.source.sender)], AGE_MAX)
            told.append(Entry(entry.source, entry.address, age))
        return told


def draw(those: list[Entry], count: i64, random: Randomness) -> list[Entry]:
    """So many of these at random, or all of them; the list is mixed in the course of it."""
    known: i64 = len(those)
    count = min(count, known)
    at: i64 = 0
    while at < count:
        other: i64 = at + random.randrange(int(known - at))
        one = those[other]
        those[other] = those[at]
        those[at] = one
        at += 1
    return those[:count]
