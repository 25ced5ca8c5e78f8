"""Which sources a detection follows: views in; whether a source counts, and which have ended, out.

A source is one life of a sender. It is followed while it is the sender's present life, and after
that until it has *ended*: everybody has all that anybody has of it, so that nobody will ever ask
for anything of it. Lives of a sender end in order, so one number per sender says which have ended,
and what is kept is bounded however often members come back. Knows nothing of votes.
"""

from collections.abc import Iterable
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.config import LIVES_MAX
from semcast.protocol.membership.view import View

# Sources are dealt into pages of a few senders each, so that the votes on a page fit a datagram.
SENDERS_PER_PAGE: Final = 4
# Sources of a page that a frame speaks of.
WIDTH: Final = LIVES_MAX * SENDERS_PER_PAGE
# Sent in place of how far a source is agreed, to say that it has ended.
ENDED: Final = SEQ_MAX - 1
# The vote of a member that does not yet have a say: it lowers no minimum.
ABSTAINS: Final = SEQ_MAX
# A member that came back has a say on a source after it has abstained in a round in which everybody
# spoke of that source. A member that did not speak of it spoke of earlier lives of the same sender
# (INV-IN-ORDER). So if such lives have ended just now, it abstains once more.
ABSTENTIONS: Final = 1
ABSTENTIONS_AFTER_END: Final = 2


def page_of(position: int) -> int:
    """The page of the member at this position."""
    return position // SENDERS_PER_PAGE


@final
class Followed:
    """The sources that one member follows."""

    def __init__(self, view: View, group_reliable: bool) -> None:
        self.view = view
        self._group: Final = group_reliable
        # INV-ENDED: by sender, all its lives up to this one have ended.
        self._ended: Final[dict[int, int]] = {}
        self.install(view)

    def install(self, view: View) -> None:
        """Another view counts. In S-SM nobody but the sender keeps its messages, so there a life
        has ended as soon as it is over.
        """
        self.view = view
        if not self._group:
            for sender in view.members:
                last = view.life(sender) - int(view.is_present(sender))
                self._ended[sender] = max(last, self._ended.get(sender, -1))

    def page(self, source: Source) -> int:
        """The page that a source belongs to, or -1 if its sender is no member."""
        position = self.view.position(source.sender)
        return -1 if position < 0 else page_of(position)

    def has_ended(self, source: Source) -> bool:
        """Whether everybody has all that there will ever be of this source."""
        return source.incarnation <= self._ended.get(int(source.sender), -1)

    def end(self, source: Source) -> None:
        """A source has ended, and with it all lives of its sender before it."""
        sender, life = int(source.sender), int(source.incarnation)
        self._ended[sender] = max(life, self._ended.get(sender, -1))

    def last_ended(self, sender: i64) -> Source:
        """The last life of a sender that has ended; there is one."""
        return Source(sender, self._ended[int(sender)])

    def follows(self, source: Source, known: Iterable[Source]) -> bool:
        """Whether a source is to be followed besides those that are known.

        A later life than the view's is not followed, since the next view will name it. If two
        earlier lives of its sender have not ended, it waits until one has: nothing is lost, because
        whoever has its messages keeps them.
        """
        if source.incarnation > self.view.life(source.sender) or self.has_ended(source):
            return False
        return len(_lives_before(source, known)) < LIVES_MAX

    def first(self, known: Iterable[Source]) -> list[Source]:
        """Of each sender the first two lives that have not ended. A frame speaks of these.

        INV-IN-ORDER: whoever does not speak of a life speaks of earlier ones of the same sender. So
        nobody takes a life to have ended while anybody has something of an earlier one.
        """
        room: dict[int, int] = {}
        found = []
        for source in sorted(known):
            left = room.get(int(source.sender), LIVES_MAX)
            if left > 0:
                room[int(source.sender)] = left - 1
                found.append(source)
        return found

    def may_end(self, source: Source, known: Iterable[Source]) -> bool:
        """Whether a life may have ended: it is over, and all before it have (INV-IN-ORDER)."""
        return self.view.is_over(source) and not _lives_before(source, known)


def _lives_before(source: Source, known: Iterable[Source]) -> list[Source]:
    return [one for one in known if one.sender == source.sender and one < source]
