"""The purging buffer: a bounded FIFO queue from which obsolete messages may be dropped.

Messages go in; they come out in order, but for those that a message also held here replaces
(SRM §4.3: purge m while there are m, m' in the queue with m ⊏ m', and the guard allows m'). Per
source FIFO order is kept even when a message comes late. Knows nothing of time or networks.

Slots are a doubly linked list in arrays, in queue order; an index of each source finds the slot of
a sequence number, so that inserting and purging cost the same at 40 messages and at 100,000.

Theory of operation. An arriving message *hits* the held messages that its annotation names. EAGER
purges hits at once. LAZY and WATERMARK only mark them, with the message that covers them, and
purge marked ones when the policy says so. Hits of a cover that the guard does not allow yet are
looked at again when the guard moves on (`covers_released`). A message that arrives already
obsolete does not enter.

In place (`BufferConfig.in_place`), a message moves into the slot of the foremost one that it hits.
Order is then kept within each stream of a source only: one key, or the unmarked (`in_place.py`).
Which key is taken when the place of one is due is a matter of turns (`turns.py`).
"""

import enum
from collections import OrderedDict
from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.errors import ConfigError, MessageTooLargeError
from semcast.ids import RandomStream, Source
from semcast.obsolescence.bitmap import K_MAX
from semcast.obsolescence.relation import obsoletes, outranks
from semcast.protocol.covers import CoverLog
from semcast.protocol.guard import CoverGuard
from semcast.protocol.in_place import inherit, same_stream
from semcast.protocol.index import SeqIndex
from semcast.protocol.policy import BufferConfig, Overflow, Purging
from semcast.protocol.purged import Purged, Reason
from semcast.protocol.turns import Turns, takes_turns
from semcast.wire.message import Message

# Bitmaps below this are native integers in compiled code; others are walked in words of this size.
_WORD_BITS: Final = 60
_WORD: Final = (1 << _WORD_BITS) - 1
_SHORT_MAX: Final = (1 << 62) - 1


class Verdict(enum.IntEnum):
    """What became of an inserted message."""

    STORED = 0
    FULL = 1  # refused, nothing changed but for purging what was obsolete: back-pressure
    OBSOLETE = 2  # already replaced by a message held here; accounted for as purged
    DROPPED = 3  # lossy policies only
    DUPLICATE = 4  # held here already


# Looked up once: an enum member costs a dictionary look-up in compiled code, these do not.
_STORED: Final = Verdict.STORED
_FULL: Final = Verdict.FULL
_OBSOLETE: Final = Verdict.OBSOLETE
_DROPPED: Final = Verdict.DROPPED
_DUPLICATE: Final = Verdict.DUPLICATE
_REPLACED: Final = Reason.REPLACED
_LATE: Final = Reason.LATE
_RANDOM: Final = Reason.RANDOM
_OVERFLOW: Final = Reason.OVERFLOW


@final
class _Lane:
    """The messages of one source in this buffer."""

    def __init__(self) -> None:
        self.index: Final = SeqIndex()
        self.newest: i64 = 0
        self.held_bytes: i64 = 0
        # No held message is older than this; hits are not looked for beyond it.
        self.oldest: i64 = 0
        # INV-RELEASED: every held message up to here that the guard allows was used as a cover,
        # or had no need to be, being marked.
        self.released: i64 = 0


# Of a source of which nothing was ever held.
_NO_LANE: Final = _Lane()


@final
class PurgingBuffer:
    """A bounded FIFO queue of messages that purges what is obsolete."""

    def __init__(
        self,
        config: BufferConfig,
        place: str = "delivery",
        guard: CoverGuard | None = None,
        random: RandomStream | None = None,
        record: bool = False,
        covers: CoverLog | None = None,
    ) -> None:
        """`record`: keep what is purged for `drain_purged`; `covers`: note there what covers it."""
        if config.overflow is Overflow.RANDOM and random is None:
            raise ConfigError("overflow 'random' needs a seeded stream: pass random=")
        if config.in_place and guard is not None:
            raise ConfigError("in_place is for delivery buffers, which need no guard")
        self.config: Final = config
        self.place: Final = place
        self._guard: Final = guard
        self._random: Final = random
        self._record: Final = record
        self._covers: Final = covers
        self._messages_max: Final[i64] = config.messages_max
        self._bytes_max: Final[i64] = config.bytes_max
        per_source = config.source_messages_max
        self._source_max: Final[i64] = config.messages_max if per_source is None else per_source
        per_source = config.source_bytes_max
        self._source_bytes_max: Final[i64] = config.bytes_max if per_source is None else per_source
        self._high: Final[i64] = config.high
        self._low: Final[i64] = config.low
        self._eager: Final = config.purging is Purging.EAGER
        self._off: Final = config.purging is Purging.OFF
        self._watermark: Final = config.purging is Purging.WATERMARK
        self._in_place: Final = config.in_place
        # Slot s is followed by slot _links[2s] and preceded by _links[2s+1]; slot 0 is the list's
        # end and start, so that _links[0] is the oldest message and _links[1] the newest.
        self._items: Final[list[Message | None]] = [None]
        self._links = vec[i64]([0, 0])
        self._free: i64 = 0
        # In place only. INV-PLACES: by slot a number that grows along the queue. A message inherits
        # it with the slot, so that the foremost of several victims is found without a walk.
        self._places = vec[i64]([0])
        self._last_place: i64 = 0
        self._turns: Final = Turns()
        # While a message is inserted: the foremost slot that its victims have left, still in the
        # queue, for it to move in; 0 if there is none.
        self._vacated: i64 = 0
        self._lanes: Final[dict[Source, _Lane]] = {}
        self._last_source: Source | None = None
        self._last_lane = _Lane()
        # Ranked messages by key, unmarked ones only: slot to message.
        self._keys: Final[dict[bytes, dict[int, Message]]] = {}
        # LAZY and WATERMARK. INV-MARKED: held victims and their covers, in the order in which they
        # became obsolete; a marked one stays purgeable, since its cover leaves this buffer only
        # when it was taken, is stable or is covered itself. It is as good as gone, and so covers
        # nothing new: what is not marked is what EAGER would hold.
        self._marked: Final[OrderedDict[tuple[Source, int], tuple[Message, Message]]] = (
            OrderedDict()
        )
        self.held: i64 = 0
        self.held_bytes: i64 = 0
        self._replaced: i64 = 0
        self._late: i64 = 0
        self._random_drops: i64 = 0
        self._overflows: i64 = 0
        self._log: list[Purged] = []

    def __len__(self) -> int:
        return self.held

    # -- in ------------------------------------------------------------------------------------

    def insert(self, message: Message) -> Verdict:
        """Add a message, purging as the policy says. FULL means: keep it and try again."""
        # Messages come in runs of one source, so the lane of the last one is often right.
        source = message.source
        lane = self._last_lane if source is self._last_source else self._lane(source)
        marks = message.bitmap != 0 or message.ranked
        allowed = marks and self._allows(message)
        late = message.seq <= lane.newest
        if late and lane.index.get(message.seq) >= 0:
            return _DUPLICATE
        if (late or message.ranked) and self._arrives_obsolete(lane, message):
            return _OBSOLETE
        size: i64 = len(message.body)
        if not self._fits(lane, size):
            verdict = self._make_room(lane, message, size, allowed)
            if verdict is not _STORED:
                return verdict
        if self._in_place:
            slot = self._store_in_place(lane, message, size, late, allowed)
        else:
            # Looked for only now: making room may have removed what it has to stand before.
            before: i64 = self._successor(lane, message) if late else 0
            slot = self._store(lane, message, size, before)
            if allowed:
                self._hit(lane, message)
        if not allowed and message.seq <= lane.released:
            lane.released = message.seq - 1
        if message.ranked:
            self._keys.setdefault(message.key, {})[slot] = message
        if self._watermark and self.held > self._high:
            self._purge_marked(self._low)
        return _STORED

    def insert_many(self, messages: list[Message]) -> int:
        """Insert in order until one is refused as FULL; says how many were dealt with."""
        done = 0
        for message in messages:
            if self.insert(message) is _FULL:
                break
            done += 1
        return done

    def covers_released(self, source: Source) -> None:
        """The guard allows more covers of `source`: purge, or mark, what they replace."""
        lane = self._find(source)
        if lane is None:
            return
        seq = max(lane.released + 1, lane.oldest)
        while seq <= lane.newest:
            slot = lane.index.get(seq)
            if slot >= 0:
                cover = self._at(slot)
                if not self._allows(cover):
                    break
                if (cover.bitmap != 0 or cover.ranked) and not self._is_marked(cover):
                    self._hit(lane, cover)
                seq += 1
            else:
                seq = lane.index.following(seq + 1)
        lane.released = seq - 1
        if self._watermark and self.held > self._high:
            self._purge_marked(self._low)

    # -- out -----------------------------------------------------------------------------------

    def take(self) -> Message | None:
        """The next message, which leaves the buffer."""
        return None if self.held == 0 else self._take()

    def take_many(self, messages_max: i64) -> list[Message]:
        """The next messages, at most so many, which leave the buffer."""
        taken = []
        while messages_max > 0 and self.held > 0:
            taken.append(self._take())
            messages_max -= 1
        return taken

    def peek(self) -> Message | None:
        """The next message, which stays."""
        return self._items[self._next_in_place() if self._in_place else self._links[0]]

    def _take(self) -> Message:
        if self._in_place:
            return self._take_in_place()
        return self._remove(self._links[0])

    def newest(self) -> Message | None:
        """The last message of the queue, which stays."""
        return self._items[self._links[1]]

    def drop_newest(self) -> Message | None:
        """Give up the last message of the queue; somebody else has it."""
        slot = self._links[1]
        return None if slot == 0 else self._remove(slot)

    def held_of(self, source: Source) -> int:
        """How many messages of one source are held."""
        lane = self._find(source)
        return 0 if lane is None else lane.index.count

    def room_for(self, source: Source, size_bytes: i64) -> bool:
        """Whether a message of this size would be stored without purging anything."""
        return self._fits(self._find(source) or _NO_LANE, size_bytes)

    def get(self, source: Source, seq: i64) -> Message | None:
        """A held message by its number; for retransmission."""
        lane = self._find(source)
        if lane is None:
            return None
        slot = lane.index.get(seq)
        return None if slot < 0 else self._items[slot]

    def release(self, source: Source, stable_seq: i64) -> int:
        """Everybody has everything of `source` up to `stable_seq`: let it go. Says how many."""
        lane = self._find(source)
        if lane is None:
            return 0
        released = 0
        seq = lane.oldest
        while seq <= stable_seq and seq <= lane.newest and lane.index.count > 0:
            slot = lane.index.get(seq)
            if slot >= 0:
                self._remove(slot)
                released += 1
                seq += 1
            else:
                seq = lane.index.following(seq + 1)
        lane.oldest = max(lane.oldest, seq)
        return released

    def messages(self) -> list[Message]:
        """What is held, oldest first. For looking, not for the hot path."""
        found = []
        slot = self._links[0]
        while slot != 0:
            found.append(self._at(slot))
            slot = self._links[2 * slot]
        return found

    @property
    def counts(self) -> dict[Reason, int]:
        """How many messages left without being taken, by reason."""
        return {
            Reason.REPLACED: self._replaced,
            Reason.LATE: self._late,
            Reason.RANDOM: self._random_drops,
            Reason.OVERFLOW: self._overflows,
        }

    @property
    def recorded(self) -> bool:
        """Whether there is anything for `drain_purged`."""
        return len(self._log) > 0

    def drain_purged(self) -> list[Purged]:
        """What was purged or dropped since the last call, if the buffer records it."""
        log, self._log = self._log, []
        return log

    # -- hits ----------------------------------------------------------------------------------

    def _allows(self, cover: Message) -> bool:
        if self._off:
            return False
        return self._guard is None or self._guard.allows(cover)

    def _hit(self, lane: _Lane, cover: Message) -> None:
        """Purge or mark every held message that `cover` replaces."""
        if cover.ranked:
            self._hit_ranked(cover)
            return
        bits = cover.bitmap
        nearest = cover.seq - 1
        while bits != 0:
            if bits <= _SHORT_MAX:
                word: i64 = bits
                bits = 0
            else:
                word = bits & _WORD
                bits >>= _WORD_BITS
            while word != 0:
                seq = nearest - _trailing_zeros(word)
                if seq < lane.oldest:
                    return
                word &= word - 1
                slot = lane.index.get(seq)
                if slot >= 0:
                    self._obsolete(slot, cover)
            nearest -= _WORD_BITS

    def _hit_ranked(self, cover: Message) -> None:
        rivals = self._keys.get(cover.key)
        if rivals is None:
            return
        beaten = [slot for slot, rival in rivals.items() if outranks(cover, rival)]
        for slot in sorted(beaten):
            self._obsolete(slot, cover)

    def _hits(self, lane: _Lane, cover: Message) -> list[Message]:
        """The held messages that `cover` replaces; only for deciding whether it would fit."""
        if cover.ranked:
            rivals = self._keys.get(cover.key)
            return [] if rivals is None else [r for r in rivals.values() if outranks(cover, r)]
        found = []
        bits = cover.bitmap
        while bits != 0:
            nearest = bits & -bits
            seq = cover.seq - nearest.bit_length()
            if seq < lane.oldest:
                break
            bits ^= nearest
            slot = lane.index.get(seq)
            if slot >= 0:
                found.append(self._at(slot))
        return found

    def _obsolete(self, slot: i64, cover: Message) -> None:
        if self._eager:
            if self._in_place:
                victim = self._vacate(slot)
                inherit(cover, victim)
            else:
                victim = self._remove(slot)
            self._account(_REPLACED, victim, cover)
            return
        victim = self._at(slot)
        name = (victim.source, int(victim.seq))
        if name not in self._marked:
            self._marked[name] = (victim, cover)
            if victim.ranked:
                self._forget_rival(slot, victim)

    def _is_marked(self, message: Message) -> bool:
        return bool(self._marked) and (message.source, int(message.seq)) in self._marked

    def _arrives_obsolete(self, lane: _Lane, message: Message) -> bool:
        """Whether a held message replaces the new one already; if so, account for it."""
        cover = self._cover_of(lane, message)
        if cover is None:
            return False
        self._account(_LATE, message, cover)
        return True

    def _cover_of(self, lane: _Lane, message: Message) -> Message | None:
        if self._off:
            return None
        if message.ranked:
            rivals = self._keys.get(message.key)
            for slot in sorted(rivals) if rivals is not None else []:
                rival = self._at(slot)
                if outranks(rival, message) and self._allows(rival):
                    return rival
        # A bitmap may name a ranked message too.
        for seq in range(message.seq + 1, min(lane.newest, message.seq + K_MAX) + 1):
            slot = lane.index.get(seq)
            if slot >= 0:
                later = self._at(slot)
                if (
                    not later.ranked
                    and obsoletes(later, message)
                    and not self._is_marked(later)
                    and self._allows(later)
                ):
                    return later
        return None

    # -- room ----------------------------------------------------------------------------------

    def _make_room(self, lane: _Lane, message: Message, size: i64, allowed: bool) -> Verdict:
        """Room for `message`, or why not. Hits of the message itself count as room."""
        if size > self._bytes_max:
            raise MessageTooLargeError(size, self._bytes_max)
        if self._watermark:
            self._purge_marked(self._low)
        if not self._eager and not self._fits(lane, size):
            self._purge_marked(0)
        if self._fits(lane, size):
            return _STORED
        overflow = self.config.overflow
        if allowed and (overflow is Overflow.RANDOM or self._would_fit(lane, message, size)):
            # It is going to be stored, so what it replaces goes before anything is lost.
            self._hit(lane, message)
            self._purge_marked(0)
            if self._fits(lane, size):
                return _STORED
        if overflow is Overflow.REFUSE:
            return _FULL
        if overflow is Overflow.DROP_NEW:
            self._account(_OVERFLOW, message, None)
            return _DROPPED
        while not self._fits(lane, size):
            its_own = (
                lane.index.count >= self._source_max
                or lane.held_bytes + size > self._source_bytes_max
            )
            self._drop_random(message.source, its_own)
        return _STORED

    def _would_fit(self, lane: _Lane, message: Message, size: i64) -> bool:
        """Whether there would be room without the held messages that `message` replaces."""
        hits = self._hits(lane, message)
        freed: i64 = 0
        of_source: i64 = 0
        of_source_bytes: i64 = 0
        for hit in hits:
            freed += len(hit.body)
            if hit.source == message.source:
                of_source += 1
                of_source_bytes += len(hit.body)
        return (
            self.held - len(hits) < self._messages_max
            and self.held_bytes - freed + size <= self._bytes_max
            and lane.index.count - of_source < self._source_max
            and lane.held_bytes - of_source_bytes + size <= self._source_bytes_max
        )

    def _fits(self, lane: _Lane, size: i64) -> bool:
        return (
            self.held < self._messages_max
            and self.held_bytes + size <= self._bytes_max
            and lane.index.count < self._source_max
            and lane.held_bytes + size <= self._source_bytes_max
        )

    def _purge_marked(self, until: i64) -> None:
        while self._marked and self.held > until:
            _, (victim, cover) = self._marked.popitem(last=False)
            self._remove(self._lanes[victim.source].index.get(victim.seq))
            self._account(_REPLACED, victim, cover)

    def _drop_random(self, source: Source, its_own: bool) -> None:
        """Drop a message; one of `source` if that has used up its share."""
        assert self._random is not None
        # Slots are dense but for free ones, so that a few draws find a held one.
        while True:
            slot = self._random.randrange(len(self._items))
            victim = self._items[slot]
            if victim is not None and (not its_own or victim.source == source):
                self._account(_RANDOM, self._remove(slot), None)
                return

    # -- slots ---------------------------------------------------------------------------------

    def _lane(self, source: Source) -> _Lane:
        lane = self._lanes.get(source)
        if lane is None:
            lane = _Lane()
            self._lanes[source] = lane
        self._last_source = source
        self._last_lane = lane
        return lane

    def _find(self, source: Source) -> _Lane | None:
        return self._last_lane if source is self._last_source else self._lanes.get(source)

    def _at(self, slot: i64) -> Message:
        message = self._items[slot]
        assert message is not None
        return message

    def _successor(self, lane: _Lane, message: Message) -> i64:
        """The slot before which a late message belongs; 0 is the end of the queue."""
        if lane.index.count == 0:
            return 0
        before: i64 = 0
        slot = self._links[1]
        while slot != 0:
            other = self._at(slot)
            if other.source == message.source:
                if other.seq < message.seq:
                    break
                before = slot
            slot = self._links[2 * slot + 1]
        return before

    def _store(self, lane: _Lane, message: Message, size: i64, before: i64) -> i64:
        slot = self._free
        if slot != 0:
            self._free = self._links[2 * slot]
            self._items[slot] = message
        else:
            slot = len(self._items)
            self._items.append(message)
            self._links = append(append(self._links, 0), 0)
            if self._in_place:
                self._places = append(self._places, 0)
        links = self._links
        previous = links[2 * before + 1]
        links[2 * slot] = before
        links[2 * slot + 1] = previous
        links[2 * previous] = slot
        links[2 * before + 1] = slot
        self._enter(lane, message, size, slot)
        return slot

    def _enter(self, lane: _Lane, message: Message, size: i64, slot: i64) -> None:
        """A message is in this slot: count it, and make it found by its number."""
        if lane.index.count == 0 or message.seq < lane.oldest:
            lane.oldest = message.seq
        if message.seq > lane.newest:
            lane.newest = message.seq
        lane.index.put(message.seq, slot)
        self.held += 1
        self.held_bytes += size
        lane.held_bytes += size
        if self._in_place and takes_turns(message):
            self._turns.came(message, slot)

    def _remove(self, slot: i64) -> Message:
        message = self._leave(slot)
        self._unlink(slot)
        return message

    def _unlink(self, slot: i64) -> None:
        """An empty slot leaves the queue."""
        links = self._links
        following = links[2 * slot]
        previous = links[2 * slot + 1]
        links[2 * previous] = following
        links[2 * following + 1] = previous
        links[2 * slot] = self._free
        self._free = slot
        if self._in_place:
            self._turns.forget(slot)

    def _leave(self, slot: i64) -> Message:
        """A message leaves its slot, which stays in the queue, empty."""
        message = self._at(slot)
        self._items[slot] = None
        source = message.source
        lane = self._last_lane if source is self._last_source else self._lane(source)
        lane.index.remove(message.seq)
        if message.seq == lane.oldest:
            lane.oldest += 1
        self.held -= 1
        self.held_bytes -= len(message.body)
        lane.held_bytes -= len(message.body)
        if not self._eager and self._marked:
            self._marked.pop((message.source, int(message.seq)), None)
        if message.ranked:
            self._forget_rival(slot, message)
        if self._in_place and takes_turns(message):
            self._turns.left(message, slot)
        return message

    # -- in place ------------------------------------------------------------------------------

    def _store_in_place(
        self, lane: _Lane, message: Message, size: i64, late: bool, allowed: bool
    ) -> i64:
        """Purge what the message replaces and put it where the foremost of that was.

        Why a stream stays in order. Unmarked messages replace nothing, so they never move. By its
        closure a message of a key names all messages of that key among the last k, and no others.
        So what is held of its key is hit, or is older than all that is hit; then it is in front of
        them, by induction, and so in front of the place that they leave; unless turns have moved it
        back, or the message names others by way of one with several keys: then it may not move.
        """
        if allowed:
            self._hit(lane, message)
        slot = self._vacated
        self._vacated = 0
        if slot != 0 and takes_turns(message):
            other = self._turns.last_of_key(message)
            if other != 0 and (late or self._places[other] > self._places[slot]):
                self._unlink(slot)
                slot = 0
        if slot != 0:
            self._items[slot] = message
            self._enter(lane, message, size, slot)
        else:
            before = self._successor_in_stream(message) if late else 0
            slot = self._store(lane, message, size, before)
            if before == 0:
                self._last_place += 1
                self._places[slot] = self._last_place
            else:
                self._number_places()
        if takes_turns(message):
            self._turns.renew(slot)
        else:
            self._turns.forget(slot)
        return slot

    def _next_in_place(self) -> i64:
        """The foremost slot; or, if a value is there, the one whose turn it is. Both are alone of
        their streams, so that these stay in order.
        """
        head = self._links[0]
        turns = self._turns
        if head == 0 or not turns.has(head) or not turns.alone(self._at(head)):
            return head
        fresh = turns.freshest()
        return fresh if turns.alone(self._at(fresh)) else head

    def _take_in_place(self) -> Message:
        """The next message; if that was not the foremost, the foremost gets its place."""
        head = self._links[0]
        slot = self._next_in_place()
        if slot != head:
            links = self._links
            second = links[2 * head]
            links[0] = second
            links[2 * second + 1] = 0
            following = links[2 * slot]
            links[2 * head] = following
            links[2 * head + 1] = slot
            links[2 * slot] = head
            links[2 * following + 1] = head
            self._places[head] = self._places[slot]
        return self._remove(slot)

    def _vacate(self, slot: i64) -> Message:
        """A message leaves for its cover; the foremost slot that is left so stays for that."""
        victim = self._leave(slot)
        other = self._vacated
        if other == 0:
            self._vacated = slot
        elif self._places[slot] < self._places[other]:
            self._vacated = slot
            self._unlink(other)
        else:
            self._unlink(slot)
        return victim

    def _successor_in_stream(self, message: Message) -> i64:
        """The foremost later message of its stream. Walks the whole queue: in a delivery buffer no
        message is late.
        """
        before: i64 = 0
        slot = self._links[1]
        while slot != 0:
            other = self._at(slot)
            if other.seq > message.seq and same_stream(other, message):
                before = slot
            slot = self._links[2 * slot + 1]
        return before

    def _number_places(self) -> None:
        """A late message came in between: number all places anew."""
        self._last_place = 0
        slot = self._links[0]
        while slot != 0:
            self._last_place += 1
            self._places[slot] = self._last_place
            slot = self._links[2 * slot]

    def _forget_rival(self, slot: i64, message: Message) -> None:
        rivals = self._keys.get(message.key)
        if rivals is not None and rivals.pop(slot, None) is not None and not rivals:
            del self._keys[message.key]

    def _account(self, reason: Reason, message: Message, cover: Message | None) -> None:
        if reason is _REPLACED:
            self._replaced += 1
        elif reason is _LATE:
            self._late += 1
        elif reason is _RANDOM:
            self._random_drops += 1
        else:
            self._overflows += 1
        if self._record:
            self._log.append(Purged(self.place, reason, message, cover))
        if self._covers is not None and cover is not None:
            self._covers.note(message.source, message.seq, cover.source, cover.seq)


def _trailing_zeros(word: i64) -> i64:
    """The number of zeros below the lowest set bit of a non-zero word."""
    count: i64 = 0
    if word & 0xFFFFFFFF == 0:
        count = 32
        word >>= 32
    if word & 0xFFFF == 0:
        count += 16
        word >>= 16
    if word & 0xFF == 0:
        count += 8
        word >>= 8
    if word & 0xF == 0:
        count += 4
        word >>= 4
    if word & 0x3 == 0:
        count += 2
        word >>= 2
    if word & 0x1 == 0:
        count += 1
    return count
