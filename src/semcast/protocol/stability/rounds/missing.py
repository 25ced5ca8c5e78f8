"""The members whose votes a round still waits for: they go in, and leave one by one.

Mostly these are a handful. But the root of CoordP and everybody in FullDist wait for all others,
who take a byte each here.
"""

from typing import Final, final

_FEW: Final = 64


@final
class Missing:
    """Some members, by index."""

    def __init__(self, members: list[int]) -> None:
        self.count = len(members)
        self._few: Final = list(members) if self.count <= _FEW else []
        # By index, 1 for those who are missing; empty if they are few.
        self._many: Final = bytearray() if self.count <= _FEW else bytearray(max(members) + 1)
        if self._many:
            for member in members:
                self._many[member] = 1

    def remove(self, member: int) -> bool:
        """The vote of a member is here. Returns whether it was missing."""
        if self._many:
            if member >= len(self._many) or self._many[member] == 0:
                return False
            self._many[member] = 0
        elif member in self._few:
            self._few.remove(member)
        else:
            return False
        self.count -= 1
        return True

    def members(self) -> list[int]:
        """Those who are missing."""
        if self._many:
            return [member for member in range(len(self._many)) if self._many[member]]
        return list(self._few)


NOBODY_MISSING: Final = Missing([])
