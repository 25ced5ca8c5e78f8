"""Values: the newest of each key in; the one whose turn it is out.

For a queue in which a value takes the turn of the one that it replaces (`in_place`). A reader that
cannot keep up gets some value whenever one is due; which, is a choice. The key that has waited
longest would be fair, but its value is mostly old; the key that changed last has news, but hot keys
would keep all others out. So of three values two are of the keys that have waited longest, and the
third is the freshest of all. So a key that changed while n others waited is among the next
1.5 (n + 1) values, rounded up, however hot others are: two of any three takes are of those that
waited before it. (To be among the next n + 1 is possible only if keys are taken in the order in
which they began to wait, and then the freshest never comes first.) Knows nothing of what replaces
what.

Messages of one key that do not replace each other are too far apart for it; they stay in order, and
each waits for a turn of its own.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.queue.slots import Lane, Slots
from semcast.wire.message import Message

# Of so many values that are taken, one is the freshest; the others have waited longest.
FRESHEST_OF: Final = 3
# Two of the numbers of keys are none: they are where the two lists begin and end in which every key
# stands, one in the order in which keys began to wait, one in the order in which values came.
_WAITING: Final = 1
_CHANGED: Final = 2


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
        # By number: the slots of its first and last value, between which `links` lead.
        self._first = vec[i64]([0, 0, 0])
        self._last = vec[i64]([0, 0, 0])
        # By number: those before and behind it among those that wait, and in the order of changes.
        self._earlier = vec[i64]([0, _WAITING, 0])
        self._later = vec[i64]([0, _WAITING, 0])
        self._older = vec[i64]([0, 0, _CHANGED])
        self._fresher = vec[i64]([0, 0, _CHANGED])
        self._free: i64 = 0
        # How many values were taken since the freshest one was; the first of all is the freshest.
        self._taken: i64 = FRESHEST_OF - 1

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
        if self._later[number] == 0:
            self._begin_to_wait(number)
        else:
            self._forget_change(number)
        self._note_change(number)
        return slot

    def next(self) -> i64:
        """The slot of the value whose turn it is; there must be one."""
        if self._taken == FRESHEST_OF - 1:
            return self._first[self._older[_CHANGED]]
        return self._first[self._later[_WAITING]]

    def take(self) -> i64:
        """The same; its key has had its turn, and the value is still to leave its slot."""
        slot = self.next()
        self.had_turn(slot)
        return slot

    def had_turn(self, slot: i64) -> None:
        """The first value of a key is taken, by turn or not: that was its turn."""
        self._taken = (self._taken + 1) % FRESHEST_OF
        number = self._of[slot]
        self._unlist(number)
        if self._first[number] != self._last[number]:
            self._begin_to_wait(number)
            self._note_change(number)

    def expected_first(self) -> i64:
        """The slot of the oldest value of the key of which another is about to come, or 0."""
        return self._first[self._expected]

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
        return self._last[self._older[_CHANGED]]

    def messages(self) -> list[Message]:
        """All values, the freshest key last."""
        found = []
        number = self._fresher[_CHANGED]
        while number != _CHANGED:
            slot = self._first[number]
            while slot != 0:
                found.append(self._slots.at(slot))
                slot = self._slots.links[2 * slot]
            number = self._fresher[number]
        return found

    # -- keys --------------------------------------------------------------------------------------

    def _new_number(self, key: bytes) -> i64:
        numbers = self._last_numbers
        number = self._free
        if number != 0:
            self._free = self._first[number]
            self._first[number] = 0
            self._names[number] = (numbers, key)
        else:
            number = len(self._first)
            self._names.append((numbers, key))
            self._first = append(self._first, 0)
            self._last = append(self._last, 0)
            self._earlier = append(self._earlier, 0)
            self._later = append(self._later, 0)
            self._older = append(self._older, 0)
            self._fresher = append(self._fresher, 0)
        numbers[key] = number
        self.keys += 1
        return number

    def _forget(self, number: i64) -> None:
        """No value of this key waits any more: it has no turn, and its number is free."""
        if self._later[number] != 0:
            self._unlist(number)
        numbers, key = self._names[number]
        del numbers[key]
        self.keys -= 1
        self._first[number] = self._free
        self._free = number

    # -- turns -------------------------------------------------------------------------------------

    def _begin_to_wait(self, number: i64) -> None:
        last = self._earlier[_WAITING]
        self._earlier[number] = last
        self._later[number] = _WAITING
        self._later[last] = number
        self._earlier[_WAITING] = number

    def _note_change(self, number: i64) -> None:
        """The value of this key is the freshest of all."""
        freshest = self._older[_CHANGED]
        self._older[number] = freshest
        self._fresher[number] = _CHANGED
        self._fresher[freshest] = number
        self._older[_CHANGED] = number

    def _forget_change(self, number: i64) -> None:
        older, fresher = self._older[number], self._fresher[number]
        self._fresher[older] = fresher
        self._older[fresher] = older

    def _unlist(self, number: i64) -> None:
        """The key has had its turn, or no value any more."""
        earlier, later = self._earlier[number], self._later[number]
        self._later[earlier] = later
        self._earlier[later] = earlier
        self._later[number] = 0
        self._forget_change(number)


def is_value(message: Message) -> bool:
    """Whether a message is a value of one key, as opposed to a bid, or what is never replaced."""
    return message.key_len > 0 and not message.ranked and not message.several
