"""The priority queue of the two-phase protocol: messages and priorities in; messages in their final
order out (PROP §2; Birman and Joseph).

A message waits with the priority that this site gave it until the source says the highest one that
any member gave. It leaves when it has the lowest priority of all and its own is decided. Two
messages of one stream are decided in the order in which they were sent, because every member gave
the later one a higher priority.

Purging: a decided message replaces earlier decided ones of its stream, which then leave at once.
One that is not decided replaces nothing: if its source crashed, it would never be delivered.
"""

import heapq
from typing import Final, final

from semcast.ids import Source
from semcast.obsolescence.relation import obsoletes
from semcast.wire.message import Message

# Numbers of messages that have left are dropped when they are more than those that wait, and these.
_STALE_MAX: Final = 64


@final
class Waiting:
    """A message that waits for its turn."""

    def __init__(self, message: Message, counter: int, site: int, place: int) -> None:
        self.message: Final = message
        # The priority: a counter, and the site that gave it.
        self.counter = counter
        self.site = site
        self.decided = False
        # Says which of two entries of the heap is the present one.
        self.place = place


@final
class PriorityQueue:
    """All that waits at one site, of whatever group."""

    def __init__(self, site: int, purging: bool) -> None:
        self._site: Final = site
        self._purging: Final = purging
        # INV-COUNTER: no priority that was given or decided here so far is higher. [PROP §2]
        self._counter = 0
        self._places = 0
        self._heap: list[tuple[int, int, int]] = []
        self._by_place: Final[dict[int, Waiting]] = {}
        # By stream: what waits of it, in the order of its numbers.
        self._streams: Final[dict[Source, dict[int, Waiting]]] = {}

    def __len__(self) -> int:
        return len(self._by_place)

    def held_of(self, stream: Source) -> int:
        """How many messages of a stream wait."""
        return len(self._streams.get(stream, ()))

    def find(self, stream: Source, seq: int) -> Waiting | None:
        """A message that waits, if it does."""
        found = self._streams.get(stream)
        return None if found is None else found.get(seq)

    def put(self, message: Message) -> Waiting:
        """A message comes: it gets a priority that is higher than any before."""
        self._counter += 1
        waiting = Waiting(message, self._counter, self._site, 0)
        self._streams.setdefault(message.source, {})[int(message.seq)] = waiting
        self._push(waiting)
        return waiting

    def decide(self, waiting: Waiting, counter: int, site: int) -> list[Message]:
        """The source has decided on a priority; says which messages this one replaces, and they
        are gone.
        """
        assert not waiting.decided
        assert (counter, site) >= (waiting.counter, waiting.site)
        self._counter = max(self._counter, counter)
        waiting.decided = True
        if (counter, site) != (waiting.counter, waiting.site):
            del self._by_place[waiting.place]
            waiting.counter = counter
            waiting.site = site
            self._push(waiting)
        return self._purge(waiting) if self._purging else []

    def _push(self, waiting: Waiting) -> None:
        self._places += 1
        waiting.place = self._places
        self._by_place[waiting.place] = waiting
        heapq.heappush(self._heap, (waiting.counter, waiting.site, waiting.place))

    def _purge(self, cover: Waiting) -> list[Message]:
        message = cover.message
        if not message.by_key and message.bitmap == 0:
            return []
        purged: list[Message] = []
        for older in list(self._streams[message.source].values()):
            if older is cover:
                break
            if older.decided and obsoletes(message, older.message):
                purged.append(older.message)
                self._remove(older)
        return purged

    def head(self) -> Message | None:
        """The message with the lowest priority, if that is decided; it stays."""
        heap = self._heap
        while heap and heap[0][2] not in self._by_place:
            heapq.heappop(heap)
        if not heap:
            return None
        first = self._by_place[heap[0][2]]
        return first.message if first.decided else None

    def pop(self) -> None:
        """The head leaves."""
        assert self.head() is not None
        self._remove(self._by_place[self._heap[0][2]])

    def _remove(self, waiting: Waiting) -> None:
        del self._by_place[waiting.place]
        stream = waiting.message.source
        of_stream = self._streams[stream]
        del of_stream[int(waiting.message.seq)]
        if not of_stream:
            del self._streams[stream]
        if len(self._heap) > 2 * len(self._by_place) + _STALE_MAX:
            self._heap = [one for one in self._heap if one[2] in self._by_place]
            heapq.heapify(self._heap)
