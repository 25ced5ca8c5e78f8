"""A page: the rounds of a few senders, and which column of its tracker each of their lives has.

What this member has of each source goes in; what the tracker makes of it comes out. On the wire a
source has its name; here it has a column, in the order in which they came, so that members need not
agree on columns. Of each sender only the first two lives that have not ended have one
(`followed.py`); a column is given to another source only between rounds, since arrays that are
under way speak of columns.

A voter that does not mention a source has nothing of it. To send less (`delta`), a vote may leave
out sources of which it has no more than is agreed. Whoever reads it takes what is agreed as far as
it knows itself, which everybody has. That would be wrong for f+1 votes, and for a member that came
back without memory; so it is done only for stability, and only in groups in which nobody ever came
back. A root that knows of less would never learn from such votes what is agreed; so they go only to
a root that has said so much itself (INV-SAID).
"""

from typing import Final, final

import numpy as np
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.stability.followed import (
    ABSTAINS,
    ABSTENTIONS,
    ABSTENTIONS_AFTER_END,
    ENDED,
    WIDTH,
    Followed,
)
from semcast.protocol.stability.rounds.round_message import ACK, Numbers, RoundMessage
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.trigger import Trigger
from semcast.wire.families.rounds import ABSTAIN, HAVE_AGREED, HAVE_NONE, SAYS_NOTHING, Round

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
        # What `own` was when the last round began here.
        self.began = 0
        self.column = NO_COLUMN
        # Whether this member has a vote on it; if not, in how many rounds it has abstained.
        self.joined = joined
        self.abstained = 0
        # Whether anybody else follows it.
        self.heard = False


@final
class Page:
    """One member's part in the rounds of a page."""

    def __init__(
        self,
        number: int,
        tracker: RoundTracker,
        trigger: Trigger,
        followed: Followed,
        safety: bool,
        joining: Source | None,
        me: Source,
    ) -> None:
        """`joining`: this member's source if it came back without memory, else None."""
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
            row = self.rows[source] = Row(joined)
            self.place()
        return row

    def placed(self) -> list[tuple[Source, Row]]:
        """The sources that have columns, in the order of these."""
        return [(one, self.rows[one]) for one in self.columns if one is not None]

    def place(self) -> None:
        """Give columns to the sources that should have one, as far as that is possible now."""
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
            if self.rows[source].column == NO_COLUMN:
                self._give_column(source, self.rows[source])
        self.abstain()

    def _give_column(self, source: Source, row: Row) -> None:
        for column in range(WIDTH):
            if self._is_free(column):
                self.columns[column] = source
                row.column = column
                self.tracker.put(column, row.own, row.agreed, row.newest)
                return

    def _is_free(self, column: int) -> bool:
        return self.columns[column] is None and column not in self._left

    def abstain(self) -> None:
        """Make the tracker abstain on the sources on which this member has no vote yet."""
        away = [row.column for _, row in self.placed() if not row.joined]
        others: list[int] = []
        if self._joining is not None:
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
        return ended

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
                self.tracker.begin_at(row.column, row.own)
                joined.append(source)
        self.abstain()
        return joined

    def flush(self) -> None:
        """Copy what this member has to the tracker."""
        if self.stale:
            self.stale = False
            for _, row in self.placed():
                if row.own > self.tracker.own[row.column]:
                    self.tracker.advance(row.column, row.own)

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

    # -- the wire ----------------------------------------------------------------------------------

    def frame_of(self, message: RoundMessage, target: int, may_leave_out: bool) -> Round:
        """A message of the tracker as a frame, in which sources have names instead of columns."""
        view = self._followed.view
        unnamed = SAYS_NOTHING
        values: list[int] = [0] * COLUMNS
        usual = values
        if message.values is not None:
            values = message.values.tolist()
            unnamed = HAVE_NONE
            if values[REST] == ABSTAINS:
                unnamed = ABSTAIN
                usual = [ABSTAINS] * WIDTH
            elif may_leave_out and self._leaves_out(message):
                unnamed = HAVE_AGREED
                usual = [0 if one is None else self.rows[one].agreed for one in self.columns]
        newest: list[int] = [0] * COLUMNS if message.newest is None else message.newest.tolist()
        # Ended lives come first, so that whoever reads this has room for the lives that follow.
        rows: list[tuple[Source, int, int]] = []
        if not self._safety:
            rows += [(self._followed.last_ended(sender), ENDED, 0) for sender in self.ended]
        for source in self._followed.first(self.rows):
            row, at = self.rows[source], self.rows[source].column
            if at == NO_COLUMN:
                # No array here has it yet, but others should learn that there is such a life.
                rows.append((source, ABSTAINS if unnamed == ABSTAIN else 0, row.newest))
            elif values[at] != usual[at] or newest[at] > row.agreed or view.is_over(source):
                rows.append((source, values[at], newest[at]))
        return Round(
            view.digest,
            view.number,
            self._safety,
            message.kind,
            unnamed,
            self.number,
            target,
            message.epoch,
            message.round,
            message.root,
            message.count,
            rows,
            message.name() == self._left_out,
        )

    def _leaves_out(self, message: RoundMessage) -> bool:
        """Whether a vote may leave out what is agreed; see the module's docstring."""
        if message.kind != ACK or message.root != self.said_by:
            return False
        return all(row.agreed <= self.said[row.column] for _, row in self.placed())

    def message_of(self, frame: Round) -> tuple[RoundMessage, list[tuple[Source, bool]]]:
        """A frame as a message for the tracker, and the sources that it says have ended."""
        ended: list[tuple[Source, bool]] = []
        values = self._usual(frame.unnamed)
        newest = np.zeros(COLUMNS, np.int64)
        root, count = int(frame.root), int(frame.count)
        message = RoundMessage(frame.kind, frame.epoch, frame.round, root, count, values, newest)
        if frame.left_out:
            self._left_out = message.name()
        for source, value, heard_of in frame.rows:
            if self._followed.page(source) != self.number:
                continue
            if value == ENDED:
                ended += self._on_end(source, message)
                continue
            row = self._row_named(source, heard_of)
            if row is None:
                self._left_out = message.name()
                continue
            newest[row.column] = heard_of
            if values is not None:
                values[row.column] = value
        return message, ended

    def _usual(self, unnamed: i64) -> Numbers | None:
        """The values of all sources that a frame does not name."""
        if unnamed == HAVE_NONE:
            return np.zeros(COLUMNS, np.int64)
        if unnamed == HAVE_AGREED:
            return self.tracker.agreed.copy()
        if unnamed == ABSTAIN:
            return np.full(COLUMNS, ABSTAINS, np.int64)
        return None

    def _on_end(self, source: Source, message: RoundMessage) -> list[tuple[Source, bool]]:
        """Another member says that a source has ended. Returns as `end` does."""
        if not self._followed.has_ended(source):
            return self.end(source)
        if message.root != self.tracker.me or message.name() == self._left_out:
            # Some members may still speak of it.
            self.ended[int(source.sender)] = END_SAID_RESULTS
        return []

    def _row_named(self, source: Source, heard_of: int) -> Row | None:
        """The row of a source that another member speaks of, if there is room for it here."""
        if self._followed.has_ended(source):
            # The member that speaks of it should learn that it has ended.
            self.ended[int(source.sender)] = END_SAID_RESULTS
            return None
        row = self.row(source)
        if row is None:
            return None
        row.heard = True
        if row.column == NO_COLUMN:
            row.newest = max(row.newest, heard_of)
            return None
        return row
