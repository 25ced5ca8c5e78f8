"""One life of a simulated process: what it loses when it crashes. In an open group a life begins
as a newcomer and becomes a member when it is let in, as in a live session.

Datagrams and a time go in, datagrams come out, whether it is in or not. Knows nothing of networks
or applications.
"""

from collections.abc import Callable
from typing import Final

from semcast.ids import NEVER, Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.machine import Machine, MachineMaker
from semcast.protocol.membership.newcomer import Newcomer
from semcast.protocol.membership.view import View, scatter
from semcast.protocol.outbox import Outgoing
from semcast.sim.scheduler import NO_EVENT
from semcast.sim.tally import Tally
from semcast.sim.traffic import Item
from semcast.wire.keys import Keyring, Unsealed
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

GROUP_ID: Final = 1
_ORIGIN_MASK: Final = (1 << 62) - 1


class Life:
    """A life that is in the group from its beginning."""

    def __init__(
        self, me: Source, keys: Keyring | Unsealed, tally: Tally, member: Machine | None
    ) -> None:
        self.me: Final = me
        # None while this process is not in.
        self.member: Machine | None = member
        self.sealer: Final = Sealer(GROUP_ID, me, keys)
        self.opener: Final = Opener(GROUP_ID, keys)
        self.tally: Final = tally
        self.busy = False
        # Not None if it leaves: says which members are silent.
        self.silent: Callable[[], list[int]] | None = None
        # A message that waits for room in the window.
        self.blocked: Item | None = None
        # Whether it was inside already.
        self.entered = False
        self.timer_ns: int = NEVER
        self.timer: int = NO_EVENT

    @property
    def inside(self) -> bool:
        """Whether its application may send, and misses nothing that is sent from now on."""
        return self.member is not None and self.member.inside

    @property
    def out(self) -> bool:
        """Whether only another life can be in the group."""
        return self.member is not None and self.member.out

    def undo(self, messages_max: int) -> bool:  # noqa: ARG002
        """The application undoes what it has to, if there is anything."""
        return False

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        """The opened frames of one datagram."""
        assert self.member is not None
        self.member.receive(frames, source, now_ns)

    def on_timer(self, now_ns: int) -> None:
        """Do what is due by now."""
        assert self.member is not None
        self.member.on_timer(now_ns)

    def next_deadline_ns(self) -> int:
        """When to call `on_timer`."""
        assert self.member is not None
        return self.member.next_deadline_ns()

    def datagrams(self, now_ns: int) -> list[Outgoing]:
        """What to send now."""
        assert self.member is not None
        return self.member.datagrams(now_ns)


class OpenLife(Life):
    """A life in an open group."""

    def __init__(
        self,
        me: Source,
        keys: Keyring | Unsealed,
        tally: Tally,
        config: MemberConfig,
        random: Randomness,
        make: MachineMaker,
        former: Machine | None,
    ) -> None:
        """`former`: what this process was in its last life, if it did not crash."""
        super().__init__(me, keys, tally, None)
        self._config: Final = config
        self._random: Final = random
        self._make: Final = make
        self._former: Final = former
        self._newcomer: Newcomer | None = None
        name = f"p{me.sender}"
        if config.group_reliable and config.role == "member":
            self._newcomer = Newcomer(me, name, config.limits, random)
        else:
            # Nobody agrees on who reads, or on who is in a feed.
            self._enter(View.alone(me, name, _own_origin(me)), 0)

    def _enter(self, view: View, now_ns: int) -> None:
        joining = len(view.present) > 1
        self.member = self._make(self._config, self.me, view, self._random, self.tally, joining)
        self._newcomer = None
        if self._former is not None:
            self.member.follow_up(self._former, now_ns)

    def _follow(self, now_ns: int) -> None:
        """Become a member, if this process was let in or has begun the group."""
        newcomer = self._newcomer
        if newcomer is not None and newcomer.view is not None:
            self._enter(newcomer.view, now_ns)

    @property
    def out(self) -> bool:
        if self._newcomer is not None:
            return self._newcomer.over
        return super().out

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        if self._newcomer is None:
            super().receive(frames, source, now_ns)
            return
        self._newcomer.receive(frames, source, now_ns)
        self._follow(now_ns)

    def on_timer(self, now_ns: int) -> None:
        if self._newcomer is None:
            super().on_timer(now_ns)
            return
        self._newcomer.on_timer(now_ns)
        self._follow(now_ns)

    def next_deadline_ns(self) -> int:
        if self._newcomer is None:
            return super().next_deadline_ns()
        return self._newcomer.next_deadline_ns()

    def datagrams(self, now_ns: int) -> list[Outgoing]:
        found = [] if self._newcomer is None else self._newcomer.datagrams(now_ns)
        return found if self.member is None else [*found, *self.member.datagrams(now_ns)]


def _own_origin(me: Source) -> int:
    """A number that no other life has."""
    return scatter(scatter(int(me.sender)) + int(me.incarnation)) & _ORIGIN_MASK or 1
