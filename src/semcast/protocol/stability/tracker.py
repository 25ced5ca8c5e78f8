"""Stability detection, the interface: what this member has in, what enough members have out.

A tracker counts votes. With the votes of all members it detects *stability*: everybody has a
message, so it may be forgotten (STAB §2). With f+1 votes it detects *safety*: somebody who does not
crash has it (SRM §5.3). How votes travel is the business of each protocol.
"""

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.wire.families.measures import MeasureFrame
from semcast.wire.families.rounds import Round


class StabilityTracker(ABC):
    """Detects up to which message of each source enough members have everything."""

    @abstractmethod
    def has(self, source: Source, seq: i64) -> i64:
        """We have everything of `source` up to `seq`, or covers of it. Says how much is new."""

    @abstractmethod
    def agreed(self, source: Source) -> i64:
        """Enough members have everything of `source` up to here."""

    @abstractmethod
    def sources(self, page: int) -> list[Source]:
        """The sources of a page that anybody spoke of."""


class RoundPages(StabilityTracker):
    """One of a member's two trackers, where votes travel in rounds; see `pages.py`."""

    def __init__(self) -> None:
        # While this is so nobody begins a round here (SRM §6.4).
        self.resting = False
        # What has come of it all, for the member to take: sources of which more is agreed, those of
        # which others have heard of more, and pages whose streams may begin.
        self.grown: list[Source] = []
        self.news: list[tuple[Source, int]] = []
        self.joined_pages: list[int] = []

    @abstractmethod
    def urge(self, now_ns: i64) -> None:
        """A window is full: begin a round, or ask for one, without waiting."""


class Rounds(ABC):
    """What a member needs of rounds; see `detection.py`, which is imported only if need be."""

    def __init__(self, stability: RoundPages, safety: RoundPages) -> None:
        self.stability: Final = stability
        self.safety: Final = safety

    @abstractmethod
    def on_round(self, frame: Round, sender: int, now_ns: i64) -> None:
        """A frame arrived from the member with this index."""

    @abstractmethod
    def poll(self, now_ns: i64) -> None:
        """There is more here than before."""

    @abstractmethod
    def on_timer(self, now_ns: i64) -> None:
        """Whatever is due."""

    @abstractmethod
    def next_deadline_ns(self) -> int:
        """When to call on_timer."""

    @abstractmethod
    def take_out(self) -> list[tuple[int, Round]]:
        """What to send: to a sender id or EVERYBODY."""

    @abstractmethod
    def remove(self, member: int, now_ns: i64) -> None:
        """The member with this index is gone."""

    @abstractmethod
    def restore(self, member: int) -> None:
        """It is back, and has to vote again."""

    @abstractmethod
    def on_measure(self, frame: MeasureFrame, sender: int, now_ns: i64) -> None:
        """A frame about round-trip times or the tree arrived from the member with this index."""

    @abstractmethod
    def take_measures(self) -> list[tuple[int, MeasureFrame]]:
        """The same to send: to a sender id or EVERYBODY."""

    @abstractmethod
    def figures(self) -> dict[str, int]:
        """What there is to tell of rounds, for people."""

    @abstractmethod
    def joined(self, page: int) -> None:
        """The streams of a page have begun here: everybody knows of this life."""
