"""A seat: what a host keeps of one group. A session goes in, and is kept going turn by turn.

A seat knows what its group needs next, and who waits for it. It knows nothing of other seats.
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
        # Called when a message, or room for one, is there for an application that waits without a
        # thread, if it is `wanted`. It must not block, nor hold the group; see `Host.notify`.
        self.on_ready: Callable[[], None] | None = None
        self.wanted = False
        # Called after turns, at most once in this period, and at least every hello period.
        self.on_turn: Callable[[int], None] | None = None
        self.on_turn_period_ns: i64 = 0
        # Whether the host looks after this seat: from its start until it leaves or fails.
        self.seated = False
        # Whether the group was left.
        self.closing = False
        # Threads that wait for something of this group while another reads the sockets.
        self.followers: list[threading.Lock] = []
        # When a reader last began to wait; when one last stopped, and whether it was soon back.
        self.waits_ns: i64 = 0
        self.left_ns: i64 = -FOREVER
        self.soon_back = False
        # Whether the rest of a turn is still to be done here.
        self.owing = False
        # Whether the present turn concerns this seat; and whether its deadline may have changed
        # since the host asked for it.
        self.active = False
        self.stale = False
        # How many bytes had come to its sockets when the host last counted them.
        self.counted_bytes = 0
        # By when gathered sends have to leave.
        self._tail_ns: i64 = FOREVER
        self._on_turn_ns: i64 = 0

    def next_deadline_ns(self) -> i64:
        """By when this seat needs a turn. An application that owes the rest of one has time to come
        back and finish it.
        """
        if self.owing:
            return self.left_ns + timing.AWAY_USUAL_NS
        due_ns: i64 = self.session.next_deadline_ns()
        return min(due_ns, self._tail_ns)

    def gather(self, now_ns: i64) -> bool:
        """Let what was accepted wait for more. Returns whether nothing waited before."""
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
        session = self.session
        member = session.member
        return (member is not None and member.deliverable() > 0) or len(session.leftover) > 0

    def disown(self) -> None:
        """In a forked child the group is the parent's: close it here, and touch nothing."""
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
