"""Chains: the held messages of one source and key that replace each other by key, oldest to newest.

A message that is held goes in; those that it replaces come out, and the one that replaces it, at
the cost of one look-up however many keys there are and however far apart messages lie (SRM §3).
Most chains have one message. They grow where covers have to wait for the guard.

A lane has a hash table of its chains: an array of slots, in which the newest message of a key
stands where the hash of the key says, or in one of the next cells. It is made by hand because a
dictionary would need an object for every key that is looked up, and this is the hot path. Members
share a secret and trust each other, so nobody is expected to choose keys that collide.

A message about several keys is in no chain. It is listed under each of its keys: what it replaces
is in the chains of its keys, or listed under one of them. So it costs a few look-ups for each of
its keys, and a look at each held message about several keys that shares one with it.

Knows nothing of guards.
"""

from typing import Final, final

from librt.strings import read_i64_le
from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.protocol.queue.slots import Lane, Slots
from semcast.wire.message import Message

_CELLS_MIN: Final = 16
# An odd number that spreads the bits of what it is multiplied by, and what cuts a product to 63
# bits: so the hash is the same whether integers are native or not.
_SPREAD: Final = 0x1E3779B97F4A7C15
_MASK: Final = 0x7FFFFFFFFFFFFFFF


@final
class KeyChains:
    """The messages of a buffer that replace by key."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots
        # By slot: the neighbours in its chain, 0 at the ends; and the hash of its key, -1 if it is
        # in no chain and no list. INV-CELLS: the newest slot of each chain, and no other, stands in
        # a cell of its lane; between the cell of its hash and that one no cell is empty.
        self._older = vec[i64]([0])
        self._newer = vec[i64]([0])
        self._hashes = vec[i64]([-1])

    # -- in and out --------------------------------------------------------------------------------

    def enter(self, lane: Lane, message: Message, slot: i64) -> None:
        """A message that replaces by key is held in this slot."""
        while slot >= len(self._hashes):
            self._older = append(self._older, 0)
            self._newer = append(self._newer, 0)
            self._hashes = append(self._hashes, -1)
        if message.several:
            self._hashes[slot] = 0
            for name in message.keys:
                lane.sets.setdefault(name, {})[int(slot)] = message
            return
        if 2 * lane.chains >= len(lane.cells):
            self._grow(lane)
        hashed = key_hash(message.body, message.key_len)
        self._hashes[slot] = hashed
        cell = self._cell(lane, message.body, message.key_len, hashed)
        newer: i64 = 0
        older = lane.cells[cell]
        while older != 0 and self._slots.at(older).seq > message.seq:
            newer = older
            older = self._older[older]
        self._older[slot] = older
        self._newer[slot] = newer
        if older != 0:
            self._newer[older] = slot
        elif newer == 0:
            lane.chains += 1
        if newer != 0:
            self._older[newer] = slot
        else:
            lane.cells[cell] = slot

    def leave(self, lane: Lane, message: Message, slot: i64) -> None:
        """It leaves its slot, or is as good as gone; it may have left before."""
        if slot >= len(self._hashes) or self._hashes[slot] < 0:
            return
        hashed = self._hashes[slot]
        self._hashes[slot] = -1
        if message.several:
            for name in message.keys:
                listed = lane.sets[name]
                del listed[int(slot)]
                if not listed:
                    del lane.sets[name]
            return
        older, newer = self._older[slot], self._newer[slot]
        if older != 0:
            self._newer[older] = newer
        if newer != 0:
            self._older[newer] = older
            return
        mask = len(lane.cells) - 1
        cell = hashed & mask
        while lane.cells[cell] != slot:
            cell = (cell + 1) & mask
        if older != 0:
            lane.cells[cell] = older
        else:
            self._empty(lane, cell)

    # -- looking -----------------------------------------------------------------------------------

    def older(self, slot: i64) -> i64:
        """The slot of the next older message in the chain of this one; 0 if there is none."""
        return self._older[slot]

    def replaced_by(self, lane: Lane, cover: Message) -> list[int]:
        """The slots of all that a message replaces, whether it is held itself or not."""
        found: list[int] = []
        if not cover.several:
            self._add_older(self._newest(lane, cover.body, cover.key_len), cover.seq, found)
            return found
        names = cover.keys
        wide = set(names)
        for name in names:
            self._add_older(self._newest(lane, name, len(name)), cover.seq, found)
            for slot, other in lane.sets.get(name, {}).items():
                # Each is listed under all of its keys: it counts under the first.
                its_names = other.keys
                if other.seq < cover.seq and its_names[0] == name and wide.issuperset(its_names):
                    found.append(slot)
        return found

    def _add_older(self, slot: i64, seq: i64, found: list[int]) -> None:
        """Add the slots of a chain whose messages are older than `seq`."""
        while slot != 0:
            if self._slots.at(slot).seq < seq:
                found.append(int(slot))
            slot = self._older[slot]

    def cover_of(self, lane: Lane, message: Message) -> Message | None:
        """The first later message that replaces this one, which is not held."""
        nearest: Message | None = None
        if not message.several:
            slot = self._newest(lane, message.body, message.key_len)
            while slot != 0:
                later = self._slots.at(slot)
                if later.seq < message.seq:
                    break
                nearest = later
                slot = self._older[slot]
        if lane.sets:
            names = message.keys
            for other in lane.sets.get(names[0], {}).values():
                if other.seq > message.seq and set(other.keys).issuperset(names):
                    nearest = other if nearest is None or other.seq < nearest.seq else nearest
        return nearest

    # -- cells -------------------------------------------------------------------------------------

    def _newest(self, lane: Lane, body: bytes, key_len: i64) -> i64:
        """The slot of the newest message of a key, which stands at the start of `body`; 0 if none
        is held.
        """
        if lane.chains == 0:
            return 0
        return lane.cells[self._cell(lane, body, key_len, key_hash(body, key_len))]

    def _cell(self, lane: Lane, body: bytes, key_len: i64, hashed: i64) -> i64:
        """The cell of a key, or the empty one where it would be put."""
        cells = lane.cells
        mask = len(cells) - 1
        cell = hashed & mask
        slot = cells[cell]
        while slot != 0:
            if self._hashes[slot] == hashed:
                other = self._slots.at(slot)
                if other.key_len == key_len and same_start(other.body, body, key_len):
                    break
            cell = (cell + 1) & mask
            slot = cells[cell]
        return cell

    def _empty(self, lane: Lane, cell: i64) -> None:
        """A cell becomes empty: those behind it that are not where they belong move up."""
        cells = lane.cells
        mask = len(cells) - 1
        lane.chains -= 1
        behind = (cell + 1) & mask
        while cells[behind] != 0:
            home = self._hashes[cells[behind]] & mask
            # Whether its home is at or before the empty cell, on the ring.
            if ((behind - home) & mask) >= ((behind - cell) & mask):
                cells[cell] = cells[behind]
                cell = behind
            behind = (behind + 1) & mask
        cells[cell] = 0
        if len(cells) > _CELLS_MIN and 16 * lane.chains < len(cells):
            self._resize(lane, len(cells) // 4)

    def _grow(self, lane: Lane) -> None:
        self._resize(lane, max(_CELLS_MIN, 2 * len(lane.cells)))

    def _resize(self, lane: Lane, size: i64) -> None:
        before = lane.cells
        lane.cells = vec[i64]([0] * size)
        mask = size - 1
        at: i64 = 0
        while at < len(before):
            slot = before[at]
            if slot != 0:
                cell = self._hashes[slot] & mask
                while lane.cells[cell] != 0:
                    cell = (cell + 1) & mask
                lane.cells[cell] = slot
            at += 1


def key_hash(body: bytes, key_len: i64) -> i64:
    """A number for the key with which `body` begins; equal keys have equal numbers."""
    hashed = key_len
    at: i64 = 0
    while at + 8 <= key_len:
        hashed = _mixed(hashed, read_i64_le(body, at))
        at += 8
    if at < key_len:
        hashed = _mixed(hashed, _rest(body, at, key_len))
    return hashed


def _mixed(hashed: i64, word: i64) -> i64:
    # The shift lets the highest bit count, which the product would lose.
    hashed = ((hashed ^ word ^ (word >> 32)) * _SPREAD) & _MASK
    return hashed ^ (hashed >> 31)


def same_start(one: bytes, other: bytes, size: i64) -> bool:
    """Whether both begin with the same bytes, so many of them; they have as many."""
    at: i64 = 0
    while at + 8 <= size:
        if read_i64_le(one, at) != read_i64_le(other, at):
            return False
        at += 8
    return at >= size or _rest(one, at, size) == _rest(other, at, size)


def _rest(body: bytes, at: i64, end: i64) -> i64:
    """The bytes from `at` up to `end`, less than eight, as a number."""
    if at + 8 <= len(body):
        # Not 1 shifted to the left: in C that 1 has 32 bits, and so would the result.
        return read_i64_le(body, at) & (_MASK >> (63 - 8 * (end - at)))
    word: i64 = 0
    while end > at:
        end -= 1
        word = (word << 8) | body[end]
    return word
