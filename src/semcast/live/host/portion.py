"""Portions: a member's messages go in, and come out one after the other.

An application that takes messages singly, and comes back for the next one soon, is given several at
a time, which costs less than one by one. Messages that were given can no longer be replaced, so an
application that needs longer is given one at a time, and the others stay replaceable.
"""

from typing import final

from mypy_extensions import i64

from semcast.live.host.timing import PORTION_MESSAGES_MAX, QUICK_NS
from semcast.protocol.machine import Machine
from semcast.wire.message import Message


@final
class Portion:
    """What was taken from a member and not yet by its application."""

    def __init__(self) -> None:
        # How many messages were taken from the member.
        self.taken: i64 = 0
        # Newest first.
        self._messages: list[Message] = []
        self._size: i64 = 1
        self._since_ns: i64 = 0

    @property
    def waiting(self) -> bool:
        """Whether anything is here."""
        return len(self._messages) > 0

    def next(self) -> Message | None:
        """The next message that is here. Taking it from a list is one step, so needs no lock."""
        if not self._messages:
            return None
        try:
            return self._messages.pop()
        except IndexError:  # another thread was quicker
            return None

    def rest(self, messages_max: i64) -> list[Message]:
        """The messages that are here, at most so many."""
        found: list[Message] = []
        while len(found) < messages_max:
            message = self.next()
            if message is None:
                break
            found.append(message)
        return found

    def take(self, member: Machine, now_ns: i64) -> Message | None:
        """The next message, if there is one. The caller holds the lock of the member."""
        message = self.next()
        if message is not None:
            return message
        quick = now_ns - self._since_ns < self._size * QUICK_NS
        self._size = min(2 * self._size, PORTION_MESSAGES_MAX) if quick else 1
        self._since_ns = now_ns
        if self._size == 1:
            message = member.take_one(now_ns)
            if message is not None:
                self.taken += 1
            return message
        messages = member.take(self._size, now_ns)
        if not messages:
            return None
        self.taken += len(messages)
        messages.reverse()
        message = messages.pop()
        self._messages = messages
        return message
