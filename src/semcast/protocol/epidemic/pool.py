"""The purging layer's buffer: copies that wait for links, which of them are obsolete, and room.

Copies go in for their links and come out in their order, but for those that the policy drops. One
`PurgingBuffer` holds each message once and knows what replaces what; a message that it purges takes
all of its copies along. Room is counted in copies, because links carry copies. A pool serves all
links of a member (scope "node") or a single one (scope "link"). Where messages that come late may
wait beside what replaces them, `Company` takes the place of the buffer.

INV-POOL: with a semantic policy, the buffer or company holds exactly the messages of which a copy
waits; the buffer without those that came since the last sweep: lazy purging looks at messages only
if there is no room.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness
from semcast.protocol.epidemic.company import Company
from semcast.protocol.epidemic.config import Late, Policy
from semcast.protocol.epidemic.copies import Copy, Lane, Shelves, Spread
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.policy import BufferConfig, Purging
from semcast.protocol.queue.verdict import Verdict
from semcast.wire.message import Message

_STORED: Final = Verdict.STORED
_OBSOLETE: Final = Verdict.OBSOLETE
_ROOM: Final = 1 << 40
# Sources of which nothing waits are forgotten when so many more are known than messages held.
_IDLE_SOURCES_MAX: Final = 64
# Where purges and drops happen: in the buffer of all links, or of one.
RELAY: Final = "relay"
LINK: Final = "link"


@final
class PoolCounts:
    """What left pools without being sent, in copies, and messages that came when obsolete."""

    def __init__(self) -> None:
        self.replaced: i64 = 0
        self.late: i64 = 0
        self.dropped: i64 = 0


@final
class PoolRules:
    """Where a pool is, and what goes in it when."""

    def __init__(self, place: str, policy: Policy, late: Late, room_each: bool) -> None:
        self.place: Final = place
        self.policy: Final = policy
        # What becomes of a message that something which waits replaces.
        self.late: Final = late
        # Whether each link has its own room.
        self.room_each: Final = room_each


@final
class Pool:
    """Copies of messages, bounded, from which what is obsolete may be dropped."""

    def __init__(
        self,
        rules: PoolRules,
        copies_max: i64,
        random: Randomness,
        counts: PoolCounts,
        observer: Observer | None,
    ) -> None:
        # Of all copies, or of those for each link.
        self.copies_max: i64 = copies_max
        place, policy = rules.place, rules.policy
        self._place: Final = place
        self._by_age: Final = policy is Policy.AGE
        self._by_priority: Final = policy is Policy.PRIORITY
        self._drops_new: Final = policy is Policy.DROP_NEW
        self._lazy: Final = policy is Policy.LAZY
        self._semantic: Final = policy.semantic
        # What is lost although nothing replaces it goes as the policy says, or at random.
        self._dropped: Final = f"{place}/{Policy.RANDOM if policy.semantic else policy}"
        config = BufferConfig(_ROOM, _ROOM, Purging.EAGER)
        self._buffer: Final = PurgingBuffer(config, place, record=True)
        # LAZY: what came since the last sweep, in order.
        self._unswept: list[Spread] = []
        # What waits, where late messages may wait too.
        relays = rules.late is not Late.REFUSE and policy.semantic
        self._company: Final = Company() if relays else None
        # Whether a late copy is kept out by what replaces it and waits for the same link; and, if
        # purging is eager, what replaces the message that is being admitted.
        self._by_link: Final = relays and rules.late is Late.LINK
        self._covers: list[Spread] = []
        # Where copies stand, if links share their room; else each lane has shelves of its own.
        self._shelves: Final = None if rules.room_each else Shelves(random)
        self._random: Final = random
        self._spreads: Final[dict[Message, Spread]] = {}
        self._lanes: Final[dict[int, Lane]] = {}
        self._counts: Final = counts
        self._observer: Final = observer

    @property
    def held(self) -> i64:
        """How many copies wait."""
        if self._shelves is not None:
            return self._shelves.held
        held: i64 = 0
        for lane in self._lanes.values():
            held += lane.shelves.held
        return held

    def _lane(self, to: int) -> Lane:
        """Where copies for a link wait."""
        lane = self._lanes.get(to)
        if lane is None:
            shelves = Shelves(self._random) if self._shelves is None else self._shelves
            lane = self._lanes[to] = Lane(shelves)
        return lane

    # -- in ----------------------------------------------------------------------------------------

    def admit(self, spread: Spread) -> bool:
        """A message is here: purge what it replaces. False if something that waits replaces it, so
        that no copy of it may be sent. If it may, `wait` for some links, and `end`.
        """
        if not self._semantic:
            return True
        if self._company is not None:
            if not self._lazy:
                self._replace(spread)
                if self._by_link:
                    self._covers = self._company.replacing(spread.message)
            return True
        if self._lazy:
            self._unswept.append(spread)
            return True
        return self._insert(spread)

    def _replace(self, newcomer: Spread) -> None:
        """Purge what a message replaces, where late ones are relayed."""
        assert self._company is not None
        for spread in self._company.replaced_by(newcomer.message):
            self._purge(spread, newcomer)

    def _purge(self, spread: Spread, newcomer: Spread) -> None:
        """A message replaces one that waits in its company."""
        assert self._company is not None
        self._company.remove(spread)
        self._let_go(spread)
        if self._observer is not None:
            self._observer.message("purge", spread.message, self._place, newcomer.message)

    def _insert(self, spread: Spread) -> bool:
        """Purge what a message replaces; False if something that waits replaces it."""
        verdict = self._buffer.insert(spread.message)
        if verdict is _STORED:
            self._spreads[spread.message] = spread
        if self._buffer.recorded:
            self._purged()
        return verdict is _STORED

    def wait(self, spread: Spread, to: int) -> None:
        """A copy of an admitted message waits for a link, if there is room."""
        lane = self._lane(to)
        if spread.obsolete or (self._covers and self._is_covered(spread, lane)):
            return
        if lane.shelves.held >= self.copies_max and not self._make_room(spread, lane):
            return
        if self._company is not None and not spread.copies:
            self._company.add(spread)
        copy = Copy(spread, lane, self._class_of(spread))
        spread.copies.append(copy)
        lane.shelves.put(copy)
        lane.append(copy)

    def _is_covered(self, spread: Spread, lane: Lane) -> bool:
        """Whether something that waits for this link replaces a message, whose copy is purged."""
        for cover in self._covers:
            for copy in cover.copies:
                if copy.lane is lane:
                    self._counts.late += 1
                    if self._observer is not None:
                        # Copies for other links may be sent all the same.
                        self._observer.message("purge", spread.message, LINK, cover.message)
                    return True
        return False

    def end(self, spread: Spread) -> None:
        """All copies of an admitted message wait, or were sent or dropped."""
        if self._semantic and self._company is None and not spread.copies:
            self._forget(spread)
        if self._unswept and len(self._unswept) > 2 * self.held + _IDLE_SOURCES_MAX:
            self._unswept = [one for one in self._unswept if one.copies]

    # -- out ---------------------------------------------------------------------------------------

    def take(self, to: int) -> Spread | None:
        """The next message for a link; its copy leaves."""
        lane = self._lanes.get(to)
        copy = None if lane is None else lane.first()
        if copy is None:
            return None
        self._leave(copy)
        return copy.spread

    def waits_for(self, to: int) -> bool:
        """Whether a copy waits for this link."""
        lane = self._lanes.get(to)
        return lane is not None and lane.first() is not None

    def forget(self, to: int) -> None:
        """Nothing is sent to that one any more."""
        while self.take(to) is not None:
            pass
        self._lanes.pop(to, None)

    # -- room --------------------------------------------------------------------------------------

    def _make_room(self, spread: Spread, lane: Lane) -> bool:
        """Let something go for a copy of `spread`; False if that copy itself is not to wait, being
        dropped or obsolete.
        """
        shelves = lane.shelves
        if self._lazy:
            if self._company is None:
                self._sweep(spread)
            elif self._by_link:
                if self._is_late(spread, lane):
                    return False
            else:
                self._replace(spread)
            if spread.obsolete or shelves.held < self.copies_max:
                return not spread.obsolete
        if self._drops_new or self._class_of(spread) > shelves.highest():
            self._lose(spread)
            return False
        victim = shelves.victim()
        self._lose(victim.spread)
        self._leave(victim)
        return True

    def _is_late(self, spread: Spread, lane: Lane) -> bool:
        """Lazily, by link: whether a copy for which there is no room is covered on its own link. If
        it is not, what it replaces makes room: the message that has waited for longest.
        """
        assert self._company is not None
        self._covers = self._company.replacing(spread.message)
        late = self._is_covered(spread, lane)
        self._covers = []
        if not late:
            replaced = self._company.replaced_by(spread.message)
            if replaced:
                self._purge(replaced[0], spread)
        return late

    def _sweep(self, current: Spread) -> None:
        """Purge all that is obsolete, with `current`, of which a copy is about to wait."""
        unswept, self._unswept = self._unswept, []
        for one in unswept:
            if (one.copies or one is current) and not self._insert(one):
                one.obsolete = True
                self._let_go(one)

    def _class_of(self, spread: Spread) -> i64:
        """Of which copies go first: the higher, the sooner."""
        if self._by_age:
            return spread.round
        if self._by_priority:
            message = spread.message
            return 1 if message.key_len > 0 or message.bitmap != 0 else 0
        return 0

    def _lose(self, spread: Spread) -> None:
        """A copy is dropped although nothing replaces it."""
        self._counts.dropped += 1
        if self._observer is not None:
            self._observer.message("drop", spread.message, self._dropped, None)

    # -- leaving -----------------------------------------------------------------------------------

    def _leave(self, copy: Copy) -> None:
        spread = copy.spread
        copy.lane.shelves.take(copy)
        spread.copies.remove(copy)
        if spread.copies:
            return
        if self._company is not None:
            self._company.remove(spread)
        elif self._semantic:
            self._forget(spread)

    def _forget(self, spread: Spread) -> None:
        """No copy of a message waits any more."""
        if self._spreads.pop(spread.message, None) is not None:
            self._buffer.remove(spread.message.source, spread.message.seq)
            self._forget_idle()

    def _forget_idle(self) -> None:
        """Forget sources of which nothing waits, once they are many."""
        if self._buffer.sources > self._buffer.held + _IDLE_SOURCES_MAX:
            self._buffer.forget_idle()

    def _purged(self) -> None:
        """Let go of the copies of what was purged."""
        for one in self._buffer.drain_purged():
            spread = self._spreads.pop(one.message, None)
            if spread is None:
                self._counts.late += 1
            else:
                self._let_go(spread)
            if self._observer is not None:
                self._observer.message("purge", one.message, self._place, one.cover)
        self._forget_idle()

    def _let_go(self, spread: Spread) -> None:
        """No copy of a message that is obsolete is sent any more."""
        self._counts.replaced += len(spread.copies)
        for copy in spread.copies:
            copy.lane.shelves.take(copy)
        spread.copies.clear()
