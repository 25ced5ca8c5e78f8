"""Stability detection, the interface: what this member has in, what enough members have out.

A tracker counts votes. With the votes of all members it detects *stability*: everybody has a
message, so it may be forgotten (STAB §2). With f+1 votes it detects *safety*: somebody who does not
crash has it (SRM §5.3). The protocols of STAB implement the same interface.
"""

from abc import ABC, abstractmethod

from mypy_extensions import i64

from semcast.ids import Source
from semcast.wire.frames import Vector


class StabilityTracker(ABC):
    """Detects up to which message of each source enough members have everything."""

    @abstractmethod
    def has(self, source: Source, seq: i64) -> i64:
        """We have everything of `source` up to `seq`, or covers of it. Says how much is new."""

    @abstractmethod
    def on_vector(self, vector: Vector) -> list[Source]:
        """Another member's vector arrived. Returns the sources whose agreed seq has grown."""

    @abstractmethod
    def on_period(self) -> list[Source]:
        """It is time to tell others. Returns the sources whose agreed seq has grown."""

    @abstractmethod
    def vectors(self) -> list[Vector]:
        """What to tell others now."""

    @abstractmethod
    def agreed(self, source: Source) -> i64:
        """Enough members have everything of `source` up to here."""

    @abstractmethod
    def remove(self, member: i64) -> list[Source]:
        """The member with this index is gone. Returns the sources whose agreed seq has grown."""

    @abstractmethod
    def restore(self, member: i64) -> None:
        """The member with this index is back, and has to vote again."""

    @abstractmethod
    def sources(self, page: int) -> list[Source]:
        """The sources of a page that anybody spoke of."""

    @abstractmethod
    def all_agreed(self) -> bool:
        """Whether everything heard of is agreed: nothing new to tell."""
