"""Detection by rounds: stability and safety of one member, and who is in which life.

Frames of others and the time go in; frames, and through `stability` and `safety` what is agreed,
come out. A member that comes back says so (REBORN) until a round has ended in which everybody knew:
then no vote of its former life counts anywhere. Members that came back earlier answer by saying so
too, since the newcomer cannot know. Whoever has another tree in mind is told as well, where trees
are measured.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.protocol.config import MemberConfig
from semcast.protocol.stability.rounds.measuring import Measuring
from semcast.protocol.stability.rounds.pages import Pages
from semcast.protocol.stability.rounds.patience import NEVER
from semcast.protocol.stability.rounds.protocols import RoundSetup
from semcast.protocol.stability.rounds.told import EVERYBODY
from semcast.protocol.stability.tracker import Rounds
from semcast.wire.families.measures import MeasureFrame
from semcast.wire.families.rounds import REBORN, SAYS_NOTHING, Round

# A newcomer that nobody hears says so ever less often, down to this many periods apart.
_PERIODS_MAX: Final = 32


@final
class RoundDetection(Rounds):
    """What a member needs of rounds."""

    def __init__(self, config: MemberConfig, members: list[int], me: int, life: int) -> None:
        """`life`: the incarnation of somebody who came back without memory, or 0."""
        setup = RoundSetup.of(config, len(members))
        self._roll: Final = setup.roll()
        self._members: Final = members
        self._me: Final = me
        self._life: Final = life
        if life > 0:
            self._roll.reborn(me, life)
        joining = life > 0
        self._stability: Final = Pages(setup, members, me, 0, self._roll, joining)
        self._safety: Final = Pages(setup, members, me, config.f + 1, self._roll, joining)
        super().__init__(self._stability, self._safety)
        self._measuring: Final = (
            Measuring(config.stability, config.stability_branching, members, me, self._roll)
            if config.measures
            else None
        )
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._out: list[tuple[int, Round]] = []
        # When to say next that this is another life, at first as soon as the clock is known.
        self._say_ns: i64 = 0 if joining else NEVER
        self._periods: i64 = 1
        self._answered_ns: i64 = -NEVER
        self._now_ns: i64 = 0

    def on_round(self, frame: Round, sender: int, now_ns: i64) -> None:
        self._now_ns = now_ns
        if frame.target not in (EVERYBODY, self._members[self._me]):
            return
        if frame.kind == REBORN:
            self._on_reborn(sender, int(frame.round), frame.target == EVERYBODY, now_ns)
            return
        pages = self._safety if frame.safety else self._stability
        pages.on_round(frame, sender, now_ns)
        if pages.strangers:
            pages.strangers.clear()
            self._answer_stranger(sender, now_ns)
            if self._measuring is not None:
                self._measuring.tell(sender, now_ns)

    def on_measure(self, frame: MeasureFrame, sender: int, now_ns: i64) -> None:
        self._now_ns = now_ns
        if self._measuring is not None and self._measuring.on_frame(frame, sender, now_ns):
            self._epoch_changed(now_ns, False)

    def poll(self, now_ns: i64) -> None:
        self._stability.poll(now_ns)
        self._safety.poll(now_ns)

    def on_timer(self, now_ns: i64) -> None:
        self._now_ns = now_ns
        if now_ns >= self._say_ns:
            self._say(EVERYBODY)
            self._periods = min(2 * self._periods, _PERIODS_MAX)
            self._say_ns = now_ns + self._periods * self._period_ns
        if self._measuring is not None and self._measuring.on_timer(now_ns):
            self._epoch_changed(now_ns, False)
        self._stability.on_timer(now_ns)
        self._safety.on_timer(now_ns)

    def next_deadline_ns(self) -> int:
        pages = min(self._stability.next_deadline_ns(), self._safety.next_deadline_ns())
        soonest = min(pages, self._say_ns)
        if self._measuring is not None:
            soonest = min(soonest, self._measuring.next_deadline_ns())
        return soonest

    def take_out(self) -> list[tuple[int, Round]]:
        out = self._out + self._stability.out + self._safety.out
        if out:
            self._out = []
            self._stability.out = []
            self._safety.out = []
        return out

    def take_measures(self) -> list[tuple[int, MeasureFrame]]:
        if self._measuring is None:
            return []
        out, self._measuring.out = self._measuring.out, []
        return out

    def figures(self) -> dict[str, int]:
        found = {
            "stability_rounds": self._stability.rounds,
            "stability_round_us": self._stability.round_us(),
            "stability_pages_led": self._stability.led(),
        }
        if self._measuring is not None:
            found["stability_tree_number"] = self._measuring.number
        return found

    def remove(self, member: int, now_ns: i64) -> None:
        if self._roll.remove(member):
            self._epoch_changed(now_ns, False)

    def restore(self, member: int) -> None:
        if self._roll.restore(member):
            self._epoch_changed(self._now_ns, False)

    def joined(self, page: int) -> None:
        self._safety.join(page)
        self._say_ns = NEVER

    def _on_reborn(self, sender: int, life: int, to_all: bool, now_ns: i64) -> None:
        if self._roll.reborn(sender, life):
            self._epoch_changed(now_ns, True)
        # An answer is for one member alone and is not answered: two would never come to an end. Who
        # misses it is a stranger as soon as it votes, and is told then.
        if self._life > 0 and to_all:
            self._say(self._members[sender])

    def _answer_stranger(self, sender: int, now_ns: i64) -> None:
        """Somebody has another idea of who is alive; perhaps it does not know of this life."""
        if self._life == 0 or now_ns - self._answered_ns < self._period_ns:
            return
        self._answered_ns = now_ns
        self._say(self._members[sender])
        if self._say_ns != NEVER:
            self._periods = 1
            self._say_ns = min(self._say_ns, now_ns + self._period_ns)

    def _say(self, target: int) -> None:
        """I am in another life."""
        told = Round(False, REBORN, SAYS_NOTHING, 0, target, 0, self._life, self._me, 0, [])
        self._out.append((target, told))

    def _epoch_changed(self, now_ns: i64, wanted: bool) -> None:
        self._stability.epoch_changed(now_ns, wanted)
        self._safety.epoch_changed(now_ns, False)
