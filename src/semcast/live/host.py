"""The host: one lock, one thread and one wait for all groups of a process. Seats go in; each is
kept going.

A *turn* is: read the sockets that are ready, do what is due, send what is to be sent. Any thread
that holds the lock may take one: mostly the engine's own, so that an application that sleeps or
computes does not stop its members from acknowledging, repairing and purging; but a thread that
waits for a message of any group takes turns itself, for all of them, so that a message needs one
wake-up, not two (leader and followers). Meanwhile the engine's thread only looks in now and then.
Where messages come in quick succession it does not even fall asleep between them. An application
that comes back soon gets what was read before the rest of the turn is done: it is done when it is
back, or by whoever takes a turn next.
"""

import threading
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError
from semcast.live.burst import ALONE, ENOUGH, GATHER, TAIL_NS
from semcast.live.clock import Clock
from semcast.live.fair_lock import FairLock
from semcast.live.followers import Followers
from semcast.live.inlets import Inlets
from semcast.live.patience import PAUSE_NS, USUAL_NS, Patience
from semcast.live.ports import Ports
from semcast.live.seat import Seat
from semcast.live.turns import Turns
from semcast.live.waker import Waker

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


@final
class Host:
    """Keeps seats going. But for `start`, `leave` and `end`, callers hold the lock."""

    def __init__(self) -> None:
        self.lock: Final = FairLock()
        self.clock: Final = Clock()
        self.ports: Final = Ports()
        # How many groups have a seat here, or are about to take one; see `hosting`.
        self.claims = 0
        # Those that were not left yet.
        self._seats: Final[dict[Seat, None]] = {}
        # Wakes a thread that reads the sockets; and the engine's own.
        self._leader_waker: Final = Waker()
        self._waker: Final = Waker()
        self._inlets: Final = Inlets(self._leader_waker, self._waker, self.clock)
        self._turns: Final = Turns(self._inlets)
        self._patience: Final = Patience()
        # The seat of the thread that reads the sockets; and the threads that wait meanwhile.
        self._leader: Seat | None = None
        self._followers: Final = Followers()
        # How many seats have applications that wait without a thread.
        self._unthreaded = 0
        # The seat of the application that was here last; and the last one that gathers sends.
        self._here: Seat | None = None
        self._gathering: Seat | None = None
        # Whether the engine's thread only looks in.
        self._looking_in = False
        self._ending = False
        self._ended = False
        self._own_thread: Final = threading.Thread(target=self._run, name="semcast", daemon=True)
        self._started = False

    # -- seats -------------------------------------------------------------------------------------

    def add(self, seat: Seat) -> None:
        """Look after this one, as soon as the thread is started."""
        self._seats[seat] = None
        self._turns.add(seat)
        self._patience.fit(seat.session.transport.receive_buffer_bytes)
        if self._looking_in or self._started:
            self._waker.wake()  # it has to know when this one is due

    def start(self) -> None:
        """Begin; from now on members take care of themselves."""
        with self.lock:
            if self._started or self._ending:
                return
            self._started = True
            self._own_thread.start()

    def notify(self, seat: Seat, on_ready: Callable[[], None]) -> None:
        """Its application waits without a thread, and is called instead; see `Seat.on_ready`."""
        if seat.on_ready is None and not seat.closing:
            self._unthreaded += 1
        seat.on_ready = on_ready

    def fail(self, seat: Seat, error: Exception) -> None:
        """End this seat; the others go on."""
        self._turns.fail(seat, error)
        self._tell(seat)

    def leave(self, seat: Seat) -> None:
        """Leave the group, once. Threads that wait for it are told."""
        with self.lock:
            seat.closing = True
            self._seats.pop(seat, None)
            try:
                seat.session.leave(self.clock.now_ns())
            finally:
                # A leader that has just been told of these sockets finds nobody there.
                self._turns.remove(seat)
                if seat.on_ready is not None:
                    self._unthreaded -= 1
                    seat.wanted = True
                self._tell(seat)
                seat.session.close()

    def leave_all(self) -> None:
        """Leave all groups that were not left."""
        for seat in list(self._seats):
            self.leave(seat)

    # -- an application is here --------------------------------------------------------------------

    def accepted(self, seat: Seat, size_bytes: i64, now_ns: i64) -> None:
        """So much was accepted for sending: send it now, or together with what follows."""
        self._here = seat
        what = seat.burst.accepted(size_bytes, now_ns)
        if what == GATHER:
            if seat.gather(now_ns):
                self._gathering = seat
                self._turns.put(seat, min(seat.due_ns, now_ns + TAIL_NS))
            self._waker.wake_by(now_ns + TAIL_NS)
        else:
            waits_here = seat.on_ready is None
            rested = what == ALONE and waits_here and self._patience.came(now_ns)
            self.flush(seat, now_ns, LATE_NS if rested else 0)
            now_ns = self.clock.now_ns()
            if rested:
                self._patience.stays(now_ns)
            else:
                self.attend(seat, now_ns, ATTEND_NS if what == ENOUGH else ATTEND_ALONE_NS)
        seat.burst.done(now_ns)

    def flush(self, seat: Seat, now_ns: i64, late_ns: i64 = 0) -> None:
        """Send what is to be sent; messages go before whatever else is due, and what is not late by
        so much is left to the engine's thread.
        """
        session = seat.session
        seat.flush(now_ns)
        due_ns: i64 = session.next_deadline_ns()
        if due_ns <= now_ns - late_ns:
            session.on_timer(now_ns)
            session.flush(now_ns)
            due_ns = session.next_deadline_ns()
        self._turns.put(seat, due_ns)
        if self._leader is None:
            if not self._looking_in:
                self._waker.wake_by(due_ns)
        elif self._leader is not seat:
            # The leader waits for another group, and perhaps for long.
            self._leader_waker.wake_by(due_ns)
        if session.config.deliver_own:
            self._tell(seat)

    def attend(self, seat: Seat, now_ns: i64, patience_ns: i64) -> None:
        """It takes turns itself, unless the sockets were read so recently: two threads would only
        be in each other's way.
        """
        self._here = seat
        if seat.on_ready is None:
            if now_ns - self._turns.read_ns > patience_ns and self._leader is None:
                # Mostly there is nothing, and to ask the sockets one by one is dear.
                self._turns.read_in(now_ns, self._inlets.look(), False)
                self._turns.activate(seat)
                self._end_turn(now_ns, None)
            self._patience.stays(now_ns)
        self._turns.outdate(seat)

    def wait(self, seat: Seat, ready: Callable[[], bool], until_ns: i64) -> bool:
        """Until `ready`; False if it is not so in time. Others may have the lock meanwhile."""
        waiting = False
        try:
            while not ready():
                now_ns: i64 = self.clock.now_ns()
                if now_ns >= until_ns:
                    return False
                if seat.closing and seat.session.ended is not None:
                    raise seat.session.ended
                if not waiting:
                    waiting = True
                    seat.soon_back = now_ns - seat.left_ns < SOON_NS
                if self._leader is not None:
                    self._follow(seat, until_ns - now_ns)
                elif seat.seated and (seat.owing or seat.burst.unsent_bytes > 0):
                    self._turns.settle(seat, now_ns)
                else:
                    self._lead(seat, now_ns, until_ns)
            return True
        finally:
            if waiting and self._leader is None:
                self._hand_over()

    def _follow(self, seat: Seat, wait_ns: i64) -> None:
        waiter = self._followers.add(seat)
        self.lock.release()
        try:
            waiter.acquire(timeout=min(int(wait_ns) / 1e9, threading.TIMEOUT_MAX))
        finally:
            self.lock.insist()
            self._followers.remove(seat, waiter)

    def _lead(self, seat: Seat, now_ns: i64, until_ns: i64) -> None:
        """Read the sockets in place of the engine's thread, once."""
        began_ns = now_ns
        until_ns = min(until_ns, self._turns.first_due_ns())
        ready: list[int] = []
        self._here = self._leader = seat
        self._leader_waker.sleeps_until_ns = until_ns
        self.lock.release()
        try:
            ready = self._inlets.await_ready(seat.watch, now_ns, until_ns)
        finally:
            self.lock.insist()
            self._leader = None
            seat.left_ns = now_ns = self.clock.now_ns()
            if ready:
                self._patience.came(now_ns)
            else:
                self._patience.stays(now_ns)
        if self._ended:
            self._close()
            return
        if self._leader_waker.fileno() in ready:
            self._leader_waker.clear()
        self._turns.read_in(now_ns, ready, now_ns - began_ns >= CALM_NS)
        has_messages = seat.has_messages()
        if has_messages:
            seat.watch.came(now_ns - began_ns, now_ns)
        self._turns.activate(seat)
        seat.owing = seat.soon_back and has_messages
        self._end_turn(now_ns, seat if seat.owing else None)

    def _hand_over(self) -> None:
        """Nobody reads the sockets any more. One of those who let another do it has to now, or the
        engine's thread for those who wait without one.
        """
        if not self._followers.wake_one() and self._unthreaded > 0 and self._looking_in:
            self._waker.wake()

    def _end_turn(self, now_ns: i64, owing: Seat | None) -> None:
        for seat in self._turns.end(now_ns, owing):
            self._tell(seat)

    def _tell(self, seat: Seat) -> None:
        """Whoever waits for this group looks again."""
        if seat.followers:
            self._followers.wake(seat)
        if self._leader is seat:
            self._leader_waker.wake()
        if seat.wanted and seat.on_ready is not None:
            seat.on_ready()

    # -- the engine's own thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending:
                now_ns: i64 = self.clock.now_ns()
                if self._leader is not None or self._is_near(now_ns):
                    self._look_in(now_ns)
                else:
                    self._read(now_ns)
        except Exception as error:
            # A bug of ours, and of no one seat.
            with self.lock:
                for seat in list(self._turns.seats):
                    self.fail(seat, error)
            raise

    def _is_near(self, now_ns: i64) -> bool:
        """Whether an application will read the sockets soon, and nobody needs it sooner."""
        return self._unthreaded == 0 and self._patience.away_ns(now_ns) < self._patience.ns

    def _read(self, now_ns: i64) -> None:
        """Wait for the sockets, as long as nobody else does."""
        with self.lock:
            until_ns = self._turns.first_due_ns()
            self._waker.sleeps_until_ns = until_ns
        ready = self._inlets.wait(until_ns - now_ns)
        self.lock.insist()
        try:
            if self._waker.fileno() in ready:
                self._waker.clear()
            if self._ending or (self._leader is not None and ready):
                return
            now_ns = self.clock.now_ns()
            if not ready and self._turns.first_due_ns() > now_ns:
                return  # it was put off
            self._leader_waker.clear()
            self._turns.read_in(now_ns, ready, False)
            self._end_turn(now_ns, None)
        finally:
            self.lock.release()

    def _look_in(self, now_ns: i64) -> None:
        """Somebody else reads the sockets; see to it that this remains so."""
        until_ns = self._patience.look_ns(now_ns, self._leader is not None)
        self._waker.sleeps_until_ns = until_ns
        self._looking_in = True
        self._waker.nap(until_ns - now_ns)
        self._looking_in = False
        now_ns = self.clock.now_ns()
        self._looked(now_ns)
        if self._is_attended(now_ns):
            return  # and the lock was left to those who need it
        self.lock.insist()
        try:
            if not self._ending and not self._is_attended(now_ns):
                if self._leader is None:
                    self._turns.read_in(now_ns, self._inlets.look(), False)
                if self._gathering is not None:
                    self._turns.activate(self._gathering)
                    self._gathering = None
                self._end_turn(now_ns, None)
        finally:
            self.lock.release()

    def _looked(self, now_ns: i64) -> None:
        here = self._here
        away_ns = self._patience.away_ns(now_ns)
        if self._leader is not None:
            attentive = self._leader.soon_back or away_ns > IDLE_NS
        else:
            attentive = away_ns < PAUSE_NS and now_ns - self._turns.read_ns < USUAL_NS
        busy = here is not None and here.burst.goes_on
        self._patience.looked(now_ns, attentive, busy, self._turns.came_bytes)

    def _is_attended(self, now_ns: i64) -> bool:
        gathering = self._gathering
        if gathering is not None and gathering.burst.unsent_bytes > 0:
            return False
        if self._leader is not None:
            # It does not know of what came to be due since it began to wait.
            return self._turns.known_due_ns > now_ns - USUAL_NS
        return now_ns - self._turns.read_ns < self._patience.ns

    # -- the end -----------------------------------------------------------------------------------

    def end(self) -> None:
        """All seats were left: end the thread, and let go of everything."""
        with self.lock:
            self._ending = True
        self._waker.wake()
        self._leader_waker.wake()
        if self._own_thread.is_alive() and self._own_thread is not threading.current_thread():
            self._own_thread.join()
        with self.lock:
            self._ended = True
            # A thread may be about to wait for these sockets. It was woken, and closes them, so
            # that nobody ever waits for a number that is somebody else's by then.
            if self._leader is None:
                self._close()
            else:
                self._leader_waker.wake()

    def after_fork(self) -> None:
        """In a forked child: these are another process's members, and not to be touched."""
        self.lock.renew()
        self._ending = True
        self.ports.renew()
        for seat in self._seats:
            session = seat.session
            seat.closing = True
            seat.seated = False
            session.ended = GroupClosedError(
                f"group {session.config.group!r} was joined by the parent process; "
                "a process that was forked has to join by itself"
            )
            session.may_take = False
            session.close()
        self._leader = None
        self._close()

    def _close(self) -> None:
        self._inlets.close()
        self._waker.close()
        self._leader_waker.close()
