"""Quiet members: views and the words of others in; sources that a newcomer may begin with, out.

A newcomer has no vote on a source that was there before it until a round is over in which it has
abstained (INV-JOIN). In a large group most members have mostly sent nothing, and then there is a
shorter way. Each member says of itself whether it had sent anything when it installed this view;
what it says spreads as votes do, as one bit for each member.

INV-QUIET: a bit is set only by the member that it stands for, and only if that had sent nothing
when it installed this very view, which has the newcomer in it. So all that it ever sends in this
life it sends to the newcomer too, and nothing of it is agreed without the newcomer's vote, which
begins at the beginning: such a source is as good as young (INV-YOUNG).

Knows nothing of rounds, nor of when to gossip.
"""

from typing import Final, final

from semcast.ids import Source
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.wire.families.votes import Vector

# So many times in a row a member says after each view who is quiet; then only if somebody asks.
_SAID_TIMES: Final = 2


@final
class QuietMembers:
    """Who had sent nothing when it installed this view, as far as one member knows."""

    def __init__(self) -> None:
        self._view: View | None = None
        # INV-QUIET: bit i stands for the member at position i of the view.
        self.bits = 0
        self._to_say = 0

    def install(self, view: View, me: Source, sent_nothing: bool) -> None:
        """Another view counts."""
        self._view = view if view.origin != NO_ORIGIN else None
        self.bits = 1 << view.position(me.sender) if sent_nothing else 0
        self._to_say = _SAID_TIMES

    def holds(self, source: Source) -> bool:
        """Whether a source is the present life of a member that is quiet."""
        view = self._view
        if view is None or not view.holds(source):
            return False
        return self.bits >> view.position(source.sender) & 1 == 1

    def hear(self, vector: Vector) -> bool:
        """Another member says who is quiet. Returns whether this one knew of some of them not."""
        if self._view is None:
            return False
        news = vector.voters & ~self.bits & self._view.present_bits
        self.bits |= news
        if vector.wanted:
            self.asked()
        return news != 0

    def asked(self) -> None:
        """Somebody waits for a round; if that is about quiet members, there is no need to."""
        self._to_say = max(self._to_say, 1)

    def speaks(self, wanted: bool) -> bool:
        """Whether there is something to say. `wanted`: this member waits for others' word."""
        return self._view is not None and (wanted or self._to_say > 0)

    def vector(self, wanted: bool) -> Vector:
        """What to say."""
        view = self._view
        assert view is not None, "only in an open group anybody asks"
        self._to_say = max(0, self._to_say - 1)
        return Vector(view.digest, view.number, False, 0, self.bits, [], quiet=True, wanted=wanted)
