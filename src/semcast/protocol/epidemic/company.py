"""Which messages wait together, for newcomers that purge only what they replace themselves.

A `PurgingBuffer` never holds a message beside one that replaces it. With `Late.RELAY` and
`Late.LINK` they may wait side by side, so messages are kept here, where a newcomer finds those that
it may replace, and those that replace it: ranked ones by their key, others by their source. Knows
nothing of copies and room.
"""

from typing import Final, final

from semcast.ids import Source
from semcast.obsolescence.relation import obsoletes
from semcast.protocol.epidemic.copies import Spread
from semcast.wire.message import Message


@final
class Company:
    """The messages that wait."""

    def __init__(self) -> None:
        self._ranked: Final[dict[bytes, list[Spread]]] = {}
        self._others: Final[dict[Source, list[Spread]]] = {}

    def add(self, spread: Spread) -> None:
        """A message waits."""
        message = spread.message
        if message.ranked:
            self._ranked.setdefault(message.key, []).append(spread)
        else:
            self._others.setdefault(message.source, []).append(spread)

    def remove(self, spread: Spread) -> None:
        """A message that waited does so no longer."""
        message = spread.message
        if message.ranked:
            key = message.key
            self._ranked[key].remove(spread)
            if not self._ranked[key]:
                del self._ranked[key]
        else:
            source = message.source
            self._others[source].remove(spread)
            if not self._others[source]:
                del self._others[source]

    def replaced_by(self, message: Message) -> list[Spread]:
        """Those that a message replaces; they stay until they are removed."""
        if message.ranked:
            found = self._ranked.get(message.key)
        elif message.by_key or message.bitmap != 0:
            found = self._others.get(message.source)
        else:
            found = None
        if found is None:
            return []
        return [one for one in found if obsoletes(message, one.message)]

    def replacing(self, message: Message) -> list[Spread]:
        """Those that replace a message."""
        if message.ranked:
            found = self._ranked.get(message.key)
        else:
            found = self._others.get(message.source)
        if found is None:
            return []
        return [one for one in found if obsoletes(one.message, message)]
