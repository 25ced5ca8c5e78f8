"""Stability by gossip (SRM §5.3, after Guo's detection): rounds of votes, merged by minimum.

Each round collects, per source, the lowest seq that its voters have, and who has voted. When
enough have voted, that lowest is *agreed*, and the next round begins with the member's own vote.
Vectors of an older round only say what is agreed; on one of a newer round a member joins it.
All of this is within one view, whose rounds count from 1: vectors of other views do not come here.

With the votes of all members this is stability detection. With f+1 it is safety detection: a round
ends as soon as any f+1 members met in it, so that one slow member does not hold it up.

Sources are dealt into pages of a few senders each, every page with rounds of its own, so that a
vector always fits a datagram and is never merged by halves.

A member that came back without memory votes 0 at first for each source that it hears of. So nothing
more is agreed before it has a vote; and when such a round is over, all others have said in it what
was agreed before. It begins at the highest of these (INV-JOIN). So does a newcomer of an open group
with the sources that were there before it; with all others it begins at once (INV-YOUNG).

A source whose life is over has ended when all have what anybody has of it. Nobody can come to have
more, because messages of a life that is over come only from other members of this view.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.protocol.stability.followed import ENDED, Followed, page_of
from semcast.protocol.stability.gossip.page import END_SAID_ROUNDS, Page, Row, page_number_of
from semcast.protocol.stability.gossip.quiet import QuietMembers
from semcast.wire.families.votes import Vector


@final
class GossipTracker:
    """Counts votes in rounds that spread by gossip."""

    def __init__(
        self,
        followed: Followed,
        me: Source,
        safety: bool,
        votes: int,
        joining: bool = False,
        quiet: QuietMembers | None = None,
    ) -> None:
        """`votes`: how many are needed, or 0 for those of all members. `joining`: this member came
        back without memory, and waits at first. `quiet`: who is known to have sent nothing.
        """
        self._quiet: Final = QuietMembers() if quiet is None else quiet
        self._followed: Final = followed
        self._me: Final = me
        self._safety: Final = safety
        self._votes = votes
        self._joining: Final = joining
        self._pages: Final[dict[int, Page]] = {}
        self._bit = 0
        self._alive = 0
        # What was found out since the last `take_*`.
        self._joined: list[Source] = []
        self._ended: list[Source] = []
        self._missed: list[Source] = []
        # By source, what this member's votes are held back to.
        self._floors: Final[dict[Source, int]] = {}
        self.install(followed.view, [])

    # -- views -------------------------------------------------------------------------------------

    def install(self, view: View, former: list[Source]) -> None:
        """Another view counts: rounds begin anew. What members have, they have still. `former`: see
        `Followed.install`.
        """
        assert view.position(self._me.sender) >= 0, "a view without this member is not for it"
        self._bit = 1 << view.position(self._me.sender)
        self._alive = view.present_bits
        if view.origin != NO_ORIGIN and self._safety:
            self._votes = view.f + 1
        before = list(self._pages.values())
        self._pages.clear()
        for page in before:
            for source, row in page.rows.items():
                self._carry_over(view, source, row)
            for sender in page.ended:
                if sender in view.positions:
                    self._page(page_of(view.position(sender))).ended[sender] = 1 + END_SAID_ROUNDS
        for source in [one for one in self._floors if self._followed.has_ended(one)]:
            del self._floors[source]
        if self._joining:
            for source in self._followed.older():
                self._row(source)
        if not self._safety:
            for source in self._followed.gone() + former:
                self._row(source)
        for page in self._pages.values():
            self._begin(page)

    def _carry_over(self, view: View, source: Source, row: Row) -> None:
        if self._followed.has_ended(source):
            self._ended.append(source)
            if not row.joined and view.position(source.sender) < 0:
                self._missed.append(source)
            return
        if view.is_over(source):
            # Its sender is gone, so only messages that some member has can still come.
            row.newest = row.own
        # Who spoke of it in another view does not count in this one.
        row.abstained = 0
        row.heard = False
        self._page(self._followed.page(source)).rows[source] = row

    @property
    def joining(self) -> bool:
        """Whether this member came back, and has no vote yet on some source."""
        if not self._joining:
            return False
        return any(not row.joined for page in self._pages.values() for row in page.rows.values())

    # -- what this member has ----------------------------------------------------------------------

    def has(self, source: Source, seq: i64) -> i64:
        """We have everything of `source` up to `seq`, or covers of it. Says how much is new."""
        row = self._row(source)
        if row is None or seq <= row.own:
            return 0
        more = seq - row.own
        row.own = seq
        if seq > row.newest:
            row.newest = seq
        return more

    def knows(self, source: Source, seq: i64) -> None:
        """There is more of a source here, up to `seq`, which waits for room."""
        row = self._row(source)
        if row is not None and seq > row.newest:
            row.newest = seq

    def hold_back(self, source: Source, floor: i64) -> i64:
        """Vote for no more than `floor` of a source, as long as no vote for more was cast. Says how
        much more this member votes for now.
        """
        if floor >= SEQ_MAX:
            self._floors.pop(source, None)
        else:
            self._floors[source] = int(floor)
        row = self._row(source)
        return 0 if row is None else row.hold_back(floor)

    def has_none(self, source: Source) -> bool:
        """Whether this member has nothing of a source."""
        row = self._row(source)
        return row is None or row.own == 0

    def agreed(self, source: Source) -> i64:
        """Enough members have everything of `source` up to here."""
        if self._followed.has_ended(source):
            return ENDED
        page = self._pages.get(self._followed.page(source))
        row = None if page is None else page.rows.get(source)
        return 0 if row is None else row.agreed

    def follows(self, source: Source) -> bool:
        """Whether votes on this source count, and this member has one."""
        row = self._row(source)
        return row is not None and row.joined

    def sources(self) -> list[Source]:
        """All sources that are followed."""
        return [source for page in self._pages.values() for source in page.rows]

    # -- what others send --------------------------------------------------------------------------

    def on_vector(self, vector: Vector) -> list[Source]:
        """Take the votes that another member has merged. Returns the sources that got further."""
        number = page_number_of(vector, self._followed)
        if number < 0:
            return []
        page = self._page(number)
        grown = self._learn(page, number, vector)
        if vector.round < page.round:
            return grown
        if vector.round > page.round:
            # A round follows another only when everybody has voted in that, or has abstained.
            if vector.round == page.round + 1 and not vector.former_left_out:
                self._join(page, [row.source for row in vector.rows])
            page.round = vector.round
            page.former_left_out = False
            self._begin(page)
        page.voters |= vector.voters & self._alive
        page.left_out = page.left_out or vector.left_out
        page.wanted = page.wanted or vector.wanted
        page.former_left_out = page.former_left_out or vector.former_left_out
        for row in vector.rows:
            if self._followed.has_ended(row.source) and not self._safety:
                page.leaves_out(int(row.source.sender))
        lowest = {row.source: row.lowest for row in vector.rows}
        for source, known in page.rows.items():
            # A voter that does not mention a source has nothing of it.
            known.lowest = min(known.lowest, lowest.get(source, 0))
        self._finish(page, grown)
        return grown

    def lacks_vote(self, vector: Vector) -> bool:
        """Whether the sender of this vector lacks this member's vote in that round, or the result
        of the round.
        """
        number = page_number_of(vector, self._followed)
        if number < 0:
            return False
        return vector.round != self._page(number).round or not vector.voters & self._bit

    def on_period(self) -> list[Source]:
        """End rounds without a vector: a member that is alone has all votes. Returns as above."""
        grown: list[Source] = []
        for number in sorted(self._pages):
            self._finish(self._pages[number], grown)
        return grown

    def end(self, sources: list[Source]) -> None:
        """These have ended, as the other tracker has found out."""
        for source in sources:
            page = self._pages.get(self._followed.page(source))
            if page is not None:
                page.rows.pop(source, None)

    def take_joined(self) -> list[Source]:
        """Sources to begin with, after what is agreed of each."""
        joined, self._joined = self._joined, []
        return joined

    def take_ended(self) -> list[Source]:
        """Sources that have ended."""
        ended, self._ended = self._ended, []
        return ended

    def take_missed(self) -> list[Source]:
        """Sources that have ended before this member, which came back, had a vote on them."""
        missed, self._missed = self._missed, []
        return missed

    # -- what to send ------------------------------------------------------------------------------

    def vectors(self, patient: bool = False) -> list[Vector]:
        """The votes of this member, with those that it has merged; see `Page.vector`."""
        found = []
        for number in sorted(self._pages):
            page = self._pages[number]
            if page.voters == self._bit:
                # No other vote is merged here yet, so this member may still raise its own.
                self._begin(page)
            page.forget_ended()
            vector = page.vector(self._followed, self._safety, self._quiet, patient)
            if vector.rows or vector.ended:
                found.append(vector)
        return found

    def all_agreed(self) -> bool:
        """Whether vectors would say nothing that others may not know."""
        view, quiet = self._followed.view, self._quiet
        return all(page.all_agreed(view, quiet) for page in self._pages.values())

    # -- leaving -----------------------------------------------------------------------------------

    def held(self, source: Source, seq: i64, excused: int) -> bool:
        """Whether all but the excused have everything of `source` up to `seq`, by their votes."""
        if self.agreed(source) >= seq:
            return True
        row = self._row(source)
        if row is None:
            return False
        page = self._page(self._followed.page(source))
        return self._met(page, excused) and row.lowest >= seq

    def renew(self, excused: int) -> None:
        """Begin another round wherever only the excused have not voted, and votes were too low.

        A round cannot end without them, and a vote in it never rises: without another round nobody
        would learn what the others have got since.
        """
        for page in self._pages.values():
            if self._met(page, excused) and page.voters != self._bit:
                for row in page.rows.values():
                    if row.lowest < row.newest:
                        page.round += 1
                        page.former_left_out = True
                        self._begin(page)
                        break

    def _met(self, page: Page, excused: int) -> bool:
        return self._alive & ~excused & ~page.voters == 0

    # -- rounds ------------------------------------------------------------------------------------

    def _learn(self, page: Page, number: int, vector: Vector) -> list[Source]:
        grown: list[Source] = []
        followed = self._followed
        for source in [] if self._safety else vector.ended:
            if followed.page(source) == number and not followed.has_ended(source):
                self._end(page, source)
        for said in vector.rows:
            source = said.source
            if followed.page(source) != number:
                continue
            if followed.has_ended(source):
                if not self._safety:
                    page.ended[int(source.sender)] = int(page.round) + END_SAID_ROUNDS
                continue
            row = self._row(source)
            if row is None:
                continue
            row.heard = True
            row.newest = max(row.newest, said.newest)
            if said.agreed > row.agreed:
                row.agreed = said.agreed
                grown.append(source)
        return grown

    def _begin(self, page: Page) -> None:
        """Vote in a new round."""
        page.voters = self._bit
        page.begin()

    def _finish(self, page: Page, grown: list[Source]) -> None:
        """If enough have voted, what they all have is agreed, and a new round begins."""
        voters = page.voters & self._alive
        if self._votes == 0:
            if voters != self._alive:
                return
        elif voters.bit_count() < self._votes:
            return
        over: list[Source] = []
        for source, row in page.rows.items():
            if row.lowest > row.agreed:
                row.agreed = row.lowest
                if source not in grown:
                    grown.append(source)
            if row.lowest >= row.newest and not self._safety:
                over.append(source)
        # At most one life of each sender may end: whoever spoke of that one may have had no room to
        # speak of the next.
        known = list(page.rows)
        left_out = page.left_out
        if not left_out:
            for source in sorted(over):
                if self._followed.may_end(source, known):
                    self._end(page, source)
        page.round += 1
        if not left_out:
            self._join(page, known)
        page.former_left_out = left_out
        self._begin(page)

    def _join(self, page: Page, named: list[Source]) -> None:
        """INV-JOIN: a round is over. Begin with the sources for which this member voted 0 in it, if
        nobody can have left them out. `named`: those that the member that ended it spoke of.
        """
        if self._joining:
            self._joined += page.join(self._followed, named)

    def begin_with_quiet(self) -> None:
        """Begin with the sources that have sent nothing so far (INV-QUIET)."""
        for page in self._pages.values():
            self._joined += page.begin_with(self._quiet, page.voters == self._bit)

    def _end(self, page: Page, source: Source) -> None:
        self._followed.end(source)
        page.leaves_out(int(source.sender))
        for one in [one for one in page.rows if self._followed.has_ended(one)]:
            if not page.rows[one].joined:
                self._missed.append(one)
            del page.rows[one]
            self._floors.pop(one, None)
            self._ended.append(one)
        last = self._followed.next_gone(source)
        if last is not None and not self._safety:
            self._row(last)

    # -- small parts -------------------------------------------------------------------------------

    def _row(self, source: Source) -> Row | None:
        number = self._followed.page(source)
        if number < 0:
            return None
        page = self._page(number)
        row = page.rows.get(source)
        if row is None and (source == self._me or self._followed.follows(source, page.rows)):
            joined = not self._joining or source == self._me
            row = page.rows[source] = Row(joined or self._followed.is_young(source))
            page.wanted = page.wanted or not row.joined
            if source in self._floors:
                row.floor = self._floors[source]
        return row

    def _page(self, number: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = Page()
            self._begin(page)
        return page
