"""A group for threads: every call waits until it is done, or until its timeout.

with semcast.blocking.join("quotes", secret=key, size=3) as group:
    group.send(b"101.25", replaces="AAPL")
    for message in group:
        print(message.sender, message.seq, message.key, message.payload)
"""

import contextlib
import os
import threading
from collections.abc import Iterator, Sequence
from typing import Self, Unpack

from mypy_extensions import mypyc_attr

from semcast.errors import GroupClosedError
from semcast.live.arguments import Settings
from semcast.live.config import GroupConfig
from semcast.live.group import BaseGroup, as_batch, as_config, for_join
from semcast.live.hooks import Restore, Snapshot, with_hooks
from semcast.live.meeting import joining
from semcast.live.meeting.health import Event
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.interest import Only
from semcast.wire.message import Message

MESSAGES_MAX = 1024
DRAIN_S = 10.0


@mypyc_attr(allow_interpreted_subclasses=True)
class Recipient(BaseGroup):
    """What an application does with a group, or a federation, but send to it. All methods may be
    called from several threads.

    The examples' `group` is that of `join`.
    """

    def receive(self, timeout: float | None = None) -> Message:
        """The next message; TimeoutError if there is none in time. A member that was put out gets
        what waited for it; then, as after leaving, GroupClosedError.

        What was not taken stays replaceable, but for the next few messages (at most 31) of an
        application that needs less than 4 µs for each.

        >>> group.send_many([b"101.25", b"101.5"], replaces=["AAPL", "AAPL"])
        2
        >>> message = group.receive(timeout=1.0)
        >>> message.payload, list(message.skipped)
        (b'101.5', [1])
        """
        return self._engine.receive(timeout)

    def receive_many(
        self, messages_max: int = MESSAGES_MAX, timeout: float | None = None
    ) -> list[Message]:
        """At least one message and at most so many: the fast way. What is not taken stays
        replaceable, so ask for no more than will be dealt with soon.

        >>> group.send_many([b"trade 17", b"trade 18"])
        2
        >>> [message.payload for message in group.receive_many(100)]
        [b'trade 17', b'trade 18']
        """
        return self._engine.receive_many(messages_max, timeout)

    def __iter__(self) -> Iterator[Message]:
        """All messages, until this member leaves, or was put out and has taken what waited.

        >>> group.send_nowait(b"trade 17")
        1
        >>> for message in group:
        ...     print(message.sender, message.payload)
        ...     left = group.leave()
        a b'trade 17'
        """
        while True:
            try:
                yield self._engine.receive(None)
            except GroupClosedError:
                return

    def drain(self, timeout: float | None = None) -> None:
        """Wait until every member has everything that was sent; TimeoutError if not in time.

        >>> group.send(b"trade 17")
        1
        >>> group.drain(timeout=10.0)
        """
        self._count_drain(1)
        try:
            if not self._engine.wait_for(self._all_stable, timeout):
                raise TimeoutError("not every member has everything that was sent yet")
        finally:
            self._count_drain(-1)

    def events(self, timeout: float | None = None) -> Iterator[Event]:
        """What happens to the group from now on, until this member leaves, or until nothing happens
        for `timeout` seconds. A listener that is too slow finds how many events it missed.

        >>> for event in group.events(timeout=0.1):
        ...     print(event.kind, event.member, event.text)
        """
        told = threading.Event()
        listener = self._feed.listen(told.set)
        try:
            while True:
                told.clear()
                try:
                    event = self._next_event(listener)
                except GroupClosedError:
                    return
                if event is not None:
                    yield event
                elif not told.wait(timeout):
                    return
        finally:
            self._feed.forget(listener)

    def leave(self, drain_s: float = DRAIN_S) -> bool:
        """Leave the group, as soon as all others have what this member sent and, with reliability
        "group", what it took; at the latest after `drain_s`. Nothing can be sent meanwhile, but
        other threads may go on receiving. If it is interrupted, the member leaves at once.

        Says whether they all have it. If not, that is logged and is an event, "unsafe".

        >>> group.leave()
        True
        >>> group.closed
        True
        """
        try:
            if drain_s > 0:
                self._settle(drain_s)
        finally:
            safe = self._leave()
        return safe

    def _settle(self, drain_s: float) -> None:
        """Wait until this member may leave, or for so long."""
        self._count_drain(1)
        try:
            with contextlib.suppress(GroupClosedError):
                self._engine.wait_for(self._may_leave, drain_s)
        finally:
            self._count_drain(-1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self.leave(DRAIN_S if kind is None else 0.0)


@mypyc_attr(allow_interpreted_subclasses=True)
class Group(Recipient):
    """A member of a group. All methods may be called from several threads.

    The examples' `group` is that of `join`.
    """

    def send(self, payload: bytes, replaces: Replaces = None, timeout: float | None = None) -> int:
        """Send to the whole group; waits while there is no room. Returns the message's number.

        `replaces` says which waiting messages this one makes obsolete: a key, as in
        `replaces="AAPL"`, or see `semcast.obsolescence`. None: it never makes anything obsolete
        and, unless a later one names it, is never dropped.

        >>> group.send(b"101.25", replaces="AAPL")
        1
        """
        return self._engine.send(payload, replaces, timeout).seq

    def send_nowait(self, payload: bytes, replaces: Replaces = None) -> int:
        """The same, but WindowFullError if there is no room now.

        >>> group.send_nowait(b"trade 17")
        1
        """
        return self._engine.try_send(payload, replaces).seq

    def send_many(
        self,
        payloads: Sequence[bytes],
        replaces: Sequence[Replaces] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send all of these, in order: the fast way. `replaces` has one entry for each, or none.

        Returns how many were sent: fewer than given only when the timeout was reached. What does
        not fit together is refused before any is sent.

        >>> group.send_many([b"101.25", b"17.5"], replaces=["AAPL", "IBM"], timeout=1.0)
        2
        """
        listed, marks = as_batch(payloads, replaces)
        return self._engine.send_many(listed, marks, timeout)


def join(
    group: str,
    *,
    config: GroupConfig | str | os.PathLike[str] | None = None,
    only: Only = None,
    snapshot: Snapshot | None = None,
    restore: Restore | None = None,
    **settings: Unpack[Settings],
) -> Group:
    """Join a group, or begin it, and wait until this member is in. With `members` or `size`, wait
    until all are there.

    Settings are those of `GroupConfig`, as arguments, in a TOML file, or as SEMCAST_* variables.
    `only`: the keys that this process wants, by a prefix, several, or a function. `snapshot` saves
    the application's state for others who come later, and `restore` takes over what one saved.

    >>> import semcast.blocking
    >>> alone = {"size": 1, "transport": "unicast", "host": "127.0.0.1"}  # needs no network
    >>> group = semcast.blocking.join(
    ...     "quotes", name="a", secret="sixteen bytes or more", **alone
    ... )
    >>> group.send(b"101.25", replaces="AAPL")
    1
    >>> group.receive().payload
    b'101.25'
    >>> group.leave()
    True
    """
    chosen, hooks = with_hooks(
        for_join(as_config(group, config, settings)), only, snapshot, restore
    )
    joined = Group(chosen, hooks=hooks)
    joining.wait_complete(joined._engine)
    return joined
