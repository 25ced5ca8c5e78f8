"""Errands: whom this member asked on behalf of others, and who waits for the answer.

Bounded: only so many members are asked for others at a time, for so many each, and an errand is
forgotten after a while.
"""

from typing import Final, final

from mypy_extensions import i64

_TARGETS_MAX: Final = 64
_ASKERS_MAX: Final = 8
_LASTS_NS: Final = 5_000_000_000


@final
class Errands:
    """The errands of one member."""

    def __init__(self) -> None:
        # By the member that is asked: who waits, and for the answer to which number.
        self._waiting: Final[dict[int, dict[int, int]]] = {}
        self._expires_ns: Final[dict[int, int]] = {}

    def take(self, target: int, asker: int, number: int, now_ns: i64) -> bool:
        """Take an errand. False if there are too many."""
        askers = self._waiting.get(target)
        if askers is None:
            if len(self._waiting) >= _TARGETS_MAX:
                return False
            askers = self._waiting[target] = {}
        if asker not in askers and len(askers) >= _ASKERS_MAX:
            return False
        askers[asker] = number
        self._expires_ns[target] = int(now_ns) + _LASTS_NS
        return True

    def done(self, target: int) -> list[tuple[int, int]]:
        """The member answered. Returns who waits, and for the answer to which number."""
        askers = self._waiting.pop(target, None)
        if askers is None:
            return []
        del self._expires_ns[target]
        return list(askers.items())

    def expire(self, now_ns: i64) -> None:
        """Forget those that took too long."""
        if self._expires_ns:
            for target, expires_ns in list(self._expires_ns.items()):
                if expires_ns <= now_ns:
                    del self._expires_ns[target]
                    del self._waiting[target]
