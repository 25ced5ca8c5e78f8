"""The history of a site: the entries that it installed, in its order, until everybody has them.

PROP §5.1 lets each site keep a log of messages. Here it is bounded: what everybody has is dropped,
but for the last ones, which are kept for sites that come back (PROP §5.2.1).
"""

from collections import deque
from typing import Final, final

from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.memory import Memory

# How many entries are kept that everybody has.
PAST_ENTRIES: Final = 1024


@final
class History:
    """Entries in the order in which a site installed them."""

    def __init__(self, memory: Memory) -> None:
        self._memory: Final = memory
        # INV-HISTORY: what not everybody has, as far as this site knows, in order. [PROP §5.2.1]
        self._recent: Final[deque[Entry]] = deque()
        self._past: Final[deque[Entry]] = deque()
        self._places: Final[dict[tuple[int, str, int], Entry]] = {}
        self._floors: Final[dict[tuple[int, str], int]] = {}
        self._graph: int = 0

    def __len__(self) -> int:
        return len(self._recent)

    def add(self, entry: Entry) -> None:
        """The site installed an entry."""
        self._memory.installed(entry)
        self.recall(entry)

    def recall(self, entry: Entry) -> None:
        """The site installed an entry in a former life."""
        self._recent.append(entry)
        self._places[entry.at] = entry

    def find(self, graph: int, group: str, place: int) -> Entry | None:
        """An entry that is still kept."""
        return self._places.get((graph, group, place))

    def recent(self) -> list[Entry]:
        """What not everybody has, as far as is known."""
        return list(self._recent)

    def kept(self) -> list[Entry]:
        """All that is kept, in order."""
        return [*self._past, *self._recent]

    def settle(self, graph: int, group: str, place: int) -> None:
        """Everybody has everything of a group in a graph up to this place."""
        at = (graph, group)
        self._floors[at] = max(self._floors.get(at, 0), place)
        self._trim()

    def settle_before(self, graph: int) -> None:
        """Everybody has everything of all graphs before this one."""
        self._graph = max(self._graph, graph)
        for at in [at for at in self._floors if at[0] < graph]:
            del self._floors[at]
        self._trim()

    def _trim(self) -> None:
        while self._recent and self._is_settled(self._recent[0]):
            self._past.append(self._recent.popleft())
        while len(self._past) > PAST_ENTRIES:
            old = self._past.popleft()
            self._places.pop(old.at, None)

    def _is_settled(self, entry: Entry) -> bool:
        if entry.graph < self._graph:
            return True
        return entry.place <= self._floors.get((entry.graph, entry.group), 0)
