"""What one member knows of a page's rounds: a row for each source, and which lives have ended.

Knows nothing of who votes, nor of what a round comes to.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source

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
        # Whether this member has a vote on it; if not, in how many rounds it has abstained.
        self.joined = joined
        self.abstained = 0
        self.waits = False
        # Whether anybody else follows it.
        self.heard = False


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

    def leaves_out(self, sender: int) -> None:
        """Another member may speak of a life of this sender that has ended: say that it has."""
        self.left_out = True
        self.ended[sender] = int(self.round) + END_SAID_ROUNDS

    def forget_ended(self) -> None:
        """Stop saying what ended so long ago that others know it by now."""
        for sender in [one for one, until in self.ended.items() if self.round > until]:
            del self.ended[sender]
