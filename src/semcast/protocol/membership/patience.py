"""Patience: signs of life in; who was silent for too long, out. For feeds, readers and patrons.

Members of a group send heartbeats, and others can be asked about them (`watch`). Here neither is
so: a process is asked for an answer as long as somebody waits for it, and says something now and
then at other times. So there are two silences: while it owes an answer, and at all. How long is too
long follows from the gaps that were observed (`accrual`) and from how well this process is itself
(`health`): nobody is silent while this one was stopped. There is a bound all the same, because
somebody waits.

    owes an answer, and is silent for longer than usual     it is given up
    its port is closed, and it answers no question          it is given up, at once
    anything is heard of it                                 nothing is held against it

Whoever answers is never given up, however slow its application is. Knows nothing of frames.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.protocol.membership.accrual import Accrual
from semcast.protocol.membership.health import Health
from semcast.protocol.membership.watched import DEAF_NS

# The level of suspicion (see `accrual`) at which a process is given up.
_LEVEL: Final = 6
# While somebody waits for it: no sooner and no later than this.
FORGET_NS_MIN: Final = 3_000_000_000
FORGET_NS_MAX: Final = 6_000_000_000
# If nobody does, it may be silent for this many times as long as it usually is, if all that was
# observed is steady; and for three times that at the most.
_SIGNS_MIN: Final = 4
_SIGNS_MAX: Final = 12
# Who looks so much later than it wanted to is slow, and has heard nobody meanwhile.
_LATE_NS: Final = 50_000_000
# A process whose port is closed is asked so often, so far apart, and given up if the world has said
# so at least twice. If the world says nothing more, the matter is dropped.
_ASKS: Final = 3
_ASKS_MAX: Final = 8
_REFUSALS: Final = 2
_ASK_NS: Final = 50_000_000


@final
class Awaited:
    """One other process, as it is heard."""

    def __init__(self, answer_ns: i64, sign_ns: i64, now_ns: i64) -> None:
        """`answer_ns`: how long it takes at the most, if nothing is late or lost, until one that
        owes an answer is heard; `sign_ns`: the same for one that owes nothing.
        """
        self.answers: Final = Accrual(answer_ns)
        self.signs: Final = Accrual(sign_ns)
        self._answer_ns: Final[i64] = answer_ns
        self._sign_ns: Final[i64] = sign_ns
        # Since when it is silent. INV-AWAKE: not before it was last heard; later by the time during
        # which this process slept.
        self.clock_ns: i64 = now_ns
        # Since when it has owed an answer; NEVER if it owes none.
        self.owes_ns: i64 = NEVER
        # How often the world said that its port is closed, and how often it was asked since then.
        self.refusals: i64 = 0
        self.asked: i64 = 0
        # Until when that is not believed: it was there when the world last said so.
        self.deaf_until_ns: i64 = 0
        # The longest gaps since about an answer, and a sign of life, ago. A burst is one of them.
        self._answer_from_ns: i64 = now_ns
        self._answer_gap_ns: i64 = 0
        self._sign_from_ns: i64 = now_ns
        self._sign_gap_ns: i64 = 0

    def heard(self, now_ns: i64) -> None:
        """A datagram of it came."""
        gap_ns = now_ns - self.clock_ns
        self.clock_ns = now_ns
        if self.refusals > 0:
            self.deaf_until_ns = now_ns + DEAF_NS
        self.refusals = 0
        self.asked = 0
        self._sign_gap_ns = max(self._sign_gap_ns, gap_ns)
        if now_ns - self._sign_from_ns >= self._sign_ns // 2:
            self.signs.observe(self._sign_gap_ns)
            self._sign_from_ns = now_ns
            self._sign_gap_ns = 0
        if self.owes_ns == NEVER:
            return
        self._answer_gap_ns = max(self._answer_gap_ns, min(gap_ns, now_ns - self.owes_ns))
        if now_ns - self._answer_from_ns >= self._answer_ns // 2:
            self.answers.observe(self._answer_gap_ns)
            self._answer_from_ns = now_ns
            self._answer_gap_ns = 0

    def owes(self, since_ns: i64) -> None:
        """It has owed an answer since then; NEVER: it owes none."""
        self.owes_ns = since_ns
        if since_ns == NEVER:
            self._answer_gap_ns = 0

    def slept(self, late_ns: i64, now_ns: i64) -> None:
        """It is not its fault that nothing was heard of it for so long: this process slept."""
        self.clock_ns = min(max(self.clock_ns, now_ns), self.clock_ns + late_ns)

    def refused(self, now_ns: i64) -> None:
        """The world says that nobody listens any more where it was. It may be wrong, and once it
        was, it is not believed for a while: under loss, some day no question would be answered.
        """
        if now_ns >= self.deaf_until_ns:
            self.refusals += 1


@final
class Patience:
    """How long one process waits for others."""

    def __init__(self) -> None:
        self.health: Final = Health()

    def woke(self, due_ns: i64, now_ns: i64) -> i64:
        """Look now who is silent, though that was due at `due_ns`. Says for how long this process
        slept, if it did.
        """
        self.health.recover(now_ns)
        late_ns = now_ns - due_ns
        if late_ns <= _LATE_NS:
            return 0
        self.health.was_late(late_ns, now_ns)
        return late_ns

    def owes_too_long(self, one: Awaited, now_ns: i64) -> bool:
        """Whether to wait no longer for an answer that it owes."""
        if one.owes_ns == NEVER:
            return False
        return now_ns - max(one.clock_ns, one.owes_ns) > self.answer_after_ns(one)

    def is_silent(self, one: Awaited, now_ns: i64) -> bool:
        """Whether nothing at all was heard of it for too long, or its port is closed."""
        if one.refusals >= _REFUSALS and one.asked >= _ASKS:
            return True
        return now_ns - one.clock_ns > self.sign_after_ns(one)

    def answer_after_ns(self, one: Awaited) -> i64:
        """For how long it may owe an answer. INV-BOUND: no longer than `FORGET_NS_MAX`."""
        wait_ns = max(one.answers.silence_ns(_LEVEL), FORGET_NS_MIN) * self.health.factor
        return min(wait_ns + self.health.late_ns, FORGET_NS_MAX)

    def sign_after_ns(self, one: Awaited) -> i64:
        """For how long it may be silent if it owes nothing."""
        least_ns = max(_SIGNS_MIN * one.signs.period_ns, FORGET_NS_MIN)
        wait_ns = max(one.signs.silence_ns(_LEVEL), least_ns) * self.health.factor
        return min(wait_ns + self.health.late_ns, max(_SIGNS_MAX * one.signs.period_ns, least_ns))

    def is_doubted(self, one: Awaited, now_ns: i64) -> bool:
        """Whether it may be dead: it is about to be given up."""
        waited_ns = now_ns - max(one.clock_ns, one.owes_ns)
        return one.refusals > 0 or 2 * waited_ns > self.answer_after_ns(one)

    def ask_after_ns(self) -> i64:
        """How long to wait for the answer of one whose port seems to be closed."""
        return _ASK_NS * self.health.factor

    def is_to_ask(self, one: Awaited) -> bool:
        """Whether to ask now whether it is there, because its port seems to be closed."""
        if one.refusals == 0:
            return False
        if one.asked >= _ASKS_MAX:
            one.refusals = 0
            one.asked = 0
            return False
        one.asked += 1
        return True
