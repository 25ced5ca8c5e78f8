"""Values: the newest of each key in; the one whose turn it is out.

For a queue in which a value takes the turn of the one that it replaces (`in_place`). A reader that
cannot keep up gets some value whenever one is due; which, is a choice. The key that has waited
longest would be fair, but its value is as old as any. So keys take turns: in a *cycle* each has
one, and the key that changed last comes first, while its value is news. One that has had its turn
waits for the next cycle. The last of a cycle would be those that did not change for long, just
before they do; so they are carried over into the next cycle, but only once. No key waits longer
than for two cycles. Knows nothing of what replaces what.

Messages of one key that do not replace each other are too far apart for it; they stay in order.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.queue.slots import Lane, Slots
from semcast.wire.message import Message

# A cycle is over when no more than this share of its keys, one in so many, have not had a turn.
_CARRIED_SHARE: Final = 4
# Two of the numbers of keys are none: they are where the lists of those that have a turn, in this
# cycle and in the next, begin and end.
_CYCLE: Final = 1
_LATER: Final = 2


@final
class Values:
    """The values that wait in one queue. Keys have numbers, and all is in arrays by number."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots
        # How many keys have a value.
        self.keys: i64 = 0
        self._numbers: Final[dict[Source, dict[bytes, int]]] = {}
        # Values come in runs of one source, so the numbers of the last one are often right.
        self._last_source: Source | None = None
        self._last_numbers: dict[bytes, int] = {}
        # The number of the key of which a value is about to come; 0 if it has none.
        self._expected: i64 = 0
        self._names: Final[list[tuple[dict[bytes, int], bytes]]] = [({}, b"")] * 3
        # By slot: the number of the key whose value is in it; 0 if none is.
        self._of = vec[i64]([0])
        # By number: the slots of its first and last value, between which `links` lead; the numbers
        # before and behind it in its list, which is in the order in which values came; which list
        # that is, and whether the key was carried over.
        self._first = vec[i64]([0, 0, 0])
        self._last = vec[i64]([0, 0, 0])
        self._before = vec[i64]([0, _CYCLE, _LATER])
        self._behind = vec[i64]([0, _CYCLE, _LATER])
        self._list = vec[i64]([0, 0, 0])
        self._carried = vec[i64]([0, 0, 0])
        self._free: i64 = 0
        # How many are in each list, and how many were carried over.
        self._in_cycle: i64 = 0
        self._in_later: i64 = 0
        self._carried_over: i64 = 0

    def has(self, slot: i64) -> bool:
        """Whether there is a value in this slot."""
        return slot < len(self._of) and self._of[slot] != 0

    def expect(self, message: Message) -> None:
        """A value is about to come: whatever leaves for it, the turn of its key is kept."""
        source = message.source
        if source is not self._last_source:
            self._last_source = source
            self._last_numbers = self._numbers.setdefault(source, {})
        self._expected = self._last_numbers.get(message.key, 0)

    def expect_none(self) -> None:
        """What is about to come is no value, or does not come."""
        self._expected = 0

    def store(self, lane: Lane, message: Message, size: i64) -> i64:
        """The expected value comes, and is the freshest of all. Says its slot."""
        slot = self._slots.store_apart(lane, message, size)
        while slot >= len(self._of):
            self._of = append(self._of, 0)
        number = self._expected or self._new_number(message.key)
        self._expected = 0
        self._of[slot] = number
        links = self._slots.links
        behind: i64 = 0
        before = self._last[number]
        while before != 0 and self._slots.at(before).seq > message.seq:
            behind = before
            before = links[2 * before + 1]
        links[2 * slot] = behind
        links[2 * slot + 1] = before
        if before != 0:
            links[2 * before] = slot
        else:
            self._first[number] = slot
        if behind != 0:
            links[2 * behind + 1] = slot
        else:
            self._last[number] = slot
        self._renew(number)
        return slot

    def next(self) -> i64:
        """The slot of the value whose turn it is; there must be one."""
        return self._first[self._freshest()]

    def take(self) -> i64:
        """The same; its key has had its turn, and the value is still to leave its slot."""
        slot = self._first[self._freshest()]
        self.had_turn(slot)
        return slot

    def had_turn(self, slot: i64) -> None:
        """The first value of a key is taken, by turn or not: that was its turn."""
        number = self._of[slot]
        self._unlist(number)
        if self._first[number] != self._last[number]:
            self._enlist(number, _LATER)

    def first_of(self, source: Source, key: bytes) -> i64:
        """The slot of the oldest value of a key; 0 if none waits."""
        numbers = self._numbers.get(source)
        number: i64 = 0 if numbers is None else numbers.get(key, 0)
        return self._first[number]

    def forget(self, source: Source) -> None:
        """No value of a source waits, and none will come any more."""
        self._numbers.pop(source, None)
        if self._last_source is source:
            self._last_source = None

    def leave(self, slot: i64) -> None:
        """A value has left its slot, which is free now."""
        number = self._of[slot]
        self._of[slot] = 0
        links = self._slots.links
        behind = links[2 * slot]
        before = links[2 * slot + 1]
        if before != 0:
            links[2 * before] = behind
        else:
            self._first[number] = behind
        if behind != 0:
            links[2 * behind + 1] = before
        else:
            self._last[number] = before
        self._slots.free(slot)
        if self._first[number] == 0 and number != self._expected:
            self._forget(number)

    def newest(self) -> i64:
        """The slot of the last of `messages`; there must be one."""
        number = self._before[_CYCLE]
        return self._last[self._before[_LATER] if number == _CYCLE else number]

    def messages(self) -> list[Message]:
        """All values: those of the next cycle first, the freshest last."""
        found = []
        for which in (_LATER, _CYCLE):
            number = self._behind[which]
            while number != which:
                slot = self._first[number]
                while slot != 0:
                    found.append(self._slots.at(slot))
                    slot = self._slots.links[2 * slot]
                number = self._behind[number]
        return found

    # -- keys --------------------------------------------------------------------------------------

    def _new_number(self, key: bytes) -> i64:
        numbers = self._last_numbers
        number = self._free
        if number != 0:
            self._free = self._behind[number]
            self._names[number] = (numbers, key)
        else:
            number = len(self._first)
            self._names.append((numbers, key))
            self._first = append(self._first, 0)
            self._last = append(self._last, 0)
            self._before = append(self._before, 0)
            self._behind = append(self._behind, 0)
            self._list = append(self._list, 0)
            self._carried = append(self._carried, 0)
        numbers[key] = number
        self.keys += 1
        return number

    def _forget(self, number: i64) -> None:
        """No value of this key waits any more: it has no turn, and its number is free."""
        if self._list[number] != 0:
            self._unlist(number)
        numbers, key = self._names[number]
        del numbers[key]
        self.keys -= 1
        self._behind[number] = self._free
        self._free = number

    # -- turns -------------------------------------------------------------------------------------

    def _renew(self, number: i64) -> None:
        """The value of this key is the freshest of all; a turn that it has, it keeps."""
        which: i64 = self._list[number]
        if which == _CYCLE:
            carried = self._carried[number]
            self._unlist(number)
            self._enlist(number, _CYCLE)
            self._carried[number] = carried
            self._carried_over += carried
        else:
            if which == _LATER:
                self._unlist(number)
            self._enlist(number, _LATER)

    def _freshest(self) -> i64:
        """The key that has a turn and changed last."""
        if self._carried_over == 0 and self._in_cycle * (_CARRIED_SHARE - 1) <= self._in_later:
            self._begin_cycle()
        return self._before[_CYCLE]

    def _begin_cycle(self) -> None:
        """Those left of the last cycle come behind all others, as the order of coming has it."""
        number = self._behind[_CYCLE]
        while number != _CYCLE:
            self._carried[number] = 1
            self._carried_over += 1
            number = self._behind[number]
        number = self._behind[_LATER]
        while number != _LATER:
            following = self._behind[number]
            self._unlist(number)
            self._enlist(number, _CYCLE)
            number = following

    def _enlist(self, number: i64, which: i64) -> None:
        """Put a key at the end of a list."""
        before = self._before[which]
        self._before[number] = before
        self._behind[number] = which
        self._behind[before] = number
        self._before[which] = number
        self._list[number] = which
        if which == _CYCLE:
            self._in_cycle += 1
        else:
            self._in_later += 1

    def _unlist(self, number: i64) -> None:
        before, behind = self._before[number], self._behind[number]
        self._behind[before] = behind
        self._before[behind] = before
        if self._list[number] == _CYCLE:
            self._in_cycle -= 1
            self._carried_over -= self._carried[number]
        else:
            self._in_later -= 1
        self._list[number] = 0
        self._carried[number] = 0


def is_value(message: Message) -> bool:
    """Whether a message is a value of one key, as opposed to a bid, or what is never replaced."""
    return message.key_len > 0 and not message.ranked and not message.several
