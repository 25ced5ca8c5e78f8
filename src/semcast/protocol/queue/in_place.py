"""Messages that take each other's place in a queue: who goes where, and who is taken next.

What a message replaces leaves its slot here, and the message moves in; slots to take from come out.
There are two queues. *Values*, messages with a key and no rank, take the turns of their keys
(`values`). All *others* stand in order: those that are never replaced, bids, and what names several
keys. Others come first, because nothing else makes them go away; but a value is due after so many.
Knows nothing of what replaces what.

A *key sequence* is what stays in order under `order="key"`: the messages of a source about one key,
alone or with others, or its unmarked ones. A ranked use of a key is a sequence of its own, as
nothing unranked is replaced by it. Messages that name others without a key (predecessors) are in
none.
Whoever must be taken before the message whose turn it is, `ties` know.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.ids import Source
from semcast.obsolescence.relation import Mark
from semcast.protocol.queue.slots import Lane, Slots
from semcast.protocol.queue.ties import Ties
from semcast.protocol.queue.values import Values, is_value
from semcast.wire.message import Message

# How many skipped numbers a message has with it, the newest ones.
SKIPPED_MAX: Final = 1024
# After so many others in a row a value is taken, if one waits: a flood of what is never replaced
# does not hold up all that is.
OTHERS_MAX: Final = 7


@final
class Places:
    """Who stands where in a queue in which messages take each other's place."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots
        self._values: Final = Values(slots)
        self._ties: Final = Ties(slots, self._values)
        # How many others were taken since the last value.
        self._others: i64 = 0
        # INV-PLACES: of others, by slot, a number that grows along the queue. A message inherits it
        # with the slot, so that the foremost of several victims is found without a walk.
        self._places = vec[i64]([0])
        self._last_place: i64 = 0
        # While a message is inserted: the foremost slot that others among its victims have left,
        # still in the queue, for it to move in; 0 if there is none.
        self._vacated: i64 = 0

    def expect(self, message: Message) -> None:
        """A message is about to come, unless it is refused; what it replaces leaves before it."""
        if is_value(message):
            self._values.expect(message)
        else:
            self._values.expect_none()

    def expect_none(self) -> None:
        """It was refused."""
        self._values.expect_none()

    def store(self, lane: Lane, message: Message, size: i64, late: bool) -> i64:
        """What the message replaces has left: put it where the foremost of that was.

        Why a key sequence stays in order. The values of a key are in order by themselves. Unmarked
        messages replace nothing, so they never move. A bid that replaces others outranks them all,
        and what outranks it would have kept it out; so no other of its sequence is held. A message
        about several keys may overtake others about them here, but is not taken before them.
        """
        if len(lane.untold) > 0:
            tell_untold(lane, message)
        if message.several:
            self._ties.enter(message)
        slot = self._vacated
        self._vacated = 0
        if is_value(message):
            if slot != 0:
                self._slots.unlink(slot)
            slot = self._values.store(lane, message, size)
        elif slot != 0:
            self._slots.move_in(lane, message, size, slot)
        else:
            slot = self._store_anew(lane, message, size, late)
        return slot

    def _store_anew(self, lane: Lane, message: Message, size: i64, late: bool) -> i64:
        before = self._successor_in_sequence(message) if late else 0
        slot = self._slots.store(lane, message, size, before)
        while slot >= len(self._places):
            self._places = append(self._places, 0)
        if before == 0:
            self._last_place += 1
            self._places[slot] = self._last_place
        else:
            self._number_places()
        return slot

    def forget(self, source: Source) -> None:
        """Nothing of a source waits, and nothing will come any more."""
        self._values.forget(source)
        self._ties.forget(source)

    def next(self) -> i64:
        """The slot of the next message; 0 if there is none."""
        slot = self._slots.links[0]
        if self._values.keys > 0 and (slot == 0 or self._others >= OTHERS_MAX):
            slot = self._values.next()
        tied = self._ties.knots > 0 or self._slots.reborn
        return self._ties.first(slot) if tied and slot != 0 else slot

    def take(self) -> i64:
        """The same, to be left now; there must be one."""
        if self._ties.knots > 0 or self._slots.reborn:
            return self._take_tied()
        head = self._slots.links[0]
        if self._values.keys == 0 or (head != 0 and self._others < OTHERS_MAX):
            self._others += 1
            return head
        self._others = 0
        return self._values.take()

    def _take_tied(self) -> i64:
        slot = self.next()
        if self._values.has(slot):
            self._others = 0
            self._values.had_turn(slot)
        else:
            self._others += 1
        return slot

    def older_value(self, cover: Message) -> i64:
        """The slot of a value that the expected one, which is by key, replaces; 0 if none waits."""
        return self._replaced(self._values.expected_first(), cover)

    def replaced_by(self, cover: Message) -> list[int]:
        """The slots of all values that a message by key replaces."""
        found = []
        for key in cover.keys:
            slot = self._replaced(self._values.first_of(cover.source, key), cover)
            while slot != 0:
                found.append(int(slot))
                slot = self._replaced(self._slots.links[2 * slot], cover)
        return found

    def _replaced(self, slot: i64, cover: Message) -> i64:
        """The first value from this slot on, among those of its key, that `cover` replaces."""
        while slot != 0:
            value = self._slots.at(slot)
            if value.seq >= cover.seq:
                return 0
            if value.by_key:
                break
            slot = self._slots.links[2 * slot]
        return slot

    def cover_of(self, message: Message) -> Message | None:
        """The first later value that replaces a value by key, which is not held."""
        slot = self._values.first_of(message.source, message.key)
        while slot != 0:
            later = self._slots.at(slot)
            if later.by_key and later.seq > message.seq:
                return later
            slot = self._slots.links[2 * slot]
        return None

    def has_left(self, message: Message) -> None:
        """A message about several keys has left, whatever becomes of its slot."""
        self._ties.leave(message)

    def vacate(self, slot: i64) -> None:
        """A message has left for its cover, which may go where it was."""
        if self._values.has(slot):
            self._values.leave(slot)
            return
        other = self._vacated
        if other == 0:
            self._vacated = slot
        elif self._places[slot] < self._places[other]:
            self._vacated = slot
            self._slots.unlink(other)
        else:
            self._slots.unlink(slot)

    def unlink(self, slot: i64) -> None:
        """A message has left for good, and its slot with it."""
        if self._values.has(slot):
            self._values.leave(slot)
        else:
            self._slots.unlink(slot)

    def newest(self) -> i64:
        """The slot of the last of `messages`; 0 if there is none."""
        return self._slots.links[1] if self._values.keys == 0 else self._values.newest()

    def messages(self) -> list[Message]:
        """All that is held: others in order, then values, the freshest last."""
        return self._slots.messages() + self._values.messages()

    def _successor_in_sequence(self, message: Message) -> i64:
        """The foremost later message of its key sequence. Walks the whole queue: in a delivery
        buffer no message is late.
        """
        before: i64 = 0
        links = self._slots.links
        slot = links[1]
        while slot != 0:
            other = self._slots.at(slot)
            if other.seq > message.seq and same_sequence(other, message):
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


def same_sequence(one: Mark, other: Mark) -> bool:
    """Whether these two must stand in the order of their numbers. Messages about several keys need
    not: they are taken in order wherever they stand.
    """
    if one.source != other.source or one.ranked != other.ranked or one.key_len != other.key_len:
        return False
    if one.several or other.several:
        return False
    if one.key_len == 0 and not one.ranked:
        return one.bitmap == 0 and other.bitmap == 0
    return one.key == other.key


def inherit(cover: Message, victim: Message) -> None:
    """`cover` takes the place of `victim`: it tells what was skipped, and that `victim` was too.

    Both are of one source. The list is handed from victim to cover, not copied, so that a key that
    is replaced for ever costs the same each time.
    """
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


def leave_untold(lane: Lane, seq: i64, skipped: Sequence[int] = ()) -> None:
    """No message of this source tells that `seq` was skipped, as it was covered by another source
    or never came; nor what it `skipped` itself. The next one that comes will.
    """
    untold = lane.untold
    first = skipped[0] if len(skipped) > 0 else int(seq)
    in_order = len(untold) == 0 or untold[-1] < first
    untold += skipped
    untold.append(int(seq))
    if not in_order:
        untold = sorted(set(untold))
        lane.untold = untold
    if len(untold) > 2 * SKIPPED_MAX:
        del untold[:-SKIPPED_MAX]


def tell_untold(lane: Lane, message: Message) -> None:
    """A message comes: it tells what nobody did."""
    untold = lane.untold
    if len(message.skipped) == 0 and untold[-1] < message.seq:
        # As is usual: handed over, not copied.
        message.skipped = untold
        lane.untold = []
        return
    told = sorted({*untold, *message.skipped})
    at = bisect_left(told, int(message.seq))
    message.skipped = told[:at]
    lane.untold = told[at:]


def newest_skipped(message: Message) -> None:
    """The message is taken: what it says of skipped ones is settled, and bounded."""
    if len(message.skipped) > 0:
        message.skipped = tuple(message.skipped[-SKIPPED_MAX:])
