"""The engine: a thread that keeps a member going, whatever its application does.

Sockets and timers in; messages out to whoever waits for them. All state is behind one lock, and a
*turn* (read the sockets, do what is due, send what is to be sent) may be taken by any thread that
holds it: mostly the engine's own, so that an application that sleeps or computes does not stop its
member from acknowledging, repairing and purging; but a thread that waits for a message takes turns
itself, so that a message needs one wake-up, not two (leader and followers). Meanwhile the engine's
thread only looks in now and then. Sends of a burst are gathered into full datagrams: by the sender
itself while it goes on, by the engine's thread for the tail.
"""

import select
import threading
import time
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from semcast.errors import GroupClosedError, WindowFullError
from semcast.live.portion import Portion
from semcast.live.session import Session
from semcast.live.waker import Waker
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.member import Member
from semcast.wire.message import Message

_MS: Final = 1_000_000
FOREVER: Final = (1 << 62) - 1
_TIMEOUT_S_MAX: Final = 1e9
# How long an application may stay away from the sockets that it was reading before the engine's
# thread reads them: when there is much traffic, when there is little, and when there is none.
TICK_NS: Final = 1 * _MS
CALM_TICK_NS: Final = 5 * _MS
IDLE_TICK_NS: Final = 20 * _MS
IDLE_AFTER_NS: Final = 200 * _MS
# Traffic is calm while a tick brings no more datagrams than this: the sockets hold many more.
CALM_DATAGRAMS: Final = 100
# Sends that follow each other this closely are a burst, once there are so many of them; what is
# unsent is at most so old and so large, as long as it goes on, and is sent this soon when it ends.
BURST_NS: Final = 20_000
BURST_BEGINS: Final = 8
BURST_AGE_NS: Final = 1 * _MS
BURST_SENDS: Final = 32
BURST_PAUSE_NS: Final = 200_000
BURST_BYTES: Final = 60_000
TAIL_NS: Final = TICK_NS
# An application that calls often reads the sockets now and then, so that nobody else has to.
ATTEND_NS: Final = 500_000
ATTEND_MANY_NS: Final = 5 * _MS


class Engine:
    """Runs one session; its methods may be called from any thread."""

    def __init__(self, session: Session) -> None:
        self.session: Final = session
        # Times tell when a message was sent, on other machines too; but a clock that is set
        # must not disturb timers. So this one begins with the wall clock and then goes its own way.
        self._epoch_ns: Final[i64] = time.time_ns() - time.monotonic_ns()
        # Held here, since it is asked for every message.
        self._monotonic_ns: Final[Callable[[], int]] = time.monotonic_ns
        self.lock = threading.Lock()
        self._acquire: Callable[[], object] = self.lock.acquire
        self._release: Callable[[], object] = self.lock.release
        # Called, with the lock held, when a message or room for one is there for those who wait
        # without a thread; what is called must not block.
        self.on_ready: Callable[[], None] | None = None
        self.wanted = False
        # Called after turns, with the lock held: not sooner after the last time than this, and at
        # least every hello period.
        self.on_turn: Callable[[int], None] | None = None
        self.on_turn_period_ns: i64 = 0
        self._on_turn_ns: i64 = 0
        self._member: Member | None = None
        self._sockets: Final = select.epoll()
        # Wakes a thread that reads the sockets; and the engine's own.
        self._leader_waker: Final = Waker()
        self._waker: Final = Waker()
        self._leading = False
        self._led_ns: i64 = -FOREVER
        self._turned_ns: i64 = -FOREVER
        self._followers: list[threading.Lock] = []
        self._room: Final[i64] = session.config.delivery_messages
        self._traffic_ns: i64 = -FOREVER
        # Since the engine's thread looked in.
        self._datagrams: i64 = 0
        # How many messages applications took, but for those that `_portion` counts.
        self._delivered: i64 = 0
        self._portion: Final = Portion()
        # When the engine's thread looks in by itself at the latest.
        self._sleeps_until_ns: i64 = 0
        self._sent_ns: i64 = 0
        self._burst: i64 = 0
        self._flushed_ns: i64 = 0
        self._unsent_bytes: i64 = 0
        # How large the message is that waits for room.
        self._next_bytes: i64 = 0
        self._closing = False
        self._own_thread: Final = threading.Thread(
            target=self._run, name=f"semcast {session.config.group}", daemon=True
        )
        for fileno in session.transport.filenos():
            self._sockets.register(fileno, select.EPOLLIN)
        self._sockets.register(self._leader_waker.fileno(), select.EPOLLIN)

    def now_ns(self) -> i64:
        """The time since 1970, but never set back or forward."""
        return self._monotonic_ns() + self._epoch_ns

    def until_ns(self, timeout: float | None) -> i64:
        """When so many seconds are over; None never is."""
        if timeout is None or timeout > _TIMEOUT_S_MAX:
            return FOREVER
        return self.now_ns() + i64(int(timeout * 1e9))

    @property
    def delivered(self) -> int:
        """How many messages applications took."""
        return self._delivered + self._portion.taken

    @property
    def closed(self) -> bool:
        """Whether it was stopped."""
        return self._closing

    def start(self) -> None:
        """Begin; from now on the member takes care of itself."""
        self._own_thread.start()

    # -- messages ----------------------------------------------------------------------------------

    def try_send(self, payload: bytes, replaces: Replaces) -> Message:
        """Send, or WindowFullError."""
        self._acquire()
        try:
            return self._send(payload, replaces)
        except WindowFullError:
            self._flush(self.now_ns())
            raise
        finally:
            self._release()

    def send(self, payload: bytes, replaces: Replaces, timeout: float | None) -> Message:
        """Send as soon as there is room; TimeoutError if there is none in time."""
        self._acquire()
        try:
            until_ns: i64 = 0
            while True:
                try:
                    return self._send(payload, replaces)
                except WindowFullError:
                    self._next_bytes = len(payload)
                    until_ns = until_ns or self.until_ns(timeout)
                    if not self._wait(self._has_room, until_ns):
                        raise TimeoutError(_no_room(self.session)) from None
        finally:
            self._release()

    def send_many(
        self, payloads: list[bytes], replaces: list[Replaces] | None, timeout: float | None
    ) -> int:
        """Send all of these; says how many, which is fewer only if there is no room in time."""
        sent: i64 = 0
        count: i64 = len(payloads)
        self._acquire()
        try:
            until_ns = self.until_ns(timeout)
            while True:
                sent += self._send_some(payloads, replaces, sent)
                if sent == count:
                    return sent
                self._next_bytes = len(payloads[sent])
                if not self._wait(self._has_room, until_ns):
                    return sent
        finally:
            self._release()

    def try_send_many(
        self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64
    ) -> int:
        """Send these from `start` on while there is room; says how many."""
        self._acquire()
        try:
            return self._send_some(payloads, replaces, start)
        finally:
            self._release()

    def try_receive(self) -> Message | None:
        """The next message, if there is one."""
        self._acquire()
        try:
            message = self._running().take_one(self.now_ns())
            if message is not None:
                self._delivered += 1
            return message
        finally:
            self._release()

    def receive(self, timeout: float | None) -> Message:
        """The next message; TimeoutError if there is none in time."""
        message = self._portion.next()
        if message is not None:
            return message
        self._acquire()
        try:
            member = self._running()
            now_ns = self.now_ns()
            if now_ns - self._turned_ns > ATTEND_NS:
                self._attend_taking(member, now_ns)
            message = self._portion.take(member, now_ns)
            if message is None:
                until_ns = self.until_ns(timeout)
            while message is None:
                if not self._wait(self._has_messages, until_ns):
                    raise TimeoutError("no message came in time")
                message = self._portion.take(member, self.now_ns())
            return message
        finally:
            self._release()

    def try_receive_many(self, messages_max: i64) -> list[Message]:
        """The messages that wait, at most so many."""
        self._acquire()
        try:
            taken = self._running().take(messages_max, self.now_ns())
            self._delivered += len(taken)
            return taken
        finally:
            self._release()

    def receive_many(self, messages_max: i64, timeout: float | None) -> list[Message]:
        """At least one message and at most so many; TimeoutError if there is none in time."""
        self._acquire()
        try:
            member = self._running()
            now_ns = self.now_ns()
            self._attend_taking(member, now_ns)
            taken = self._portion.rest(messages_max)
            if taken:
                return taken
            taken = member.take(messages_max, now_ns)
            if not taken:
                until_ns = self.until_ns(timeout)
            while not taken:
                if not self._wait(self._has_messages, until_ns):
                    raise TimeoutError("no message came in time")
                taken = member.take(messages_max, self.now_ns())
            self._delivered += len(taken)
            return taken
        finally:
            self._release()

    def wait_for(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Until `ready`, which is called with the lock held; False if it is not so in time."""
        with self.lock:
            return self._wait(ready, self.until_ns(timeout))

    def _attend(self) -> i64:
        """An application is here, so it takes turns: two threads would only be in each other's way.
        Says what time it is.
        """
        now_ns = self.now_ns()
        if self.on_ready is None:
            if now_ns - self._turned_ns > ATTEND_NS and not self._leading:
                self._turn(now_ns)
                if self._followers:
                    self._wake_followers()
            self._led_ns = now_ns
        return now_ns

    def _attend_taking(self, member: Member, now_ns: i64) -> None:
        """The same for an application that takes messages: as long as many wait for it, more of
        them are better off in the sockets, from where they need to be moved only once.
        """
        if self.on_ready is None:
            many = 2 * i64(member.deliverable()) > self._room
            patience_ns: i64 = ATTEND_MANY_NS if many else ATTEND_NS
            if now_ns - self._turned_ns > patience_ns and not self._leading:
                self._turn(now_ns)
                if self._followers:
                    self._wake_followers()
            self._led_ns = now_ns

    # -- sending -----------------------------------------------------------------------------------

    def _running(self) -> Member:
        member = self._member
        if member is None or self.session.ended is not None:
            raise self._ended()
        return member

    def _ended(self) -> Exception:
        return self.session.ended or GroupClosedError(
            f"{self.session.config.name} is not in {self.session.config.group!r} yet: "
            f"{self.session.roster.missing()}"
        )

    def _send(self, payload: bytes, replaces: Replaces) -> Message:
        now_ns = self.now_ns()
        message = self._running().multicast(payload, replaces, now_ns)
        self._sent(len(payload), now_ns)
        return message

    def _send_some(self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64) -> i64:
        now_ns = self.now_ns()
        accepted: i64 = self._running().multicast_many(payloads, replaces, start, now_ns)
        if accepted > 0:
            self._sent(accepted * len(payloads[start]), now_ns)
        if start + accepted < len(payloads):
            self._flush(now_ns)
        return accepted

    def _sent(self, size_bytes: i64, now_ns: i64) -> None:
        """So much was accepted: send it now, or together with what follows in a burst."""
        self._unsent_bytes += size_bytes
        pause_ns = now_ns - self._sent_ns
        if pause_ns > BURST_NS and (self._burst < BURST_SENDS or pause_ns > BURST_PAUSE_NS):
            self._burst = 0
            # By itself: at once, and then out of the way of those who are to receive it.
            self._flush(now_ns)
            self._sent_ns = self.now_ns()
            return
        # A burst goes on over a pause or two: the processor is not ours alone.
        self._burst = self._burst // 2 if pause_ns > BURST_NS else self._burst + 1
        if self._burst < BURST_BEGINS:
            # One that was held up and sends two or three at once is no burst: none has to wait.
            self._flush(now_ns)
            self._sent_ns = self.now_ns()
            return
        if self._unsent_bytes > BURST_BYTES or now_ns - self._flushed_ns > BURST_AGE_NS:
            self._flush(now_ns)
            now_ns = self._attend()
        elif self._sleeps_until_ns > now_ns + TAIL_NS:
            self._sleeps_until_ns = now_ns + TAIL_NS
            self._waker.wake()
        # What sending took is no pause of the application's.
        self._sent_ns = now_ns

    def _flush(self, now_ns: i64) -> None:
        session = self.session
        if session.next_deadline_ns() <= now_ns:
            session.on_timer(now_ns)
        session.flush(now_ns)
        self._unsent_bytes = 0
        self._flushed_ns = now_ns
        due_ns: i64 = session.next_deadline_ns()
        if due_ns < self._sleeps_until_ns and not self._leading:
            self._sleeps_until_ns = due_ns
            self._waker.wake()
        if self.session.config.deliver_own:
            self._tell()

    # -- waiting -----------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        if self.session.ended is not None or self._member is None:
            raise self._ended()
        return self._member.can_multicast(self._next_bytes) and not self.session.congested

    def _has_messages(self) -> bool:
        if self._member is None:
            raise self._ended()
        if self._member.deliverable() > 0:
            return True
        if self.session.ended is not None:
            raise self.session.ended
        return False

    def _wait(self, ready: Callable[[], bool], until_ns: i64) -> bool:
        """Wait with the lock held, which others may have meanwhile."""
        while not ready():
            now_ns: i64 = self.now_ns()
            if now_ns >= until_ns:
                return False
            if self._leading:
                self._follow(until_ns - now_ns)
            else:
                self._lead(now_ns, until_ns)
        if self._followers and not self._leading:
            # Somebody else has to read the sockets now.
            self._wake_followers()
        return True

    def _follow(self, wait_ns: i64) -> None:
        waiter = threading.Lock()
        waiter.acquire()
        self._followers.append(waiter)
        self.lock.release()
        try:
            waiter.acquire(timeout=min(int(wait_ns) / 1e9, threading.TIMEOUT_MAX))
        finally:
            self.lock.acquire()
            if waiter in self._followers:
                self._followers.remove(waiter)

    def _lead(self, now_ns: i64, until_ns: i64) -> None:
        """Read the sockets in place of the engine's thread, once."""
        session = self.session
        if self._unsent_bytes > 0:
            self._flush(now_ns)
        wait_ns: i64 = min(until_ns, session.next_deadline_ns()) - now_ns
        events: list[tuple[int, int]] = []
        self._leading = True
        self.lock.release()
        try:
            events = self._sockets.poll(max(int(wait_ns), 0) / 1e9)
        finally:
            self.lock.acquire()
            self._leading = False
            self._led_ns = now_ns = self.now_ns()
        if self._closing:
            return
        ready = [fileno for fileno, _ in events]
        if self._leader_waker.fileno() in ready:
            self._leader_waker.clear()
        self._turn(now_ns, ready)
        if self._followers:
            # They wait for something else, which may be there now.
            self._wake_followers()

    def _wake_followers(self) -> None:
        followers, self._followers = self._followers, []
        for waiter in followers:
            waiter.release()

    def _tell(self) -> None:
        """Whoever waits looks again. The leader, if there is one, is not us: it does not wait."""
        if self._followers:
            self._wake_followers()
        if self._leading:
            self._leader_waker.wake()
        if self.wanted and self.on_ready is not None:
            self.on_ready()

    # -- turns -------------------------------------------------------------------------------------

    def _turn(self, now_ns: i64, ready: list[int] | None = None) -> None:
        """Read the sockets that are ready, or all; do what is due; send what is to be sent."""
        session = self.session
        if ready is None or len(ready) > 0:
            datagrams: i64 = session.on_readable(now_ns, ready)
            if datagrams > 0:
                self._traffic_ns = now_ns
                self._datagrams += datagrams
        if session.next_deadline_ns() <= now_ns:
            session.on_timer(now_ns)
        session.flush(now_ns)
        self._unsent_bytes = 0
        self._flushed_ns = now_ns
        self._turned_ns = now_ns
        if self._member is None:
            self._member = session.member
        if now_ns >= self._on_turn_ns and self.on_turn is not None:
            self._on_turn_ns = now_ns + self.on_turn_period_ns
            self.on_turn(now_ns)

    def _run(self) -> None:
        """What the engine's own thread does."""
        waiting = select.epoll()
        waiting.register(self._sockets.fileno(), select.EPOLLIN)
        waiting.register(self._waker.fileno(), select.EPOLLIN)
        looking_in = select.poll()
        looking_in.register(self._waker.fileno(), select.POLLIN)
        try:
            while not self._closing:
                now_ns: i64 = self.now_ns()
                if self._leading or now_ns - self._led_ns < TICK_NS:
                    self._look_in(looking_in, now_ns)
                else:
                    self._read(waiting, now_ns)
        except Exception as error:
            # A bug of ours. A member that looks alive and is not would be the worst of all.
            with self.lock:
                self._fail(error)
            raise
        finally:
            waiting.close()

    def _fail(self, error: Exception) -> None:
        if self.session.ended is None:
            self.session.ended = GroupClosedError(
                f"the engine of {self.session.config.group!r} failed: {error!r}; join again"
            )
        self._tell()

    def _read(self, waiting: select.epoll, now_ns: i64) -> None:
        """Wait for the sockets, as long as nobody else does."""
        with self.lock:
            until_ns: i64 = self.session.next_deadline_ns()
            if self._unsent_bytes > 0:
                until_ns = min(until_ns, now_ns + TAIL_NS)
            self._sleeps_until_ns = until_ns
        events = waiting.poll(max(int(until_ns - now_ns), 0) / 1e9)
        with self.lock:
            for fileno, _ in events:
                if fileno == self._waker.fileno():
                    self._waker.clear()
            if self._closing or (self._leading and events):
                return
            self._leader_waker.clear()
            self._turn(self.now_ns())
            self._tell()

    def _look_in(self, looking_in: select.poll, now_ns: i64) -> None:
        """Somebody else reads the sockets; see to it that this remains so."""
        tick_ns: i64 = TICK_NS
        if self._leading and self._datagrams <= CALM_DATAGRAMS:
            idle = now_ns - self._traffic_ns > IDLE_AFTER_NS
            tick_ns = IDLE_TICK_NS if idle else CALM_TICK_NS
        self._datagrams = 0
        self._sleeps_until_ns = now_ns + tick_ns
        if looking_in.poll(int(tick_ns) / 1e6):
            self._waker.clear()
        now_ns = self.now_ns()
        with self.lock:
            if self._closing or self._leading:
                return
            if self._unsent_bytes > 0 or now_ns - self._led_ns >= TICK_NS:
                self._turn(now_ns)
                self._tell()

    # -- the end -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Leave the group and end the thread. What is not sent by now never will be."""
        with self.lock:
            if self._closing:
                return
            self._closing = True
            self.session.leave(self.now_ns())
            self._wake_followers()
            self._leader_waker.wake()
            if self.on_ready is not None:
                self.on_ready()
        self._waker.wake()
        if self._own_thread.is_alive() and self._own_thread is not threading.current_thread():
            self._own_thread.join()
        self._close()

    def after_fork(self) -> None:
        """In a forked child: this is another process's member, and not to be touched."""
        self.lock = threading.Lock()
        self._acquire, self._release = self.lock.acquire, self.lock.release
        self._closing = True
        self.session.ended = GroupClosedError(
            f"group {self.session.config.group!r} was joined by the parent process; "
            "a process that was forked has to join by itself"
        )
        self._close()

    def _close(self) -> None:
        self.session.close()
        self._sockets.close()
        self._waker.close()
        self._leader_waker.close()


def _no_room(session: Session) -> str:
    return (
        f"no room to send in time: {session.config.window_messages} messages wait for slow "
        "members and none is replaced"
    )
