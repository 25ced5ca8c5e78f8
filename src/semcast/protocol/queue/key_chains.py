"""Chains: the held messages of one source and key that replace each other by key, oldest to newest.

A message that is held goes in; those that it replaces come out, and the one that replaces it, at
the cost of one look-up however many keys there are and however far apart messages lie (SRM §3).
Most chains have one message. They grow where covers have to wait for the guard.

A message about several keys is in no chain. It is listed under each of its keys: what it replaces
is in the chains of its keys, or listed under one of them. So it costs a few look-ups for each of
its keys, and a look at each held message about several keys that shares one with it.

Knows nothing of guards. A lane has the chains of its source, by key, and the lists.
"""

from typing import Final, final

from librt.vecs import append, vec
from mypy_extensions import i64

from semcast.obsolescence.key_set import unpack_keys
from semcast.protocol.queue.slots import Lane, Slots
from semcast.wire.message import Message


@final
class KeyChains:
    """The messages of a buffer that replace by key."""

    def __init__(self, slots: Slots) -> None:
        self._slots: Final = slots
        # By slot: the neighbours in its chain, 0 at the ends; and its key or keys, which are empty
        # if it is in no chain and no list. The lane has the newest slot of each chain.
        self._older = vec[i64]([0])
        self._newer = vec[i64]([0])
        self._names: Final[list[bytes]] = [b""]

    def enter(self, lane: Lane, message: Message, slot: i64) -> None:
        """A message that replaces by key is held in this slot."""
        while slot >= len(self._names):
            self._older = append(self._older, 0)
            self._newer = append(self._newer, 0)
            self._names.append(b"")
        name = message.body[: message.key_len]
        self._names[slot] = name
        if message.several:
            for one in unpack_keys(name):
                lane.sets.setdefault(one, {})[int(slot)] = message
            return
        newer: i64 = 0
        older: i64 = lane.keys.get(name, 0)
        while older != 0 and self._slots.at(older).seq > message.seq:
            newer = older
            older = self._older[older]
        self._older[slot] = older
        self._newer[slot] = newer
        if older != 0:
            self._newer[older] = slot
        if newer != 0:
            self._older[newer] = slot
        else:
            lane.keys[name] = slot

    def leave(self, lane: Lane, message: Message, slot: i64) -> None:
        """It leaves its slot, or is as good as gone; it may have left before."""
        name = self._names[slot] if slot < len(self._names) else b""
        if not name:
            return
        self._names[slot] = b""
        if message.several:
            for one in unpack_keys(name):
                listed = lane.sets[one]
                del listed[int(slot)]
                if not listed:
                    del lane.sets[one]
            return
        older, newer = self._older[slot], self._newer[slot]
        if older != 0:
            self._newer[older] = newer
        if newer != 0:
            self._older[newer] = older
        elif older != 0:
            lane.keys[name] = older
        else:
            del lane.keys[name]

    def older(self, slot: i64) -> i64:
        """The slot of the next older message in the chain of this one; 0 if there is none."""
        return self._older[slot]

    def replaced_by(self, lane: Lane, cover: Message) -> list[int]:
        """The slots of all that a message replaces, whether it is held itself or not."""
        found: list[int] = []
        name = cover.body[: cover.key_len]
        if not cover.several:
            self._add_older(lane.keys.get(name, 0), cover.seq, found)
            return found
        names = unpack_keys(name)
        wide = set(names)
        for one in names:
            self._add_older(lane.keys.get(one, 0), cover.seq, found)
            for slot, other in lane.sets.get(one, {}).items():
                its_names = other.keys
                # Each is listed under all of its keys: it counts under the first.
                if other.seq < cover.seq and its_names[0] == one and wide.issuperset(its_names):
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
        name = message.body[: message.key_len]
        if not message.several:
            slot: i64 = lane.keys.get(name, 0)
            while slot != 0:
                later = self._slots.at(slot)
                if later.seq < message.seq:
                    break
                nearest = later
                slot = self._older[slot]
        if lane.sets:
            names = unpack_keys(name) if message.several else [name]
            for other in lane.sets.get(names[0], {}).values():
                if other.seq > message.seq and set(other.keys).issuperset(names):
                    nearest = other if nearest is None or other.seq < nearest.seq else nearest
        return nearest
