"""Closed ports: where a datagram went in; whether the system there says that nobody listens, out.

The system of a machine answers a datagram for a process that is not there, unless the answer is
lost. What comes back may be wrong as well: a firewall may say it, or anybody who forges it. Only
datagrams to one process are answered, never those to everybody.
"""

from collections.abc import Callable
from typing import Final, final

from semcast.ids import EVERYBODY, Randomness


@final
class ClosedPorts:
    """What comes back of the datagrams of one process."""

    def __init__(
        self, share: float, false_share: float, random: Randomness, is_there: Callable[[int], bool]
    ) -> None:
        """`share`: of the datagrams to processes that are not there; `false_share`: of those to
        others. `is_there` says which of them a process is, by its node.
        """
        self._share: Final = share
        self._false_share: Final = false_share
        self._random: Final = random
        self._is_there: Final = is_there
        # Whether it is sometimes wrong.
        self.active = True

    def comes_back(self, to: int) -> bool:
        """Whether a datagram that is sent there now comes back."""
        if to == EVERYBODY:
            return False
        if not self._is_there(to):
            return self._random.random() < self._share
        return self.active and self._random.random() < self._false_share
