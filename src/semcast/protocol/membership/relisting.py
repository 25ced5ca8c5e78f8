"""A reader that members may have forgotten: what it has to ask for because of that.

A reader of a group begins alone. Senders that have left before may have left values that stand, so
it asks for the list of sources as soon as it knows members, and again if they had forgotten it. Of
streams that it followed meanwhile it may lack the end. What detection found out goes in, what to
ask for comes out; of how it is asked for nothing is known here.
"""

from collections.abc import Iterable
from typing import Final, final

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.detection import Agreed


@final
class Relisting:
    """Whether the list is to be asked for, and which ends a reader may lack."""

    def __init__(self, config: MemberConfig) -> None:
        # Whether this member is a reader that asks for the list at all.
        self.applies: Final = (
            config.role == "reader" and config.group_reliable and config.state == "keys"
        )
        # Whether the list is still to be asked for.
        self.due = self.applies
        # Streams of which it may lack the end, since members had forgotten it.
        self._unsure: Final[set[Source]] = set()

    def ended(self, agreed: Agreed, followed: Iterable[Source]) -> list[Source]:
        """Sources that have ended now, and of which it may lack the end."""
        if agreed.forgotten:
            self._unsure.update(followed)
            self._unsure.update(agreed.ended)
        found: list[Source] = []
        for source in agreed.ended:
            if source in self._unsure:
                self._unsure.discard(source)
                found.append(source)
        return found
