"""One member's part in a round: its own vote and those of its feeders in; what to pass on, out.

A member enters a round, waits for its *feeders*, adds its own vote, and passes the result on to its
*target*; the root ends the round and sends everybody what is agreed. A protocol is little more than
who feeds whom. Knows nothing of messages that arrive late, twice or never: `tracker` deals with
these, and says why no vote is ever missing.
"""

from abc import ABC, abstractmethod
from typing import Final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

from semcast.ids import EVERYBODY, NEVER
from semcast.protocol.stability.followed import ABSTAINS
from semcast.protocol.stability.rounds.missing import NOBODY_MISSING, Missing
from semcast.protocol.stability.rounds.roll import Roll
from semcast.protocol.stability.rounds.round_message import ACK, INFO, START, Numbers, RoundMessage
from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.timeouts import RoundTimeouts
from semcast.protocol.stability.rounds.votes import (
    AllVotes,
    SomeVotes,
    Votes,
    agreed_of,
    highest,
    lowest,
)

SECOND_NS: Final = 1_000_000_000
# What this member does in the latest round that it knows: nothing, or nothing any more (IDLE); it
# waits for its feeders (GATHERING), or for the result (SENT).
IDLE: Final = 0
GATHERING: Final = 1
SENT: Final = 2


class RoundPart(ABC):
    """One member, in the latest round that it knows. Subclasses say who feeds whom."""

    def __init__(
        self,
        members: int,
        me: int,
        width: int,
        votes: int,
        shape: Shape,
        timeout_ns: int = SECOND_NS,
        quiet_ns: int = 0,
        hints: bool = False,
        roll: Roll | None = None,
    ) -> None:
        """`votes`: how many are needed, which is all for stability and f+1 for safety.

        `timeout_ns` is a guess at how long a round takes, until one is measured. A group may do
        nothing for `quiet_ns` although there is something to agree on. With `hints`, messages also
        say which is the newest that anybody heard of.
        """
        self.me: Final = me
        self.width: Final = width
        self.roll: Final = roll if roll is not None else Roll(shape)
        self.timeouts: Final = RoundTimeouts(timeout_ns, max(1, timeout_ns // 16))
        # What this member has, by column. It only grows, which whoever assigns it has to ensure.
        zeros = np.zeros(width, np.int64)
        self.own: Numbers = zeros
        # INV-AGREED: enough members have everything up to here; never falls.
        self.agreed: Numbers = zeros
        self.newest: Numbers | None = zeros if hints else None
        # On which columns this member has no vote.
        self._away: NDArray[np.bool_] | None = None
        self._waits = False
        # What `_away` was when this member last voted.
        self._was_away: NDArray[np.bool_] | None = None
        # Whether a round is wanted even if there is nothing to agree on.
        self.wanted = False
        # Whether a message of another epoch came.
        self.strange = False
        self._needed: Final = 0 if votes >= members else votes
        self._quiet_ns: Final = quiet_ns
        # The same array as `own` if no message shares it, so that it may be written to.
        self._writable: Numbers | None = None
        # INV-LATEST: the latest round that this member knows, whether or not it takes part.
        self._round: i64 = 0
        # Whether that was in this epoch. If not, another of the same number is later: whoever began
        # it did not know of that one, or came back without memory and used the number again.
        self._round_is_known = True
        self._root: int = self.roll.shape(self.roll.successor(shape.root)).root
        self._phase = IDLE
        self._missing = NOBODY_MISSING
        self._votes: Votes | None = None
        self._voted = False
        self._sent: RoundMessage | None = None
        # The result of the latest round, if that is known; and of the last whose votes were all
        # counted here.
        self._info: RoundMessage | None = None
        self.counted: RoundMessage | None = None
        self._entered_ns: i64 = 0
        self._deadline_ns: i64 = NEVER
        self._out: list[tuple[int, RoundMessage]] = []

    # -- what a protocol decides -------------------------------------------------------------------

    @abstractmethod
    def _feeders(self, shape: Shape) -> list[int]:
        """Members whose votes I wait for before I send mine on, or as the root end the round."""

    @abstractmethod
    def _target(self, shape: Shape) -> int:
        """The member to which my votes and those of my feeders go, if I am not the root."""

    def _launch(self) -> None:
        """As the root, begin a round."""
        self._out.append((EVERYBODY, self._message(START, 0)))

    def _announce(self, info: RoundMessage) -> None:
        """As the root, send the result of a round."""
        self._out.append((EVERYBODY, info))

    # -- what a member has, and what is agreed -----------------------------------------------------

    def advance(self, column: int, seq: int) -> None:
        """Everything of a column is here up to `seq`."""
        if self.own is not self._writable:
            self.own = self.own.copy()
            self._writable = self.own
        self.own[column] = seq

    def put(self, column: int, own: int, agreed: int, newest: int) -> None:
        """From now on a column is for another source, of which so much is known. No votes on the
        former source may be under way.
        """
        self.own = _with(self.own, column, own)
        self._writable = None
        self.agreed = _with(self.agreed, column, agreed)
        if self._was_away is not None:
            self._was_away[column] = False
        if self.newest is not None:
            self.newest = _with(self.newest, column, newest)
        if self._info is not None:
            self._info = self._info.without(column)

    def begin_at(self, column: int, seq: int) -> None:
        """Begin with a column after `seq`, the result of a round. The result stays known, since
        others may still ask for it.
        """
        self.own = _with(self.own, column, seq)
        self._writable = None
        self.agreed = _with(self.agreed, column, seq)

    def heard_of(self, column: int, seq: int) -> None:
        """There are messages in a column up to `seq`."""
        if self.newest is not None and seq > self.newest[column]:
            self.newest = _with(self.newest, column, seq)

    def abstain_on(self, columns: list[int], others: list[int]) -> None:
        """From the next vote on, abstain on all of these. On `columns` this member wants a vote;
        `others` are for sources that it has not heard of.
        """
        self._waits = bool(columns)
        self._away = None
        if columns or others:
            self._away = np.zeros(self.width, np.bool_)
            self._away[columns + others] = True

    def abstained_on(self, column: int) -> bool:
        """Whether it had no vote on this column when it last voted."""
        return self._was_away is not None and bool(self._was_away[column])

    def coordinator(self) -> int:
        """Who begins rounds: the root of the last one, or, if that is gone, the next in order."""
        return self.roll.successor(self._root)

    def under_way(self) -> bool:
        """Whether this member takes part in a round whose result it does not know."""
        return self._phase != IDLE

    def name(self) -> tuple[int, int, int]:
        """The latest round that this member knows; see `RoundMessage.name`."""
        return int(self.roll.epoch), int(self._round), int(self._root)

    def result(self) -> RoundMessage | None:
        """What the latest round came to, if that is known."""
        return self._info

    def wants(self) -> bool:
        """Whether a round is wanted, because there is something to agree on."""
        if self.wanted or self._waits or bool((self.own > self.agreed).any()):
            return True
        return self.newest is not None and bool((self.newest > self.agreed).any())

    def watch(self, now_ns: i64) -> None:
        """If there is something to agree on, set a time at which to ask for a round."""
        if self._phase == IDLE and self._deadline_ns == NEVER and self.wants():
            self._deadline_ns = now_ns + self._quiet_ns + 2 * self.timeouts.wait_ns()

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        return self._deadline_ns

    def take_out(self) -> list[tuple[int, RoundMessage]]:
        """What to send: messages, each with a member's index or EVERYBODY."""
        out, self._out = self._out, []
        return out

    # -- a round -----------------------------------------------------------------------------------

    def _begin(self, now_ns: i64) -> bool:
        self._enter(self._round + 1, self.me, now_ns)
        self._launch()
        return self._go_on_if_ready(now_ns)

    def _enter(self, round_number: i64, root: int, now_ns: i64) -> None:
        """Take part in a later round than any before; whatever was under way is over."""
        self._leave_round()
        self._round = round_number
        self._root = root
        self._round_is_known = True
        self._info = None
        self._entered_ns = now_ns
        feeders = self._feeders(self.roll.shape(root))
        self._missing = Missing(feeders)
        self._votes = SomeVotes(self._needed) if self._needed else AllVotes()
        if self._needed:
            self._vote()
        self._phase = GATHERING
        self.timeouts.ended()
        self._deadline_ns = now_ns + self.timeouts.wait_ns()

    def _leave_round(self) -> None:
        self._phase = IDLE
        self._missing = NOBODY_MISSING
        self._votes = None
        self._voted = False
        self._sent = None

    def _vote(self) -> None:
        """Add my own vote, once in a round; or abstain where I have none."""
        assert self._votes is not None
        if self._voted:
            return
        self._voted = True
        self._writable = None
        own = self.own
        self._was_away = self._away
        if self._away is not None and not self._needed:
            own = np.where(self._away, ABSTAINS, own)
        self._votes.add(own, 1)

    def _votes_in(self) -> int:
        return 0 if self._votes is None else self._votes.count

    def _go_on_if_ready(self, now_ns: i64) -> bool:
        assert self._votes is not None
        if self._phase == GATHERING and (self._missing.count == 0 or self._votes.enough(self.own)):
            return self._go_on(now_ns)
        return False

    def _go_on(self, now_ns: i64) -> bool:
        """All votes that I wait for are here: pass them on, or as the root end the round."""
        self._vote()
        if self._root == self.me:
            return self._end(now_ns)
        assert self._votes is not None
        self._sent = self._message(ACK, self._votes.sent_count(), self._votes.merged())
        self._out.append((self._target(self.roll.shape(self._root)), self._sent))
        self._phase = SENT
        self._votes = None
        return False

    def _end(self, now_ns: i64) -> bool:
        """As the root, say what is agreed."""
        result = self._result()
        if result is None:
            # Votes of some who are alive are missing, so nothing is agreed; another round follows.
            self._leave_round()
            self._deadline_ns = now_ns + self.timeouts.wait_ns()
            return False
        assert self._votes is not None
        info = self.counted = self._message(INFO, self._result_count(), result)
        grown = self._ended(info, now_ns)
        self._announce(info)
        return grown

    def _result_count(self) -> int:
        """The count that an INFO carries."""
        return self._votes_in()

    def _result(self) -> Numbers | None:
        """What the votes amount to; None if some are missing."""
        assert self._votes is not None
        merged = self._votes.merged()
        if self._needed:
            enough = merged is not None and self._votes.count >= self._needed
            return agreed_of(merged, self.agreed) if enough and merged is not None else self.agreed
        if merged is None or self._votes.count != self.roll.alive_count:
            return None
        return agreed_of(merged, self.agreed)

    def _ended(self, info: RoundMessage, now_ns: i64) -> bool:
        """The result of the latest round is known."""
        if self._phase != IDLE:
            self.timeouts.measured(now_ns - self._entered_ns)
        self._leave_round()
        self._info = info
        self.wanted = False
        assert info.values is not None
        grown = self._learn(info.values)
        self.timeouts.ended()
        self._deadline_ns = NEVER
        self.watch(now_ns)
        return grown

    def _learn(self, values: Numbers) -> bool:
        """Another member says that so much is agreed."""
        # If everybody has it, this member has it too. The minimum is a precaution: were anything
        # ever wrong, this member would not forget what it never had.
        agreed = highest(self.agreed, values if self._needed else lowest(values, self.own))
        if agreed is self.own:
            self._writable = None
        grown = agreed is not self.agreed and bool((agreed > self.agreed).any())
        self.agreed = agreed
        return grown

    def _message(self, kind: int, count: int, values: Numbers | None = None) -> RoundMessage:
        newest = self.newest
        if newest is not None:
            newest = self.newest = highest(newest, self.own)
            if newest is self.own:
                self._writable = None
        return RoundMessage(kind, self.roll.epoch, self._round, self._root, count, values, newest)


def _with(numbers: Numbers, column: int, value: int) -> Numbers:
    """The same with another number in one column."""
    if numbers[column] == value:
        return numbers
    changed = numbers.copy()
    changed[column] = value
    return changed
