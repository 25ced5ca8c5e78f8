"""Detection, the interface: what this member has goes in; what is stable and safe comes out.

*Stable* is what all members have: it may be forgotten (STAB §2). *Safe* is what f + 1 have, so that
it survives f crashes (SRM §5.3). Six protocols are behind this, and nobody else asks which: by
gossip (`gossip/`), or one of STAB's five in rounds (`rounds/`).

A member that came back without memory abstains at first. What is agreed meanwhile is the lowest of
the *others*; it begins there (`Agreed.joined`), and has a vote from then on.
"""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.part import Part


@final
@dataclass
class Heard:
    """What somebody said of a source."""

    source: Source
    # The newest message that anybody spoke of: a hint that the last one was lost (SRM §5.3).
    newest: int
    # Somebody, by sender id, who has everything up to `has`.
    holder: int
    has: int


@final
@dataclass
class Agreed:
    """What has come of all that was told since the last time."""

    # Sources of which more is stable, or safe.
    stable: list[Source] = field(default_factory=list)
    safe: list[Source] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    # Sources that a member that came back begins with, after what is stable of each.
    joined: list[Source] = field(default_factory=list)
    # Sources that have ended: see `followed.py`.
    ended: list[Source] = field(default_factory=list)
    # Those of them that had ended before a member that came back began with them.
    missed: list[Source] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.stable or self.safe or self.heard or self.joined or self.ended)


class Detection(Part):
    """Both detections of one member, and how it takes part in the others'."""

    # -- what this member has ----------------------------------------------------------------------

    @abstractmethod
    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        """It has everything of `source` up to `seq`, or covers of it: something to tell soon."""

    @abstractmethod
    def knows(self, source: Source, seq: i64) -> None:
        """There is more of `source` here, up to `seq`, which waits for room. What is over has not
        ended before everybody has that too.
        """

    @abstractmethod
    def count_bytes(self, size_bytes: i64) -> None:
        """So many bytes have come; others may be told sooner because of it."""

    @abstractmethod
    def no_room(self, now_ns: i64) -> None:
        """It cannot send until more is stable."""

    @abstractmethod
    def room(self) -> None:
        """It can send again."""

    @abstractmethod
    def vote_soon(self, now_ns: i64) -> None:
        """Somebody waits to hear of votes: it came back, and is to begin where these say."""

    @abstractmethod
    def rest_safety(self, resting: bool) -> None:
        """Whether it does not matter now what is safe: little is kept that could be purged."""

    @abstractmethod
    def begin_leaving(self) -> None:
        """It is not to be counted on for what is safe any more."""

    @abstractmethod
    def excuse(self, silent: list[int]) -> None:
        """Of a member that leaves: do not wait for the votes of these, if that can be helped."""

    # -- what is agreed ----------------------------------------------------------------------------

    @abstractmethod
    def poll(self, now_ns: i64) -> Agreed | None:
        """What has come of it since the last time; None if nothing has. Ask until it is None."""

    @abstractmethod
    def stable(self, source: Source) -> i64:
        """All members have everything of `source` up to here."""

    @abstractmethod
    def safe(self, source: Source) -> i64:
        """Enough members have everything of `source` up to here for it to survive f crashes."""

    @abstractmethod
    def held(self, source: Source, seq: i64) -> bool:
        """Whether all others but the excused have everything of `source` up to `seq`."""

    @abstractmethod
    def follows(self, source: Source) -> bool:
        """Whether messages of a source may be taken in: its stream may begin, and has not ended."""

    @abstractmethod
    def joining(self) -> bool:
        """Whether this member came back and has no vote yet on some sources."""

    # -- what goes out -----------------------------------------------------------------------------

    def board(self, frames: bytes) -> bytes:
        """A datagram of messages for everybody, with votes on board if any wait for a ride."""
        return frames

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """What there is to tell, for people."""
