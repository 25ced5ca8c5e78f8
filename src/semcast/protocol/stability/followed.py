"""Which sources a detection follows: views in; whether a source counts, and which have ended, out.

A source is one life of a sender. It is followed while it is the sender's present life, and after
that until it has *ended*: everybody has all that anybody has of it, so that nobody will ever ask
for anything of it. Lives of a sender end in order, so one number per sender says which have ended,
and what is kept is bounded however often members come back. Knows nothing of votes.

In an open group members come and are dropped as well (`View.changed`).

- INV-DROPPED: a member is dropped only when its lives have ended. So whatever is of a sender that
  the view does not hold has ended, or has yet to come; nothing is kept of either. If that sender
  comes again in the next view, what it did before has ended. A member that has jumped over views
  cannot tell, but remembers for a while which lives had ended when their sender was dropped.
- INV-YOUNG: for a newcomer, the lives that were there before it are *old*: those of the first view
  that it installs, but for such as came in with it or later. All others are *young*. A young life
  has sent nothing in a view without this member, and nobody has followed it in one. So nothing of
  it can be agreed without this member's vote; it need not abstain, and begins at the beginning. Of
  two lives of one sender an old one may still have messages when a young one begins.
"""

from collections.abc import Iterable
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.config import LIVES_MAX
from semcast.protocol.membership.view import NO_ORIGIN, View

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


# Of how many senders that were dropped a member remembers which lives had ended.
_DROPPED_MAX: Final = 256
# How many lives of a sender that were in views a newcomer remembers. It abstains on one that it
# has forgotten, and so may miss it: few come so soon after each other that none of them has ended.
_SEEN_MAX: Final = 16


def page_of(position: int) -> int:
    """The page of the member at this position."""
    return position // SENDERS_PER_PAGE


@final
class Followed:
    """The sources that one member follows."""

    def __init__(self, view: View, group_reliable: bool, joining: Source | None = None) -> None:
        """`joining`: this member, if it came back or is new."""
        self.view = view
        self._group: Final = group_reliable
        self._joining: Final = joining
        # INV-ENDED: by sender, all its lives up to this one have ended.
        self._ended: Final[dict[int, int]] = {}
        # The same of senders that were dropped lately.
        self._dropped: Final[dict[int, int]] = {}
        # INV-YOUNG: by sender, its last life that is old; senders that are not here have none.
        self._old: Final[dict[int, int]] = {}
        # INV-STRANGE: senders of which others may follow lives that are old and unknown here.
        self._strange: Final[dict[int, None]] = {}
        # As long as there are such: by sender, the last lives that views have held here.
        self._seen: Final[dict[int, list[int]]] = {}
        if joining is not None and view.origin != NO_ORIGIN:
            since = view.since[view.position(joining.sender)]
            for at, sender in enumerate(view.members):
                self._old[sender] = view.lives[at] - int(view.since[at] >= since)
                self._strange[sender] = None
        self.install(view)

    def install(self, view: View) -> list[Source]:
        """Another view counts. In S-SM nobody but the sender keeps its messages, so there a life
        has ended as soon as it is over. Returns former lives on which a newcomer has a vote,
        whether or not it has heard of them.
        """
        before, self.view = self.view, view
        if view.members != before.members:
            self._follow_members(before, view)
        if not self._group:
            for sender in view.members:
                last = view.life(sender) - int(view.is_present(sender))
                self._ended[sender] = max(last, self._ended.get(sender, -1))
        if self._joining is None or view.origin == NO_ORIGIN:
            return []
        self._see(view)
        if view is before:
            return []
        former = [
            Source(sender, life)
            for sender, life in zip(before.members, before.lives, strict=True)
            if life < view.life(sender)
        ]
        return [source for source in former if self.is_young(source)]

    def _see(self, view: View) -> None:
        if not self._strange:
            self._seen.clear()
            return
        for at, sender in enumerate(view.members):
            lives = self._seen.setdefault(sender, [])
            if not lives or lives[-1] != view.lives[at]:
                lives.append(view.lives[at])
                del lives[:-_SEEN_MAX]

    def _follow_members(self, before: View, view: View) -> None:
        """Members have come, or were dropped (INV-DROPPED)."""
        for sender in before.members:
            if sender not in view.positions:
                self._ended.pop(sender, None)
                self._old.pop(sender, None)
                self._strange.pop(sender, None)
                self._seen.pop(sender, None)
                self._dropped.pop(sender, None)
                self._dropped[sender] = before.life(sender)
        for at, sender in enumerate(view.members):
            if sender not in before.positions:
                known = self._dropped.pop(sender, -1)
                jumped = view.number > before.number + 1
                self._ended[sender] = known if jumped else view.lives[at] - 1
        while len(self._dropped) > _DROPPED_MAX:
            del self._dropped[next(iter(self._dropped))]

    def page(self, source: Source) -> int:
        """The page that a source belongs to, or -1 if its sender is no member."""
        position = self.view.position(source.sender)
        return -1 if position < 0 else page_of(position)

    def has_ended(self, source: Source) -> bool:
        """Whether everybody has all that there will ever be of this source."""
        if source.incarnation <= self._ended.get(int(source.sender), -1):
            return True
        return self.view.origin != NO_ORIGIN and int(source.sender) not in self.view.positions

    def is_young(self, source: Source) -> bool:
        """Whether a newcomer has a vote on this source from the beginning (INV-YOUNG)."""
        if self._joining is None or self.view.origin == NO_ORIGIN:
            return False
        return source.incarnation > self._old.get(int(source.sender), -1)

    def is_strange(self, number: int) -> bool:
        """Whether others may follow lives of a page that are old and unknown here, so that this
        member has to abstain on what it does not know (INV-STRANGE).
        """
        if self._joining is None or self.view.origin == NO_ORIGIN:
            return self._joining is not None
        first = number * SENDERS_PER_PAGE
        members = self.view.members[first : first + SENDERS_PER_PAGE]
        return bool(self._strange) and any(sender in self._strange for sender in members)

    def may_vote(self, source: Source) -> bool:
        """Whether a newcomer that abstains on what it does not know has a vote on this source from
        the beginning. If it jumped over the views that held a young life, it may have abstained on
        that one already, so it has to abstain once more.
        """
        if not self.is_young(source):
            return False
        if not self.is_strange(self.page(source)):
            return True
        return int(source.incarnation) in self._seen.get(int(source.sender), [])

    def met_all(self) -> None:
        """Take note that this member never abstains on what it does not know."""
        self._strange.clear()

    def met(self, number: int) -> None:
        """A round of a page has shown all lives that others follow, and this member has a vote on
        them. Nothing of any other life was agreed without it, nor will be.
        """
        first = number * SENDERS_PER_PAGE
        for sender in self.view.members[first : first + SENDERS_PER_PAGE]:
            self._strange.pop(sender, None)

    def older(self) -> list[Source]:
        """The sources that are there and on which a member that came back or is new has to abstain
        at first. It does so even if they never sent anything, so that it has a vote on their
        messages when they do.
        """
        view = self.view
        found = [Source(sender, view.life(sender)) for sender in view.present]
        if view.origin == NO_ORIGIN:
            return found
        return [one for one in found if not self.is_young(one) and one != self._joining]

    def gone(self) -> list[Source]:
        """The last lives of members that are gone from an open group and have not ended. They are
        followed even if they never sent anything: a member is dropped when its lives have ended.
        """
        view = self.view
        if view.origin == NO_ORIGIN or view.gone == 0:
            return []
        lives = zip(view.members, view.lives, strict=True)
        found = [Source(sender, life) for sender, life in lives if not view.is_present(sender)]
        return [source for source in found if not self.has_ended(source)]

    def next_gone(self, source: Source) -> Source | None:
        """A life has ended: the last life of the same sender, if that is one of `gone`. It may have
        had no room until now.
        """
        view = self.view
        if view.origin == NO_ORIGIN or not view.is_over(source) or view.is_present(source.sender):
            return None
        last = Source(source.sender, view.life(source.sender))
        return None if self.has_ended(last) else last

    def young_on_page(self, number: int) -> list[Source]:
        """Lives of a page's members that views have held here, and on which a newcomer that
        abstains on what it does not know has a vote.
        """
        first = number * SENDERS_PER_PAGE
        return [
            Source(sender, life)
            for sender in self.view.members[first : first + SENDERS_PER_PAGE]
            for life in self._seen.get(sender, [])
            if self.may_vote(Source(sender, life))
        ]

    def on_page(self, number: int) -> list[Source]:
        """The lives of a page's members in this view."""
        first = number * SENDERS_PER_PAGE
        end = first + SENDERS_PER_PAGE
        lives = zip(self.view.members[first:end], self.view.lives[first:end], strict=True)
        return [Source(sender, life) for sender, life in lives]

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
