"""What one member knows of a page's rounds: a row for each source, and which lives have ended.

Knows nothing of who votes, nor of what a round comes to.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import ABSTENTIONS, ABSTENTIONS_AFTER_END, Followed
from semcast.protocol.stability.gossip.quiet import QuietMembers
from semcast.wire.families.votes import Progress, Vector

# For so many rounds vectors say which lives have ended. Whoever votes in the round after the next
# has heard what this one came to.
END_SAID_ROUNDS: Final = 2


@final
class Row:
    """What is known of one source."""

    def __init__(self, joined: bool) -> None:
        # INV-AGREED: enough members have, or have had covered, everything up to here; never falls.
        self.agreed: i64 = 0
        # INV-LOWEST: every voter of the current round has everything up to here.
        self.lowest: i64 = 0
        # What this member has, and the newest that it has heard of.
        self.own: i64 = 0
        self.newest: i64 = 0
        # The vote on it is no higher than this (`Detection.hold_back`).
        self.floor: i64 = SEQ_MAX
        # INV-VOTE: the highest vote that this member has cast. No vote is lower, so that nobody
        # who begins at the lowest of all votes begins before what was agreed.
        self.vote: i64 = 0
        # Whether this member has a vote on it; if not, in how many rounds it has abstained.
        self.joined = joined
        self.abstained = 0
        self.waits = False
        # Whether anybody else follows it.
        self.heard = False

    def hold_back(self, floor: i64) -> i64:
        """Vote for no more than this. Says how much more this member votes for now."""
        before = max(self.vote, min(self.own, self.floor))
        self.floor = floor
        return max(0, min(self.own, floor) - before)

    def cast(self) -> i64:
        """The vote of this member now."""
        self.vote = max(self.vote, min(self.own, self.floor))
        return self.vote


@final
class Page:
    """The rounds of a few senders."""

    def __init__(self) -> None:
        self.round: i64 = 1
        self.voters = 0
        self.rows: Final[dict[Source, Row]] = {}
        # By sender, up to which round vectors say which of its lives have ended.
        self.ended: Final[dict[int, int]] = {}
        # Whether a member spoke in this round, or may have, of a life that has ended. It may then
        # have left out a later one (INV-IN-ORDER), so nothing ends or is joined in this round.
        self.left_out = False
        # The same of the round before, for those who learn from others that it is over.
        self.former_left_out = False
        # Whether a newcomer needs this round to end, here or at another voter.
        self.wanted = False

    def begin(self) -> None:
        """Another round begins, with this member's votes."""
        self.left_out = False
        self.wanted = False
        for row in self.rows.values():
            row.waits = not row.joined
            self.wanted = self.wanted or row.waits
            row.lowest = row.cast()

    def join(self, followed: Followed, named: list[Source]) -> list[Source]:
        """A round is over: begin with the sources on which this member has abstained for as long as
        it must. Says with which.
        """
        found = []
        first = followed.first(self.rows)
        for source, row in self.rows.items():
            if row.waits:
                row.abstained += 1
                ended = int(source.sender) in self.ended
                enough = ABSTENTIONS_AFTER_END if ended else ABSTENTIONS
                # A life that is over and that nobody else speaks of has ended; others will say so.
                lives = row.heard or not followed.view.is_over(source)
                if row.abstained >= enough and lives and source in first and source in named:
                    row.joined = True
                    row.own = max(row.own, row.agreed)
                    found.append(source)
        return found

    def begin_with(self, quiet: QuietMembers, alone: bool) -> list[Source]:
        """Begin with the sources that are known to have sent nothing so far; says with which.
        `alone`: no other vote is merged here yet.
        """
        found = []
        waits = False
        for source, row in self.rows.items():
            if not row.joined and quiet.holds(source):
                row.joined = True
                row.waits = False
                row.own = max(row.own, row.agreed)
                found.append(source)
            waits = waits or not row.joined
        self.wanted = waits or (self.wanted and not alone)
        return found

    def leaves_out(self, sender: int) -> None:
        """Another member may speak of a life of this sender that has ended: say that it has."""
        self.left_out = True
        self.ended[sender] = int(self.round) + END_SAID_ROUNDS

    def forget_ended(self) -> None:
        """Stop saying what ended so long ago that others know it by now."""
        for sender in [one for one, until in self.ended.items() if self.round > until]:
            del self.ended[sender]

    def all_agreed(self, view: View, quiet: QuietMembers) -> bool:
        """Whether a vector would say nothing that others may not know."""
        spoken_of = False
        for source, row in self.rows.items():
            if row.agreed < row.newest or not row.joined or view.is_over(source):
                return False
            spoken_of = spoken_of or row.newest > 0 or not quiet.holds(source)
        # A round of quiet members never ends, since nobody speaks of them.
        return not (self.wanted and spoken_of)

    def vector(
        self, followed: Followed, safety: bool, quiet: QuietMembers, patient: bool
    ) -> Vector:
        """The votes of this round that this member has merged. Of a member that is known to be
        quiet nothing need be said; and nothing yet, if this member is `patient`, of one of which
        nothing is known at all. Who is not spoken of has nothing, as far as votes are concerned.
        """
        first = [
            (source, self.rows[source])
            for source in followed.first(self.rows)
            if self.rows[source].newest > 0
            or followed.view.is_over(source)
            or not (quiet.holds(source) or (patient and not self.rows[source].joined))
        ]
        rows = [Progress(source, row.agreed, row.lowest, row.newest) for source, row in first]
        ended = [followed.last_ended(sender) for sender in self.ended]
        return Vector(
            followed.view.digest,
            followed.view.number,
            safety,
            self.round,
            self.voters,
            rows,
            ended,
            self.left_out,
            self.former_left_out,
            wanted=self.wanted and not safety,
        )


def page_number_of(vector: Vector, followed: Followed) -> int:
    """Which page a vector speaks of, or -1."""
    if vector.rows:
        return followed.page(vector.rows[0].source)
    return followed.page(vector.ended[0]) if vector.ended else -1
