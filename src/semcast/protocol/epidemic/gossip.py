"""The top tier of PSRM Figure 1: a plain gossip protocol, which knows nothing of replacement.

A message that is multicast, or received for the first time, goes to a random set of `fanout`
others, unless it was relayed `rounds` times already; after that this member never sends it again
(infect and die). Whom to send to comes out; who the others are is the business of `Targets`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY
from semcast.protocol.epidemic.targets import Targets


@final
class Gossip:
    """Decides to whom a message goes next."""

    def __init__(self, fanout: i64, rounds: i64, targets: Targets) -> None:
        self._fanout: Final[i64] = fanout
        self._rounds: Final[i64] = rounds
        self._targets: Final = targets

    def begin(self) -> list[int]:
        """The targets of a message of this member's own; its round is 0."""
        return self._targets.draw(self._fanout, EVERYBODY)

    def relays(self, round: i64) -> bool:  # noqa: A002
        """Whether a message that came here in this round goes on, in the next."""
        return round < self._rounds

    def relay(self, came_from: i64) -> list[int]:
        """The targets of a message that goes on."""
        return self._targets.draw(self._fanout, came_from)
