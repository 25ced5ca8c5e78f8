"""The obsolescence relation of a whole run, untruncated: m ⊏ m' by any chain of annotations.

Annotations that were multicast go in; "does m' cover m?" and "who has m or some cover of it?" come
out. Buffers see k bits of it (SRM §3.2); the specification, and so the checkers, all of it.

Two kinds of messages. An *unranked* one names earlier messages of its own sender, ranked or not. A
*ranked* one replaces every message of its key with a smaller (rank, source, seq), whoever sent it.
So whatever covers an unranked message is unranked, of the same sender, and was multicast later;
that is why one pass backwards over the unranked ones and then one over each key reach every chain.
"""

from typing import Final, final

from semcast.journal import Event, parse_node

# The position of a multicast that never was: later than all others.
NEVER: Final = 1 << 62


@final
class Relation:
    """m ⊏ m' between the messages of one run, which it knows by number."""

    def __init__(self, positions: list[int]) -> None:
        """`positions` says where in the journal each message was multicast, or NEVER."""
        messages = len(positions)
        self._at: Final = positions
        # INV-EARLIER: unranked messages name only what their sender multicast before them.
        self._names: Final[list[tuple[int, ...]]] = [()] * messages
        self._unranked: Final[list[int]] = []
        # Messages of each key by (rank, source, seq), once `finish` was called.
        self._keys: Final[dict[str, list[int]]] = {}
        self._order: Final[dict[int, tuple[int, tuple[int, int], int]]] = {}
        self._key_of: Final[dict[int, str]] = {}
        # Where the first message stands that replaces this one.
        self._covered_at: Final[list[int]] = [NEVER] * messages

    def add_unranked(self, message: int, names: tuple[int, ...]) -> None:
        """A message that names these, nearest first; messages are added in order of multicast."""
        self._names[message] = names
        self._unranked.append(message)
        for older in names:
            self._covered_at[older] = min(self._covered_at[older], self._at[message])

    def add_ranked(self, message: int, event: Event) -> None:
        """A message that was multicast with a rank."""
        assert event.rank is not None
        assert event.sender is not None
        assert event.seq is not None
        key = event.key or ""
        self._order[message] = (event.rank, parse_node(event.sender), event.seq)
        self._key_of[message] = key
        self._keys.setdefault(key, []).append(message)

    def finish(self) -> None:
        """All messages were added."""
        for chain in self._keys.values():
            chain.sort(key=self._order.__getitem__)
            first = NEVER
            for message in reversed(chain):
                self._covered_at[message] = min(self._covered_at[message], first)
                first = min(first, self._at[message])

    def covered_at(self, message: int) -> int:
        """The position of the first multicast that replaces this message, or NEVER."""
        return self._covered_at[message]

    def names(self, message: int) -> tuple[int, ...]:
        """The messages that an unranked one names itself, nearest first."""
        return self._names[message]

    def spread(self, masks: list[int]) -> list[int]:
        """For every message m, the union of `masks` over all m' with m ⊑ m'.

        One backward pass: what obsoletes an unranked message is complete before it is used.
        """
        whole = list(masks)
        for message in reversed(self._unranked):
            mask = whole[message]
            if mask:
                for older in self._names[message]:
                    whole[older] |= mask
        for chain in self._keys.values():
            mask = 0
            for message in reversed(chain):
                mask |= whole[message]
                whole[message] = mask
        return whole

    def covers(self, newer: int, older: int) -> bool:
        """Whether older ⊏ newer.

        What a buffer purges it purges for a bit or a rank, so the first look finds it. Otherwise a
        search goes down from `newer`, farthest first, and so in few steps along closed bitmaps.
        """
        if self._beats(newer, older) or older in self._names[newer]:
            return True
        # Only later messages of its sender cover an unranked one, so look no farther back.
        back_to = -1 if older in self._key_of else self._at[older]
        seen = {newer}
        left = [newer]
        while left:
            between = left.pop()
            if between == older or self._beats(between, older):
                return between != newer or older != newer
            for further in self._names[between]:
                if further not in seen and self._at[further] >= back_to:
                    seen.add(further)
                    left.append(further)
        return False

    def _beats(self, newer: int, older: int) -> bool:
        """Whether both are ranked, of one key, and `newer` comes later in its order."""
        key = self._key_of.get(newer)
        return (
            key is not None
            and self._key_of.get(older) == key
            and self._order[newer] > self._order[older]
        )
