"""A line: entries and orders in, and out in the same order, less what is purged.

Lines stand where messages wait: for a child (where = "forward"), or for their turn after they came
(where = "wait"). Within a stretch between two orders, which are Close and Open records, a message
that a later one replaces leaves the line (SRM §4.3), and an entry without its message keeps its
place. Nothing is purged across an order: behind it the group may have other members.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import CoverGuard
from semcast.protocol.queue.policy import BufferConfig, Purging
from semcast.wire.message import Message

# For each message that a line may hold: how many told ones, which are small, it may hold too.
_TOLD_EACH: Final = 4


@final
class Order:
    """A record that is not about a message: what was said to do."""

    def __init__(self, record: bytes) -> None:
        self.record: Final = record


def _id(message: Message) -> tuple[Source, int]:
    return message.source, int(message.seq)


@final
class _Stretch:
    """Messages between two orders."""

    def __init__(self, purging: Purging, where: str, guard: CoverGuard | None) -> None:
        config = BufferConfig(SEQ_MAX, SEQ_MAX, purging)
        self.waiting: Final = PurgingBuffer(config, where, guard, record=True)
        # By message: where it stands in the stretch, and its entry.
        self.entries: Final[dict[tuple[Source, int], tuple[int, Entry]]] = {}
        # Where they stand, and entries whose messages were purged; those in front come first.
        self.told: Final[list[tuple[int, Entry]]] = []
        self.next: int = 0

    def tells(self) -> bool:
        """Whether an entry without its message comes next."""
        if not self.told:
            return False
        message = self.waiting.peek()
        return message is None or self.told[0][0] < self.entries[_id(message)][0]


@final
class Line:
    """One queue of entries and orders."""

    def __init__(
        self,
        messages_max: int,
        purging: Purging,
        where: str,
        observer: Observer | None,
        guard: CoverGuard | None,
    ) -> None:
        """`guard`: which messages others may be purged for; None: all."""
        self._messages_max: Final = messages_max
        self._purging: Final = purging
        self._where: Final = where
        self._guard: Final = guard
        self._observer: Final = observer
        self._parts: Final[deque[_Stretch | Order]] = deque()
        self._last: _Stretch | None = None
        self.held: i64 = 0
        self._told: i64 = 0
        self._orders: i64 = 0
        self.purged: i64 = 0

    # -- in ----------------------------------------------------------------------------------------

    def admits(self, message: Message) -> bool:
        """Whether there is room for a message, also by purging what it replaces."""
        if self.told_full:
            return False
        if self.held < self._messages_max:
            return True
        last = self._last
        return last is not None and last.waiting.hits(message) > 0

    @property
    def told_full(self) -> bool:
        """Whether too many wait whose messages were purged."""
        return self._told >= _TOLD_EACH * self._messages_max

    def room(self) -> int:
        """How many more it takes, whatever they are."""
        if self.told_full:
            return 0
        return max(0, self._messages_max - int(self.held + self._orders))

    def put(self, entry: Entry) -> None:
        """An entry comes to the end of the line."""
        stretch = self._last
        if stretch is None:
            stretch = self._last = _Stretch(self._purging, self._where, self._guard)
            self._parts.append(stretch)
        place = stretch.next
        stretch.next += 1
        if entry.message is None:
            heappush(stretch.told, (place, entry))
            self._told += 1
            return
        if stretch.waiting.get(entry.stream, entry.seq) is not None:
            return
        stretch.entries[entry.id] = (place, entry)
        stretch.waiting.insert(entry.message)
        self.held += 1
        for one in stretch.waiting.drain_purged():
            assert one.cover is not None
            place, victim = stretch.entries.pop(_id(one.message))
            heappush(stretch.told, (place, victim.purged(int(one.cover.seq))))
            self.held -= 1
            self._told += 1
            self.purged += 1
            if self._observer is not None:
                self._observer.message("purge", one.message, self._where, one.cover)

    def put_order(self, record: bytes) -> None:
        """An order comes to the end of the line."""
        self._parts.append(Order(record))
        self._orders += 1
        self._last = None

    # -- out ---------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(self.held + self._told + self._orders)

    @property
    def empty(self) -> bool:
        """Whether nothing waits."""
        self._tidy()
        return not self._parts

    def head(self) -> Entry | Order | None:
        """What comes next; it stays."""
        self._tidy()
        if not self._parts:
            return None
        first = self._parts[0]
        if isinstance(first, Order):
            return first
        if first.tells():
            return first.told[0][1]
        message = first.waiting.peek()
        assert message is not None
        return first.entries[_id(message)][1]

    def pop(self) -> Entry | Order | None:
        """What comes next; it leaves the line."""
        found = self.head()
        if found is None:
            return None
        first = self._parts[0]
        if isinstance(first, Order):
            self._parts.popleft()
            self._orders -= 1
        elif first.tells():
            heappop(first.told)
            self._told -= 1
        else:
            message = first.waiting.take()
            assert message is not None
            del first.entries[_id(message)]
            self.held -= 1
        return found

    def _tidy(self) -> None:
        """Drop a stretch of which nothing is left."""
        while self._parts:
            first = self._parts[0]
            if isinstance(first, Order) or first.told or first.waiting.held > 0:
                return
            self._parts.popleft()
            if first is self._last:
                self._last = None

    def clear(self) -> None:
        """Nothing of it is needed any more."""
        self._parts.clear()
        self._last = None
        self.held = 0
        self._told = 0
        self._orders = 0

    def drop(self, unwanted: Callable[[Entry], bool]) -> None:
        """Take out the entries that nobody wants any more."""
        kept: list[Entry | Order] = []
        while True:
            one = self.pop()
            if one is None:
                break
            if isinstance(one, Order) or not unwanted(one):
                kept.append(one)
        for one in kept:
            if isinstance(one, Order):
                self.put_order(one.record)
            else:
                self.put(one)
