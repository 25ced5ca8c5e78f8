"""What is obsolete in a buffer, and how it leaves: covers in, victims out of the slots.

A cover *hits* the held messages that its annotation names, or those of its key. EAGER purges hits
at once; LAZY and WATERMARK only mark them, with the message that covers them, and purge marked ones
when told to.
Whatever leaves a buffer, for any reason, leaves through `remove`, so that nothing is remembered of
it. Knows nothing of bounds.
"""

from collections import OrderedDict
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.obsolescence.bitmap import K_MAX
from semcast.obsolescence.relation import obsoletes, outranks
from semcast.protocol.queue.guard import CoverGuard
from semcast.protocol.queue.in_place import Places, inherit, leave_untold
from semcast.protocol.queue.key_chains import KeyChains
from semcast.protocol.queue.policy import BufferConfig, Purging
from semcast.protocol.queue.purged import PurgeLog, Reason
from semcast.protocol.queue.slots import Lane, Slots
from semcast.wire.message import Message

# Bitmaps below this are native integers in compiled code; others are walked in words of this size.
_WORD_BITS: Final = 60
_WORD: Final = (1 << _WORD_BITS) - 1
_SHORT_BITS: Final = 62
_SHORT_MAX: Final = (1 << _SHORT_BITS) - 1

# Looked up once: an enum member costs a dictionary look-up in compiled code, these do not.
_LATE: Final = Reason.LATE


@final
class Purger:
    """Finds what is obsolete in the slots of a buffer, and lets it go."""

    def __init__(
        self,
        config: BufferConfig,
        slots: Slots,
        places: Places,
        guard: CoverGuard | None,
        log: PurgeLog,
    ) -> None:
        self._slots: Final = slots
        self._places: Final = places
        self._guard: Final = guard
        self._log: Final = log
        self._eager: Final = config.purging is Purging.EAGER
        self._off: Final = config.purging is Purging.OFF
        self._in_place: Final = config.in_place
        self._chains: Final = KeyChains(slots)
        # Ranked messages by key, but for those marked below: slot to message.
        self._keys: Final[dict[bytes, dict[int, Message]]] = {}
        # LAZY and WATERMARK. INV-MARKED: held victims and their covers, in the order in which they
        # became obsolete; a marked one stays purgeable, since its cover leaves this buffer only
        # when it was taken, is stable or is covered itself. It is as good as gone, and so covers
        # nothing new: what is not marked is what EAGER would hold.
        self._marked: Final[OrderedDict[tuple[Source, int], tuple[Message, Message]]] = (
            OrderedDict()
        )

    # -- covers --------------------------------------------------------------------------------

    def allows(self, cover: Message) -> bool:
        """Whether what `cover` replaces may be purged now."""
        if self._off:
            return False
        return self._guard is None or self._guard.allows(cover)

    def stored(self, lane: Lane, message: Message, slot: i64, allowed: bool) -> None:
        """A message with a rank, or one that replaces by key, is in this slot."""
        if message.ranked:
            self._keys.setdefault(message.key, {})[slot] = message
        elif not self._off and (message.several or not self._in_place):
            self._chains.enter(lane, message, slot)
            if allowed:
                self._hit_stored(lane, message, slot)

    def waits(self, lane: Lane, cover: Message) -> None:
        """A message that replaces others is stored; the guard does not allow it as a cover yet."""
        if cover.seq <= lane.released:
            lane.released = cover.seq - 1
        if cover.bitmap != 0 and cover.seq > lane.last_mark:
            lane.last_mark = cover.seq
        lane.guarded = True

    def covers_released(self, lane: Lane) -> None:
        """The guard allows more covers of a source: purge, or mark, what they replace."""
        seq = max(lane.released + 1, lane.oldest)
        while seq <= lane.newest:
            slot = lane.index.get(seq)
            if slot >= 0:
                cover = self._slots.at(slot)
                if not self.allows(cover):
                    break
                if not self._is_marked(cover):
                    if cover.by_key:
                        self._hit_stored(lane, cover, slot)
                    elif cover.bitmap != 0 or cover.ranked:
                        self.hit(lane, cover)
                seq += 1
            else:
                seq = lane.index.following(seq + 1)
        lane.released = seq - 1

    # -- hits ----------------------------------------------------------------------------------

    def hit(self, lane: Lane, cover: Message) -> None:
        """Purge or mark every held message that `cover` replaces."""
        if cover.by_key:
            self._hit_by_key(lane, cover)
            return
        if cover.ranked:
            self._hit_ranked(cover)
            return
        bits = cover.bitmap
        nearest = cover.seq - 1
        if cover.seq > lane.last_mark:
            lane.last_mark = cover.seq
        while bits != 0:
            if bits <= _SHORT_MAX:
                word: i64 = bits
                bits = 0
            else:
                if bits > lane.widest:
                    lane.widest = bits
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

    def _hit_by_key(self, lane: Lane, cover: Message) -> None:
        if self._in_place and not cover.several:
            slot = self._places.older_value(cover)
            while slot != 0:
                self._obsolete(slot, cover)
                slot = self._places.older_value(cover)
            return
        for slot in self._replaced_by(lane, cover):
            self._obsolete(slot, cover)

    def _replaced_by(self, lane: Lane, cover: Message) -> list[int]:
        """The slots of all that a message by key replaces."""
        found = self._chains.replaced_by(lane, cover)
        return found + self._places.replaced_by(cover) if self._in_place else found

    def _hit_stored(self, lane: Lane, cover: Message, slot: i64) -> None:
        """The same for a message that replaces by key and is stored in this slot already."""
        if cover.several:
            self.hit(lane, cover)
        elif not self._in_place:
            self._hit_older(self._chains.older(slot), cover)

    def _hit_older(self, slot: i64, cover: Message) -> None:
        while slot != 0:
            older = self._chains.older(slot)
            self._obsolete(slot, cover)
            slot = older

    def _hit_ranked(self, cover: Message) -> None:
        rivals = self._keys.get(cover.key)
        if rivals is None:
            return
        beaten = [slot for slot, rival in rivals.items() if outranks(cover, rival)]
        for slot in sorted(beaten):
            self._obsolete(slot, cover)

    def hits(self, lane: Lane, cover: Message) -> list[Message]:
        """The held messages that `cover` replaces; only for deciding whether it would fit."""
        if cover.ranked:
            rivals = self._keys.get(cover.key)
            return [] if rivals is None else [r for r in rivals.values() if outranks(cover, r)]
        if cover.by_key:
            return [self._slots.at(slot) for slot in self._replaced_by(lane, cover)]
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
                found.append(self._slots.at(slot))
        return found

    def _obsolete(self, slot: i64, cover: Message) -> None:
        if self._eager:
            if self._in_place:
                victim = self._leave(slot)
                self._places.vacate(slot)
                if victim.source == cover.source:
                    inherit(cover, victim)
                else:
                    leave_untold(self._slots.lane(victim.source), victim.seq, victim.skipped)
            else:
                victim = self.remove(slot)
            self._log.replaced(victim, cover)
            return
        victim = self._slots.at(slot)
        name = (victim.source, int(victim.seq))
        if name not in self._marked:
            self._marked[name] = (victim, cover)
            if victim.ranked:
                self._forget_rival(slot, victim)
            elif victim.by_key:
                self._chains.leave(self._slots.lane(victim.source), victim, slot)

    # -- marks ---------------------------------------------------------------------------------

    @property
    def marks(self) -> bool:
        """Whether anything is marked."""
        return len(self._marked) > 0

    def _is_marked(self, message: Message) -> bool:
        return bool(self._marked) and (message.source, int(message.seq)) in self._marked

    def purge_marked(self, until: i64) -> None:
        """Purge marked messages, first come first served, until only so many messages are held."""
        while self._marked and self._slots.held > until:
            _, (victim, cover) = self._marked.popitem(last=False)
            self.remove(self._slots.lanes[victim.source].index.get(victim.seq))
            self._log.replaced(victim, cover)

    # -- what arrives obsolete -----------------------------------------------------------------

    def arrives_obsolete(self, lane: Lane, message: Message) -> bool:
        """Whether a held message replaces the new one already; if so, account for it."""
        cover = self._cover_of(lane, message)
        if cover is None:
            return False
        self._log.account(_LATE, message, cover)
        if self._in_place:
            leave_untold(lane, message.seq)
        return True

    def _cover_of(self, lane: Lane, message: Message) -> Message | None:
        if self._off:
            return None
        if message.ranked:
            rivals = self._keys.get(message.key)
            for slot in sorted(rivals) if rivals is not None else []:
                rival = self._slots.at(slot)
                if outranks(rival, message) and self.allows(rival):
                    return rival
        elif message.by_key:
            cover = self._chains.cover_of(lane, message)
            if self._in_place and cover is None:
                cover = self._places.cover_of(message)
            # INV-GUARD: if the first is not allowed, no later one is.
            if cover is not None and self.allows(cover):
                return cover
        # A bitmap may name any message.
        if message.seq >= lane.last_mark or lane.index.count == 0:
            return None
        return self._named_by(lane, message)

    def _named_by(self, lane: Lane, message: Message) -> Message | None:
        """The next held message that covers a late one by its bitmap."""
        seq = lane.nearest(message.seq + 1)
        last = min(lane.last_mark, message.seq + K_MAX)
        # How far those reach that were used as covers, and up to where all were that may be.
        reach = message.seq + max(lane.widest.bit_length(), _SHORT_BITS)
        used = lane.released if lane.guarded else last
        while seq <= last:
            if reach < seq <= used:
                seq = used + 1
                continue
            slot = lane.index.get(seq)
            seq += 1
            if slot < 0:
                continue
            later = self._slots.at(slot)
            if later.bitmap == 0 or later.ranked:
                continue
            if not self.allows(later):
                # INV-GUARD: nor any after it.
                break
            if obsoletes(later, message) and not self._is_marked(later):
                return later
        return None

    # -- leaving -------------------------------------------------------------------------------

    def remove(self, slot: i64) -> Message:
        """A message leaves, and its slot with it."""
        message = self._leave(slot)
        if self._in_place:
            self._places.unlink(slot)
        else:
            self._slots.unlink(slot)
        return message

    def _leave(self, slot: i64) -> Message:
        """A message leaves its slot, which stays in the queue, empty."""
        message = self._slots.leave(slot)
        if not self._eager and self._marked:
            self._marked.pop((message.source, int(message.seq)), None)
        if message.ranked:
            self._forget_rival(slot, message)
        elif message.by_key:
            self._chains.leave(self._slots.last_lane, message, slot)
        if message.several and self._in_place:
            self._places.has_left(message)
        return message

    def _forget_rival(self, slot: i64, message: Message) -> None:
        rivals = self._keys.get(message.key)
        if rivals is not None and rivals.pop(slot, None) is not None and not rivals:
            del self._keys[message.key]


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
