"""Profile a stream: how far apart are messages and what they replace (SRM §5.1, OBS §4.5)?

Keys (or distances) go in, one message after the other; D of each comes out at once, and in the
end its distribution and the share of messages that are never obsolete. Plain Python that is easy
to believe: profiles by Spark and streams that tests make are held against it.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from semcast.errors import LocalProtocolError


@dataclass(frozen=True)
class Profile:
    """What was seen. `counts[x]` is the number of messages with D = x; x = 0: replaced nothing."""

    messages: int
    counts: dict[int, int]
    never_obsolete: int

    @property
    def pmf(self) -> dict[int, float]:
        """P(D = x) by x, the input of the analytical model."""
        return {x: count / self.messages for x, count in sorted(self.counts.items())}

    @property
    def share_never_obsolete(self) -> float:
        """The share of messages that nothing replaced: what must be delivered to everybody."""
        return self.never_obsolete / self.messages if self.messages else 0.0

    def share_within(self, distance_max: int) -> float:
        """The share of messages that replace one at most so far back: R(N) as observed."""
        near = sum(count for x, count in self.counts.items() if 1 <= x <= distance_max)
        return near / self.messages if self.messages else 0.0


class Profiler:
    """Profiles one stream, message by message."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}
        self._replaced = bytearray()
        self._counts: dict[int, int] = {}

    def add(self, key: Hashable | None) -> int:
        """The next message and its key (None: unmarked). Returns its D; 0: replaces nothing."""
        index = len(self._replaced)
        last = None if key is None else self._last.get(key)
        if key is not None:
            self._last[key] = index
        return self._note([] if last is None else [index - last])

    def add_distances(self, distances: Sequence[int]) -> int:
        """The next message and how far back the messages are that it replaces."""
        for distance in distances:
            if not 1 <= distance <= len(self._replaced):
                raise LocalProtocolError(
                    f"message {len(self._replaced) + 1} cannot replace one {distance} before it"
                )
        return self._note(distances)

    def add_many(self, keys: Iterable[Hashable | None]) -> "Profiler":
        """Add messages by key; for one-liners: `Profiler().add_many(keys).profile()`."""
        for key in keys:
            self.add(key)
        return self

    def profile(self) -> Profile:
        """The distribution so far."""
        messages = len(self._replaced)
        return Profile(messages, dict(self._counts), messages - sum(self._replaced))

    def _note(self, distances: Sequence[int]) -> int:
        index = len(self._replaced)
        for distance in distances:
            self._replaced[index - distance] = 1
        self._replaced.append(0)
        nearest = min(distances, default=0)
        self._counts[nearest] = self._counts.get(nearest, 0) + 1
        return nearest
