"""A group for asyncio: every call that may wait is awaited, and may be cancelled.

    async with await semcast.join("quotes", secret=key, size=3) as group: ...

or, as `join` is a context manager by itself, `async with semcast.join("quotes", ...) as group`. The
engine has its own thread, so that a loop that is busy does not stop the member.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any, Generic, Self, TypeVar, Unpack

from semcast.errors import GroupClosedError, WindowFullError
from semcast.live.arguments import Settings
from semcast.live.config import GroupConfig
from semcast.live.group import BaseGroup, as_batch, as_config, for_join
from semcast.live.hooks import Hooks, Restore, Snapshot, with_hooks
from semcast.live.host.engine import Engine
from semcast.live.meeting import joining
from semcast.live.meeting.health import Event
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.interest import Only
from semcast.wire.message import Message

MESSAGES_MAX = 1024
DRAIN_S = 10.0
# A send that finds room does not wait, so every so many sends let other tasks run.
_SENDS_PER_TURN = 64


class Recipient(BaseGroup):
    """What an application does in one event loop with a group, or a federation, but send to it.

    Examples are for `python -m asyncio`, which knows `await`; their `group` is that of `join`.
    """

    def __init__(
        self,
        config: GroupConfig,
        loop: asyncio.AbstractEventLoop | None = None,
        hooks: Hooks | None = None,
    ) -> None:
        """Without a loop, it is for the one that runs."""
        super().__init__(config, hooks=hooks)
        self._waiters = _Waiters(loop or asyncio.get_running_loop(), self._engine)
        self._sends = 0

    async def receive(self) -> Message:
        """The next message. If it is cancelled, no message is lost. A member that was put out gets
        what waited for it; then, as after leaving, GroupClosedError.

        >>> await group.send_many([b"101.25", b"101.5"], replaces=["AAPL", "AAPL"])
        2
        >>> message = await group.receive()
        >>> message.payload, list(message.skipped)
        (b'101.5', [1])
        """
        while True:
            message = self._engine.try_receive()
            if message is not None:
                return message
            await self._until(self._engine.has_messages)

    async def receive_many(self, messages_max: int = MESSAGES_MAX) -> list[Message]:
        """At least one message and at most so many: the fast way. What is not taken stays
        replaceable, so ask for no more than will be dealt with soon.

        >>> await group.send_many([b"trade 17", b"trade 18"])
        2
        >>> [message.payload for message in await group.receive_many(100)]
        [b'trade 17', b'trade 18']
        """
        while True:
            taken = self._engine.try_receive_many(messages_max)
            if taken:
                return taken
            await self._until(self._engine.has_messages)

    async def __aiter__(self) -> AsyncIterator[Message]:
        """All messages, until this member leaves, or was put out and has taken what waited.

        >>> group.send_nowait(b"trade 17")
        1
        >>> async for message in group:
        ...     print(message.sender, message.payload)
        ...     left = await group.leave()
        a b'trade 17'
        """
        while True:
            try:
                yield await self.receive()
            except GroupClosedError:
                return

    async def drain(self) -> None:
        """Wait until every member has everything that was sent.

        >>> await group.send(b"trade 17")
        1
        >>> await group.drain()
        """
        self._count_drain(1)
        try:
            await self._until(self._all_stable)
        finally:
            self._count_drain(-1)

    async def events(self) -> AsyncIterator[Event]:
        """What happens to the group from now on, until this member leaves. A listener that
        is too slow finds an event that says how many it missed.

        >>> async def watch():
        ...     async for event in group.events():
        ...         print(event.kind, event.member, event.text)
        >>> watching = asyncio.create_task(watch())
        >>> await group.leave()
        True
        >>> await watching
        """
        told = asyncio.Event()
        listener = self._feed.listen(partial(self._waiters.call, told.set))
        try:
            while True:
                told.clear()
                try:
                    event = self._next_event(listener)
                except GroupClosedError:
                    return
                if event is not None:
                    yield event
                else:
                    await told.wait()
        finally:
            self._feed.forget(listener)

    async def leave(self, drain_s: float = DRAIN_S) -> bool:
        """Leave the group, as soon as all others have what this member sent and, with reliability
        "group", what it took; at the latest after `drain_s`. Nothing can be sent meanwhile, but
        other tasks may go on receiving. If it is cancelled, the member leaves at once.

        Says whether they all have it. If not, that is logged and is an event, "unsafe".

        >>> await group.leave()
        True
        >>> group.closed
        True
        """
        try:
            if drain_s > 0:
                await self._settle(drain_s)
        finally:
            loop = asyncio.get_running_loop()
            safe = await asyncio.shield(loop.run_in_executor(None, self._leave))
        return safe

    async def _settle(self, drain_s: float) -> None:
        """Wait until this member may leave, or for so long."""
        self._count_drain(1)
        try:
            with contextlib.suppress(TimeoutError, GroupClosedError):
                await asyncio.wait_for(self._until(self._may_leave), drain_s)
        finally:
            self._count_drain(-1)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        await self.leave(DRAIN_S if kind is None else 0.0)

    # -- waiting -----------------------------------------------------------------------------------

    async def _send(self, payload: bytes, replaces: Replaces, to: str = "") -> int:
        self._sends += 1
        if self._sends % _SENDS_PER_TURN == 0:
            await asyncio.sleep(0)
        while True:
            try:
                return self._engine.try_send(payload, replaces, to).seq
            except WindowFullError:
                await self._until(partial(self._has_room, len(payload), to))

    async def _send_many(
        self, payloads: Sequence[bytes], replaces: Sequence[Replaces] | None, to: str = ""
    ) -> int:
        listed, marks = as_batch(payloads, replaces)
        sent = self._engine.try_send_many(listed, marks, 0, to)
        while sent < len(listed):
            await self._until(partial(self._has_room, len(listed[sent]), to))
            sent += self._engine.try_send_many(listed, marks, sent, to)
        await asyncio.sleep(0)
        return sent

    def _has_room(self, payload_bytes: int, to: str) -> bool:
        session = self._engine.session
        if session.ended is not None:
            raise session.ended
        member = session.member
        if member is None or session.seeking:
            return False
        return self._engine.has_room_for(member, payload_bytes, to)

    async def _until(self, ready: Callable[[], bool]) -> None:
        """Wait until `ready`, which is looked at whenever the engine has had a turn."""
        await self._waiters.until(ready)


class Group(Recipient):
    """A member of a group, for one event loop.

    Examples are for `python -m asyncio`, which knows `await`; their `group` is that of `join`.
    """

    async def send(self, payload: bytes, replaces: Replaces = None) -> int:
        """Send to the whole group; waits while there is no room. Returns the message's number.

        `replaces` says which waiting messages this one makes obsolete: a key, as in
        `replaces="AAPL"`, or see `semcast.obsolescence`. If it is cancelled, nothing was sent.

        >>> await group.send(b"101.25", replaces="AAPL")
        1
        """
        return await self._send(payload, replaces)

    def send_nowait(self, payload: bytes, replaces: Replaces = None) -> int:
        """The same, but WindowFullError if there is no room now.

        >>> group.send_nowait(b"trade 17")
        1
        """
        return self._engine.try_send(payload, replaces).seq

    async def send_many(
        self, payloads: Sequence[bytes], replaces: Sequence[Replaces] | None = None
    ) -> int:
        """Send all of these, in order: the fast way. `replaces` has one entry for each, or none.

        Returns how many were sent. If it is cancelled, some may have been. What does not fit
        together is refused before any is sent.

        >>> await group.send_many([b"101.25", b"17.5"], replaces=["AAPL", "IBM"])
        2
        """
        return await self._send_many(payloads, replaces)


class _Waiters:
    """The tasks that wait in one loop. The engine holds this and not the group, so that a group
    which nobody else holds can leave.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, engine: Engine) -> None:
        self._loop = loop
        self._engine = engine
        self._waiting: set[asyncio.Future[None]] = set()
        engine.notify(self._on_ready)

    async def until(self, ready: Callable[[], bool]) -> None:
        while True:
            future = self._loop.create_future()
            with self._engine.lock:
                if ready():
                    return
                self._waiting.add(future)
                self._engine.seat.wanted = True
            try:
                await future
            finally:
                self._waiting.discard(future)

    def call(self, what: Callable[[], None]) -> None:
        """Call in the loop's thread, if the loop is still there."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(what)

    def _on_ready(self) -> None:
        self._engine.seat.wanted = False
        self.call(self._wake)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)


Joined = TypeVar("Joined", bound=Recipient)


class Joining(Generic[Joined]):
    """What `join` returns: await it for the group, or enter it as a context."""

    def __init__(self, kind: type[Joined], config: GroupConfig, hooks: Hooks) -> None:
        self._kind = kind
        self._config = config
        self._hooks = hooks
        self._group: Joined | None = None

    async def _join(self) -> Joined:
        group = await self._open()
        try:
            await asyncio.wait_for(
                group._until(lambda: joining.has_joined(group._engine.session)),
                self._config.join_timeout_s,
            )
        except TimeoutError:
            error = joining.incomplete(group._engine.session)
            await group.leave(0)
            raise error from None
        except BaseException:
            await group.leave(0)
            raise
        return group

    async def _open(self) -> Joined:
        """Open in a thread: looking up peers and trying out multicast would stop the loop."""
        thread = ThreadPoolExecutor(1, "semcast join")
        opening = thread.submit(self._kind, self._config, asyncio.get_running_loop(), self._hooks)
        thread.shutdown(wait=False)  # it ends when that is done
        try:
            return await asyncio.wrap_future(opening)
        except asyncio.CancelledError:
            # The thread cannot be stopped, but what it opens is closed again.
            opening.add_done_callback(_close)
            raise

    def __await__(self) -> Generator[Any, None, Joined]:
        return self._join().__await__()

    async def __aenter__(self) -> Joined:
        self._group = await self._join()
        return self._group

    async def __aexit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        assert self._group is not None
        await self._group.__aexit__(kind, *rest)


def _close(opening: "Future[Joined]") -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result()._leave()


def join(
    group: str,
    *,
    config: GroupConfig | str | os.PathLike[str] | None = None,
    only: Only = None,
    snapshot: Snapshot | None = None,
    restore: Restore | None = None,
    **settings: Unpack[Settings],
) -> Joining[Group]:
    """Join a group, or begin it; awaited, or entered, it waits until this member is in. With
    `members` or `size` it waits until all are there.

    Settings are those of `GroupConfig`, as arguments, in a TOML file, or as SEMCAST_* variables.
    `only`: the keys that this process wants, by a prefix, several, or a function. `snapshot` saves
    the application's state for others who come later, and `restore` takes over what one saved.

    >>> import semcast
    >>> alone = {"size": 1, "transport": "unicast", "host": "127.0.0.1"}  # needs no network
    >>> group = await semcast.join("quotes", name="a", secret="sixteen bytes or more", **alone)
    >>> await group.send(b"101.25", replaces="AAPL")
    1
    >>> (await group.receive()).payload
    b'101.25'
    >>> await group.leave()
    True
    """
    chosen = for_join(as_config(group, config, settings))
    return Joining(Group, *with_hooks(chosen, only, snapshot, restore))
