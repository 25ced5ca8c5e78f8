"""Entrance: what keeps a process out of an open group. Hellos of another kind of group go in, and
datagrams that do not open; why the process cannot get in, for people, comes out.
"""

from collections.abc import Mapping
from typing import Any, Final

from semcast.live.meeting.places import Places
from semcast.live.meeting.why_not import stay_out, why_nobody, why_not_alone

# Whoever is there answers within this time.
SEEK_NS: Final = 150_000_000


class Entrance(Places):
    """The part of an open session that knows what is in the way."""

    def _prepare(self) -> None:
        super()._prepare()
        self._feed = self.config.reliability == "sender"
        self._reads = self.config.role == "reader"
        # Since when this process looks for the others.
        self._seek_ns = 0

    def _is_of_this_kind(self, said: Mapping[str, Any]) -> bool:
        """Whether a hello is of a group of this kind. Whoever has another is told of this one."""
        roster = self._open
        if roster.is_of_kind(self.config.reliability, said):
            return True
        if roster.inside and self._is_first() and not self._reads:
            # Or a newcomer would take this name for free, and begin a group beside this one.
            roster.news = True
        return False

    def _is_first(self) -> bool:
        members = self._open.members
        return bool(members) and members[0] == self.me.sender

    def _stay_out_soon(self, now_ns: int) -> None:
        """There is a group of another kind, and nobody of this one has answered so far."""
        if now_ns >= self._seek_ns + SEEK_NS:
            stay_out(self, self._open, self._why_not_alone())

    def _why_not_alone(self) -> str:
        """Why this process should not begin the group by itself, though nobody has let it in."""
        return why_not_alone(self, self._open.other_kind)

    def why_not_in(self) -> str:
        """Why this process is not in after all that time."""
        return self._why_not_alone() or why_nobody(self)
