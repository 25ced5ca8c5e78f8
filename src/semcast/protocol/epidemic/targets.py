"""Targets: whom a member passes a message on to. Full membership here; partial views elsewhere.

A provider of targets is a part of the member, so that it may have frames and timers of its own.
It hears of every source that a datagram came from, and answers `draw`.
"""

from abc import abstractmethod
from bisect import bisect_left
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source
from semcast.protocol.epidemic.message_part import MessagePart
from semcast.protocol.membership.view import View
from semcast.wire.frames import ControlFrame


class Targets(MessagePart):
    """Whom a member knows, and a random set of them for each message."""

    @abstractmethod
    def draw(self, count: i64, came_from: i64) -> list[int]:
        """At most `count` different others, by sender id. `came_from` passed the message on to this
        member, and is EVERYBODY if it is its own.
        """

    @abstractmethod
    def links(self) -> int:
        """How many others a message may be drawn for, now."""

    @abstractmethod
    def accepts(self, source: Source) -> bool:
        """Whether datagrams of this source are read."""

    def heard(self, source: Source, now_ns: i64) -> None:
        """A datagram came from this source."""

    def take_gone(self) -> list[int]:
        """Who is no target any more, since the last call: what waits for them may be dropped."""
        return []


@final
class FullMembership(Targets):
    """Everybody who is in the view. The list of them is the view's own, so that members in one
    process, which may be thousands, share it.
    """

    def __init__(self, me: Source, view: View, random: Randomness) -> None:
        self._me: Final = me
        self._random: Final = random
        self._view = view
        # Where this member stands among those who are present; if it does not, behind them.
        self._mine: i64 = 0
        self._others: i64 = 0
        self._look()

    def install(self, view: View, now_ns: i64) -> None:  # noqa: ARG002
        self._view = view
        self._look()

    def _look(self) -> None:
        present, here = self._view.present, self._view.is_present(self._me.sender)
        self._mine = bisect_left(present, int(self._me.sender)) if here else len(present)
        self._others = len(present) - 1 if here else len(present)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        """There is none for it."""

    def draw(self, count: i64, came_from: i64) -> list[int]:  # noqa: ARG002
        """A random set of the others; who sent it may be drawn again, as in the paper."""
        known = self._others
        if count * 2 > known:
            return _shuffled(self._view.others(self._me), self._random)[:count]
        present, random = self._view.present, self._random
        chosen: list[int] = []
        while len(chosen) < count:
            # Much faster than `randrange`, and a message takes several draws.
            at: i64 = int(random.random() * float(known))
            one = present[at if at < self._mine else at + 1]
            if one not in chosen:
                chosen.append(one)
        return chosen

    def links(self) -> int:
        return self._others

    def accepts(self, source: Source) -> bool:
        return self._view.is_present(source.sender)


def _shuffled(those: list[int], random: Randomness) -> list[int]:
    mixed = list(those)
    for at in range(len(mixed) - 1, 0, -1):
        other = random.randrange(at + 1)
        mixed[at], mixed[other] = mixed[other], mixed[at]
    return mixed
