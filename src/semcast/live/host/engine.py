"""The engine of a group: sending and receiving, from any thread, with and without waiting.

All state is behind the host's lock. The host keeps the member going, and decides which thread does
so; what it keeps of this group is the seat. Calls that are made for every single message take the
lock without `with`, which is faster.
"""

from collections.abc import Callable
from typing import Final

from mypy_extensions import i64

from semcast.errors import GroupClosedError, LocalProtocolError, WindowFullError
from semcast.live.hooks import Hooks, Undo
from semcast.live.host import hosting
from semcast.live.host.host import Host
from semcast.live.host.portion import Portion
from semcast.live.host.seat import Seat
from semcast.live.host.timing import ATTEND_MANY_NS, ATTEND_NS
from semcast.live.meeting.session import Session
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.machine import Machine
from semcast.protocol.propagation.federated import Federated
from semcast.wire.message import Message


class Engine:
    """Runs one session; its methods may be called from any thread."""

    def __init__(
        self, session: Session, host: Host | None = None, hooks: Hooks | None = None
    ) -> None:
        """`host` was claimed for this engine; without it, the engine makes a host of its own."""
        if host is None:
            host = Host()
            host.claims = 1
        self.session: Final = session
        self._hooks: Final = hooks if hooks is not None and hooks.serves else None
        session.wants_undo = hooks is not None and hooks.undo is not None
        self.host: Final = host
        self.clock: Final = host.clock
        self.lock: Final = host.lock
        self.seat: Final = Seat(session)
        # How many messages applications took, but for those that `_portion` counts.
        self._delivered: i64 = 0
        self._portion: Final = Portion()
        self._many: Final[i64] = session.config.delivery_messages // 2
        # The size of the message that waits for room.
        self._next_bytes: i64 = 0
        # Whether the application undoes something just now.
        self._undoing = False
        # The group of a federation that it is for.
        self._next_to = ""
        with self.lock:
            host.add(self.seat)

    @property
    def delivered(self) -> int:
        """How many messages applications took."""
        return self._delivered + self._portion.taken

    def start(self) -> None:
        """Begin; from now on the member takes care of itself."""
        self.host.start()

    def stop(self) -> None:
        """Leave the group. What is not sent by now is never sent. The last group to leave a host
        ends its thread.
        """
        with self.lock:
            if self.seat.closing:
                return
            self.seat.closing = True
        try:
            self.host.leave(self.seat)
        finally:
            hosting.release(self.host)

    def notify(self, on_ready: Callable[[], None]) -> None:
        """The application waits in an event loop, and is called instead; see `Seat.on_ready`."""
        with self.lock:
            self.host.notify(self.seat, on_ready)

    def wait_for(self, ready: Callable[[], bool], timeout: float | None) -> bool:
        """Until `ready`, which is called with the lock held; False if it is not so in time."""
        with self.lock:
            return self.host.wait(self.seat, ready, self.clock.until_ns(timeout))

    # -- sending -----------------------------------------------------------------------------------

    def try_send(self, payload: bytes, replaces: Replaces, to: str = "") -> Message:
        """Send, or WindowFullError. `to`: a group of a federation."""
        self.lock.acquire()
        try:
            return self._send(payload, replaces, to)
        except WindowFullError:
            self.host.flush(self.seat, self.clock.now_ns())
            raise
        finally:
            self.lock.release()

    def send(
        self, payload: bytes, replaces: Replaces, timeout: float | None, to: str = ""
    ) -> Message:
        """Send as soon as there is room; TimeoutError if there is none in time."""
        self.lock.acquire()
        try:
            until_ns: i64 = 0
            while True:
                try:
                    return self._send(payload, replaces, to)
                except WindowFullError:
                    self._next_bytes, self._next_to = len(payload), to
                    until_ns = until_ns or self.clock.until_ns(timeout)
                    if not self.host.wait(self.seat, self._has_room, until_ns):
                        raise TimeoutError(
                            f"no room to send in time: {self.session.config.window_messages} "
                            "messages wait for slow members and none is replaced"
                        ) from None
        finally:
            self.lock.release()

    def send_many(
        self,
        payloads: list[bytes],
        replaces: list[Replaces] | None,
        timeout: float | None,
        to: str = "",
    ) -> int:
        """Send all of these; says how many, which is fewer only if there is no room in time."""
        sent: i64 = 0
        count: i64 = len(payloads)
        with self.lock:
            until_ns = self.clock.until_ns(timeout)
            while True:
                sent += self._send_some(payloads, replaces, sent, to)
                if sent == count:
                    return sent
                self._next_bytes, self._next_to = len(payloads[sent]), to
                if not self.host.wait(self.seat, self._has_room, until_ns):
                    return sent

    def try_send_many(
        self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64, to: str = ""
    ) -> int:
        """Send these from `start` on while there is room; says how many."""
        with self.lock:
            return self._send_some(payloads, replaces, start, to)

    def _send(self, payload: bytes, replaces: Replaces, to: str) -> Message:
        _check_payload(payload)
        now_ns = self.clock.now_ns()
        if to:
            message = self._site().multicast_to(to, payload, replaces, now_ns)
        else:
            message = self._sending().multicast(payload, replaces, now_ns)
        self.host.accepted(self.seat, len(payload), now_ns)
        return message

    def _send_some(
        self, payloads: list[bytes], replaces: list[Replaces] | None, start: i64, to: str
    ) -> i64:
        now_ns = self.clock.now_ns()
        accepted: i64 = 0
        if self.session.seeking:
            return 0
        if not to:
            accepted = self._running().multicast_many(payloads, replaces, start, now_ns)
        elif self._running().inside:
            accepted = self._site().multicast_many_to(to, payloads, replaces, start, now_ns)
        if accepted > 0:
            self.host.accepted(self.seat, accepted * len(payloads[start]), now_ns)
        if start + accepted < len(payloads):
            self.host.flush(self.seat, now_ns)
        return accepted

    def _has_room(self) -> bool:
        member, session = self._running(), self.session
        if session.seeking or session.congested:
            return False
        return self.has_room_for(member, self._next_bytes, self._next_to)

    def has_room_for(self, member: Machine, payload_bytes: i64, to: str) -> bool:
        """Whether a message of this size would be accepted, with the lock held."""
        if not to:
            return member.can_multicast(payload_bytes)
        return member.inside and self._site().can_multicast_to(to, payload_bytes)

    # -- receiving ---------------------------------------------------------------------------------

    def try_receive(self) -> Message | None:
        """The next message, if there is one."""
        with self.lock:
            self._serve()
            if self.session.leftover:
                message: Message | None = self.session.leftover.popleft()
            else:
                message = self._receiving().take_one(self.clock.now_ns())
            if message is not None:
                self._delivered += 1
            return message

    def receive(self, timeout: float | None) -> Message:
        """The next message; TimeoutError if there is none in time."""
        message = self._portion.next()
        if message is not None:
            return message
        self.lock.acquire()
        try:
            now_ns = self.clock.now_ns()
            # Meanwhile the member may begin another life, so it is asked for again.
            self._attend(self._receiving(), now_ns)
            self._serve()
            message = self._take_one(self._receiving(), now_ns)
            if message is None:
                until_ns = self.clock.until_ns(timeout)
            while message is None:
                if not self.host.wait(self.seat, self.has_messages, until_ns):
                    raise TimeoutError("no message came in time")
                self._serve()
                message = self._take_one(self._receiving(), self.clock.now_ns())
            return message
        finally:
            self.lock.release()

    def try_receive_many(self, messages_max: i64) -> list[Message]:
        """The messages that wait, at most so many."""
        _check_many(messages_max)
        with self.lock:
            self._serve()
            return self._take(self._receiving(), messages_max, self.clock.now_ns())

    def receive_many(self, messages_max: i64, timeout: float | None) -> list[Message]:
        """At least one message and at most so many; TimeoutError if there is none in time."""
        _check_many(messages_max)
        with self.lock:
            member = self._receiving()
            now_ns = self.clock.now_ns()
            self._attend(member, now_ns)
            taken = self._portion.rest(messages_max)
            if taken:
                return taken
            self._serve()
            taken = self._take(self._receiving(), messages_max, now_ns)
            if not taken:
                until_ns = self.clock.until_ns(timeout)
            while not taken:
                if not self.host.wait(self.seat, self.has_messages, until_ns):
                    raise TimeoutError("no message came in time")
                self._serve()
                taken = self._take(self._receiving(), messages_max, self.clock.now_ns())
            return taken

    def _take_one(self, member: Machine, now_ns: i64) -> Message | None:
        leftover = self.session.leftover
        if leftover and not self._portion.waiting:
            self._delivered += 1
            return leftover.popleft()
        return self._portion.take(member, now_ns)

    def _take(self, member: Machine, messages_max: i64, now_ns: i64) -> list[Message]:
        """Take what waits: first what a former member of this process has left."""
        leftover = self.session.leftover
        if leftover:
            taken = [leftover.popleft() for _ in range(min(len(leftover), messages_max))]
        else:
            taken = member.take(messages_max, now_ns)
        self._delivered += len(taken)
        return taken

    def _attend(self, member: Machine, now_ns: i64) -> None:
        """Let the host know that the application is here. If many messages wait for it already,
        more of them may stay in the sockets for a while: from there they are moved only once.
        """
        many = i64(member.deliverable()) > self._many
        self.host.attend(self.seat, now_ns, ATTEND_MANY_NS if many else ATTEND_NS)

    def has_messages(self) -> bool:
        """Whether a message waits, with the lock held; raises if this member has left or failed."""
        member = self.session.member
        if (member is not None and member.deliverable() > 0) or self.session.leftover:
            return True
        if self._hooks is not None and self._is_to_serve():
            return True
        self._running()
        return False

    # -- the application's state -------------------------------------------------------------------

    def _is_to_serve(self) -> bool:
        """Whether the application is to undo something, to save its state, or to take over
        another's.
        """
        if self._is_to_undo():
            return True
        member = self.session.member
        transfer = None if member is None else member.transfers()
        if transfer is None or self._portion.waiting:
            return False
        return transfer.wants_snapshot or transfer.snapshot is not None

    def _serve(self) -> None:
        """Have the application save its state for others, or take over what another saved, now that
        it has dealt with all that it took. The lock is free meanwhile.
        """
        hooks = self._hooks
        if hooks is None or not self._is_to_serve():
            return
        if hooks.undo is not None and self._is_to_undo():
            self._undo(hooks.undo)
            return
        assert hooks.snapshot is not None
        assert hooks.restore is not None
        member = self.session.member
        transfer = None if member is None else member.transfers()
        assert transfer is not None
        came = transfer.take_snapshot()
        taken = transfer.taken()
        self.lock.release()
        try:
            if came is not None:
                hooks.restore(came)
                return
            saved = hooks.snapshot()
        finally:
            self.lock.acquire()
        transfer.provide(saved, taken)
        self.host.flush(self.seat, self.clock.now_ns())

    def _is_to_undo(self) -> bool:
        """Whether there is something to undo, and the application has all that came before."""
        if self._undoing or self._portion.waiting:
            return False
        return len(self.session.to_undo()) > 0

    def _undo(self, undo: Undo) -> None:
        """Have the application undo; if it fails, or this process dies meanwhile, it is told the
        same again.
        """
        messages = self.session.to_undo()
        self._undoing = True
        self.lock.release()
        try:
            undo(messages)
        finally:
            self.lock.acquire()
            self._undoing = False
        self.session.undid(messages)
        self.host.flush(self.seat, self.clock.now_ns())

    # -- the member --------------------------------------------------------------------------------

    def _site(self) -> Federated:
        """The same as `_sending`, of a federation."""
        member = self._sending()
        assert isinstance(member, Federated)
        if not member.inside:
            raise WindowFullError(
                f"{self.session.config.name} is on its way back to {self.session.config.group!r}; "
                "wait",
                0,
                self.session.config.window_messages,
            )
        return member

    def _receiving(self) -> Machine:
        """The same as `_running`, but a member that was put out may first take what waits."""
        session = self.session
        member = session.member
        if session.may_take and member is not None:
            waits = member.deliverable() > 0 or self._portion.waiting
            return member if waits else self._running()
        return self._running()

    def _sending(self) -> Machine:
        """The same as `_running`, but a member that was put out has no room until it is back."""
        if self.session.seeking:
            raise WindowFullError(
                f"{self.session.config.name} was put out of {self.session.config.group!r} and is "
                "on its way back; wait",
                0,
                self.session.config.window_messages,
            )
        return self._running()

    def _running(self) -> Machine:
        session = self.session
        member = session.member
        if member is None or session.ended is not None:
            raise session.ended or GroupClosedError(
                f"{session.config.name} is not in {session.config.group!r} yet: "
                f"{session.roster.missing()}"
            )
        return member


def _check_payload(payload: object) -> None:
    """Compiled code refuses at the door what is not bytes; interpreted code does so here, in the
    same words, before anything is sent.
    """
    if not isinstance(payload, bytes):
        raise TypeError(f"bytes object expected; got {type(payload).__name__}")


def _check_many(messages_max: i64) -> None:
    if messages_max < 1:
        raise LocalProtocolError(f"messages_max is {messages_max}; ask for at least one message")
