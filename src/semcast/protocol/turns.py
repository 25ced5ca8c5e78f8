"""Turns: slots with waiting values in, the one with the freshest value that has a turn out.

For a queue in which values stand where older ones stood (`in_place`). A reader that cannot keep up
gets some value of a key whenever a place is due; which, is a choice. The oldest place would be
fair, but its value is as old as any. So keys take turns: in a *cycle* each has one, and the key
that changed last comes first, while its value is news. One that has had its turn waits for the next
cycle. The last of a cycle would be those that did not change for long, just before they do; so they
are carried over into the next cycle, but only once. No key waits longer than for two cycles. Knows
nothing of queues and places.
"""

from collections import OrderedDict
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.wire.message import Message

# A cycle is over when no more than this share of its keys, one in so many, have not had a turn.
_CARRIED_SHARE: Final = 4


@final
class Turns:
    """Who has a turn, in one queue. Messages with a key and no rank take part."""

    def __init__(self) -> None:
        # Slots by when their values came, the freshest last: in this cycle, and in the next. True
        # if it was carried over, of which there are so many.
        self._cycle: OrderedDict[int, bool] = OrderedDict()
        self._later: OrderedDict[int, bool] = OrderedDict()
        self._carried: i64 = 0
        # The slots of each key, by when their messages came. There are several if these are too far
        # apart to replace each other, and then they stay in order.
        self._slots: Final[dict[tuple[Source, bytes], dict[int, None]]] = {}

    def came(self, message: Message, slot: i64) -> None:
        """A message is in this slot."""
        self._slots.setdefault((message.source, message.key), {})[slot] = None

    def left(self, message: Message, slot: i64) -> None:
        """It is there no more."""
        name = (message.source, message.key)
        slots = self._slots[name]
        del slots[slot]
        if not slots:
            del self._slots[name]

    def alone(self, message: Message) -> bool:
        """Whether no other message of its key waits."""
        return len(self._slots[(message.source, message.key)]) == 1

    def last_of_key(self, message: Message) -> i64:
        """Where the last message of its key is; 0 if none waits."""
        slots = self._slots.get((message.source, message.key))
        return 0 if slots is None else next(reversed(slots))

    def renew(self, slot: i64) -> None:
        """The value in this slot is the freshest of all."""
        if slot in self._cycle:
            self._cycle.move_to_end(slot)
        else:
            self._later[slot] = False
            self._later.move_to_end(slot)

    def forget(self, slot: i64) -> None:
        """There is no value in this slot any more."""
        if slot in self._cycle:
            if self._cycle.pop(slot):
                self._carried -= 1
        elif slot in self._later:
            del self._later[slot]

    def has(self, slot: i64) -> bool:
        """Whether there is a value in this slot."""
        return slot in self._cycle or slot in self._later

    def freshest(self) -> i64:
        """The slot with the freshest value that has a turn; there must be one with a value."""
        left: i64 = len(self._cycle)
        if self._carried == 0 and left * (_CARRIED_SHARE - 1) <= len(self._later):
            carried: OrderedDict[int, bool] = OrderedDict.fromkeys(self._cycle, True)
            carried.update(self._later)
            self._carried = left
            self._cycle = carried
            self._later = OrderedDict()
        return next(reversed(self._cycle))


def takes_turns(message: Message) -> bool:
    """Whether a message is a value of a key, as opposed to a bid, or one that is never replaced."""
    return message.key_len > 0 and not message.ranked
