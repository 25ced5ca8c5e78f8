"""Attendance: what applications' threads do at a host: they send, read, and wait.

A thread that waits for a message of any group takes turns itself, for all groups, so that a message
needs one wake-up, not two: it is the leader, and other threads that wait are its followers. An
application that is soon back gets its message before the rest of the turn is done; the rest is done
when it is back, or by whoever takes a turn next. Who leads and who follows is for `waiting` to say.
"""

import threading
from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from semcast.live.host import timing
from semcast.live.host.clock import Clock
from semcast.live.host.estimates import ALONE, ENOUGH, GATHER, Attention
from semcast.live.host.fair_lock import FairLock
from semcast.live.host.followers import Followers
from semcast.live.host.inlets import Inlets
from semcast.live.host.seat import Seat
from semcast.live.host.turns import Turns
from semcast.live.host.waiting import LEAD, SLEEP, Action, Input, SocketPlace
from semcast.live.host.waker import Waker


class Attendance:
    """The part of a host that applications call, with its lock held."""

    def __init__(self) -> None:
        self.lock: Final = FairLock()
        self.clock: Final = Clock()
        # The first wakes the leader, the second the engine's thread.
        self._leader_waker: Final = Waker()
        self._waker: Final = Waker()
        self._inlets: Final = Inlets(self._leader_waker, self._waker, self.clock)
        self._turns: Final = Turns(self._inlets)
        self._attention: Final = Attention()
        # Who waits at the sockets; a reader is known by its seat.
        self._place: Final = SocketPlace()
        # The threads that wait while another reads the sockets.
        self._followers: Final = Followers()
        # How many seats have applications that wait in an event loop, without a thread.
        self._unthreaded = 0
        # The seat whose application was here last, and the last one that gathers sends.
        self._here: Seat | None = None
        self._gathering: Seat | None = None
        # Whether the engine's thread is asleep away from the sockets; whether the host has ended.
        self._looking_in = False
        self._ended = False

    def accepted(self, seat: Seat, size_bytes: i64, now_ns: i64) -> None:
        """The member accepted so much for sending. Send it now, or together with what follows."""
        self._here = seat
        what = seat.burst.accepted(size_bytes, now_ns)
        if what == GATHER:
            if seat.gather(now_ns):
                self._gathering = seat
                self._turns.put(seat, min(seat.due_ns, now_ns + timing.TAIL_NS))
            self._waker.wake_by(now_ns + timing.TAIL_NS)
        else:
            waits_here = seat.on_ready is None
            rested = what == ALONE and waits_here and self._attention.came(now_ns)
            self.flush(seat, now_ns, timing.LATE_NS if rested else 0)
            now_ns = self.clock.now_ns()
            if rested:
                self._attention.stays(now_ns)
            else:
                self.attend(
                    seat, now_ns, timing.ATTEND_NS if what == ENOUGH else timing.ATTEND_ALONE_NS
                )
        seat.burst.done(now_ns)

    def flush(self, seat: Seat, now_ns: i64, late_ns: i64 = 0) -> None:
        """Send what is to be sent, messages before whatever else is due. What is not late by
        `late_ns` is left to the engine's thread.
        """
        session = seat.session
        seat.flush(now_ns)
        due_ns: i64 = session.next_deadline_ns()
        if due_ns <= now_ns - late_ns:
            session.on_timer(now_ns)
            session.flush(now_ns)
            due_ns = session.next_deadline_ns()
        self._turns.put(seat, due_ns)
        leader = self._place.leader
        if leader is None:
            if not self._looking_in:
                self._waker.wake_by(due_ns)
        elif leader is not seat:
            # The leader waits for another group, and perhaps for long.
            self._leader_waker.wake_by(due_ns)
        if session.config.deliver_own:
            self._wake_waiting(seat)

    def attend(self, seat: Seat, now_ns: i64, fresh_ns: i64) -> None:
        """The application is here without waiting, and takes a turn, unless the sockets were read
        less than `fresh_ns` ago: two threads would only be in each other's way.
        """
        self._here = seat
        if seat.on_ready is None:
            stale = now_ns - self._turns.read_ns > fresh_ns
            if stale and self._place.step(Input.CALLS) is Action.TAKE_TURN:
                # Mostly there is nothing, and it would be expensive to ask each socket.
                self._turns.read_in(now_ns, self._inlets.look(), False)
                self._turns.activate(seat)
                self._end_turn(now_ns, None)
            self._attention.stays(now_ns)
        self._turns.outdate(seat)

    def wait(self, seat: Seat, ready: Callable[[], bool], until_ns: i64) -> bool:
        """Wait until `ready`. Returns False if it is not so in time. The lock is free meanwhile."""
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
                    seat.soon_back = now_ns - seat.left_ns < timing.SOON_NS
                owes = seat.seated and (seat.owing or seat.burst.unsent_bytes > 0)
                action = self._place.ask(seat, owes, now_ns)
                if action is LEAD:
                    self._lead(seat, now_ns, until_ns)
                elif action is Action.FOLLOW:
                    self._follow(seat, until_ns - now_ns)
                else:
                    self._turns.settle(seat, now_ns)
            return True
        finally:
            if waiting:
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
        ready: list[int] = []
        try:
            self._here = seat
            until_ns = min(until_ns, self._turns.first_due_ns())
            self._leader_waker.sleeps_until_ns = until_ns
            self.lock.release()
            try:
                ready = self._await_ready(seat, now_ns, until_ns)
            finally:
                self.lock.insist()
        finally:
            self._place.leader_is_back()
            seat.left_ns = now_ns = self.clock.now_ns()
            if ready:
                self._attention.came(now_ns)
            else:
                self._attention.stays(now_ns)
        if self._ended:
            self._close()
            return
        if self._leader_waker.fileno() in ready:
            self._leader_waker.clear()
        self._turns.read_in(now_ns, ready, now_ns - began_ns >= timing.CALM_NS)
        has_messages = seat.has_messages()
        if has_messages:
            seat.wakefulness.came(now_ns - began_ns, now_ns)
        self._turns.activate(seat)
        seat.owing = seat.soon_back and has_messages
        quick = self._end_turn(now_ns, seat if seat.owing else None)
        if quick is not None and quick is not seat and now_ns - seat.waits_ns > timing.KEPT_NS:
            # That reader has more to read than this one, which has waited for long.
            self._leave_place(quick, True, now_ns)

    def _await_ready(self, seat: Seat, now_ns: i64, until_ns: i64) -> list[int]:
        """Wait as a leader, asleep or awake. Returns the sockets that are ready."""
        begins_ns = seat.wakefulness.begins_ns(now_ns)
        action = self._place.expect(begins_ns, now_ns, until_ns, self._inlets.can_doze)
        while action is not SLEEP:
            if action is Action.DOZE:
                ready = self._inlets.doze(begins_ns - now_ns)
            else:
                ready = self._inlets.watch(min(until_ns, now_ns + seat.wakefulness.awake_ns))
            if ready:
                return ready
            now_ns = self.clock.now_ns()
            action = self._place.step(Input.SAW_NOTHING)
        return self._inlets.sleep(until_ns - now_ns)

    def _hand_over(self, seat: Seat) -> None:
        """The reader of this seat ends its wait. If it is soon back, its place is kept for it; else
        one of those that wait takes it, or the engine's thread for those that wait without one.
        """
        if self._followers.waiting or self._unthreaded > 0:
            soon_back = seat.soon_back and seat.session.ended is None
            self._leave_place(seat, soon_back, self.clock.now_ns())

    def _leave_place(self, seat: Seat, soon_back: bool, now_ns: i64) -> None:
        action = self._place.leave(seat, soon_back, now_ns)
        if action is Action.KEEP:
            self._waker.wake_by(self._place.kept_until_ns)
        elif action is Action.PASS_ON:
            self._pass_on()

    def _pass_on(self) -> bool:
        """Wake a thread that takes the place at the sockets. Returns whether a reader does."""
        if self._followers.wake_one():
            return True
        if self._unthreaded > 0 and self._looking_in:
            self._waker.wake()
        return False

    def _forget(self, seat: Seat) -> None:
        """The seat is about to be left: nothing may hold it, and nobody wait for its reader."""
        if self._here is seat:
            self._here = None
        if self._gathering is seat:
            self._gathering = None
        if self._place.was_kept_for(seat) and self._place.give_up() is Action.PASS_ON:
            self._pass_on()

    def _end_turn(self, now_ns: i64, owing: Seat | None) -> Seat | None:
        """End a turn. Returns a seat whose reader follows and is never long away, if any."""
        quick: Seat | None = None
        for seat in self._turns.end(now_ns, owing):
            if seat.followers and seat.soon_back:
                quick = seat
            self._wake_waiting(seat)
        return quick

    def _wake_waiting(self, seat: Seat) -> None:
        """Have whoever waits for this group look again."""
        if seat.followers:
            self._followers.wake(seat)
        if self._place.leader is seat:
            self._leader_waker.wake()
        if seat.wanted and seat.on_ready is not None:
            seat.on_ready()

    def _close(self) -> None:
        """Close what threads wait on, once none waits any more."""
        self._inlets.close()
        self._waker.close()
        self._leader_waker.close()
