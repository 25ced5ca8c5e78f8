"""Messages that take each other's place in a queue: who moves where, and who is taken next.

What a message replaces leaves its slot here, and the message moves in; slots to take from come out.
Which key is taken when the place of one is due is a matter of turns (`turns.py`). Knows nothing of
what replaces what.

A *stream* is what stays in order under `order="key"`: the messages of a source with one key, or its
unmarked ones. A ranked use of a key is a stream of its own, as nothing unranked is replaced by it.
Messages that name others without a key (several keys, predecessors) are in no stream.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.obsolescence.relation import Mark
from semcast.protocol.slots import Lane, Slots
from semcast.protocol.turns import Turns, takes_turns
from semcast.wire.message import Message

# How many skipped numbers a message has with it, the newest ones.
SKIPPED_MAX: Final = 1024


@final
class Places:
    """Who stands where in a queue in which messages take each other's place."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots
        # INV-PLACES: by slot a number that grows along the queue. A message inherits it with the
        # slot, so that the foremost of several victims is found without a walk.
        self._places = vec[i64]([0])
        self._last_place: i64 = 0
        self._turns: Final = Turns()
        # While a message is inserted: the foremost slot that its victims have left, still in the
        # queue, for it to move in; 0 if there is none.
        self._vacated: i64 = 0

    def store(self, lane: Lane, message: Message, size: i64, late: bool) -> i64:
        """What the message replaces has left: put it where the foremost of that was.

        Why a stream stays in order. Unmarked messages replace nothing, so they never move. By its
        closure a message of a key names all messages of that key among the last k, and no others.
        So what is held of its key is hit, or is older than all that is hit; then it is in front of
        them, by induction, and so in front of the place that they leave; unless turns have moved it
        back, or the message names others by way of one with several keys: then it may not move.
        """
        slot = self._vacated
        self._vacated = 0
        if slot != 0 and takes_turns(message):
            other = self._turns.last_of_key(message)
            if other != 0 and (late or self._places[other] > self._places[slot]):
                self.unlink(slot)
                slot = 0
        if slot != 0:
            self._slots.move_in(lane, message, size, slot)
        else:
            slot = self._store_anew(lane, message, size, late)
        if takes_turns(message):
            self._turns.came(message, slot)
            self._turns.renew(slot)
        else:
            self._turns.forget(slot)
        return slot

    def _store_anew(self, lane: Lane, message: Message, size: i64, late: bool) -> i64:
        before = self._successor_in_stream(message) if late else 0
        slot = self._slots.store(lane, message, size, before)
        if slot == len(self._places):
            self._places = append(self._places, 0)
        if before == 0:
            self._last_place += 1
            self._places[slot] = self._last_place
        else:
            self._number_places()
        return slot

    def next(self) -> i64:
        """The foremost slot; or, if a value is there, the one whose turn it is. Both are alone of
        their streams, so that these stay in order.
        """
        head = self._slots.links[0]
        turns = self._turns
        if head == 0 or not turns.has(head) or not turns.alone(self._slots.at(head)):
            return head
        fresh = turns.freshest()
        return fresh if turns.alone(self._slots.at(fresh)) else head

    def take(self) -> i64:
        """The next slot, to be left; if that is not the foremost, the foremost gets its place."""
        head = self._slots.links[0]
        slot = self.next()
        if slot != head:
            self._slots.put_behind(head, slot)
            self._places[head] = self._places[slot]
        return slot

    def left(self, message: Message, slot: i64) -> None:
        """A message has left its slot, which is still in the queue."""
        if takes_turns(message):
            self._turns.left(message, slot)

    def vacate(self, slot: i64) -> None:
        """A message has left for its cover; the foremost slot that is left so stays for that."""
        other = self._vacated
        if other == 0:
            self._vacated = slot
        elif self._places[slot] < self._places[other]:
            self._vacated = slot
            self.unlink(other)
        else:
            self.unlink(slot)

    def unlink(self, slot: i64) -> None:
        """An empty slot leaves the queue."""
        self._slots.unlink(slot)
        self._turns.forget(slot)

    def _successor_in_stream(self, message: Message) -> i64:
        """The foremost later message of its stream. Walks the whole queue: in a delivery buffer no
        message is late.
        """
        before: i64 = 0
        links = self._slots.links
        slot = links[1]
        while slot != 0:
            other = self._slots.at(slot)
            if other.seq > message.seq and same_stream(other, message):
                before = slot
            slot = links[2 * slot + 1]
        return before

    def _number_places(self) -> None:
        """A late message came in between: number all places anew."""
        self._last_place = 0
        links = self._slots.links
        slot = links[0]
        while slot != 0:
            self._last_place += 1
            self._places[slot] = self._last_place
            slot = links[2 * slot]


def same_stream(one: Mark, other: Mark) -> bool:
    """Whether these two must be taken in the order of their numbers, in place or not."""
    if one.source != other.source or one.ranked != other.ranked or one.key_len != other.key_len:
        return False
    if one.key_len == 0 and not one.ranked:
        return one.bitmap == 0 and other.bitmap == 0
    return one.key == other.key


def inherit(cover: Message, victim: Message) -> None:
    """`cover` takes the place of `victim`: it tells what was skipped, and that `victim` was too.

    Numbers are of one sender, so a victim of another source leaves none. The list is handed from
    victim to cover, not copied, so that a key that is replaced for ever costs the same each time.
    """
    if victim.source != cover.source:
        return
    gone = victim.skipped
    victim.skipped = ()
    seq = int(victim.seq)
    skipped: list[int]
    if len(cover.skipped) == 0 and victim.seq < cover.seq:
        # One victim, as is usual. All that it skipped has smaller numbers than itself.
        skipped = gone if isinstance(gone, list) else list(gone)
        skipped.append(seq)
    else:
        skipped = sorted(one for one in {*cover.skipped, *gone, seq} if one < cover.seq)
    if len(skipped) > 2 * SKIPPED_MAX:
        del skipped[:-SKIPPED_MAX]
    cover.skipped = skipped


def newest_skipped(message: Message) -> None:
    """The message is taken: what it says of skipped ones is settled, and bounded."""
    if len(message.skipped) > 0:
        message.skipped = tuple(message.skipped[-SKIPPED_MAX:])
