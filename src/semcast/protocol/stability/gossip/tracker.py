"""Stability by gossip (SRM §5.3, after Guo's detection): rounds of votes, merged by minimum.

Each round collects, per source, the lowest seq that its voters have, and who has voted. When
enough have voted, that lowest is *agreed*, and the next round begins with the member's own vote.
Vectors of an older round only tell what is agreed; those of a newer one are joined.

With the votes of all members this is stability detection. With f+1 it is safety detection: a round
ends as soon as any f+1 members met in it, so that one slow member does not hold it up.

Sources are dealt into pages of a few senders each, every page with rounds of its own, so that a
vector always fits a datagram and is never merged by halves.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.config import LIVES_MAX
from semcast.protocol.stability.tracker import StabilityTracker
from semcast.wire.families.votes import Progress, Vector

SENDERS_PER_PAGE: Final = 4
# A sender that restarts again and again may have a few lives in a vector.
_ROWS_MAX: Final = LIVES_MAX * SENDERS_PER_PAGE


def page_of(index: int) -> int:
    """The page of the member with this index."""
    return index // SENDERS_PER_PAGE


@final
class _Row:
    """What is known of one source."""

    def __init__(self) -> None:
        # INV-AGREED: enough members have, or have had covered, everything up to here; never falls.
        self.agreed: i64 = 0
        # INV-LOWEST: every voter of the current round has everything up to here.
        self.lowest: i64 = 0
        # What this member has, and the newest that it has heard of.
        self.own: i64 = 0
        self.newest: i64 = 0


@final
class _Page:
    """The rounds of a few senders."""

    def __init__(self, me: int) -> None:
        self.round: i64 = 1
        self.voters = 1 << me
        self.rows: Final[dict[Source, _Row]] = {}


@final
class GossipTracker(StabilityTracker):
    """Counts votes in rounds that spread by gossip."""

    def __init__(self, members: list[int], me: int, safety: bool, votes: int) -> None:
        """`me` is this member's index; `votes` are needed, or 0 for those of all members."""
        self._index: Final = {sender: at for at, sender in enumerate(members)}
        self._me: Final = me
        self._safety: Final = safety
        self._votes: Final = votes
        self._alive = (1 << len(members)) - 1
        self._pages: Final[dict[int, _Page]] = {}

    def has(self, source: Source, seq: i64) -> i64:
        row = self._row(source)
        if row is None or seq <= row.own:
            return 0
        more = seq - row.own
        row.own = seq
        if seq > row.newest:
            row.newest = seq
        return more

    def agreed(self, source: Source) -> i64:
        row = self._row(source)
        return 0 if row is None else row.agreed

    def on_vector(self, vector: Vector) -> list[Source]:
        if not vector.rows:
            return []
        at = self._index.get(int(vector.rows[0].source.sender))
        if at is None:
            return []
        number = page_of(at)
        page = self._page(number)
        grown = self._learn(page, number, vector)
        if vector.round < page.round:
            return grown
        if vector.round > page.round:
            page.round = vector.round
            self._begin(page)
        page.voters |= vector.voters & self._alive
        told = {row.source: row.lowest for row in vector.rows}
        for source, known in page.rows.items():
            # A voter that does not mention a source has nothing of it.
            known.lowest = min(known.lowest, told.get(source, 0))
        self._finish(page, grown)
        return grown

    def lacks_vote(self, vector: Vector) -> bool:
        """Whether whoever told this vector has not heard this member's vote in that round, or what
        came of the round.
        """
        if not vector.rows:
            return False
        at = self._index.get(int(vector.rows[0].source.sender))
        if at is None:
            return False
        page = self._page(page_of(at))
        return vector.round != page.round or not vector.voters >> self._me & 1

    def on_period(self) -> list[Source]:
        # A member that is alone has all votes without ever hearing a vector.
        return self._finish_all()

    def vectors(self) -> list[Vector]:
        found = []
        for number in sorted(self._pages):
            page = self._pages[number]
            if page.voters == 1 << self._me:
                # Nobody else has a part in this round here, so the vote may say what it would now.
                self._begin(page)
            rows = [
                Progress(source, row.agreed, row.lowest, row.newest)
                for source, row in page.rows.items()
            ]
            if rows:
                found.append(Vector(self._safety, page.round, page.voters, rows))
        return found

    def remove(self, member: i64) -> list[Source]:
        self._alive &= ~(1 << int(member))
        return self._finish_all()

    def restore(self, member: i64) -> None:
        self._alive |= 1 << int(member)
        for page in self._pages.values():
            page.voters &= ~(1 << int(member))

    def held(self, source: Source, seq: i64, excused: int) -> bool:
        """Whether all but the excused have everything of `source` up to `seq`, by their votes."""
        row = self._row(source)
        if row is None:
            return False
        if row.agreed >= seq:
            return True
        at = self._index[int(source.sender)]
        return self._met(self._page(page_of(at)), excused) and row.lowest >= seq

    def renew(self, excused: int) -> None:
        """Begin another round wherever only the excused have not voted, and votes were too low.

        A round cannot end without them, and a vote in it never rises: without another round nobody
        would learn what the others have got since.
        """
        for page in self._pages.values():
            if self._met(page, excused) and page.voters != 1 << self._me:
                for row in page.rows.values():
                    if row.lowest < row.newest:
                        page.round += 1
                        self._begin(page)
                        break

    def _met(self, page: _Page, excused: int) -> bool:
        return self._alive & ~excused & ~page.voters == 0

    def _finish_all(self) -> list[Source]:
        grown: list[Source] = []
        for number in sorted(self._pages):
            self._finish(self._pages[number], grown)
        return grown

    def sources(self, page: int) -> list[Source]:
        found = self._pages.get(page)
        return [] if found is None else list(found.rows)

    def all_agreed(self) -> bool:
        for page in self._pages.values():
            for row in page.rows.values():
                if row.agreed < row.newest:
                    return False
        return True

    def _learn(self, page: _Page, number: int, vector: Vector) -> list[Source]:
        grown: list[Source] = []
        for told in vector.rows:
            at = self._index.get(int(told.source.sender))
            if at is None or page_of(at) != number:
                continue
            row = page.rows.get(told.source)
            if row is None:
                if len(page.rows) >= _ROWS_MAX:
                    continue
                row = _Row()
                page.rows[told.source] = row
            row.newest = max(row.newest, told.newest)
            if told.agreed > row.agreed:
                row.agreed = told.agreed
                grown.append(told.source)
        return grown

    def _begin(self, page: _Page) -> None:
        """Vote in a new round."""
        page.voters = 1 << self._me
        for row in page.rows.values():
            row.lowest = row.own

    def _finish(self, page: _Page, grown: list[Source]) -> None:
        """If enough have voted, what they all have is agreed, and a new round begins."""
        voters = page.voters & self._alive
        if self._votes == 0:
            if voters != self._alive:
                return
        elif voters.bit_count() < self._votes:
            return
        for source, row in page.rows.items():
            if row.lowest > row.agreed:
                row.agreed = row.lowest
                if source not in grown:
                    grown.append(source)
        page.round += 1
        self._begin(page)

    def _row(self, source: Source) -> _Row | None:
        at = self._index.get(int(source.sender))
        if at is None:
            return None
        page = self._page(page_of(at))
        row = page.rows.get(source)
        if row is None:
            if len(page.rows) >= _ROWS_MAX:
                return None
            row = _Row()
            page.rows[source] = row
        return row

    def _page(self, number: int) -> _Page:
        page = self._pages.get(number)
        if page is None:
            page = _Page(self._me)
            self._pages[number] = page
        return page
