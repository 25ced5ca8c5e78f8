"""Detection by rounds: one of STAB's five protocols, for stability and for safety of one member.

What this member has, frames of others and the time go in; what is stable and safe, and frames, come
out. Where trees are measured, a member that uses an older tree is sent the newest.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.detection import Agreed, Detection, Heard
from semcast.protocol.stability.followed import Followed
from semcast.protocol.stability.rounds.measuring import Measuring
from semcast.protocol.stability.rounds.pages import Pages
from semcast.protocol.stability.rounds.protocols import RoundSetup
from semcast.protocol.stability.rounds.rides import Rides
from semcast.wire.families.measures import ECHO, TIMES, TREE
from semcast.wire.families.rounds import ROUND, Round
from semcast.wire.frames import ControlFrame


@final
class RoundDetection(Detection):
    """Stability and safety of one member, in rounds."""

    def __init__(
        self, config: MemberConfig, me: Source, view: View, guarded: bool, joining: bool
    ) -> None:
        """`guarded`: safety matters. `joining`: the group runs, and this member came back."""
        is_open = view.origin != NO_ORIGIN
        setup = RoundSetup.of(config, len(view.members), is_open)
        self._setup: Final = setup
        self._me: Final = int(me.sender)
        self._guarded: Final = guarded
        self._followed: Final = Followed(view, config.group_reliable, me if joining else None)
        self._roll: Final = setup.roll()
        self._roll.install(view)
        self._stability: Final = Pages(setup, self._followed, me, 0, self._roll, joining)
        self._safety: Final = Pages(setup, self._followed, me, config.f + 1, self._roll)
        self._measuring: Final = (
            Measuring(
                config.stability,
                config.stability_branching,
                view,
                self._me,
                self._roll,
                setup.measured_max,
            )
            if config.measures
            else None
        )
        self._rides: Final = Rides(me, config.limits, config.stability_ride_ns)
        self._out: Final[list[tuple[int, Round]]] = []
        self._agreed = Agreed()
        self._leaving = False

    def kinds(self) -> tuple[int, ...]:
        return (ROUND, ECHO, TIMES, TREE)

    # -- views -------------------------------------------------------------------------------------

    def install(self, view: View, now_ns: i64) -> None:
        before = self._followed.view
        former = self._followed.install(view)
        if view.digest == before.digest:
            return  # only its number is another
        if view.members != before.members:
            self._roll.resize(self._setup.shape_of(len(view.members)))
        self._roll.install(view)
        if self._measuring is not None:
            self._measuring.install(view, now_ns)
        self._stability.install(view, former, now_ns)
        self._safety.install(view, [], now_ns)
        self._take()

    # -- what this member has ----------------------------------------------------------------------

    def has(self, source: Source, seq: i64, now_ns: i64) -> None:  # noqa: ARG002
        self._stability.has(source, seq)
        if self._guarded and not self._leaving:
            self._safety.has(source, seq)

    def knows(self, source: Source, seq: i64) -> None:
        self._stability.knows(source, seq)

    def hold_back(self, source: Source, floor: i64, now_ns: i64) -> None:  # noqa: ARG002
        self._stability.hold_back(source, floor)

    def count_bytes(self, size_bytes: i64) -> None:
        """Does nothing: rounds begin after messages, not after bytes."""

    def no_room(self, now_ns: i64) -> None:
        self._stability.urge(now_ns)
        self._take()

    def room(self) -> None:
        """Does nothing: the round that was asked for is under way."""

    def vote_soon(self, now_ns: i64) -> None:
        self._stability.want(now_ns)
        self._take()

    def rest_safety(self, resting: bool) -> None:
        self._safety.resting = resting

    def begin_leaving(self) -> None:
        self._leaving = True

    def excuse(self, silent: list[int]) -> None:
        """Does nothing: a round needs the vote of everybody who is alive."""

    # -- what is agreed ----------------------------------------------------------------------------

    def poll(self, now_ns: i64) -> Agreed | None:
        self._stability.poll(now_ns)
        self._safety.poll(now_ns)
        self._take()
        agreed = self._agreed
        if not agreed:
            return None
        self._agreed = Agreed()
        return agreed

    def stable(self, source: Source) -> i64:
        return self._stability.agreed(source)

    def safe(self, source: Source) -> i64:
        return self._safety.agreed(source)

    def held(self, source: Source, seq: i64) -> bool:
        return self._stability.agreed(source) >= seq

    def follows(self, source: Source) -> bool:
        return self._stability.follows(source)

    def joining(self) -> bool:
        return self._stability.joining

    def _take(self) -> None:
        """Collect what the pages have found out."""
        found, safe = self._stability.take(), self._safety.take()
        for source in found.joined:
            self._safety.has(source, self._stability.agreed(source))
        if found.ended:
            self._safety.end(found.ended)
        agreed = self._agreed
        agreed.joined += found.joined
        agreed.ended += found.ended
        agreed.missed += found.missed
        agreed.stable += [source for source in found.grown if source not in found.ended]
        agreed.safe += safe.grown
        agreed.heard += [Heard(one, newest, -1, 0) for one, newest in found.heard + safe.heard]
        self._out.extend(found.out)
        self._out.extend(safe.out)

    # -- frames ------------------------------------------------------------------------------------

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        position = self._followed.view.position(source.sender)
        if not isinstance(frame, Round):
            if self._measuring is not None and self._measuring.on_frame(frame, position, now_ns):
                self._epoch_changed(now_ns)
            return
        if frame.target not in (EVERYBODY, self._me):
            return
        pages = self._safety if frame.safety else self._stability
        strange = pages.on_round(frame, position, now_ns)
        if strange and self._measuring is not None and self._measuring.send_tree(position, now_ns):
            pages.greet(int(frame.page), position)
        self._take()

    def on_timer(self, now_ns: i64) -> None:
        if self._measuring is not None and self._measuring.on_timer(now_ns):
            self._epoch_changed(now_ns)
        self._stability.on_timer(now_ns)
        self._safety.on_timer(now_ns)
        self._take()

    def next_deadline_ns(self) -> i64:
        soonest: i64 = min(self._stability.next_deadline_ns(), self._safety.next_deadline_ns())
        soonest = min(soonest, self._rides.next_deadline_ns())
        if self._measuring is not None:
            soonest = min(soonest, self._measuring.next_deadline_ns())
        return soonest

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        """Send what rounds have to say, or let it wait for a ride."""
        for to, frame in self._rides.overdue(now_ns):
            outbox.frame(to, frame)
        for to, frame in self._out:
            if not self._rides.wait(to, frame, now_ns):
                outbox.frame(to, frame)
        self._out.clear()
        if self._measuring is not None:
            for to, measured in self._measuring.take_out():
                outbox.frame(to, measured)

    def board(self, frames: bytes) -> bytes:
        return self._rides.board(frames)

    def figures(self) -> dict[str, int]:
        found = {
            "sources_followed": len(self._stability.sources()),
            "stability_rounds": self._stability.rounds,
            "stability_round_us": self._stability.round_us(),
            "stability_pages_led": self._stability.led(),
        }
        if self._measuring is not None:
            found["stability_tree_number"] = self._measuring.number
        return found

    def _epoch_changed(self, now_ns: i64) -> None:
        self._stability.epoch_changed(now_ns)
        self._safety.epoch_changed(now_ns)
        self._take()
