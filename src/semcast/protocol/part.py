"""A part of a member: it has control frames of its own, and timers, and learns of each view.

The member hands each control frame to the part that its kind belongs to, calls `on_timer` when one
is due, and lets every part `pack` what it has to say. Messages do not go through here.
"""

from abc import ABC, abstractmethod

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.frames import ControlFrame


class Part(ABC):
    """One of the pieces that a member is made of, beside the path of messages."""

    def kinds(self) -> tuple[int, ...]:
        """The numbers of the control frames that are for this part."""
        return ()

    def strangers_kinds(self) -> tuple[int, ...]:
        """Those of `kinds` that are taken also from sources which the view does not hold."""
        return ()

    @abstractmethod
    def install(self, view: View, now_ns: i64) -> None:
        """From now on this view counts."""

    @abstractmethod
    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        """A control frame of one of this part's kinds came from `source`. If it names a view, that
        is the view of this member.
        """

    def on_timer(self, now_ns: i64) -> None:  # noqa: B027
        """Do what is due by now."""

    def next_deadline_ns(self) -> i64:
        """When to call `on_timer`."""
        return SEQ_MAX

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: B027
        """Put what there is to say into datagrams."""
