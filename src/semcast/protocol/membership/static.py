"""Static membership: who the members are is known from the start; their lives are found out.

A datagram of a later life, or a frame that names one, goes in; the next view comes out. Nobody
agrees on anything here: what is known of lives only grows (a later life, or gone in that life), so
members that hear the same come to the same view, in whatever order they hear it. Until then their
views have different digests, and none counts votes that were cast in another view.

A member that came back says so until it has a vote on everything. A member that hears a frame of
another view answers with the lives that it knows of; so two members that differ soon do not.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.membership.view import View
from semcast.protocol.membership.views import Views
from semcast.protocol.outbox import Outbox
from semcast.wire.families.lives import LIVES, LIVES_ROWS_MAX, Lives
from semcast.wire.frames import ControlFrame

# A newcomer says that it came back ever less often, down to this many periods apart.
_PERIODS_MAX: Final = 32
# In a large group only about so many answer a member that lags behind.
_ANSWERERS: Final = 4
# More views than any group comes to: a larger number is not believed.
NUMBER_MAX: Final = 1 << 31


@final
class StaticViews(Views):
    """The views of one member: `view` is the latest that it knows."""

    def __init__(
        self, me: Source, view: View, joining: bool, period_ns: i64, random: Randomness
    ) -> None:
        """`joining`: this member came back, so that others have to hear of this life."""
        super().__init__(view)
        self._me: Final = me
        self._first: Final = view
        self._period_ns: Final[i64] = period_ns
        self._random: Final = random
        # When to say next that this is another life; the first time at the first `on_timer`.
        self._say_ns: i64 = 0 if joining else NEVER
        self._periods: i64 = 1
        self._due = False
        # Members to send the known lives to, and when each last got them.
        self._strangers: Final[dict[int, None]] = {}
        self._answered_ns: Final[dict[int, int]] = {}

    # -- what is heard -----------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (LIVES,)

    def reborn(self, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        self._learn(int(source.sender), int(source.incarnation), False)

    def gone(self, sender: int, now_ns: i64) -> None:  # noqa: ARG002
        self._learn(sender, self.view.life(sender), True)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        """Another member says who is in which life."""
        assert isinstance(frame, Lives)
        for sender, life, gone in frame.rows:
            self._learn(sender, life, gone)
        if frame.view != self.view.digest:
            self.stranger(source, now_ns)

    def heard_number(self, number: i64) -> None:
        if self.view.number < number <= NUMBER_MAX:
            self.view = self.view.numbered(int(number))

    def stranger(self, source: Source, now_ns: i64) -> None:
        """Send it what is known here, but not each time."""
        sender = int(source.sender)
        last_ns = self._answered_ns.get(sender, -NEVER)
        many = len(self.view.present)
        if now_ns - last_ns < self._period_ns or self._random.randrange(many) >= _ANSWERERS:
            return
        self._answered_ns[sender] = int(now_ns)
        self._strangers[sender] = None

    def _learn(self, sender: int, life: int, gone: bool) -> None:
        known = self.view.life(sender)
        # What others say of this member itself is ignored: its world knows better.
        if sender == self._me.sender or known < 0 or life < known:
            return
        if life > known:
            self.view = self.view.with_life(sender, life)
        if gone and self.view.is_present(sender):
            self.view = self.view.without(sender)

    # -- what is said ------------------------------------------------------------------------------

    def joined(self) -> None:
        """Stop saying that this is another life."""
        self._say_ns = NEVER

    def on_timer(self, now_ns: i64) -> None:
        """Say that this is another life, if that is due."""
        if now_ns >= self._say_ns:
            self._due = True
            self._periods = min(2 * self._periods, _PERIODS_MAX)
            self._say_ns = now_ns + self._periods * self._period_ns

    def next_deadline_ns(self) -> i64:
        """When to call `on_timer`."""
        return self._say_ns

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        """Send lives to everybody if that is due, and to those who lag behind."""
        if self._due:
            self._due = False
            outbox.frame(EVERYBODY, self._frame([int(self._me.sender)]))
        if self._strangers:
            for to in self._strangers:
                outbox.frame(to, self._frame(self._changed()))
            self._strangers.clear()

    def _frame(self, senders: list[int]) -> Lives:
        view = self.view
        rows = [(one, view.life(one), not view.is_present(one)) for one in senders]
        return Lives(view.digest, view.number, rows)

    def _changed(self) -> list[int]:
        """The members to name in a frame, as many as it has room for, drawn anew each time. First
        come those in another life than at first, those gone, and this member; then any others.
        """
        view, first = self.view, self._first
        changed = [
            sender
            for at, sender in enumerate(view.members)
            if view.lives[at] != first.lives[at] or view.gone >> at & 1
        ]
        if self._say_ns != NEVER or int(self._me.sender) not in changed:
            changed.append(int(self._me.sender))
        rest = [sender for sender in view.members if sender not in changed]
        while len(changed) < LIVES_ROWS_MAX and rest:
            changed.append(rest.pop(self._random.randrange(len(rest))))
        while len(changed) > LIVES_ROWS_MAX:
            changed.pop(self._random.randrange(len(changed)))
        return changed
