"""Rounds of stability detection: what the five protocols of STAB have in common.

What this member has, what others tell it and the time go in; what is agreed, and what to tell
whom, come out. One tracker is for one page of `width` sequences, in arrays.

A round is named by its number and its *root*, the member that began it; of two rounds the one with
the larger number is the later, or the one with the smaller root. It goes up a tree or along a ring:
each member waits for its *feeders*, adds its own vote, and passes the result on to its *target*;
the root ends the round and tells everybody what is agreed. A protocol is little more than who feeds
whom. What the paper leaves out is done here, for all of them alike:

- Who waits in vain asks its feeders again (START to those alone), or the root for the result (ASK).
- A root that is silent for long is stood in for by the next around the ring.
- When somebody is gone or comes back, the epoch changes, and with it the tree or ring; rounds of
  another epoch are over.

Why nobody's vote is ever missing from what is agreed:

- A vote, "I have everything up to here", stays true for ever within a life. So votes may be late.
- Votes count only within one epoch and round, and a member's vote in a round is the same however
  often it is repeated. So they may come twice and in any order.
- Stability is agreed only when as many votes were merged as members are alive.
- A member takes no part in a round earlier than the last one it knows. A root that takes part in a
  later round gives up its own.

Why somebody who comes back without memory (`joining`) misses nothing that it needs: it abstains, so
that what is agreed is the lowest of the *others*, and begins there. That is not lower than what was
ever agreed without it: all others took part in a round of the epoch that names its new life, so
their earlier rounds are over, and what was agreed in those they all have. It begins with the result
of the latest round that it abstained in, and has a vote from then on (INV-JOIN).
"""

from abc import ABC, abstractmethod
from typing import ClassVar, Final

import numpy as np
from mypy_extensions import i64, mypyc_attr

from semcast.protocol.stability.patience import NEVER, Patience
from semcast.protocol.stability.roll import Roll
from semcast.protocol.stability.shape import Shape
from semcast.protocol.stability.told import (
    ABSTAINS,
    ACK,
    ASK,
    EVERYBODY,
    INFO,
    START,
    Numbers,
    Told,
)
from semcast.protocol.stability.votes import (
    AllVotes,
    SomeVotes,
    Votes,
    agreed_of,
    highest,
    lowest,
)

__all__ = ["ACK", "ASK", "EVERYBODY", "INFO", "NEVER", "START", "RoundTracker", "Told"]

SECOND_NS: Final = 1_000_000_000
# What this member is doing in the latest round that it knows: nothing (any more), waiting for its
# feeders, waiting for the result.
_IDLE: Final = 0
_GATHERING: Final = 1
_SENT: Final = 2


@mypyc_attr(allow_interpreted_subclasses=True)
class RoundTracker(ABC):
    """One member's part in the rounds. Subclasses say who feeds whom."""

    # Whether a START only ever means that somebody has waited in vain, so that it is passed on.
    start_is_alarm: ClassVar[bool] = False

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
        joining: bool = False,
        roll: Roll | None = None,
    ) -> None:
        """`votes` are needed: those of all members for stability, f+1 for safety.

        `timeout_ns` is a guess at how long a round takes; it is measured from then on. A group may
        do nothing for `quiet_ns` although there is something to agree on. `hints`: say too what is
        the newest that anybody heard of.
        """
        self.me: Final = me
        self.width: Final = width
        self.roll: Final = roll if roll is not None else Roll(shape)
        self.patience: Final = Patience(timeout_ns, max(1, timeout_ns // 16))
        # What this member has, by column; only grows. Whoever assigns it sees to that.
        zeros = np.zeros(width, np.int64)
        self.own: Numbers = zeros
        # INV-AGREED: enough members have everything up to here; never falls.
        self.agreed: Numbers = zeros
        self.newest: Numbers | None = zeros if hints else None
        # Whether this member has a vote.
        self.joined = not joining
        # Whether a round is wanted even if there is nothing to agree on.
        self.wanted = False
        # Whether somebody spoke of another epoch.
        self.strange = False
        self._needed: Final = 0 if votes >= members else votes
        self._quiet_ns: Final = quiet_ns
        # The array that `own` is, if nobody else has it: it may then be written to.
        self._writable: Numbers | None = None
        # INV-LATEST: the latest round that this member knows, whether or not it takes part.
        self._round: i64 = 0
        # Whether that was in this epoch. A root that came back without memory may give a number
        # once more that its former life gave; that round is another one.
        self._round_is_known = True
        self._root: int = self.roll.shape(self.roll.successor(shape.root)).root
        self._phase = _IDLE
        self._missing: dict[int, None] = {}
        self._votes: Votes | None = None
        self._voted = False
        self._sent: Told | None = None
        # The result of the latest round, if that is known.
        self._info: Told | None = None
        self._entered_ns: i64 = 0
        self._deadline_ns: i64 = NEVER
        self._out: list[tuple[int, Told]] = []

    # -- what a protocol is ------------------------------------------------------------------------

    @abstractmethod
    def _feeders(self, shape: Shape) -> list[int]:
        """Whose votes must be here before mine go on, or before the round ends at its root."""

    @abstractmethod
    def _target(self, shape: Shape) -> int:
        """Where my votes and those of my feeders go; I am not the root."""

    def _launch(self) -> None:
        """A round begins, and I am its root."""
        self._out.append((EVERYBODY, self._told(START, 0)))

    def _announce(self, info: Told) -> None:
        """A round has ended, and I am its root."""
        self._out.append((EVERYBODY, info))

    def _heard_result(self, info: Told) -> None:  # noqa: B027
        """The result of a round came for the first time."""

    def _informer(self, shape: Shape) -> int:
        """Whom to ask for a result."""
        return shape.root

    # -- what a world or a member does -------------------------------------------------------------

    def advance(self, column: int, seq: int) -> None:
        """Everything of a column is here up to `seq`."""
        if self.own is not self._writable:
            self.own = self.own.copy()
            self._writable = self.own
        self.own[column] = seq

    def start(self, now_ns: i64) -> None:
        """Begin a round, if I am the one who may and none is under way."""
        if self._phase == _IDLE and self.coordinator() == self.me:
            self._begin(now_ns)

    def coordinator(self) -> int:
        """Who begins rounds: the root of the last one, or, if that is gone, the next in order."""
        return self.roll.successor(self._root)

    def under_way(self) -> bool:
        """Whether this member takes part in a round whose result it does not know."""
        return self._phase != _IDLE

    def wants(self) -> bool:
        """Whether a round is wanted: there is something to agree on."""
        if self.wanted or not self.joined or bool((self.own > self.agreed).any()):
            return True
        return self.newest is not None and bool((self.newest > self.agreed).any())

    def watch(self, now_ns: i64) -> None:
        """There may be something to agree on: if nobody does anything about it, ask."""
        if self._phase == _IDLE and self._deadline_ns == NEVER and self.wants():
            self._deadline_ns = now_ns + self._quiet_ns + 2 * self.patience.wait_ns()

    def ask(self, now_ns: i64) -> None:
        """Ask for a round, if none is under way and another member begins them."""
        if self._phase == _IDLE and self.coordinator() != self.me:
            self._ask(self.coordinator())
            self.watch(now_ns)

    def on_told(self, told: Told, sender: int, now_ns: i64) -> bool:
        """Somebody's message arrived. Says whether more is agreed now."""
        if sender == self.me or not self.roll.alive(sender):
            return False
        if told.newest is not None and self.newest is not None:
            self.newest = highest(self.newest, told.newest)
        if self._is_result(told):
            return self._on_info(told, now_ns)
        if told.epoch != self.roll.epoch or not self.roll.alive(told.root):
            self.strange = self.strange or told.epoch != self.roll.epoch
            return False
        if self._is_earlier(told):
            if told.kind in (START, ASK):
                self._bring_up_to_date(told, sender)
            return False
        fresh = self._is_later(told)
        if fresh and told.root == self.me:
            return self._on_former_round(told, now_ns)
        if fresh:
            self._enter(told.round, told.root, now_ns)
        if sender == self._root:
            self.patience.sign_of_life()
        if told.kind == ASK:
            return self._on_ask(told, sender, now_ns)
        if told.kind == START:
            return self._on_start(sender, fresh, now_ns)
        return self._on_votes(told, sender, now_ns)

    def on_timer(self, now_ns: i64) -> bool:
        """Whatever is due: ask again, or stand in for a silent root. Says as `on_told`."""
        if now_ns < self._deadline_ns:
            return False
        if self._phase == _IDLE and not self.wants():
            self._deadline_ns = NEVER
            return False
        self.patience.in_vain()
        self._deadline_ns = now_ns + self.patience.wait_ns()
        if self._phase == _GATHERING and self._can_do_without():
            return self._go_on(now_ns)
        root = self.coordinator() if self._phase == _IDLE else self._root
        if root == self.me:
            if self._phase == _IDLE:
                return self._begin(now_ns)
        elif self.patience.worn_out(self.roll.rank(self.me, root)):
            return self._begin(now_ns)
        self._ask(root)
        return self._pull(now_ns) if self._phase == _GATHERING else False

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        return self._deadline_ns

    def take_out(self) -> list[tuple[int, Told]]:
        """What to send: a member's index or EVERYBODY, and what to tell it."""
        out, self._out = self._out, []
        return out

    def remove(self, member: int, now_ns: i64 = 0) -> bool:
        """That member is gone. Says as `on_told`."""
        return self.roll.remove(member) and self.epoch_changed(now_ns)

    def restore(self, member: int, now_ns: i64 = 0) -> bool:
        """That member is back, and has to vote again."""
        return self.roll.restore(member) and self.epoch_changed(now_ns)

    def epoch_changed(self, now_ns: i64) -> bool:
        """The roll has changed: the round under way is over, and the next is among others."""
        was_root = self._phase != _IDLE and self._root == self.me
        self._leave_round()
        self._round_is_known = False
        self._info = None
        self._out.clear()
        self.patience.ended()
        if was_root:
            return self._begin(now_ns)
        self._deadline_ns = NEVER
        self.watch(now_ns)
        return False

    # -- a round -----------------------------------------------------------------------------------

    def _begin(self, now_ns: i64) -> bool:
        self._enter(self._round + 1, self.me, now_ns)
        self._launch()
        return self._go_on_if_ready(now_ns)

    def _enter(self, round_number: i64, root: int, now_ns: i64) -> None:
        """A later round than any before: whatever was under way is over."""
        self._leave_round()
        self._round = round_number
        self._root = root
        self._round_is_known = True
        self._info = None
        self._entered_ns = now_ns
        feeders = self._feeders(self.roll.shape(root))
        self._missing = dict.fromkeys(feeders)
        self._votes = SomeVotes(self._needed) if self._needed else AllVotes()
        if self._needed:
            self._vote()
        self._phase = _GATHERING
        self.patience.ended()
        self._deadline_ns = now_ns + self.patience.wait_ns()

    def _leave_round(self) -> None:
        self._phase = _IDLE
        self._missing = {}
        self._votes = None
        self._voted = False
        self._sent = None

    def _vote(self) -> None:
        """Add my own vote, once in a round; or abstain."""
        assert self._votes is not None
        if self._voted:
            return
        self._voted = True
        if self.joined:
            self._writable = None
            self._votes.add(self.own, 1)
        elif not self._needed:
            self._votes.add(np.full(self.width, ABSTAINS, np.int64), 1)

    def _votes_in(self) -> int:
        return 0 if self._votes is None else self._votes.count

    def _go_on_if_ready(self, now_ns: i64) -> bool:
        assert self._votes is not None
        if self._phase == _GATHERING and (not self._missing or self._votes.enough(self.own)):
            return self._go_on(now_ns)
        return False

    def _go_on(self, now_ns: i64) -> bool:
        """All that is waited for is here: pass it on, or end the round."""
        self._vote()
        if self._root == self.me:
            return self._end(now_ns)
        assert self._votes is not None
        self._sent = self._told(ACK, self._votes.sent_count(), self._votes.merged())
        self._out.append((self._target(self.roll.shape(self._root)), self._sent))
        self._phase = _SENT
        self._votes = None
        return False

    def _end(self, now_ns: i64) -> bool:
        """Everything is in, at the root: say what is agreed."""
        result = self._result()
        if result is None:
            # Not all that are alive were in it: no round of ours. Another will be begun.
            self._leave_round()
            self._deadline_ns = now_ns + self.patience.wait_ns()
            return False
        assert self._votes is not None
        info = self._told(INFO, self._result_count(), result)
        grown = self._ended(info, now_ns)
        self._announce(info)
        return grown

    def _result_count(self) -> int:
        """How many votes an INFO stands for."""
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

    def _ended(self, info: Told, now_ns: i64) -> bool:
        """The result of the latest round is known."""
        if self._phase != _IDLE:
            self.patience.measured(now_ns - self._entered_ns)
        self._leave_round()
        self._info = info
        self.wanted = False
        assert info.values is not None
        if not self.joined and not self._needed:
            # INV-JOIN: this is the latest round that I abstained in, and all others voted in it.
            self.joined = True
            self.own = highest(self.own, info.values)
            self._writable = None
        grown = self._learn(info.values)
        self.patience.ended()
        self._deadline_ns = NEVER
        self.watch(now_ns)
        return grown

    def _learn(self, values: Numbers) -> bool:
        """So much is agreed, somebody says."""
        # If everybody has it, so have I; should anything ever be wrong, nothing is forgotten here
        # that is not here.
        agreed = highest(self.agreed, values if self._needed else lowest(values, self.own))
        grown = agreed is not self.agreed and bool((agreed > self.agreed).any())
        self.agreed = agreed
        return grown

    # -- what arrives ------------------------------------------------------------------------------

    def _is_result(self, told: Told) -> bool:
        return told.kind == INFO

    def _is_later(self, told: Told) -> bool:
        if told.round != self._round:
            return told.round > self._round
        again = told.root == self._root and not self._round_is_known
        return told.root < self._root or again

    def _is_earlier(self, told: Told) -> bool:
        return told.round < self._round or (told.round == self._round and told.root > self._root)

    def _on_info(self, told: Told, now_ns: i64) -> bool:
        """What is agreed is true whenever it was said; but it may end the round under way too."""
        if told.values is None:
            return False
        same_epoch = told.epoch == self.roll.epoch and self.roll.alive(told.root)
        self.strange = self.strange or told.epoch != self.roll.epoch
        if same_epoch and not self._is_earlier(told):
            first = self._info is None or self._is_later(told)
            if self._is_later(told):
                self._leave_round()
                self._round = told.round
                self._root = told.root
                self._round_is_known = True
            if first:
                grown = self._ended(told, now_ns)
                self._heard_result(told)
                return grown
        return self._learn(told.values) if self.joined or self._needed else False

    def _on_start(self, sender: int, fresh: bool, now_ns: i64) -> bool:
        if self._phase == _SENT and self._sent is not None:
            # Somebody waits for what I sent.
            self._out.append((self._target(self.roll.shape(self._root)), self._sent))
        elif self._phase == _IDLE and self._info is not None:
            self._out.append((sender, self._info))
        elif self._phase == _GATHERING:
            if self._go_on_if_ready(now_ns):
                return True
            if fresh and self.start_is_alarm and self._phase == _GATHERING:
                return self._pull(now_ns)
        return False

    def _on_former_round(self, told: Told, now_ns: i64) -> bool:
        """Others remember a round of a former life of mine, which nobody can end: begin another."""
        self._leave_round()
        self._round = told.round
        self._root = self.me
        self._round_is_known = True
        self._info = None
        return self._begin(now_ns) if told.kind in (START, ASK) else False

    def _on_votes(self, told: Told, sender: int, now_ns: i64) -> bool:
        if self._phase != _GATHERING or sender not in self._missing:
            return False
        del self._missing[sender]
        if told.values is not None:
            assert self._votes is not None
            self._votes.add(told.values, told.count)
        return self._go_on_if_ready(now_ns)

    def _on_ask(self, told: Told, sender: int, now_ns: i64) -> bool:
        """Somebody who knows the latest round waits for its result, or wants another."""
        if self._phase != _IDLE:
            if self._root == self.me:
                self._out.append((sender, self._told(START, 0)))
        elif told.count and self._info is not None:
            self._out.append((sender, self._info))
        elif self.coordinator() == self.me:
            return self._begin(now_ns)
        return False

    def _bring_up_to_date(self, told: Told, sender: int) -> None:
        """Somebody does not know the latest round."""
        if self._info is not None:
            self._out.append((sender, self._info))
        elif self._phase != _IDLE or told.kind == START:
            self._out.append((sender, self._told(START, 0)))

    # -- waiting in vain ---------------------------------------------------------------------------

    def _pull(self, now_ns: i64) -> bool:  # noqa: ARG002
        """Ask those whose votes are missing; everybody, if nobody at all has answered."""
        start = self._told(START, 0)
        if self._root == self.me and self._votes_in() <= 1 and len(self._missing) > 1:
            self._out.append((EVERYBODY, start))
            return False
        for member in self._missing:
            self._out.append((member, start))
        return False

    def _can_do_without(self) -> bool:
        """Whether the late are not needed; on the way up, few votes are better than none."""
        enough = self._root != self.me or self._votes_in() >= self._needed
        return self._needed > 0 and enough

    def _ask(self, root: int) -> None:
        """Ask for a result, or for a round."""
        if root == self.me:
            return
        if self._phase == _IDLE:
            self._out.append((root, self._told(ASK, 0)))
        elif self._phase == _SENT or self.patience.tried:
            informer = self._informer(self.roll.shape(root))
            self._out.append((informer, self._told(ASK, 1)))
            if informer != root and self.patience.tried:
                self._out.append((root, self._told(ASK, 1)))

    def _told(self, kind: int, count: int, values: Numbers | None = None) -> Told:
        newest = self.newest
        if newest is not None:
            newest = self.newest = highest(newest, self.own)
            if newest is self.own:
                self._writable = None
        return Told(kind, self.roll.epoch, self._round, self._root, count, values, newest)
