"""The purging layer of all members at once: what is obsolete or has no room leaves (PSRM §3).

A member's buffer holds copies, one for each link that a message is still to take. The bound is on
copies, for all links of a member together. Knows nothing of time, and of messages only which chain
they belong to.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import final

import numpy as np
from numpy.typing import NDArray

from semcast.model.epidemic.links import Indices, Words, word_type
from semcast.model.epidemic.settings import Epidemic
from semcast.model.epidemic.traffic import Multicast

UNSEEN = 255


@final
class Held:
    """One message that waits somewhere, with what every member has to do with it."""

    def __init__(self, multicast: Multicast, settings: Epidemic) -> None:
        self.multicast = multicast
        # How often a copy was passed on until this member got it first; UNSEEN: it has none.
        self.hops: NDArray[np.uint8] = np.full(settings.members, UNSEEN, np.uint8)
        # The links that the message is still to take from this member.
        self.waiting: Words = np.zeros(settings.members, word_type(settings.used_links))
        self.copies = 0  # all that wait, over all members
        self.receivers = 1
        self.received_by_age: Counter[int] = Counter()  # first receptions; the first round is 1

    @property
    def row_bytes(self) -> int:
        return self.hops.nbytes + self.waiting.nbytes


@final
class Buffers:
    """The buffers of all members, and the policy that keeps them within their bound."""

    def __init__(self, settings: Epidemic, rng: np.random.Generator) -> None:
        self._policy = settings.policy
        self._members = settings.members
        self._capacity = settings.capacity_copies
        self._links = settings.used_links
        self._rng = rng
        self.held: NDArray[np.int32] = np.zeros(settings.members, np.int32)  # copies, by member
        self._new: list[tuple[Held, Indices]] = []  # since the last settling, in order
        self.purged_copies = 0
        self.dropped_copies = 0

    def enter(self, message: Held, members: Indices, sets: Words) -> None:
        """The gossip protocol hands over a message that these members are to pass on."""
        message.waiting[members] = sets
        counts = np.bitwise_count(sets)
        message.copies += int(counts.sum())
        self.held[members] += counts
        self._new.append((message, members))

    def send(self, message: Held, members: Indices, free: Words) -> Words:
        """Copies leave these members over links that are free, which then are so no more."""
        open_links = free[members]
        waiting = message.waiting[members]
        leaving: Words = waiting & open_links
        free[members] = open_links ^ leaving
        message.waiting[members] = waiting ^ leaving
        self._take_out(message, members, np.bitwise_count(leaving))
        return leaving

    def settle(self, messages: Sequence[Held]) -> None:
        """Apply the policy to what came in since the last time. `messages` are oldest first."""
        if self._policy == "eager":
            # A chain of which nothing came in was purged before.
            self._purge(messages, {message.multicast.chain for message, _ in self._new}, None)
        elif self._policy == "lazy" and (full := self.held > self._capacity).any():
            self._purge(messages, {message.multicast.chain for message in messages}, full)
        over = np.flatnonzero(self.held > self._capacity)
        if len(over):
            if self._policy == "age":
                self._drop_oldest(messages, over)
            elif self._policy == "drop-new":
                self._drop_new()
            else:
                self._drop_at_random(messages, over)
        self._new.clear()

    def _purge(
        self, messages: Sequence[Held], chains: set[int | None], among: NDArray[np.bool_] | None
    ) -> None:
        """What waits together with a later message of its chain leaves the buffer."""
        held: dict[int, list[Held]] = {}
        for message in messages:
            chain = message.multicast.chain
            if chain is not None and chain in chains and message.copies:
                held.setdefault(chain, []).append(message)
        for chained in held.values():
            if len(chained) > 1:
                self._purge_chain(reversed(chained), among)

    def _purge_chain(self, newest_first: Iterable[Held], among: NDArray[np.bool_] | None) -> None:
        covered = np.zeros(self._members, np.bool_)
        for message in newest_first:
            waits = message.waiting != 0
            obsolete = waits & covered
            if among is not None:
                obsolete &= among
            members = np.flatnonzero(obsolete)
            if len(members):
                counts = np.bitwise_count(message.waiting[members])
                message.waiting[members] = 0
                self.purged_copies += self._take_out(message, members, counts)
            covered |= waits

    def _drop_at_random(self, messages: Sequence[Held], over: Indices) -> None:
        """Members with too many copies lose as many as are too many, each as likely as another.

        The copies of a member are imagined in a row and every so-manieth is dropped, from a place
        drawn at random: that takes one draw per member instead of one per copy.
        """
        held = self.held[over]
        excess = held - self._capacity
        start = np.floor(self._rng.random(len(over)) * held)
        behind = np.zeros(len(over), np.int64)
        dropped = np.zeros(len(over), np.int64)
        for message in messages:
            if message.copies:
                behind += np.bitwise_count(message.waiting[over])
                # All figures are small integers, so that the quotient is never rounded past one.
                so_far = np.floor((behind * excess + start) / held).astype(np.int64)
                self._drop(message, over, so_far - dropped)
                dropped = so_far

    def _drop_new(self) -> None:
        """What came in last leaves first, so that a full buffer takes nothing of a message."""
        excess = np.maximum(self.held - self._capacity, 0).astype(np.int64)
        for message, members in reversed(self._new):
            counts = np.minimum(excess[members], np.bitwise_count(message.waiting[members]))
            self._drop(message, members, counts)
            excess[members] -= counts

    def _drop_oldest(self, messages: Sequence[Held], over: Indices) -> None:
        """Members with too many copies lose those of the messages that were multicast first."""
        excess = (self.held[over] - self._capacity).astype(np.int64)
        for message in messages:
            if message.copies:
                counts = np.minimum(excess, np.bitwise_count(message.waiting[over]))
                self._drop(message, over, counts)
                excess -= counts

    def _drop(self, message: Held, members: Indices, counts: NDArray[np.int64]) -> None:
        """So many copies leave without being sent, from links drawn at random."""
        some = np.flatnonzero(counts)
        members, left = members[some], counts[some]
        sets = message.waiting[members]
        while left.any():
            sets = np.where(left > 0, self._without_one(sets), sets)
            left = np.maximum(left - 1, 0)
        message.waiting[members] = sets
        self.dropped_copies += self._take_out(message, members, counts[some])

    def _without_one(self, sets: Words) -> Words:
        """Each set without its next link from one that is drawn, so that all links fare alike."""
        first = self._rng.integers(0, self._links, len(sets), dtype=np.uint8).astype(sets.dtype)
        from_there = (sets >> first) << first
        choice = np.where(from_there != 0, from_there, sets)
        lowest = choice & (~choice + sets.dtype.type(1))
        return sets ^ lowest

    def _take_out(self, message: Held, members: Indices, counts: NDArray[np.integer]) -> int:
        self.held[members] -= counts.astype(np.int32)
        total = int(counts.sum())
        message.copies -= total
        return total
