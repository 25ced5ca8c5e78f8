"""A seat: what a host keeps of one group. A session goes in; it is kept going, turn by turn.

Knows what its group needs next and who waits for it; not the other seats, the sockets or threads.
"""

import threading
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError
from semcast.live.host import timing
from semcast.live.host.clock import FOREVER
from semcast.live.host.deadlines import Due
from semcast.live.host.estimates import Burst, Wakefulness
from semcast.live.meeting.session import Session


@final
class Seat(Due):
    """One group's place at a host; callers hold the host's lock."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session: Final = session
        self.burst: Final = Burst()
        self.wakefulness: Final = Wakefulness(session.config.spin_us * 1000)
        # Called when a message or room for one is there for those who wait without a thread; what
        # is called must not block, nor hold the group, which is to leave once nobody holds it.
        # See `Host.notify`.
        self.on_ready: Callable[[], None] | None = None
        self.wanted = False
        # Called after turns: not sooner after the last time than this, and at least every hello
        # period.
        self.on_turn: Callable[[int], None] | None = None
        self.on_turn_period_ns: i64 = 0
        # Whether the host looks after it: from its start until it leaves or fails.
        self.seated = False
        # Whether it was left.
        self.closing = False
        # Threads that wait for something of this group while another reads the sockets.
        self.followers: list[threading.Lock] = []
        # When somebody last began to wait for it.
        self.waits_ns: i64 = 0
        # When whoever waits last stopped waiting, and whether it was soon back.
        self.left_ns: i64 = -FOREVER
        self.soon_back = False
        # Whether a turn was begun whose rest is still to be done.
        self.owing = False
        # Whether it has its part in the turn that is being taken; and whether its deadline may have
        # changed since the host was told.
        self.active = False
        self.stale = False
        # How many bytes had come to its sockets when the host last counted them.
        self.counted_bytes = 0
        # When what was gathered is to be sent at the latest.
        self._tail_ns: i64 = FOREVER
        self._on_turn_ns: i64 = 0

    def next_deadline_ns(self) -> i64:
        """When it needs a turn at the latest. An application that owes the rest of one is given the
        time to come back and finish it.
        """
        if self.owing:
            return self.left_ns + timing.AWAY_USUAL_NS
        due_ns: i64 = self.session.next_deadline_ns()
        return min(due_ns, self._tail_ns)

    def gather(self, now_ns: i64) -> bool:
        """What was accepted waits for more; whether it is the first that does."""
        if self._tail_ns < FOREVER:
            return False
        self._tail_ns = now_ns + timing.TAIL_NS
        return True

    def flush(self, now_ns: i64) -> None:
        """Send what is to be sent."""
        self.session.flush(now_ns)
        self.burst.flushed(now_ns)
        self._tail_ns = FOREVER

    def settle(self, now_ns: i64) -> None:
        """Do what is due; send what is to be sent."""
        session = self.session
        if session.next_deadline_ns() <= now_ns:
            session.on_timer(now_ns)
        self.flush(now_ns)
        self.owing = False
        if now_ns >= self._on_turn_ns and self.on_turn is not None:
            self._on_turn_ns = now_ns + self.on_turn_period_ns
            self.on_turn(now_ns)

    def has_messages(self) -> bool:
        """Whether the application can take something."""
        member = self.session.member
        return member is not None and member.deliverable() > 0

    def disown(self) -> None:
        """In a forked child: it is another process's, and not to be touched."""
        session = self.session
        self.closing = True
        self.seated = False
        session.ended = GroupClosedError(
            f"group {session.config.group!r} was joined by the parent process; "
            "a process that was forked has to join by itself"
        )
        session.may_take = False
        session.close()

    def came_bytes(self) -> int:
        """What came to its sockets since this was last asked."""
        came = self.session.transport.came_bytes
        new, self.counted_bytes = came - self.counted_bytes, came
        return new
