"""Rounds of stability detection: what the five protocols of STAB have in common.

What this member has, messages of others and the time go in; what is agreed, and messages for
others, come out. One tracker is for one page of `width` sequences, in arrays.

A round is named by its number and its *root*, the member that began it; of two rounds the one with
the larger number is the later, or the one with the smaller root. It goes up a tree or along a ring;
what a member does in it when all goes well is in `round_part`. What the paper leaves out is done
here, for all protocols alike:

- A member that waits in vain asks its feeders again (START to those alone), or the root for the
  result (ASK).
- If a root is silent for long, the next around the ring stands in for it.
- When a member is gone or comes back, the epoch changes, and with it the tree or ring; rounds of
  another epoch are over.

Why nobody's vote is ever missing from what is agreed:

- A vote, "I have everything up to here", stays true for ever within a life. So votes may be late.
- Votes count only within one epoch and round, and a member's vote in a round is the same however
  often it is repeated. So they may come twice and in any order.
- Stability is agreed only when as many votes were merged as members are alive.
- A member takes no part in a round earlier than the last one it knows. A root that takes part in a
  later round gives up its own.

Why a member that comes back without memory misses nothing that it needs: it abstains, so that what
is agreed is the lowest of the *others*, and begins there. That is not lower than what was ever
agreed without it: all others took part in a round of the epoch that names its new life, so
their earlier rounds are over, and what was agreed in those they all have. It begins with the result
of the latest round that it abstained in, and has a vote from then on (INV-JOIN).
"""

from typing import ClassVar

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER
from semcast.protocol.stability.rounds.round_message import ACK, ASK, INFO, START, RoundMessage
from semcast.protocol.stability.rounds.round_part import GATHERING, IDLE, SENT, RoundPart
from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.votes import highest

__all__ = ["ACK", "ASK", "EVERYBODY", "INFO", "NEVER", "START", "RoundMessage", "RoundTracker"]


class RoundTracker(RoundPart):
    """One member's part in the rounds of a page, whatever goes wrong."""

    # True if nobody sends a START but after a wait in vain, so that it has to be passed on.
    start_is_alarm: ClassVar[bool] = False

    # -- what protocols may override ---------------------------------------------------------------

    def _heard_result(self, info: RoundMessage) -> None:
        """The result of a round is heard for the first time."""

    def _informer(self, shape: Shape) -> int:
        """The member to ask for a result."""
        return shape.root

    # -- what a world or a member does -------------------------------------------------------------

    def start(self, now_ns: i64) -> None:
        """Begin a round, if this member is the coordinator and none is under way."""
        if self._phase == IDLE and self.coordinator() == self.me:
            self._begin(now_ns)

    def ask(self, now_ns: i64) -> None:
        """Ask for a round, if none is under way and another member begins them."""
        if self._phase == IDLE and self.coordinator() != self.me:
            self._ask(self.coordinator())
            self.watch(now_ns)

    def greet(self, member: int) -> None:
        """Write to a member that uses another epoch, so that it answers with what it knows."""
        self._out.append((member, self._message(ASK, 0)))

    def on_round_message(self, message: RoundMessage, sender: int, now_ns: i64) -> bool:
        """A message of another member arrived. Returns whether more is agreed now."""
        if sender == self.me or not self.roll.alive(sender):
            return False
        if message.newest is not None and self.newest is not None:
            self.newest = highest(self.newest, message.newest)
        if self._is_result(message):
            return self._on_info(message, now_ns)
        if message.epoch != self.roll.epoch:
            self.strange = True
            return False
        if not self.roll.alive(message.root):
            return self._on_round_of_the_gone(message, now_ns)
        return self._on_message_of_epoch(message, sender, now_ns)

    def _on_message_of_epoch(self, message: RoundMessage, sender: int, now_ns: i64) -> bool:
        if self._is_earlier(message):
            if message.kind in (START, ASK):
                self._bring_up_to_date(message, sender)
            return False
        fresh = self._is_later(message)
        if fresh and message.root == self.me:
            return self._on_former_round(message, now_ns)
        if fresh:
            self._enter(message.round, message.root, now_ns)
        if sender == self._root:
            self.timeouts.sign_of_life()
        if message.kind == ASK:
            return self._on_ask(message, sender, now_ns)
        if message.kind == START:
            return self._on_start(sender, fresh, now_ns)
        return self._on_votes(message, sender, now_ns)

    def on_timer(self, now_ns: i64) -> bool:
        """Ask again, or stand in for a silent root. Returns as `on_round_message` does."""
        if now_ns < self._deadline_ns:
            return False
        if self._phase == IDLE and not self.wants():
            self._deadline_ns = NEVER
            return False
        self.timeouts.in_vain()
        self._deadline_ns = now_ns + self.timeouts.wait_ns()
        if self._phase == GATHERING and self._can_do_without():
            return self._go_on(now_ns)
        root = self.coordinator() if self._phase == IDLE else self._root
        if root == self.me:
            if self._phase == IDLE:
                return self._begin(now_ns)
        elif self.timeouts.should_stand_in(self.roll.rank(self.me, root)):
            return self._begin(now_ns)
        self._ask(root)
        return self._pull(now_ns) if self._phase == GATHERING else False

    def epoch_changed(self, now_ns: i64) -> bool:
        """The roll has changed, so the round under way is over. Returns as `on_round_message`."""
        was_root = self._phase != IDLE and self._root == self.me
        self._leave_round()
        self._round_is_known = False
        self._info = None
        self._out.clear()
        self.timeouts.ended()
        if was_root:
            return self._begin(now_ns)
        self._deadline_ns = NEVER
        self.watch(now_ns)
        return False

    # -- what arrives ------------------------------------------------------------------------------

    def _is_result(self, message: RoundMessage) -> bool:
        return message.kind == INFO

    def _is_later(self, message: RoundMessage) -> bool:
        if message.round != self._round:
            return message.round > self._round
        return not self._round_is_known or message.root < self._root

    def _is_earlier(self, message: RoundMessage) -> bool:
        if message.round != self._round:
            return message.round < self._round
        return self._round_is_known and message.root > self._root

    def _on_info(self, message: RoundMessage, now_ns: i64) -> bool:
        """What is agreed stays true, whichever round said so. An INFO may also end our round."""
        if message.values is None:
            return False
        same_epoch = message.epoch == self.roll.epoch and self.roll.alive(message.root)
        self.strange = self.strange or message.epoch != self.roll.epoch
        if same_epoch and not self._is_earlier(message):
            first = self._info is None or self._is_later(message)
            if self._is_later(message):
                self._leave_round()
                self._round = message.round
                self._root = message.root
                self._round_is_known = True
            if first:
                grown = self._ended(message, now_ns)
                self._heard_result(message)
                return grown
        return self._learn(message.values)

    def _on_start(self, sender: int, fresh: bool, now_ns: i64) -> bool:
        if self._phase == SENT and self._sent is not None:
            # The target of my votes did not get them.
            self._out.append((self._target(self.roll.shape(self._root)), self._sent))
        elif self._phase == IDLE and self._info is not None:
            self._out.append((sender, self._info))
        elif self._phase == GATHERING:
            if self._go_on_if_ready(now_ns):
                return True
            if fresh and self.start_is_alarm and self._phase == GATHERING:
                return self._pull(now_ns)
        return False

    def _on_former_round(self, message: RoundMessage, now_ns: i64) -> bool:
        """Others know a round that I began in a former life. Nobody can end it: begin another."""
        self._leave_round()
        self._round = message.round
        self._root = self.me
        self._round_is_known = True
        self._info = None
        return self._begin(now_ns) if message.kind in (START, ASK) else False

    def _on_round_of_the_gone(self, message: RoundMessage, now_ns: i64) -> bool:
        """Others know a later round than mine, whose root is gone. They take part in mine only if
        it is later still.
        """
        if self._phase == IDLE or self._root != self.me or message.round <= self._round:
            return False
        self._round = message.round
        return self._begin(now_ns)

    def _on_votes(self, message: RoundMessage, sender: int, now_ns: i64) -> bool:
        if self._phase != GATHERING or not self._missing.remove(sender):
            return False
        if message.values is not None:
            assert self._votes is not None
            self._votes.add(message.values, message.count)
        return self._go_on_if_ready(now_ns)

    def _on_ask(self, message: RoundMessage, sender: int, now_ns: i64) -> bool:
        """A member that knows the latest round waits for its result, or wants another round."""
        if self._phase != IDLE:
            if self._root == self.me:
                self._out.append((sender, self._message(START, 0)))
        elif message.count and self._info is not None:
            self._out.append((sender, self._info))
        elif self.coordinator() == self.me:
            return self._begin(now_ns)
        return False

    def _bring_up_to_date(self, message: RoundMessage, sender: int) -> None:
        """Show the latest round to a member that does not know it."""
        if self._info is not None:
            self._out.append((sender, self._info))
        elif self._phase != IDLE or message.kind == START:
            self._out.append((sender, self._message(START, 0)))

    # -- waiting in vain ---------------------------------------------------------------------------

    def _pull(self, now_ns: i64) -> bool:  # noqa: ARG002
        """Ask those whose votes are missing again, or everybody if nobody has answered."""
        start = self._message(START, 0)
        if self._root == self.me and self._votes_in() <= 1 and self._missing.count > 1:
            self._out.append((EVERYBODY, start))
            return False
        for member in self._missing.members():
            self._out.append((member, start))
        return False

    def _can_do_without(self) -> bool:
        """Whether to go on without the late. Those below the root always may: with f+1 votes, few
        are better than none.
        """
        enough = self._root != self.me or self._votes_in() >= self._needed
        return self._needed > 0 and enough

    def _ask(self, root: int) -> None:
        """Ask for the result of the round under way; or, if there is none, for a round."""
        if root == self.me:
            return
        if self._phase == IDLE:
            self._out.append((root, self._message(ASK, 0)))
        elif self._phase == SENT or self.timeouts.tried:
            informer = self._informer(self.roll.shape(root))
            self._out.append((informer, self._message(ASK, 1)))
            if informer != root and self.timeouts.tried:
                self._out.append((root, self._message(ASK, 1)))
