"""Detection by gossip (SRM §5.3): each member sends the votes that it knows to a few others.

What this member has and the vectors of others go in; what is stable and safe, and vectors, come
out. `pace` decides when the next vectors go out, and `tracker` counts votes.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.detection import Agreed, Detection, Heard
from semcast.protocol.stability.followed import Followed
from semcast.protocol.stability.gossip.pace import GossipPace
from semcast.protocol.stability.gossip.quiet import QuietMembers
from semcast.protocol.stability.gossip.tracker import GossipTracker
from semcast.wire.families.votes import SAFETY, STABILITY, Vector
from semcast.wire.frames import ControlFrame

# In a group of more than so many a newcomer speaks of those of whom it has heard nothing only after
# so many vectors: mostly they are quiet, and rounds about all of them would cost everybody much.
_MANY: Final = 16
_PATIENCE: Final = 64


@final
class GossipDetection(Detection):
    """Stability and safety of one member, by gossip."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        random: Randomness,
        guarded: bool,
        joining: bool,
    ) -> None:
        """`guarded`: safety matters. `joining`: the group runs, and this member came back."""
        self._config: Final = config
        self._me: Final = me
        self._random: Final = random
        self._guarded: Final = guarded
        self._followed: Final = Followed(view, config.group_reliable, me if joining else None)
        self._followed.met_all()
        self._quiet: Final = QuietMembers()
        self._quiet.install(view, me, True)
        self._stability: Final = GossipTracker(self._followed, me, False, 0, joining, self._quiet)
        self._safety: Final = GossipTracker(
            self._followed, me, True, config.f + 1, quiet=self._quiet
        )
        self._patience = _PATIENCE
        self._pace: Final = GossipPace(config)
        # Everybody else who is not gone, in order.
        self._others = view.others(me)
        self._agreed = Agreed()
        self._resting = False
        self._leaving = False
        self._waits = False
        # INV-EXCUSED: the silent members, as bits, that this member does not wait for if it leaves.
        self._excused = 0
        # Whether vectors are due; `pack` sends them.
        self._due = False
        # Others that do not know what is agreed, and are told with the next vectors.
        self._behind: Final[dict[int, None]] = {}

    def kinds(self) -> tuple[int, ...]:
        return (STABILITY, SAFETY)

    # -- views -------------------------------------------------------------------------------------

    def install(self, view: View, now_ns: i64) -> None:
        same = view.digest == self._followed.view.digest
        former = self._followed.install(view)
        if same:
            return  # only its number is another
        self._stability.install(view, former)
        self._safety.install(view, [])
        self._quiet.install(view, self._me, self._stability.has_none(self._me))
        self._patience = _PATIENCE
        self._excused = 0
        self._others = view.others(self._me)
        self._take(self._stability.on_period(), self._safety.on_period())
        self._pace.somebody_is_behind(now_ns)

    # -- what this member has ----------------------------------------------------------------------

    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        more = self._stability.has(source, seq)
        if self._guarded and not self._leaving:
            self._safety.has(source, seq)
        self._pace.news(more, now_ns)

    def knows(self, source: Source, seq: i64) -> None:
        self._stability.knows(source, seq)

    def hold_back(self, source: Source, floor: i64, now_ns: i64) -> None:
        more = self._stability.hold_back(source, floor)
        if more > 0:
            self._pace.news(more, now_ns)

    def count_bytes(self, size_bytes: i64) -> None:
        if self._pace.new_messages_max > 0:
            self._pace.new_bytes += size_bytes

    def no_room(self, now_ns: i64) -> None:
        self._waits = True
        if self._is_small():
            self._pace.somebody_gossips(now_ns)
        if self._on_demand():
            self._pace.no_room(now_ns)

    def room(self) -> None:
        self._waits = False
        self._pace.room()

    def vote_soon(self, now_ns: i64) -> None:
        self._pace.somebody_is_behind(now_ns)

    def rest_safety(self, resting: bool) -> None:
        self._resting = resting

    def begin_leaving(self) -> None:
        self._leaving = True

    def excuse(self, silent: list[int]) -> None:
        view = self._followed.view
        self._excused = sum(1 << view.position(sender) for sender in silent)

    # -- what is agreed ----------------------------------------------------------------------------

    def poll(self, now_ns: i64) -> Agreed | None:  # noqa: ARG002
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
        return self._stability.held(source, seq, self._excused)

    def follows(self, source: Source) -> bool:
        return self._stability.follows(source)

    def joining(self) -> bool:
        return self._stability.joining

    def _take(self, stable: list[Source], safe: list[Source]) -> None:
        """Collect what the trackers have found out."""
        joined = self._stability.take_joined()
        if joined:
            for source in joined:
                agreed_seq = self._stability.agreed(source)
                if agreed_seq > 0:
                    self._safety.has(source, agreed_seq)
        ended = self._stability.take_ended()
        if ended:
            self._safety.end(ended)
        self._safety.take_ended()
        agreed = self._agreed
        agreed.joined += joined
        agreed.ended += ended
        agreed.missed += self._stability.take_missed()
        agreed.stable += [source for source in stable if source not in ended]
        agreed.safe += safe

    # -- frames ------------------------------------------------------------------------------------

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        assert isinstance(frame, Vector)
        if frame.quiet:
            self._on_quiet(frame, int(source.sender), now_ns)
            return
        tracker = self._safety if frame.safety else self._stability
        behind = frame.wanted
        for row in frame.rows:
            behind = behind or row.agreed < tracker.agreed(row.source)
            # Whoever sent the vector has voted in the round, so it has no less than the lowest.
            heard = Heard(row.source, int(row.newest), int(source.sender), int(row.lowest))
            self._agreed.heard.append(heard)
        if behind:
            self._on_behind(int(source.sender), now_ns)
        if frame.wanted:
            self._quiet.asked()
        waits_for_us = frame.waits and self._stability.lacks_vote(frame)
        grown = tracker.on_vector(frame)
        self._take([] if frame.safety else grown, grown if frame.safety else [])
        if waits_for_us and self._on_demand():
            self._pace.somebody_waits(now_ns)
        if not frame.safety and self._is_small():
            self._pace.somebody_gossips(now_ns)

    def _on_quiet(self, frame: Vector, sender: int, now_ns: i64) -> None:
        """Another member says who has sent nothing so far."""
        if self._quiet.hear(frame) and self._stability.joining:
            self._stability.begin_with_quiet()
            self._take([], [])
        if frame.wanted:
            self._on_behind(sender, now_ns)

    def _on_behind(self, sender: int, now_ns: i64) -> None:
        """Another member does not know what is agreed, or a newcomer needs the round to end: this
        is no time to rest, and whoever asks in vain hears of it first.
        """
        self._pace.somebody_is_behind(now_ns)
        if len(self._behind) < self._config.gossip_fanout:
            self._behind[sender] = None

    def on_timer(self, now_ns: i64) -> None:
        if now_ns >= self._pace.due_ns():
            self._pace.begin()
            if self._excused != 0:
                self._stability.renew(self._excused)
            self._take(self._stability.on_period(), self._safety.on_period())
            rests = self._stability.all_agreed() and not self._quiet.speaks(False)
            self._pace.done(rests, now_ns)
            self._due = True

    def next_deadline_ns(self) -> i64:
        return self._pace.due_ns()

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        """Send vectors to a few others, if they are due."""
        if not self._due:
            return
        self._due = False
        patient = self._patience > 0 and len(self._others) > _MANY
        self._patience = max(0, self._patience - 1)
        vectors = self._stability.vectors(patient)
        for vector in vectors:
            vector.waits = self._waits
        if self._guarded and not self._resting:
            vectors += self._safety.vectors()
        wanted = self._stability.joining
        if self._quiet.speaks(wanted):
            vectors.append(self._quiet.vector(wanted))
        for to in self._peers():
            for vector in vectors:
                outbox.frame(to, vector)

    def figures(self) -> dict[str, int]:
        return {"sources_followed": len(self._stability.sources())}

    # -- to whom vectors go ------------------------------------------------------------------------

    def _is_small(self) -> bool:
        """Whether the group is so small that vectors go to everybody."""
        return len(self._others) <= self._config.gossip_fanout

    def _on_demand(self) -> bool:
        """Whether vectors go out when that helps, not only when a period is over."""
        return self._config.gossip_messages > 0 and self._is_small()

    def _peers(self) -> list[int]:
        """Some other members: one that is behind, if there is one, and others at random."""
        behind = [sender for sender in self._behind if sender in self._others]
        self._behind.clear()
        if self._is_small():
            return [EVERYBODY] if self._others else []
        left = list(self._others)
        chosen: list[int] = []
        # If vectors go to one member only, it is not always one that is behind: members that answer
        # nobody but each other never have the votes of all.
        if behind and (self._config.gossip_fanout > 1 or self._random.randrange(2) == 0):
            chosen.append(behind[self._random.randrange(len(behind))])
            left.remove(chosen[0])
        while len(chosen) < self._config.gossip_fanout:
            chosen.append(left.pop(self._random.randrange(len(left))))
        return chosen
