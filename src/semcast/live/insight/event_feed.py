"""The event feed of a member: events go in, and come out in the log and in a queue per listener.

Queues are bounded: a listener that is too slow misses events, and finds an event that says how
many. Queues are filled and emptied with the engine's lock held; how a listener waits is its affair.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import asdict
from typing import Final

from semcast.live.meeting.health import EVENTS_MAX, Event

log: Final = logging.getLogger("semcast")


class Listener:
    """The events that one listener has not taken yet."""

    def __init__(self, name: str, wake: Callable[[], None]) -> None:
        self.wake: Final = wake
        self._name: Final = name
        self._waiting: Final[deque[Event]] = deque()
        # What came after all that waits and found no room; and when the last of it did.
        self._missed = 0
        self._missed_ns = 0

    def put(self, event: Event) -> None:
        """Add an event if there is room for it, and for saying what was missed before it."""
        if len(self._waiting) + (self._missed > 0) >= EVENTS_MAX:
            self._missed += 1
            self._missed_ns = event.time_ns
            return
        if self._missed > 0:
            self._waiting.append(self._missed_event())
        self._waiting.append(event)
        self.wake()

    def take(self) -> Event | None:
        """The next event, if there is one."""
        if self._waiting:
            return self._waiting.popleft()
        return self._missed_event() if self._missed > 0 else None

    def _missed_event(self) -> Event:
        missed, self._missed = self._missed, 0
        text = f"{missed} events were missed: {EVENTS_MAX} waited already, and nobody took them"
        return Event("missed", self._name, self._missed_ns, text, behind_messages=missed)


class EventFeed:
    """Hands the events of one member to all its listeners."""

    def __init__(self, group: str, name: str) -> None:
        self._group: Final = group
        self._name: Final = name
        self._listeners: Final[list[Listener]] = []

    def log(self, event: Event, level: int) -> None:
        """Write an event to the log."""
        log.log(level, "%s: %s", self._group, event.text, extra={"semcast": asdict(event)})

    def publish(self, event: Event) -> None:
        """Put an event into all queues."""
        for listener in list(self._listeners):
            listener.put(event)

    def wake(self) -> None:
        """Wake all listeners, since there will be no more events to wait for."""
        for listener in list(self._listeners):
            listener.wake()

    def listen(self, wake: Callable[[], None]) -> Listener:
        """A queue for what happens from now on; `wake` is called when something does."""
        # Neither this nor `forget` takes the lock: the garbage collector may end a listener in a
        # thread that holds it.
        self._listeners.append(Listener(self._name, wake))
        return self._listeners[-1]

    def forget(self, listener: Listener) -> None:
        """End a queue that nobody takes events from any more."""
        self._listeners.remove(listener)
