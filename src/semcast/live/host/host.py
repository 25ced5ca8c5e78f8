"""The host: one lock, one thread and one wait for all groups of a process. Seats go in, and each
is kept going.

A *turn* reads the sockets that are ready, does what is due and sends what is to be sent. Any thread
that holds the lock may take one. The engine's own thread does when no application does, so that an
application that sleeps or computes does not stop its members from acknowledging, repairing and
purging. While applications take turns themselves (`attendance`), it only looks in now and then.
"""

import threading
from collections.abc import Callable
from typing import Final, cast, final

from mypy_extensions import i64

from semcast.live.host import timing
from semcast.live.host.attendance import Attendance
from semcast.live.host.seat import Seat
from semcast.live.host.waiting import Action, Input
from semcast.live.sockets.ports import Ports


@final
class Host(Attendance):
    """Keeps seats going. Callers hold the lock, except for `start`, `leave` and `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.ports: Final = Ports()
        # How many groups have a seat here, or are about to take one; see `hosting`.
        self.claims = 0
        # Whether its thread has failed, so that it can look after no group any more.
        self.broken = False
        # The seats that were not left yet.
        self._seats: Final[dict[Seat, None]] = {}
        self._ending = False
        self._started = False
        self._own_thread: Final = threading.Thread(target=self._run, name="semcast", daemon=True)

    # -- seats -------------------------------------------------------------------------------------

    def add(self, seat: Seat) -> None:
        """Look after this seat, as soon as the thread is started."""
        self._seats[seat] = None
        self._turns.add(seat)
        self._attention.fit(seat.session.transport.receive_buffer_bytes)
        if self._looking_in or self._started:
            self._waker.wake()  # it has to know when this seat is due

    def start(self) -> None:
        """Begin; from now on members take care of themselves."""
        with self.lock:
            if self._started or self._ending:
                return
            self._started = True
            self._own_thread.start()

    def notify(self, seat: Seat, on_ready: Callable[[], None]) -> None:
        """Its application waits in an event loop, and is called; see `Seat.on_ready`."""
        if seat.on_ready is None and not seat.closing:
            self._unthreaded += 1
        seat.on_ready = on_ready

    def fail(self, seat: Seat, error: Exception) -> None:
        """End this seat; the others go on."""
        self._turns.fail(seat, error)
        self._wake_waiting(seat)

    def leave(self, seat: Seat) -> None:
        """Leave the group, once, and wake the threads that wait for it."""
        with self.lock:
            seat.closing = True
            self._seats.pop(seat, None)
            self._forget(seat)
            try:
                seat.session.leave(self.clock.now_ns())
            finally:
                # A leader that poll has just told of these sockets finds no seat for them.
                self._turns.remove(seat)
                if seat.on_ready is not None:
                    self._unthreaded -= 1
                    seat.wanted = True
                self._wake_waiting(seat)
                seat.session.close()

    def leave_all(self) -> None:
        """Leave all groups that were not left."""
        for seat in list(self._seats):
            self.leave(seat)

    # -- the engine's own thread -------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._ending:
                now_ns: i64 = self.clock.now_ns()
                found = Input.NEAR if self._is_near(now_ns) else Input.FAR
                if self._place.answer(found) is Action.LOOK_IN:
                    self._look_in(now_ns)
                else:
                    self._stand_in(now_ns)
        except Exception as error:
            # This is a bug of ours that concerns no single seat, so all of them end.
            with self.lock:
                self.broken = True
                for seat in list(self._turns.seats):
                    self.fail(seat, error)
            raise

    def _is_near(self, now_ns: i64) -> bool:
        """Whether an application will read the sockets soon, and nobody needs it sooner."""
        if self._unthreaded > 0 and not self._place.is_kept(now_ns):
            return False
        return self._attention.away_ns(now_ns) < self._attention.allowed_ns

    def _stand_in(self, now_ns: i64) -> None:
        """Wait at the sockets, as long as no application does."""
        with self.lock:
            if self._place.is_kept_in_vain(now_ns):
                self._place.give_up()
                if self._pass_on():
                    return
            until_ns = self._turns.first_due_ns()
            self._waker.sleeps_until_ns = until_ns
        ready = self._inlets.stand_in(until_ns - now_ns)
        self.lock.insist()
        try:
            if self._waker.fileno() in ready:
                self._waker.clear()
            now_ns = self.clock.now_ns()
            if self._ending or (not ready and self._turns.first_due_ns() > now_ns):
                return  # what was due has been put off
            if self._place.step(Input.READY if ready else Input.DUE) is Action.TAKE_TURN:
                self._leader_waker.clear()
                self._turns.read_in(now_ns, ready, False)
                self._end_turn(now_ns, None)
        finally:
            self.lock.release()

    def _look_in(self, now_ns: i64) -> None:
        """Sleep while applications read the sockets; then see whether they still do."""
        until_ns = self._attention.look_ns(now_ns, self._place.leader is not None)
        until_ns = self._place.look_ns(until_ns, now_ns)
        self._waker.sleeps_until_ns = until_ns
        self._looking_in = True
        self._waker.nap(until_ns - now_ns)
        self._looking_in = False
        now_ns = self.clock.now_ns()
        self._looked(now_ns)
        if self._place.answer(self._finding(now_ns)) is Action.NOTHING:
            return  # and the lock was left to those who need it
        self.lock.insist()
        try:
            self._intervene(now_ns)
        finally:
            self.lock.release()

    def _intervene(self, now_ns: i64) -> None:
        found = self._finding(now_ns)
        action = self._place.give_up() if found is Input.KEPT_IN_VAIN else self._place.step(found)
        if action is Action.PASS_ON:
            self._pass_on()
        elif action is not Action.NOTHING and not self._ending:
            if action is Action.TAKE_TURN:
                self._turns.read_in(now_ns, self._inlets.look(), False)
            if self._gathering is not None:
                self._turns.activate(self._gathering)
                self._gathering = None
            self._end_turn(now_ns, None)

    def _looked(self, now_ns: i64) -> None:
        """Let what was found decide when to look next."""
        here, leader = self._here, self._place.leader
        away_ns = self._attention.away_ns(now_ns)
        unread_ns = now_ns - self._turns.read_ns
        if leader is not None:
            attentive = cast(Seat, leader).soon_back or away_ns > timing.IDLE_NS
        else:
            attentive = away_ns < timing.PAUSE_NS and unread_ns < timing.AWAY_USUAL_NS
        busy = here is not None and here.burst.goes_on
        self._attention.looked(now_ns, attentive, busy, self._turns.came_bytes)

    def _finding(self, now_ns: i64) -> Input:
        """What the engine's thread finds when it looks in."""
        if self._place.is_kept_in_vain(now_ns):
            return Input.KEPT_IN_VAIN
        gathering = self._gathering
        if gathering is not None and gathering.burst.unsent_bytes > 0:
            return Input.NEGLECTED
        if self._place.leader is not None:
            # A leader does not know of what became due since it began to wait.
            attended = self._turns.known_due_ns > now_ns - timing.AWAY_USUAL_NS
        else:
            attended = now_ns - self._turns.read_ns < self._attention.allowed_ns
        return Input.ATTENDED if attended else Input.NEGLECTED

    # -- the end -----------------------------------------------------------------------------------

    def end(self) -> None:
        """End the thread and close everything, after all seats were left."""
        with self.lock:
            self._ending = True
        self._waker.wake()
        self._leader_waker.wake()
        if self._own_thread.is_alive() and self._own_thread is not threading.current_thread():
            self._own_thread.join()
        with self.lock:
            self._ended = True
            # A thread may be about to poll these sockets. We wake it and let it close them, so that
            # it never polls a closed descriptor, which may be another file by then.
            if self._place.leader is None:
                self._close()
            else:
                self._leader_waker.wake()

    def after_fork(self) -> None:
        """In a forked child the members are the parent's: close what is ours, and touch nothing."""
        self.lock.renew()
        self._ending = True
        self.ports.renew()
        for seat in self._seats:
            seat.disown()
        self._place.leader_is_back()
        self._close()
