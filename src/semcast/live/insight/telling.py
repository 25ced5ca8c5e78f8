"""Telling: events of a group in, to the log or to whoever listens, each with a queue of its own.

Queues are bounded: a listener that is too slow misses events, and is told how many. They are filled
and emptied with the engine's lock held; how listeners wait is theirs to know.
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
        """One more, if there is room for it, and for saying what was missed before it."""
        if len(self._waiting) + (self._missed > 0) >= EVENTS_MAX:
            self._missed += 1
            self._missed_ns = event.time_ns
            return
        if self._missed > 0:
            self._waiting.append(self._tell_missed())
        self._waiting.append(event)
        self.wake()

    def take(self) -> Event | None:
        """The next, if there is one."""
        if self._waiting:
            return self._waiting.popleft()
        return self._tell_missed() if self._missed > 0 else None

    def _tell_missed(self) -> Event:
        missed, self._missed = self._missed, 0
        text = f"{missed} events were missed: {EVENTS_MAX} waited already, and nobody took them"
        return Event("missed", self._name, self._missed_ns, text, behind_messages=missed)


class Teller:
    """Tells everybody who listens to one member."""

    def __init__(self, group: str, name: str) -> None:
        self._group: Final = group
        self._name: Final = name
        self._listeners: Final[list[Listener]] = []

    def log(self, event: Event, level: int) -> None:
        """For whoever reads logs."""
        log.log(level, "%s: %s", self._group, event.text, extra={"semcast": asdict(event)})

    def tell(self, event: Event) -> None:
        """Put it into all queues."""
        for listener in list(self._listeners):
            listener.put(event)

    def wake(self) -> None:
        """There will be no more events: whoever waits for one looks again."""
        for listener in list(self._listeners):
            listener.wake()

    def listen(self, wake: Callable[[], None]) -> Listener:
        """A queue for what happens from now on; `wake` is called when something does."""
        # Without the lock, and so is the end of it: a listener may be forgotten, and collected, by
        # a thread that has it.
        self._listeners.append(Listener(self._name, wake))
        return self._listeners[-1]

    def forget(self, listener: Listener) -> None:
        """Nobody takes what is in this queue any more."""
        self._listeners.remove(listener)
