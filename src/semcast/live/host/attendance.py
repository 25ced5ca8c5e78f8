"""Attendance: what applications do at a host, from any thread: they send, read, and wait.

A thread that waits for a message of any group takes turns itself, for all of them, so that a
message needs one wake-up, not two: it is the leader, and other threads that wait are its followers.
Where messages come in quick succession it does not even fall asleep between them. An application
that comes back soon gets what was read before the rest of the turn is done: it is done when it is
back, or by whoever takes a turn next.
"""

import threading
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from semcast.live.host.burst import ALONE, ENOUGH, GATHER, TAIL_NS
from semcast.live.host.clock import Clock
from semcast.live.host.fair_lock import FairLock
from semcast.live.host.followers import KEPT_NS, Followers
from semcast.live.host.inlets import Inlets
from semcast.live.host.patience import USUAL_NS, Patience
from semcast.live.host.seat import Seat
from semcast.live.host.turns import Turns
from semcast.live.host.waker import Waker

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


class Attendance:
    """The part of a host that applications call, with its lock held."""

    def __init__(self) -> None:
        self.lock: Final = FairLock()
        self.clock: Final = Clock()
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
        # Whether the engine's thread only looks in; and whether the host has ended.
        self._looking_in = False
        self._ended = False

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
                    seat.waits_ns = now_ns
                    seat.soon_back = now_ns - seat.left_ns < SOON_NS
                if self._leader is not None or self._followers.place_is_taken(seat, now_ns):
                    self._follow(seat, until_ns - now_ns)
                elif seat.seated and (seat.owing or seat.burst.unsent_bytes > 0):
                    self._turns.settle(seat, now_ns)
                else:
                    self._lead(seat, now_ns, until_ns)
            return True
        finally:
            if waiting and self._leader is None:
                self._hand_over(seat)

    def _follow(self, seat: Seat, wait_ns: i64) -> None:
        waiter = self._followers.add(seat)
        self.lock.release()
        try:
            waiter.acquire(timeout=min(int(wait_ns) / 1e9, threading.TIMEOUT_MAX))
        finally:
            self.lock.insist()
            self._followers.remove(seat, waiter)
            seat.left_ns = self.clock.now_ns()

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
        quick = self._end_turn(now_ns, seat if seat.owing else None)
        if quick is not None and quick is not seat and now_ns - seat.waits_ns > KEPT_NS:
            # It has more to read than this one, which has waited for long.
            self._keep_place(quick, now_ns)

    def _hand_over(self, seat: Seat) -> None:
        """Nobody reads the sockets any more. This one will again, if it is soon back; else one of
        those who let another do it has to, or the engine's thread for those who wait without one.
        """
        if not self._followers.waiting and self._unthreaded == 0:
            return
        now_ns = self.clock.now_ns()
        if self._followers.place_is_taken(seat, now_ns):
            return
        if seat.soon_back and seat.session.ended is None:
            self._keep_place(seat, now_ns)
            return
        self._followers.give_up_place()
        if not self._followers.wake_one() and self._looking_in:
            self._waker.wake()

    def _forget(self, seat: Seat) -> None:
        """It is about to be left: nothing is to hold it, and nobody to wait for its reader."""
        if self._here is seat:
            self._here = None
        if self._gathering is seat:
            self._gathering = None
        if self._followers.forget(seat) and self._leader is None:
            self._followers.wake_one()

    def _keep_place(self, seat: Seat, now_ns: i64) -> None:
        self._waker.wake_by(self._followers.keep_place(seat, now_ns))

    def _end_turn(self, now_ns: i64, owing: Seat | None) -> Seat | None:
        """Says which seat has a reader that waits, and is never long away, if any."""
        quick: Seat | None = None
        for seat in self._turns.end(now_ns, owing):
            if seat.followers and seat.soon_back:
                quick = seat
            self._tell(seat)
        return quick

    def _tell(self, seat: Seat) -> None:
        """Whoever waits for this group looks again."""
        if seat.followers:
            self._followers.wake(seat)
        if self._leader is seat:
            self._leader_waker.wake()
        if seat.wanted and seat.on_ready is not None:
            seat.on_ready()

    def _close(self) -> None:
        """Let go of everything, once nobody waits any more."""
        self._inlets.close()
        self._waker.close()
        self._leader_waker.close()
