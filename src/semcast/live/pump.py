"""The pump: turns, and the threads that take them. A session goes in; it is kept going.

A *turn* is: read the sockets, do what is due, send what is to be sent. Any thread that holds the
lock may take one: mostly the engine's own, so that an application that sleeps or computes does not
stop its member from acknowledging, repairing and purging; but a thread that waits for a message
takes turns itself, so that a message needs one wake-up, not two (leader and followers). Meanwhile
the engine's thread only looks in now and then. Where messages come in quick succession it does not
even fall asleep between them. An application that comes back soon gets what was read before the
rest of the turn is done: it is done when it is back, or by the engine's thread.
"""

import select
import threading
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError
from semcast.live.burst import ALONE, ENOUGH, GATHER, TAIL_NS, Burst
from semcast.live.clock import FOREVER, Clock
from semcast.live.patience import PAUSE_NS, USUAL_NS, Patience
from semcast.live.session import Session
from semcast.live.waker import Waker
from semcast.live.watch import Watch

_MS: Final = 1_000_000
# An application that calls often reads the sockets now and then, so that nobody else has to: most
# often when it receives, or sends as much as it can. One that pauses between sends leaves it to the
# engine's thread, which has the time of the pause, and is sooner out of the receivers' way.
ATTEND_NS: Final = 500_000
ATTEND_ALONE_NS: Final = 4 * _MS
# It leaves whatever is due to that thread, too, which looks more often than this.
LATE_NS: Final = 4 * USUAL_NS
# One that was away no longer than this will be back as soon, and what is due can wait for it.
SOON_NS: Final = 500_000
# One that had to wait so long for a datagram is not behind: nothing had come before.
CALM_NS: Final = 20_000
# One that has waited for so long has nothing else to do.
IDLE_NS: Final = 200 * _MS
# File descriptors that `select` knows.
_SELECTED_MAX: Final = 1024
# What a datagram takes of a socket's room besides its own bytes.
_AROUND_BYTES: Final = 1024


@final
class Pump:
    """Keeps one session going. But for `start` and `stop`, callers hold the lock."""

    def __init__(self, session: Session, clock: Clock) -> None:
        self.lock = threading.Lock()
        # Called when a message or room for one is there for those who wait without a thread; what
        # is called must not block, nor hold the group, which is to leave once nobody holds it.
        self.on_ready: Callable[[], None] | None = None
        self.wanted = False
        # Called after turns: not sooner after the last time than this, and at least every hello
        # period.
        self.on_turn: Callable[[int], None] | None = None
        self.on_turn_period_ns: i64 = 0
        self.closing = False
        self._stopped = False
        self._session: Final = session
        self._clock: Final = clock
        self._burst: Final = Burst()
        self._patience: Final = Patience(session.transport.receive_buffer_bytes)
        self._watch: Final = Watch(session.config.spin_us * 1000, clock)
        self._on_turn_ns: i64 = 0
        self._sockets: Final = select.epoll()
        # Wakes a thread that reads the sockets; and the engine's own.
        self._leader_waker: Final = Waker()
        self._waker: Final = Waker()
        self._followers: list[threading.Lock] = []
        self._leading = False
        # When anybody last read the sockets.
        self._read_ns: i64 = -FOREVER
        # When whoever waits last stopped waiting, and whether it was soon back.
        self._left_ns: i64 = -FOREVER
        self._soon_back = False
        # Whether a turn was begun whose rest is still to be done.
        self._owing = False
        # Whether the engine's thread only looks in.
        self._looking_in = False
        self._own_thread: Final = threading.Thread(
            target=self._run, name=f"semcast {session.config.group}", daemon=True
        )
        self._filenos: Final = [*session.transport.filenos(), self._leader_waker.fileno()]
        for fileno in self._filenos:
            self._sockets.register(fileno, select.EPOLLIN)
        # Only of these can one be told of in microseconds; see `_doze`.
        self._dozes: Final = max(self._filenos) < _SELECTED_MAX

    def start(self) -> None:
        """Begin; from now on the member takes care of itself."""
        self._own_thread.start()

    # -- an application is here --------------------------------------------------------------------

    def accepted(self, size_bytes: i64, now_ns: i64) -> None:
        """So much was accepted for sending: send it now, or together with what follows."""
        what = self._burst.accepted(size_bytes, now_ns)
        if what == GATHER:
            self._waker.wake_by(now_ns + TAIL_NS)
        else:
            waits_here = self.on_ready is None
            rested = what == ALONE and waits_here and self._patience.came(now_ns)
            self.flush(now_ns, LATE_NS if rested else 0)
            now_ns = self._clock.now_ns()
            if rested:
                self._patience.stays(now_ns)
            else:
                self.attend(now_ns, ATTEND_NS if what == ENOUGH else ATTEND_ALONE_NS)
        self._burst.done(now_ns)

    def flush(self, now_ns: i64, late_ns: i64 = 0) -> None:
        """Send what is to be sent; messages go before whatever else is due, and what is not late by
        so much is left to the engine's thread.
        """
        session = self._session
        session.flush(now_ns)
        self._burst.flushed(now_ns)
        due_ns: i64 = session.next_deadline_ns()
        if due_ns <= now_ns - late_ns:
            session.on_timer(now_ns)
            session.flush(now_ns)
            due_ns = session.next_deadline_ns()
        if not self._leading and not self._looking_in:
            self._waker.wake_by(due_ns)
        if session.config.deliver_own:
            self._tell()

    def attend(self, now_ns: i64, patience_ns: i64) -> None:
        """It takes turns itself, unless the sockets were read so recently: two threads would only
        be in each other's way.
        """
        if self.on_ready is None:
            if now_ns - self._read_ns > patience_ns and not self._leading:
                # Mostly there is nothing, and to ask the sockets one by one is dear. But if there
                # is anything, all of it is read: nobody comes back for the rest.
                self._read_in(now_ns, None if self._sockets.poll(0, 1) else [])
                self._settle(now_ns)
                if self._followers:
                    self._wake_followers()
            self._patience.stays(now_ns)

    def wait(self, ready: Callable[[], bool], until_ns: i64) -> bool:
        """Until `ready`; False if it is not so in time. Others may have the lock meanwhile."""
        waiting = False
        while not ready():
            now_ns: i64 = self._clock.now_ns()
            if now_ns >= until_ns:
                return False
            if not waiting:
                waiting = True
                self._soon_back = now_ns - self._left_ns < SOON_NS
            if self._leading:
                self._follow(until_ns - now_ns)
            elif self._owing or self._burst.unsent_bytes > 0:
                self._settle(now_ns)
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
        wait_ns: i64 = min(until_ns, self._session.next_deadline_ns()) - now_ns
        began_ns = now_ns
        ready: list[int] = []
        self._leading = True
        self.lock.release()
        try:
            ready = self._await_ready(now_ns, now_ns + wait_ns)
        finally:
            self.lock.acquire()
            self._leading = False
            self._left_ns = now_ns = self._clock.now_ns()
            if ready:
                self._patience.came(now_ns)
            else:
                self._patience.stays(now_ns)
        if self.closing:
            if self._stopped:
                self._close()
            return
        if self._leader_waker.fileno() in ready:
            self._leader_waker.clear()
        self._read_in(now_ns, ready, calm=now_ns - began_ns >= CALM_NS)
        has_messages = self._has_messages()
        if has_messages:
            self._watch.came(now_ns - began_ns, now_ns)
        if self._soon_back and has_messages:
            self._owing = True
        else:
            self._settle(now_ns)
        if self._followers:
            # They wait for something else, which may be there now.
            self._wake_followers()

    def _await_ready(self, now_ns: i64, until_ns: i64) -> list[int]:
        """What can be read, by then at the latest; awake when something is expected."""
        ready: list[int] = []
        begins_ns = self._watch.begins_ns(now_ns)
        if begins_ns < until_ns and (self._dozes or begins_ns == now_ns):
            if begins_ns > now_ns:
                ready = self._doze(begins_ns - now_ns)
                now_ns = self._clock.now_ns()
            if not ready:
                ready = self._watch.watch(self._look, now_ns, until_ns)
                now_ns = self._clock.now_ns()
        return ready or self._poll(until_ns - now_ns)

    def _doze(self, wait_ns: i64) -> list[int]:
        """Sleep, to some microseconds, while `_poll` sleeps for whole milliseconds."""
        return select.select(self._filenos, [], [], int(wait_ns) / 1e9)[0]

    def _look(self) -> list[int]:
        return self._poll(0)

    def _poll(self, wait_ns: i64) -> list[int]:
        # Without a number Python makes room for a thousand events in each call.
        events = self._sockets.poll(max(int(wait_ns), 0) / 1e9, len(self._filenos))
        return [fileno for fileno, _ in events]

    def _has_messages(self) -> bool:
        member = self._session.member
        return member is not None and member.deliverable() > 0

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

    def _turn(self, now_ns: i64, ready: list[int] | None) -> None:
        self._read_in(now_ns, ready)
        self._settle(now_ns)

    def _read_in(self, now_ns: i64, ready: list[int] | None, calm: bool = False) -> None:
        """Read the sockets that are ready, or all."""
        self._read_ns = now_ns
        if ready is None or len(ready) > 0:
            self._session.on_readable(now_ns, ready, calm)

    def _settle(self, now_ns: i64) -> None:
        """Do what is due; send what is to be sent."""
        session = self._session
        if session.next_deadline_ns() <= now_ns:
            session.on_timer(now_ns)
        session.flush(now_ns)
        self._owing = False
        self._burst.flushed(now_ns)
        if now_ns >= self._on_turn_ns and self.on_turn is not None:
            self._on_turn_ns = now_ns + self.on_turn_period_ns
            self.on_turn(now_ns)

    # -- the engine's own thread -------------------------------------------------------------------

    def _run(self) -> None:
        waiting = select.poll()
        for fileno in (*self._session.transport.filenos(), self._waker.fileno()):
            waiting.register(fileno, select.POLLIN)
        try:
            while not self.closing:
                now_ns: i64 = self._clock.now_ns()
                if self._leading or self._patience.away_ns(now_ns) < self._patience.ns:
                    self._look_in(now_ns)
                else:
                    self._read(waiting, now_ns)
        except Exception as error:
            # A bug of ours. A member that looks alive and is not would be the worst of all.
            with self.lock:
                self._fail(error)
            raise

    def _fail(self, error: Exception) -> None:
        group = self._session.config.group
        self._session.end(f"the engine of {group!r} failed: {error!r}; join again")
        self._tell()

    def _read(self, waiting: select.poll, now_ns: i64) -> None:
        """Wait for the sockets, as long as nobody else does."""
        with self.lock:
            until_ns: i64 = self._session.next_deadline_ns()
            if self._burst.unsent_bytes > 0:
                until_ns = min(until_ns, now_ns + TAIL_NS)
            self._waker.sleeps_until_ns = until_ns
        events = waiting.poll(max(int(until_ns - now_ns), 0) / 1e6)
        with self.lock:
            for fileno, _ in events:
                if fileno == self._waker.fileno():
                    self._waker.clear()
            if self.closing or (self._leading and events):
                return
            now_ns = self._clock.now_ns()
            if not events and not self._is_due(now_ns):
                return  # it was put off
            self._leader_waker.clear()
            self._turn(now_ns, None)
            self._tell()

    def _is_due(self, now_ns: i64) -> bool:
        unsent = self._owing or self._burst.unsent_bytes > 0
        return unsent or self._session.next_deadline_ns() <= now_ns

    def _look_in(self, now_ns: i64) -> None:
        """Somebody else reads the sockets; see to it that this remains so."""
        until_ns = self._patience.look_ns(now_ns, self._leading)
        self._waker.sleeps_until_ns = until_ns
        self._looking_in = True
        self._waker.nap(until_ns - now_ns)
        self._looking_in = False
        now_ns = self._clock.now_ns()
        self._looked(now_ns)
        if self._is_attended(now_ns):
            return  # and the lock was left to those who need it
        with self.lock:
            if not self.closing and not self._is_attended(now_ns):
                self._turn(now_ns, None)
                self._tell()

    def _looked(self, now_ns: i64) -> None:
        away_ns = self._patience.away_ns(now_ns)
        if self._leading:
            attentive = self._soon_back or away_ns > IDLE_NS
        else:
            attentive = away_ns < PAUSE_NS and now_ns - self._read_ns < USUAL_NS
        counters = self._session.transport.counters
        came_bytes: i64 = counters["bytes_in"] + counters["datagrams_in"] * _AROUND_BYTES
        self._patience.looked(now_ns, attentive, self._burst.goes_on, came_bytes)

    def _is_attended(self, now_ns: i64) -> bool:
        unsent = self._burst.unsent_bytes > 0
        return self._leading or not (unsent or now_ns - self._read_ns >= self._patience.ns)

    # -- the end -----------------------------------------------------------------------------------

    def stop(self) -> None:
        """Leave the group and end the thread. What is not sent by now never will be."""
        with self.lock:
            if self.closing:
                return
            self.closing = True
            self._session.leave(self._clock.now_ns())
            self._wake_followers()
            self._leader_waker.wake()
            if self.on_ready is not None:
                self.on_ready()
        self._waker.wake()
        if self._own_thread.is_alive() and self._own_thread is not threading.current_thread():
            self._own_thread.join()
        with self.lock:
            self._stopped = True
            # Who is about to wait for the sockets must find them; it was woken, and closes them.
            if not self._leading:
                self._close()

    def after_fork(self) -> None:
        """In a forked child: this is another process's member, and not to be touched."""
        self.lock = threading.Lock()
        self.closing = True
        session = self._session
        session.ended = GroupClosedError(
            f"group {session.config.group!r} was joined by the parent process; "
            "a process that was forked has to join by itself"
        )
        session.may_take = False
        self._close()

    def _close(self) -> None:
        self._session.close()
        self._sockets.close()
        self._waker.close()
        self._leader_waker.close()
