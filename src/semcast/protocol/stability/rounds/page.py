"""A page: the rounds of a few senders. Messages of its tracker in, frames out, and the other way.

On the wire a source has its name; in the tracker it has a column (`page_rows`).

A voter that does not mention a source has nothing of it. To send less (`delta`), a vote may leave
out sources of which it has no more than is agreed. Whoever reads it takes what is agreed as far as
it knows itself, which everybody has. That would be wrong for f+1 votes, and for a member that came
back without memory; so it is done only for stability, and only in groups in which nobody ever came
back. A root that knows of less would never learn from such votes what is agreed; so they go only to
a root that has said so much itself (INV-SAID).

The vote of a newcomer that may not know all lives abstains on those that it does not mention.
"""

from typing import final

import numpy as np
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.stability.followed import ABSTAINS, ENDED, WIDTH
from semcast.protocol.stability.rounds.page_rows import (
    COLUMNS,
    END_SAID_RESULTS,
    NO_COLUMN,
    REST,
    PageRows,
    Row,
)
from semcast.protocol.stability.rounds.round_message import ACK, Numbers, RoundMessage
from semcast.wire.families.rounds import ABSTAIN, HAVE_AGREED, HAVE_NONE, SAYS_NOTHING, Round


@final
class Page(PageRows):
    """One member's part in the rounds of a page."""

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
                abstains = unnamed == ABSTAIN and not row.joined
                if self._zeros.get(source) == message.name():
                    abstains = False  # it stands for somebody who has a vote
                rows.append((source, ABSTAINS if abstains else 0, row.newest))
            elif values[at] != usual[at] or newest[at] > row.agreed or view.is_over(source):
                rows.append((source, values[at], newest[at]))
        if (
            unnamed == ABSTAIN
            and self._joining is not None
            and not self._name_young(rows, message.name())
        ):
            # Too many to name: it says that it has nothing of anything else, which delays others.
            unnamed = HAVE_NONE
            self._left_out = message.name()
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

    def _name_young(
        self, rows: list[tuple[Source, int, int]], round_name: tuple[int, int, int]
    ) -> bool:
        """Say that this member has nothing of lives on which it has a vote (INV-YOUNG) and for
        which there is no room, since earlier ones have not ended: it abstains on all that is not
        named. Even if it has some of such a life, nothing of it can be agreed yet (INV-IN-ORDER).
        So it does if others have said it of themselves in this round. Lives that it abstains on
        make room for these. Returns whether there was room for all.
        """
        first = self._followed.first(self.rows)
        unplaced = self._followed.young_on_page(self.number)
        unplaced += [one for one, name in self._zeros.items() if name == round_name]
        rows += [
            (source, 0, 0)
            for source in dict.fromkeys(unplaced)
            if source not in first and not self._has_ended(source)
        ]
        for row in [row for row in rows if row[1] == ABSTAINS]:
            if len(rows) > self.rows_max:
                rows.remove(row)
        fits = len(rows) <= self.rows_max
        del rows[self.rows_max :]
        return fits

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
                is_over = self._has_ended(source)
                if value != 0 or heard_of != 0 or is_over:
                    self._left_out = message.name()
                if values is not None and value != ABSTAINS and not is_over:
                    self._note_zero(source, message.name())
                continue
            newest[row.column] = heard_of
            if values is not None:
                values[row.column] = value
        return message, ended

    def _note_zero(self, source: Source, round_name: tuple[int, int, int]) -> None:
        """Somebody has voted on a life for which there is no room here. What this member passes on
        may not abstain on it, and says that its voters have nothing.
        """
        for one in [one for one, name in self._zeros.items() if name != round_name]:
            del self._zeros[one]
        self._zeros[source] = round_name

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
