"""Detection, the interface: what this member has goes in; what is stable and safe comes out.

*Stable* is what all members have: it may be forgotten (STAB §2). *Safe* is what f + 1 have, so that
it survives f crashes (SRM §5.3). Six protocols are behind this, and nobody else asks which: by
gossip (`gossip/`), or one of STAB's five in rounds (`rounds/`).

A member that came back without memory, or is new, abstains at first. What is agreed meanwhile is
the lowest of the *others*; it begins there (`Agreed.joined`), and has a vote from then on.

In an open group views have other members than those before (`View.changed`). What was agreed in a
former view stays agreed. Why a newcomer misses nothing: it begins with a source after a round of a
view that holds it; in that round all who were there before have voted, so each had left its rounds
of former views; what was agreed in those all of them have, so the lowest of their votes is no less.
A member that is gone meanwhile may have counted those rounds to their ends; it makes no difference,
since they had the votes of all who stayed. f is that of the view: what was safe with a smaller one
stays safe, as messages were purged because of it.
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
    """What another member said of a source."""

    source: Source
    # The newest message that anybody spoke of: a hint that the last one was lost (SRM §5.3).
    newest: int
    # The sender id of a member that has everything up to `has`; -1 if none is known.
    holder: int
    has: int


@final
@dataclass
class Agreed:
    """What detection has found out since it was last asked."""

    # Sources of which more is stable, or more is safe, than before.
    stable: list[Source] = field(default_factory=list)
    safe: list[Source] = field(default_factory=list)
    heard: list[Heard] = field(default_factory=list)
    # Sources that a member that came back begins with, after what is stable of each.
    joined: list[Source] = field(default_factory=list)
    # Sources that have ended: see `followed.py`.
    ended: list[Source] = field(default_factory=list)
    # Those of the ended that this member, which came back, had not begun with yet.
    missed: list[Source] = field(default_factory=list)
    # A reader may have been forgotten, and so lack the end of a stream that ends from now on; and
    # it is served again, but sources may have come and ended in between.
    forgotten: bool = False
    served_again: bool = False

    def __bool__(self) -> bool:
        if self.forgotten or self.served_again:
            return True
        return bool(self.stable or self.safe or self.heard or self.joined or self.ended)


class Detection(Part):
    """Stability and safety detection of one member, and its part in that of the others."""

    # -- what this member has ----------------------------------------------------------------------

    @abstractmethod
    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        """It has everything of `source` up to `seq`, or covers of it; others should learn that."""

    @abstractmethod
    def knows(self, source: Source, seq: i64) -> None:
        """Messages of `source` up to `seq` are here and wait for room. A life that is over has not
        ended before everybody has these too.
        """

    @abstractmethod
    def hold_back(self, source: Source, floor: i64, now_ns: i64) -> None:
        """Vote for no more than `floor` of a source when it is asked what all have, because this
        member serves readers that have only so much; SEQ_MAX: vote for all that is here again. A
        vote that was cast stands, so a reader begins after what this member has (`has`). Its votes
        on what is safe are as before.
        """

    @abstractmethod
    def count_bytes(self, size_bytes: i64) -> None:
        """So many bytes have come, which may be a reason to send votes sooner."""

    @abstractmethod
    def no_room(self, now_ns: i64) -> None:
        """It cannot send until more is stable."""

    @abstractmethod
    def room(self) -> None:
        """It can send again."""

    @abstractmethod
    def vote_soon(self, now_ns: i64) -> None:
        """Vote soon, because a member came back and can begin only where others' votes say."""

    @abstractmethod
    def rest_safety(self, resting: bool) -> None:
        """Say whether safety detection may rest, because little is kept that could be purged."""

    @abstractmethod
    def begin_leaving(self) -> None:
        """From now on no message may count as safe because this member has it."""

    @abstractmethod
    def excuse(self, silent: list[int]) -> None:
        """As a member that leaves, wait no longer for the votes of these, if that is possible."""

    # -- what is agreed ----------------------------------------------------------------------------

    @abstractmethod
    def poll(self, now_ns: i64) -> Agreed | None:
        """What was found out since the last call, or None if nothing was. Call until it is None."""

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
        """Add votes that wait for a ride to a datagram of messages for everybody."""
        return frames

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """Gauges for people, by name."""
