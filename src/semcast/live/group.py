"""What both kinds of groups share: who is there, what happened, how it is going, leaving.

How callers wait is in `aio` and `blocking`, and how messages travel in the engine.
"""

import os
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, cast

from mypy_extensions import mypyc_attr

from semcast.errors import ConfigError, LocalProtocolError
from semcast.ids import Source
from semcast.live.config import GroupConfig, changed, from_environment
from semcast.live.federation_settings import FEDERATION
from semcast.live.hooks import Hooks
from semcast.live.host.engine import Engine
from semcast.live.inside import Inside
from semcast.live.insight.event_feed import EventFeed, Listener
from semcast.live.meeting.health import Event, MemberView
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.observer import Observer
from semcast.wire.keys import KeyInfo, Keyring


@mypyc_attr(allow_interpreted_subclasses=True)
class BaseGroup:
    """A member of a group; use `semcast.join` or `semcast.blocking.join`."""

    def __init__(
        self,
        config: GroupConfig,
        observer: Callable[[Source], Observer | None] = lambda _: None,
        hooks: Hooks | None = None,
    ) -> None:
        self.config: Final = config
        self._feed: Final = EventFeed(config.group, config.name)
        self._inside: Final = Inside(config, observer, self._feed, hooks)
        self._engine: Final[Engine] = self._inside.engine
        self._engine.session.on_ended = self._feed.wake
        self._health: Final = self._inside.health
        # A group that nobody holds any more leaves, so that others do not wait for it.
        self._held: Final = _Held()
        self._finalizer: Final = weakref.finalize(self._held, self._inside.forget)
        self._finalizer.atexit = False

    @property
    def name(self) -> str:
        """What this member is called.

        >>> group.name
        'a'
        """
        return self.config.name

    @property
    def view(self) -> list[MemberView]:
        """Who is in the group and how each of them is doing, as far as this member knows.

        >>> [(member.name, member.state) for member in group.view]
        [('a', 'here')]
        """
        with self._engine.lock:
            return self._health.views()

    def stats(self) -> dict[str, float]:
        """Counters and gauges of this member; the names say the units.

        >>> group.send_nowait(b"trade 17")
        1
        >>> group.stats()["multicast"]
        1
        """
        return self._inside.stats()

    def past_events(self) -> list[Event]:
        """What happened to the group lately, oldest first; only so many are remembered.

        >>> [(event.kind, event.member) for event in group.past_events()]
        []
        """
        with self._engine.lock:
            return list(self._health.events)

    @property
    def closed(self) -> bool:
        """Whether this member has left or was put out.

        >>> group.closed
        False
        """
        return self._engine.session.ended is not None

    # -- keys --------------------------------------------------------------------------------------

    def install_key(self, key_id: int, secret: bytes | str) -> bool:
        """Open datagrams sealed with this secret too; False if it was installed already.

        >>> group.install_key(2, "another secret of sixteen bytes")
        True
        """
        material = secret.encode() if isinstance(secret, str) else secret
        with self._engine.lock:
            return self._keyring().install(key_id, material)

    def use_key(self, key_id: int) -> None:
        """Seal with this key from now on; every member must have installed it before.

        >>> group.install_key(2, "another secret of sixteen bytes")
        True
        >>> group.use_key(2)
        """
        with self._engine.lock:
            self._keyring().use(key_id)

    def remove_key(self, key_id: int) -> bool:
        """Open nothing sealed with this key any more; False if it was not installed.

        >>> group.install_key(2, "another secret of sixteen bytes")
        True
        >>> group.use_key(2)
        >>> group.remove_key(1)
        True
        """
        with self._engine.lock:
            return self._keyring().remove(key_id)

    def keys(self) -> tuple[KeyInfo, ...]:
        """The installed keys, by fingerprint.

        >>> [(key.key_id, key.in_use) for key in group.keys()]
        [(1, True)]
        """
        with self._engine.lock:
            return self._keyring().list()

    def _keyring(self) -> Keyring:
        keys = self._engine.session.keys
        if not isinstance(keys, Keyring):
            raise ConfigError("this group is not sealed, so there are no keys to change")
        return keys

    # -- small parts -------------------------------------------------------------------------------

    def _leave(self) -> bool:
        """Leave at once; says whether what it sent and took is safe at the others."""
        if self._finalizer.detach() is not None:
            self._inside.stop()
        return self._engine.session.settled

    def _may_leave(self) -> bool:
        return self._engine.session.may_leave(self._engine.clock.now_ns())

    def _next_event(self, listener: Listener) -> Event | None:
        """The next event, or None. GroupClosedError means that there will be no more."""
        with self._engine.lock:
            event = listener.take()
            if event is None and self._engine.session.ended is not None:
                raise self._engine.session.ended
            return event

    def _count_drain(self, more: int) -> None:
        """Count a caller that waits until everybody has everything (1), or no longer does (-1). A
        member that stands in its way may be put out (`evict_after_s`).
        """
        with self._engine.lock:
            self._engine.session.drains += more

    def _all_stable(self) -> bool:
        session = self._engine.session
        if session.ended is not None:
            raise session.ended
        return session.member is not None and session.member.all_stable()

    def __repr__(self) -> str:
        state = "closed" if self.closed else f"{len(self._engine.session.roster.members)} members"
        return f"<{type(self).__name__} {self.config.name!r} in {self.config.group!r}: {state}>"


@mypyc_attr(native_class=False)
class _Held:
    """Lives as long as its group. Compiled classes have no weak references; this one has."""


def as_config(
    group: str, config: GroupConfig | str | os.PathLike[str] | None, settings: Any
) -> GroupConfig:
    """The configuration that the arguments of `join` describe."""
    if config is None:
        return from_environment({"group": group} | settings)
    if isinstance(config, GroupConfig):
        return changed(config, group=group, **settings)
    return GroupConfig.load(Path(config), group=group, **settings)


def for_join(config: GroupConfig) -> GroupConfig:
    """The same; ConfigError if it is that of a federation, which has another door."""
    if config.reliability == FEDERATION:
        raise ConfigError(f"{config.group!r} is to be a federation; use federate in place of join")
    return config


def as_batch(
    payloads: Sequence[bytes], replaces: Sequence[Replaces] | None
) -> tuple[list[bytes], list[Replaces] | None]:
    """The arguments of `send_many` as lists; LocalProtocolError if they do not fit together."""
    # A text is a sequence of its letters, and bytes are one of numbers: neither is meant.
    # (As objects: by their types they could not be, and compiled code goes by the types.)
    given: object = payloads
    if isinstance(given, (bytes, str)):
        raise LocalProtocolError("payloads is one payload; give a list of them, or use send")
    marked: object = replaces
    if isinstance(marked, (bytes, str)):
        raise LocalProtocolError(
            f"replaces is one key, {marked!r}; give a list with one entry for each payload"
        )
    listed = payloads if isinstance(payloads, list) else list(payloads)
    marks = replaces if replaces is None or isinstance(replaces, list) else list(replaces)
    if marks is not None and len(marks) != len(listed):
        entries = "entry" if len(marks) == 1 else "entries"
        raise LocalProtocolError(
            f"{len(listed)} payloads and {len(marks)} {entries} of replaces; give one "
            "for each payload (None for one that replaces nothing), or no replaces at all"
        )
    for at, payload in enumerate(cast(list[Any], listed)):
        if not isinstance(payload, bytes):
            kind = type(payload).__name__
            raise LocalProtocolError(f"payload {at} is a {kind}; every payload is bytes")
    return listed, marks
