"""Deadlines: when each seat is due goes in; which seat is due first comes out.

This is a heap in which every seat stands once and knows its place. So a deadline that changes with
every turn moves its entry, and leaves no outdated one behind. A change takes log n steps for one of
n seats, and none for the only one.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.live.host.clock import FOREVER

NOWHERE: Final[i64] = -1


class Due:
    """Something that is due at a time. `Deadlines` keeps what is in here."""

    def __init__(self) -> None:
        self.due_ns: i64 = FOREVER
        # Its place in the heap.
        self.due_at: i64 = NOWHERE


@final
class Deadlines:
    """Who is due when."""

    def __init__(self) -> None:
        self._heap: Final[list[Due]] = []

    def first_ns(self) -> i64:
        """When somebody is due next."""
        return self._heap[0].due_ns if self._heap else FOREVER

    def put(self, one: Due, due_ns: i64) -> None:
        """Set when it is due, whatever that was before."""
        before_ns = one.due_ns
        one.due_ns = due_ns
        if one.due_at == NOWHERE:
            one.due_at = len(self._heap)
            self._heap.append(one)
            self._rise(one)
        elif due_ns < before_ns:
            self._rise(one)
        elif due_ns > before_ns:
            self._sink(one)

    def take(self, now_ns: i64) -> Due | None:
        """Remove the first and return it, if it is due by now."""
        if not self._heap or self._heap[0].due_ns > now_ns:
            return None
        first = self._heap[0]
        self.remove(first)
        return first

    def remove(self, one: Due) -> None:
        """Forget when it is due; harmless when repeated."""
        at = one.due_at
        if at == NOWHERE:
            return
        one.due_at = NOWHERE
        last = self._heap.pop()
        if last is not one:
            self._heap[at] = last
            last.due_at = at
            self._rise(last)
            self._sink(last)

    def _rise(self, one: Due) -> None:
        heap, at = self._heap, one.due_at
        while at > 0:
            above = heap[(at - 1) // 2]
            if above.due_ns <= one.due_ns:
                break
            heap[at] = above
            at, above.due_at = above.due_at, at
        heap[at] = one
        one.due_at = at

    def _sink(self, one: Due) -> None:
        heap, at = self._heap, one.due_at
        count: i64 = len(heap)
        while 2 * at + 1 < count:
            below = heap[2 * at + 1]
            if 2 * at + 2 < count and heap[2 * at + 2].due_ns < below.due_ns:
                below = heap[2 * at + 2]
            if one.due_ns <= below.due_ns:
                break
            heap[at] = below
            at, below.due_at = below.due_at, at
        heap[at] = one
        one.due_at = at
