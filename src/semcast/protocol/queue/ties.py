"""Ties: a message that is about to be taken in; the one that must be taken before it out.

For a queue that is taken by turns (`in_place`). A message is *tied* to those about one of its keys
that the same sender multicast before it, in this life or a former one: as long as one of them
waits, it goes first. Among values of one key in one life, `values` keep the order by themselves.
What is left are messages about several keys, called *knots* here, and senders that came back.

Why the walk ends: each step leads to a message that was multicast earlier. Why it is short: after
some steps it goes on from the oldest knot of the sender, before which there are values only.
"""

from bisect import bisect_left, insort
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.queue.slots import Slots
from semcast.protocol.queue.values import Values
from semcast.wire.message import Message

# After so many steps from message to earlier message, begin with the oldest knot.
STEPS_MAX: Final = 16


@final
class Ties:
    """Which of the messages that wait in one queue must be taken before others."""

    def __init__(self, slots: Slots, values: Values) -> None:
        self._slots: Final = slots
        self._values: Final = values
        # How many messages about several keys wait.
        self.knots: i64 = 0
        # Their numbers, by source, and by source and key; in order.
        self._of: Final[dict[Source, list[int]]] = {}
        self._about: Final[dict[Source, dict[bytes, list[int]]]] = {}

    def enter(self, knot: Message) -> None:
        """A message about several keys waits."""
        self.knots += 1
        seq = int(knot.seq)
        insort(self._of.setdefault(knot.source, []), seq)
        about = self._about.setdefault(knot.source, {})
        for key in knot.keys:
            insort(about.setdefault(key, []), seq)

    def leave(self, knot: Message) -> None:
        """It waits no more, whatever the reason."""
        self.knots -= 1
        seq = int(knot.seq)
        _discard(self._of[knot.source], seq)
        about = self._about[knot.source]
        for key in knot.keys:
            seqs = about[key]
            _discard(seqs, seq)
            if len(seqs) == 0:
                del about[key]

    def forget(self, source: Source) -> None:
        """Nothing of a source waits, and nothing will come any more."""
        self._of.pop(source, None)
        self._about.pop(source, None)

    def first(self, slot: i64) -> i64:
        """The slot to take from before this one; itself, if nothing has to be taken before it."""
        steps: i64 = 0
        while True:
            message = self._slots.at(slot)
            earlier = self._earlier(message)
            if earlier == 0:
                return slot
            steps += 1
            slot = self._oldest_knot(message.source, earlier) if steps == STEPS_MAX else earlier

    def _earlier(self, message: Message) -> i64:
        """A slot whose message has to be taken before this one; 0 if there is none."""
        if message.key_len == 0 or message.ranked:
            return 0
        source = message.source
        lane = self._slots.find(source)
        assert lane is not None
        keys = message.keys
        for former in lane.former:
            for key in keys:
                slot = self._first_about(former, key)
                if slot != 0:
                    return slot
        for key in keys:
            slot = self._first_about(source, key)
            if slot != 0 and self._slots.at(slot).seq < message.seq:
                return slot
        return 0

    def _first_about(self, source: Source, key: bytes) -> i64:
        """The slot of the oldest message of a source about this key, alone or with others."""
        slot = self._values.first_of(source, key)
        about = self._about.get(source)
        seqs = None if about is None else about.get(key)
        if seqs is not None and (slot == 0 or self._slots.at(slot).seq > seqs[0]):
            slot = self._slots.lanes[source].index.get(seqs[0])
        return slot

    def _oldest_knot(self, source: Source, otherwise: i64) -> i64:
        """The slot of the oldest knot of a sender, in the first of its lives that has one."""
        lane = self._slots.lanes[source]
        for life in [*lane.former, source]:
            seqs = self._of.get(life)
            if seqs:
                return self._slots.lanes[life].index.get(seqs[0])
        return otherwise


def _discard(seqs: list[int], seq: int) -> None:
    at = bisect_left(seqs, seq)
    assert seqs[at] == seq
    del seqs[at]
