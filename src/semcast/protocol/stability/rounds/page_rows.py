"""The sources of a page: what this member has of each, and which column of the tracker it has.

On the wire a source has its name; in the tracker it has a column, in the order in which they came,
so that members need not agree on columns. Of each sender only the first two lives that have not
ended have one (`followed.py`); a column is given to another source only between rounds, since
arrays that are under way speak of columns. Knows nothing of frames: see `page`.
"""

from typing import Final, final

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.membership.view import NO_ORIGIN
from semcast.protocol.stability.followed import (
    ABSTENTIONS,
    ABSTENTIONS_AFTER_END,
    WIDTH,
    Followed,
)
from semcast.protocol.stability.rounds.round_message import RoundMessage
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.trigger import Trigger

# With so many results, messages of a round say which sources have ended.
END_SAID_RESULTS: Final = 2
NO_COLUMN: Final = -1
# The column for all sources that have no column of their own: nobody has anything of these, or a
# member that came back abstains on them.
REST: Final = WIDTH
COLUMNS: Final = WIDTH + 1


@final
class Row:
    """What is known of one source: the same as in the tracker's arrays, but quicker to read."""

    def __init__(self, joined: bool) -> None:
        # What this member has; `flush` copies it to the tracker.
        self.own = 0
        self.agreed = 0
        self.newest = 0
        # The vote on it is no higher than this (`Detection.hold_back`).
        self.floor = SEQ_MAX
        # INV-VOTE: the highest vote that the tracker may have cast. No vote is lower, so that
        # nobody who begins at the lowest of all votes begins before what was agreed.
        self.vote = 0
        # What `own` was when the last round began here.
        self.began = 0
        self.column = NO_COLUMN
        # Whether this member has a vote on it; if not, in how many rounds it has abstained.
        self.joined = joined
        self.abstained = 0
        # Whether anybody else follows it.
        self.heard = False

    def cast(self) -> int:
        """The vote of this member now."""
        self.vote = max(self.vote, min(self.own, self.floor))
        return self.vote


class PageRows:
    """What one member knows of the sources of a page, and where its tracker has each."""

    def __init__(
        self,
        number: int,
        tracker: RoundTracker,
        trigger: Trigger,
        followed: Followed,
        safety: bool,
        joining: Source | None,
        me: Source,
        floors: dict[Source, int],
        rows_max: int,
    ) -> None:
        """`joining`: this member's source if it came back without memory, else None. `floors`: by
        source, what its votes are held back to. `rows_max`: how many rows fit a frame.
        """
        self.rows_max: Final = rows_max
        self._floors: Final = floors
        self._next_gone: Final[list[Source]] = []
        # Lives for which there is no room here and on which somebody has voted; and in which round.
        self._zeros: Final[dict[Source, tuple[int, int, int]]] = {}
        self._followed: Final = followed
        self._safety: Final = safety
        self._joining: Final = joining
        self._me: Final = me
        self.number: Final = number
        self.tracker: Final = tracker
        self.trigger: Final = trigger
        self.rows: Final[dict[Source, Row]] = {}
        # By column, the source that it is for.
        self.columns: Final[list[Source | None]] = [None] * WIDTH
        # Columns of sources that have ended, which may not be used again before the round is over.
        self._left: Final[dict[int, None]] = {}
        # By sender, with how many more results messages say which of its lives have ended.
        self.ended: Final[dict[int, int]] = {}
        self.stale = False
        # Whether anything has come since the last round was begun or asked for here.
        self.fresh = False
        self.began_with: Row | None = None
        self.began_agreed = 0
        # Whether this member took part in a round at the last look.
        self.busy = False
        # The last result that was looked at, and the last that was counted here.
        self.result = (0, 0, 0)
        self.counted: RoundMessage | None = None
        # The last round in which a member may have left out a life of which it has messages, as
        # it had no room for it (INV-IN-ORDER): nothing ends or is joined in that round.
        self._left_out = (0, 0, 0)
        # INV-SAID: member `said_by` knows that at least `said` is agreed, since it said so last.
        self.said_by = -1
        self.said: list[int] = [0] * COLUMNS
        self.abstain()

    def row(self, source: Source) -> Row | None:
        """What is known of a source, if it is to be followed."""
        row = self.rows.get(source)
        mine = source == self._me
        if row is None and (mine or self._followed.follows(source, self.rows)):
            joined = self._joining is None or source == self._joining
            row = self.rows[source] = Row(joined or self._followed.may_vote(source))
            row.floor = self._floors.get(source, SEQ_MAX)
            self.place(source)
        return row

    def meet(self) -> None:
        """Follow all lives of this page on which a newcomer has a vote (INV-YOUNG): it abstains on
        those that its votes do not name.
        """
        for source in self._followed.on_page(self.number):
            if self._followed.may_vote(source):
                self.row(source)

    def placed(self) -> list[tuple[Source, Row]]:
        """The sources that have columns, in the order of these."""
        return [(one, self.rows[one]) for one in self.columns if one is not None]

    def place(self, new: Source | None = None) -> None:
        """Give columns to the sources that should have one, as far as that is possible now. `new`:
        the one that has just been heard of.
        """
        if not self.tracker.under_way():
            for column in self._left:
                self.tracker.put(column, 0, 0, 0)
            self._left.clear()
        wanted = self._followed.first(self.rows)
        if len(wanted) == len(self.rows) and all(
            row.column != NO_COLUMN for row in self.rows.values()
        ):
            return
        if not self.tracker.under_way():
            self.flush()
            for source, row in self.placed():
                if source not in wanted:
                    self.tracker.put(row.column, 0, 0, 0)
                    self.columns[row.column] = None
                    row.column = NO_COLUMN
        for source in wanted:
            row = self.rows[source]
            if row.column == NO_COLUMN and self._may_place(source, row, source == new):
                self._give_column(source, row)
        self.abstain()

    def _may_place(self, source: Source, row: Row, new: bool) -> bool:
        """Whether a source may get a column now. In an open group, in the middle of a round, only
        one that was not heard of before may: of others, some may have said already that they have
        nothing, when there was no column for that, and it would be taken for an abstention.
        """
        if self._followed.view.origin == NO_ORIGIN or not self.tracker.under_way():
            return True
        name = self.tracker.name()
        if not new or self._left_out == name or self._zeros.get(source) == name:
            return False
        return not (row.joined and self._joining and self._followed.is_strange(self.number))

    def _give_column(self, source: Source, row: Row) -> None:
        for column in range(WIDTH):
            if self._is_free(column):
                self.columns[column] = source
                row.column = column
                self.tracker.put(column, row.cast(), row.agreed, max(row.own, row.newest))
                return

    def _is_free(self, column: int) -> bool:
        return self.columns[column] is None and column not in self._left

    def abstain(self) -> None:
        """Make the tracker abstain on the sources on which this member has no vote yet."""
        away = [row.column for _, row in self.placed() if not row.joined]
        others: list[int] = []
        if self._joining is not None and self._followed.is_strange(self.number):
            others = [REST, *(one for one in range(WIDTH) if self._is_free(one))]
        self.tracker.abstain_on(away, others)

    def drop(self, source: Source) -> None:
        """A source has ended."""
        row = self.rows.pop(source)
        if row.column != NO_COLUMN:
            self.columns[row.column] = None
            self._left[row.column] = None
        if self.began_with is row:
            self.began_with = None

    def end(self, source: Source) -> list[tuple[Source, bool]]:
        """A source has ended, and with it earlier lives. Returns those of them that were followed,
        each with whether this member had a vote on it.
        """
        self._followed.end(source)
        if self.tracker.under_way():
            self._left_out = self.tracker.name()
        self.ended[int(source.sender)] = END_SAID_RESULTS
        ended = [(one, row.joined) for one, row in self.rows.items() if self._has_ended(one)]
        for one, _ in ended:
            self.drop(one)
        last = self._followed.next_gone(source)
        if last is not None:
            self._next_gone.append(last)
        return ended

    def follow_gone(self) -> None:
        """Follow the last lives of members that are gone, now that earlier ones have ended."""
        for source in self._next_gone:
            self.row(source)
        self._next_gone.clear()

    def may_end(self, source: Source, known: list[Source], counted: RoundMessage) -> bool:
        """Whether a followed source has ended, by a round of which all votes were counted here."""
        at = self.rows[source].column
        assert counted.values is not None
        assert counted.newest is not None
        return (
            bool(counted.values[at] >= counted.newest[at])
            and counted.name() != self._left_out
            and self._followed.may_end(source, known)
        )

    def _has_ended(self, source: Source) -> bool:
        return self._followed.has_ended(source)

    def join(self, result: RoundMessage) -> list[Source]:
        """INV-JOIN: a round is over, with this result. Begin with the sources on which this member
        abstained in it, if nobody can have left them out. Returns these sources.
        """
        assert result.values is not None
        if result.name() == self._left_out:
            return []
        first = self._followed.first(self.rows)
        joined = []
        for source, row in self.placed():
            if row.joined or not self.tracker.abstained_on(row.column):
                continue
            row.abstained += 1
            ended = int(source.sender) in self.ended
            enough = ABSTENTIONS_AFTER_END if ended else ABSTENTIONS
            # A life that is over and that nobody else speaks of has ended; others will say so.
            lives = row.heard or not self._followed.view.is_over(source)
            if row.abstained >= enough and lives and source in first:
                row.joined = True
                row.own = row.agreed = max(row.own, int(result.values[row.column]))
                row.vote = row.own
                self.tracker.begin_at(row.column, row.own)
                joined.append(source)
        if not joined and all(row.joined for row in self.rows.values()):
            self._followed.met(self.number)
        self.abstain()
        return joined

    def flush(self) -> None:
        """Copy what this member has to the tracker."""
        if self.stale:
            self.stale = False
            for _, row in self.placed():
                if row.cast() > self.tracker.own[row.column]:
                    self.tracker.advance(row.column, row.vote)
                if row.vote < row.own:
                    self.tracker.heard_of(row.column, row.own)

    def waiting(self) -> tuple[int, Row | None]:
        """The most messages of one source that wait to be agreed on, and the row of that source."""
        most = 0
        where: Row | None = None
        for _, row in self.placed():
            known = max(row.own, row.newest)
            if known - row.agreed > most:
                most, where = known - row.agreed, row
        if most == 0 and self.tracker.wants():
            most = 1
        return most, where

    def begin(self) -> tuple[int, int]:
        """A round begins here. Returns how much waits, and how much came since the last one."""
        waiting, row = self.waiting()
        came = max((one.own - one.began for one in self.rows.values()), default=0)
        for one in self.rows.values():
            one.began = one.own
        self.fresh = False
        self.began_with = row
        self.began_agreed = 0 if row is None else row.agreed
        self.flush()
        return waiting, came

    def settled(self) -> int:
        """How many of the messages that waited when a round began here are agreed now."""
        return 0 if self.began_with is None else self.began_with.agreed - self.began_agreed
