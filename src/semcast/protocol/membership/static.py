"""Static membership: who the members are is known from the start; their lives are found out.

A datagram of a later life, or word of one, in; the next view out. Nobody agrees on anything here:
what is known of lives only grows (a later life, or gone in that life), so all who hear the same
come to the same view, in whatever order they hear it. Until then their views have different
digests, and none counts what another says of its own.

Who came back says so until it has a vote on everything. Whoever is spoken to by somebody with
another view tells it which lives it knows of; so two that differ soon do not.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.wire.families.lives import LIVES, LIVES_ROWS_MAX, Lives
from semcast.wire.frames import ControlFrame

# A newcomer that nobody hears says so ever less often, down to this many periods apart.
_PERIODS_MAX: Final = 32
# Of a large group only some answer somebody who lags behind.
_ANSWERERS: Final = 4
# A number of views that no group comes to.
NUMBER_MAX: Final = 1 << 31


@final
class StaticViews(Part):
    """One member's way from view to view: `view` is the one that it has come to."""

    def __init__(
        self, me: Source, view: View, joining: bool, period_ns: i64, random: Randomness
    ) -> None:
        """`joining`: this member came back, so that others have to hear of this life."""
        self.view = view
        self._me: Final = me
        self._first: Final = view
        self._period_ns: Final[i64] = period_ns
        self._random: Final = random
        # When to say next that this is another life; at first as soon as the clock is known.
        self._say_ns: i64 = 0 if joining else NEVER
        self._periods: i64 = 1
        self._due = False
        # Whom to tell which lives there are, and when each was last told.
        self._strangers: Final[dict[int, None]] = {}
        self._answered_ns: Final[dict[int, int]] = {}

    # -- what is heard -----------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (LIVES,)

    def install(self, view: View, now_ns: i64) -> None:
        """What counts is what was found here."""

    def reborn(self, source: Source) -> None:
        """Somebody speaks, perhaps in a later life."""
        self._learn(int(source.sender), int(source.incarnation), False)

    def gone(self, sender: int) -> None:
        """That member is gone for good, in the life that is known."""
        self._learn(sender, self.view.life(sender), True)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        """Somebody says who is in which life."""
        assert isinstance(frame, Lives)
        for sender, life, gone in frame.rows:
            self._learn(sender, life, gone)
        if frame.view != self.view.digest:
            self.stranger(source, now_ns)

    def heard_number(self, number: i64) -> None:
        """Somebody with the same view counts so many steps."""
        if self.view.number < number <= NUMBER_MAX:
            self.view = self.view.numbered(int(number))

    def stranger(self, source: Source, now_ns: i64) -> None:
        """Somebody has another view: tell it what is known here, but not all the time."""
        sender = int(source.sender)
        last_ns = self._answered_ns.get(sender, -NEVER)
        many = len(self.view.present)
        if now_ns - last_ns < self._period_ns or self._random.randrange(many) >= _ANSWERERS:
            return
        self._answered_ns[sender] = int(now_ns)
        self._strangers[sender] = None

    def _learn(self, sender: int, life: int, gone: bool) -> None:
        known = self.view.life(sender)
        # What is said of this member itself is for its world to find out.
        if sender == self._me.sender or known < 0 or life < known:
            return
        if life > known:
            self.view = self.view.with_life(sender, life)
        if gone and self.view.is_present(sender):
            self.view = self.view.without(sender)

    # -- what is said ------------------------------------------------------------------------------

    def joined(self) -> None:
        """Nobody need be told of this life any more: it has a vote on everything."""
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
        """Say what is due, and tell those who lag behind."""
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
        """Those of whom others may know less, drawn anew each time: first who is in another life
        than at first, or gone, and this member; then others, whose first lives others may not know.
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
