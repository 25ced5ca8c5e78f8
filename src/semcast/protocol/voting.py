"""Votes: what this member has and what others tell it in; what is stable or safe, and frames, out.

Both detections of a member, stability (all members) and safety (f+1), behind one face. Votes travel
by gossip (SRM §5.3) or, as the configuration says, in rounds of one of STAB's protocols; never by
both. Knows nothing of messages, streams and buffers: what follows from what is agreed is for the
member to do.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, RandomStream, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.outbox import EVERYBODY, Outbox
from semcast.protocol.stability.gossip.gossiping import Gossiping
from semcast.protocol.stability.rounds.rides import Rides
from semcast.protocol.stability.tracker import Rounds, StabilityTracker

NEVER: Final = SEQ_MAX


@final
class Voting:
    """The votes of one member, and what it makes of those of others."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        members: list[int],
        random: RandomStream,
        guarded: bool,
        joining: bool,
    ) -> None:
        """`members`: in order. `guarded`: safety matters. `joining`: the group runs, without me."""
        index = members.index(me.sender)
        self._config: Final = config
        self._random: Final = random
        self._guarded: Final = guarded
        # Whom to tell and to ask: everybody else who is not known to be gone, in order.
        self.others: Final = [sender for sender in members if sender != me.sender]
        self.gossiping: Gossiping | None = None
        self.rounds: Rounds | None = None
        self.stability: StabilityTracker
        self.safety: StabilityTracker
        if config.gossips:
            self.gossiping = Gossiping(config, members, index)
            self.stability, self.safety = self.gossiping.stability, self.gossiping.safety
        else:
            life = int(me.incarnation) if joining else 0
            self.rounds = detection_by_rounds(config, members, index, life)
            self.stability, self.safety = self.rounds.stability, self.rounds.safety
        self.rides: Final = Rides(me, config.limits, config.stability_ride_ns)
        # Whether this member leaves: it is not to be counted on for anything more.
        self.leaving = False
        # When datagrams were made and something was agreed on the way: somebody may wait for it.
        self.wake_ns: i64 = NEVER

    # -- what this member has ----------------------------------------------------------------------

    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        """We have a source's messages up to `seq`: something to tell others soon."""
        more = self.stability.has(source, seq)
        if self._guarded and not self.leaving:
            self.safety.has(source, seq)
        if self.gossiping is not None:
            self.gossiping.telling.news(more, now_ns)

    def count_bytes(self, size_bytes: i64) -> None:
        """Others are told at once when many bytes have come."""
        if self.gossiping is not None and self.gossiping.telling.untold_max > 0:
            self.gossiping.telling.untold_bytes += size_bytes

    def agreed(self, source: Source, safety: bool) -> i64:
        """Enough members have everything of `source` up to here."""
        return self.safety.agreed(source) if safety else self.stability.agreed(source)

    def held(self, source: Source, seq: i64, excused: int) -> bool:
        """Whether all others have everything of `source` up to `seq`, but for the excused."""
        if excused != 0 and self.gossiping is not None:
            return self.gossiping.stability.held(source, seq, excused)
        return self.stability.agreed(source) >= seq

    # -- when to tell, and whom --------------------------------------------------------------------

    def tell_soon(self, now_ns: i64) -> None:
        """Somebody waits for votes: in a small group, tell at once if there is news."""
        if self.rounds is not None:
            self.rounds.stability.urge(now_ns)
        elif self.gossiping is not None and len(self.others) <= self._config.gossip_fanout:
            self.gossiping.telling.somebody_tells(now_ns)

    def no_room(self, now_ns: i64) -> None:
        """There is no room to send until votes come."""
        self.tell_soon(now_ns)
        if self.gossiping is not None and self._on_demand:
            self.gossiping.telling.no_room(now_ns)

    def room(self) -> None:
        """It can send again."""
        if self.gossiping is not None:
            self.gossiping.telling.room()

    def somebody_waits(self, now_ns: i64) -> None:
        """Somebody cannot send before it gets votes; ours may have been lost."""
        if self.gossiping is not None and self._on_demand:
            self.gossiping.telling.somebody_waits(now_ns)

    @property
    def _on_demand(self) -> bool:
        """Whether others are told when that helps, not only when a period is over: in a group that
        is small enough for everybody to hear it.
        """
        return self._config.gossip_messages > 0 and len(self.others) <= self._config.gossip_fanout

    def gossip(
        self, gossiping: Gossiping, safety: bool, waits: bool, outbox: Outbox, now_ns: i64
    ) -> None:
        """Tell a few others who has what; less and less often when there is nothing to tell."""
        gossiping.telling.done(gossiping.stability.all_agreed(), now_ns)
        vectors = gossiping.stability.vectors()
        for vector in vectors:
            vector.waits = waits
        if safety:
            vectors += gossiping.safety.vectors()
        for to in self._peers():
            for vector in vectors:
                outbox.frame(to, vector)

    def tell_rounds(self, rounds: Rounds, outbox: Outbox, now_ns: i64) -> None:
        """Send what rounds have to say, or let it wait for a ride."""
        for to, told in self.rides.overdue(now_ns):
            outbox.frame(to, told)
        for to, told in rounds.take_out():
            if not self.rides.wait(to, told, now_ns):
                outbox.frame(to, told)
        for to, frame in rounds.take_measures():
            outbox.frame(to, frame)

    def next_deadline_ns(self) -> i64:
        """When there is something to do without anything having come."""
        if self.gossiping is not None:
            return self.gossiping.telling.due_ns()
        assert self.rounds is not None
        rounds_ns: i64 = self.rounds.next_deadline_ns()
        return min(self.wake_ns, rounds_ns, self.rides.next_deadline_ns())

    def _peers(self) -> list[int]:
        """Some other members, at random."""
        if len(self.others) <= self._config.gossip_fanout:
            return [EVERYBODY] if self.others else []
        left = list(self.others)
        return [
            left.pop(self._random.randrange(len(left))) for _ in range(self._config.gossip_fanout)
        ]


def detection_by_rounds(config: MemberConfig, members: list[int], index: int, life: int) -> Rounds:
    """What needs arrays is imported only where it is used."""
    from semcast.protocol.stability.rounds.detection import RoundDetection

    return RoundDetection(config, members, index, life)
