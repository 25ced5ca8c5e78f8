"""What a source of the two-phase protocol knows: who has answered, and whose queues are full.

Answers and counts go in; the highest priority, and whether there is room, come out.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.observer import Observer


@final
class Votes:
    """The answers to one message."""

    def __init__(self, group: str, members: tuple[int, ...]) -> None:
        """`members`: those that are asked, without the source itself."""
        self.group: Final = group
        self.members: Final = members
        self._awaited: Final = set(members)
        # The highest priority so far, and the site that gave it.
        self.counter = 0
        self.site = 0

    def awaits(self, site: int) -> bool:
        """Whether that site is to answer."""
        return site in self._awaited

    def heard(self, counter: int, site: int) -> None:
        """A member, which may be the source itself, gives this priority."""
        self._awaited.discard(site)
        if (counter, site) > (self.counter, self.site):
            self.counter = counter
            self.site = site

    @property
    def complete(self) -> bool:
        """Whether all have answered."""
        return not self._awaited


@final
class GroupWindow:
    """The messages of one source to one group that wait in the queue of some member."""

    def __init__(self, messages_max: int, others: tuple[int, ...], own: bool) -> None:
        """`own`: the source's own queue counts too."""
        self._messages_max: Final = messages_max
        self.others: Final = others
        self.own: Final = own
        self.sent = 0
        # By member: how many have left its queue; and how many the source's own.
        self._left: Final[dict[int, int]] = dict.fromkeys(others, 0)
        self._own_left = 0

    @property
    def held(self) -> int:
        """How many messages are still in the fullest of the queues."""
        least = min(self._left.values(), default=self.sent)
        if self.own:
            least = min(least, self._own_left)
        return self.sent - least

    @property
    def open(self) -> bool:
        """Whether there is room for one more, everywhere."""
        return self.held < self._messages_max

    def left(self, site: int) -> None:
        """One left the queue of the source itself."""
        assert self.own
        assert site not in self._left
        self._own_left += 1

    def left_up_to(self, site: int, count: int) -> bool:
        """So many have left the queue of a member, it says; whether that can be."""
        if site not in self._left or not self._left[site] < count <= self.sent:
            return False
        self._left[site] = count
        return True


@final
class Blocking:
    """For how long a source found no room."""

    def __init__(self, me: Source, observer: Observer | None) -> None:
        self._me: Final = me
        self._observer: Final = observer
        self.blocked = False
        self._since_ns: i64 = 0
        self._sum_ns: i64 = 0

    def no_room(self, sent: int, now_ns: i64) -> None:
        """A message found none; `sent`: the number of the last that did."""
        if not self.blocked:
            self.blocked = True
            self._since_ns = now_ns
            if self._observer is not None:
                self._observer.progress("block", self._me, sent, None, 0)

    def has_room(self, sent: int, now_ns: i64) -> None:
        """The message with this number found some."""
        if self.blocked:
            self.blocked = False
            self._sum_ns += now_ns - self._since_ns
            if self._observer is not None:
                self._observer.progress("unblock", self._me, sent, None, 0)

    def blocked_ns(self, now_ns: i64) -> int:
        """For how long altogether."""
        return self._sum_ns + (now_ns - self._since_ns if self.blocked else 0)
