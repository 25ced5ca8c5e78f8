"""Which messages the next one of a sender replaces by key: keys in, message numbers out.

By key, a message names nobody: it replaces all earlier ones that are about no other keys. Whoever
follows the relation wants the next step only, and so the last message of each such key or set of
keys is enough: what that one replaces in turn, it says itself.
"""

from collections.abc import Sequence
from typing import Final, final


@final
class KeyHistory:
    """The last message of each key, and of each set of keys, that one sender used."""

    def __init__(self) -> None:
        self._last: Final[dict[str, int]] = {}
        # Sets of keys under the smallest of them: the smallest key of a subset is one of the set's.
        self._sets: Final[dict[str, dict[frozenset[str], int]]] = {}

    def add_one(self, number: int, key: str) -> int:
        """A message is about this key: the one that it replaces, or -1."""
        last = self._last.get(key, -1)
        self._last[key] = number
        return last

    def add(self, number: int, keys: Sequence[str]) -> list[int]:
        """A message is about these keys: those that it replaces, nearest first."""
        names = frozenset(keys)
        if len(names) == 1:
            last = self.add_one(number, keys[0])
            return [] if last < 0 else [last]
        found = [self._last[name] for name in names if name in self._last]
        for name in names:
            found += [last for other, last in self._sets.get(name, {}).items() if other <= names]
        self._sets.setdefault(min(names), {})[names] = number
        return sorted(found, reverse=True)
