"""The history of a site: the entries that it installed, in its order, until everybody has them.

PROP §5.1 lets each site keep a log of messages. Here it is bounded: what everybody has is dropped,
but for the last ones, which are kept for sites that come back (PROP §5.2.1).

The order matters, so an entry that everybody has stays as long as one before it stays: if a member
of one group is slow, messages of other groups pile up behind. What is installed when the history is
full is *ahead*: the site does not say yet that it has it, so that in the end its sources wait.
"""

from collections import deque
from typing import Final, final

from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.memory import Memory

# How many entries are kept that everybody has.
PAST_ENTRIES: Final = 1024
# How many bytes others have, before what comes is ahead. That is bounded by the windows of sources.
BYTES_MAX: Final = 1 << 26


@final
class History:
    """Entries in the order in which a site installed them."""

    def __init__(self, memory: Memory, messages_max: int, bytes_max: int = BYTES_MAX) -> None:
        """`messages_max`: how many are kept that not everybody has before what comes is ahead."""
        self._messages_max: Final = messages_max
        self._bytes_max: Final = bytes_max
        self._memory: Final = memory
        # INV-HISTORY: what not everybody has, as far as this site knows, in order. [PROP §5.2.1]
        self._recent: Final[deque[Entry]] = deque()
        self._bytes: int = 0
        # INV-AHEAD: the last of these, which nobody is told yet that this site has.
        self._ahead: Final[deque[Entry]] = deque()
        self._ahead_bytes: int = 0
        self._past: Final[deque[Entry]] = deque()
        self._places: Final[dict[tuple[int, str, int], Entry]] = {}
        self._floors: Final[dict[tuple[int, str], int]] = {}
        self._graph: int = 0

    def __len__(self) -> int:
        return len(self._recent)

    def add(self, entry: Entry) -> bool:
        """The site installed an entry; says whether it may tell others so, or is to wait until the
        entry is among those that `caught_up` returns.
        """
        self._memory.installed(entry)
        return self.recall(entry)

    def recall(self, entry: Entry) -> bool:
        """The same of an entry that the site installed in a former life."""
        size = _size(entry)
        ahead = bool(self._ahead) or self._is_full()
        if ahead:
            self._ahead.append(entry)
            self._ahead_bytes += size
        self._recent.append(entry)
        self._bytes += size
        self._places[entry.at] = entry
        return not ahead

    def _is_full(self) -> bool:
        """Whether there is no room for more, without those that are ahead."""
        held = len(self._recent) - len(self._ahead)
        return held >= self._messages_max or self._bytes - self._ahead_bytes >= self._bytes_max

    def caught_up(self) -> list[Entry]:
        """The entries that were ahead, and of which others may be told now."""
        found: list[Entry] = []
        while self._ahead and not self._is_full():
            entry = self._ahead.popleft()
            self._ahead_bytes -= _size(entry)
            found.append(entry)
        return found

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
            entry = self._recent.popleft()
            self._bytes -= _size(entry)
            self._past.append(entry)
        while len(self._past) > PAST_ENTRIES:
            old = self._past.popleft()
            self._places.pop(old.at, None)

    def _is_settled(self, entry: Entry) -> bool:
        if entry.graph < self._graph:
            return True
        return entry.place <= self._floors.get((entry.graph, entry.group), 0)


def _size(entry: Entry) -> int:
    """How many bytes the message of an entry has."""
    return 0 if entry.message is None else len(entry.message.body)
