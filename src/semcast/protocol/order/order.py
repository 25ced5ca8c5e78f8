"""Order, the interface: messages that have arrived in, those whose turn it is out.

Between a source's stream, which is in the order of its numbers, and the application is what waits
for it; an order says who may wait there, in which place, and whose turn it is next. What waits may
be purged by what comes after it (SRM §4.3).

At a newcomer everything waits until it has the state; what stood comes first, then the rest.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.interest import Interest
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.purged import observe_arrival
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

_FULL: Final = Verdict.FULL


class Order(ABC):
    """What waits for one application."""

    def __init__(
        self, waiting: PurgingBuffer, observer: Observer | None, interest: Interest | None = None
    ) -> None:
        self.waiting: Final = waiting
        self._observer: Final = observer
        self._interest: Final = interest
        # By source, the last message that the application has without having taken it here.
        self._floors: Final[dict[Source, int]] = {}
        # Whether any message may be kept out.
        self._choosy = interest is not None
        # Whether the application gets nothing yet, since the state is still to come.
        self._held = False
        # What stood when this process came, and how much of it was taken.
        self._state: list[Message] = []
        self._state_taken: i64 = 0

    # -- in ----------------------------------------------------------------------------------------

    def admit(self, messages: list[Message], at: i64, end: i64) -> i64:
        """Let messages of one source in, which follow each other; says how many there was room
        for, from the first on.
        """
        if self._choosy:
            return self._admit_chosen(messages, at, end)
        waiting = self.waiting
        first = at
        while at < end and waiting.insert(messages[at]) is not _FULL:
            if self._observer is not None:
                observe_arrival(self._observer, "receive", messages[at], waiting.drain_purged())
            at += 1
        return at - first

    def _admit_chosen(self, messages: list[Message], at: i64, end: i64) -> i64:
        """The same, but what the application does not want, or has, is only passed over."""
        first = at
        while at < end:
            message = messages[at]
            if not self._chooses(message):
                self._ignore(message)
            elif self.waiting.insert(message) is _FULL:
                break
            elif self._observer is not None:
                observe_arrival(self._observer, "receive", message, self.waiting.drain_purged())
            at += 1
        return at - first

    def _chooses(self, message: Message) -> bool:
        floor = self._floors.get(message.source)
        if floor is not None:
            if message.seq <= floor:
                return False
            del self._floors[message.source]
            self._choosy = self._interest is not None or len(self._floors) > 0
        return self._interest is None or self._interest.wants(message)

    def _ignore(self, message: Message) -> None:
        self.unwanted(message.source, message.seq)
        if self._observer is not None:
            self._observer.message("ignore", message, "", None)

    @abstractmethod
    def begin(self, source: Source, next_seq: i64) -> None:
        """A stream begins at `next_seq`: what came before is none of the application's business."""

    @abstractmethod
    def pass_over(self, source: Source, seq: i64) -> None:
        """A message will not come, being covered. Nobody here knows what it was about, so an
        application that does not want everything is not told that it was skipped.
        """

    @abstractmethod
    def unwanted(self, source: Source, seq: i64) -> None:
        """A message came that the application does not want: it is not skipped."""

    def forget(self, source: Source) -> None:
        """Nothing of a source waits, and nothing will come any more."""
        self.waiting.forget(source)
        self._floors.pop(source, None)

    def install(self, view: View) -> None:  # noqa: B027
        """From now on this view counts."""

    # -- the state of a newcomer -------------------------------------------------------------------

    @property
    def held(self) -> bool:
        """Whether the application gets nothing yet."""
        return self._held

    def hold(self) -> None:
        """The application gets nothing until the state is there."""
        self._held = True

    def let_go(self, state: list[Message]) -> None:
        """The state is there: the application gets it first, as far as it wants it."""
        self._held = False
        interest = self._interest
        self._state += [one for one in state if interest is None or interest.wants(one)]

    def withdraw(self, source: Source, seq: i64) -> list[Message]:
        """What waits of a source up to `seq`, which the caller sees to from now on."""
        found = self.waiting.up_to(source, seq)
        self.waiting.release(source, seq)
        return found

    def skip_to(self, source: Source, seq: i64) -> None:
        """The application has everything of this source up to `seq`, in another way."""
        for message in self.waiting.up_to(source, seq):
            self._ignore(message)
        self.waiting.release(source, seq)
        self.begin(source, seq + 1)
        self._floors[source] = int(seq)
        self._choosy = True

    # -- out ---------------------------------------------------------------------------------------

    @abstractmethod
    def taken(self, source: Source, handed_on: i64) -> int:
        """The application has taken everything of this source up to here, and nothing later, or its
        cover waits; -1 if there is no such number. All up to `handed_on` came here.
        """

    @abstractmethod
    def skipped(self, taken: list[Message]) -> None:
        """These are taken: each says which ones the application did not get (`Message.skipped`)."""

    def deliverable(self) -> int:
        """How many messages the application may take."""
        return 0 if self._held else len(self._state) - self._state_taken + self.waiting.held

    def peek(self) -> Message | None:
        """The message whose turn it is, if the application may take it; it stays."""
        if self._held:
            return None
        return self._state[self._state_taken] if self._state else self.waiting.peek()

    def take(self, messages_max: i64) -> list[Message]:
        """The application takes what waits for it, in its order; this is delivery."""
        if self._held or self._state:
            return self._take_state(messages_max)
        taken = self.waiting.take_many(messages_max)
        self.skipped(taken)
        if self._observer is not None:
            for message in taken:
                self._observer.message("deliver", message, "", None)
        return taken

    def take_one(self) -> Message | None:
        """The same for one message, if there is one."""
        if self._held or self._state:
            first = self._take_state(1)
            return first[0] if first else None
        message = self.waiting.take()
        if message is not None:
            self.skipped([message])
            if self._observer is not None:
                self._observer.message("deliver", message, "", None)
        return message

    def take_held(self, source: Source) -> list[Message]:
        """Take what waits of a source, even if the state is still to come: it never will."""
        taken = self.waiting.up_to(source, SEQ_MAX)
        self.waiting.release(source, SEQ_MAX)
        self.skipped(taken)
        if self._observer is not None:
            for message in taken:
                self._observer.message("deliver", message, "", None)
        return taken

    def _take_state(self, messages_max: i64) -> list[Message]:
        """What stood first, then what waits."""
        if self._held:
            return []
        end = min(self._state_taken + messages_max, len(self._state))
        taken = self._state[self._state_taken : end]
        self._state_taken = end
        if end == len(self._state):
            self._state = []
            self._state_taken = 0
        if self._observer is not None:
            for message in taken:
                # What came live before a stream began anew goes with the state.
                event = "state" if message.state else "deliver"
                self._observer.message(event, message, "", None)
        if len(taken) < messages_max and not self._state:
            taken += self.take(messages_max - len(taken))
        return taken
