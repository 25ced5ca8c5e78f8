"""Inquiries that wait for answers: whom to ask again, and who does not answer at all.

An inquiry goes in with the member that it is for; `due` gives those to repeat and those to give up.
Knows nothing of what is asked.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.wire.families.overlay import Entry

_NUMBER_MAX: Final = 0xFFFF_FFFF


@final
class Inquiry:
    """What was asked of one member."""

    def __init__(self, entry: Entry, number: i64, marks: i64, due_ns: i64) -> None:
        self.entry: Final = entry
        # The answer repeats it, so that an old answer is not taken for a new one.
        self.number: Final[i64] = number
        # Whatever the asker has to remember of it.
        self.marks: Final[i64] = marks
        self.asked: i64 = 1
        self.due_ns: i64 = due_ns


@final
class Inquiries:
    """One inquiry for each of a few members."""

    def __init__(self, answer_ns: i64, asks_max: i64) -> None:
        self._answer_ns: Final[i64] = answer_ns
        self._asks_max: Final[i64] = asks_max
        self._waiting: Final[dict[int, Inquiry]] = {}
        self._number: i64 = 0
        # When the first of them is due.
        self.due_ns: i64 = NEVER

    def __len__(self) -> int:
        return len(self._waiting)

    def get(self, sender: int) -> Inquiry | None:
        """What that member was asked, if it did not answer yet."""
        return self._waiting.get(sender)

    def ask(self, entry: Entry, marks: i64, now_ns: i64) -> Inquiry:
        """Ask a member that is not being asked; whoever calls this sends the inquiry."""
        sender = int(entry.source.sender)
        assert sender not in self._waiting
        self._number = self._number % _NUMBER_MAX + 1
        inquiry = Inquiry(entry, self._number, marks, now_ns + self._answer_ns)
        self._waiting[sender] = inquiry
        self.due_ns = min(self.due_ns, inquiry.due_ns)
        return inquiry

    def answered(self, sender: int) -> Inquiry | None:
        """That member has answered, or is not to be asked any more."""
        inquiry = self._waiting.pop(sender, None)
        if not self._waiting:
            self.due_ns = NEVER
        return inquiry

    def due(self, now_ns: i64) -> tuple[list[Inquiry], list[Inquiry]]:
        """Inquiries to send again, and those that nobody answers, which are then forgotten."""
        again: list[Inquiry] = []
        given_up: list[Inquiry] = []
        if self.due_ns > now_ns:
            return again, given_up
        self.due_ns = NEVER
        for sender, inquiry in list(self._waiting.items()):
            if inquiry.due_ns <= now_ns:
                if inquiry.asked >= self._asks_max:
                    del self._waiting[sender]
                    given_up.append(inquiry)
                    continue
                inquiry.asked += 1
                inquiry.due_ns = now_ns + self._answer_ns
                again.append(inquiry)
            self.due_ns = min(self.due_ns, inquiry.due_ns)
        return again, given_up
