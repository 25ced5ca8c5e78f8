"""What a purging buffer has to do, written down literally: a plain list, searched from end to end.

The rules of the model:

1.  The queue is a list. A message goes to its end, or directly before the first held message of
    its source with a larger number.
2.  c *covers* m if m ⊏ c and the guard allows c; nothing covers anything when purging is off.
3.  A covered message becomes *obsolete*: EAGER removes it there and then (REPLACED), LAZY and
    WATERMARK mark it. A marked message is as good as gone, only still there: it covers nothing
    new, but it can be taken, is still a duplicate of itself, and takes room until it is purged.
4.  Messages become obsolete when a message that covers them is stored, and when the buffer is told
    that the guard moved on for a source: then every held message of that source that the guard
    allows is tried as a cover, in the order of their numbers.
5.  On arrival, in this order: held already: DUPLICATE. Covered by a held, unmarked message:
    OBSOLETE, accounted for as LATE. It fits: store it. Larger than the whole buffer: raise.
6.  It does not fit: WATERMARK purges marked messages down to the low mark; if it still does not
    fit, everything marked is purged; if it still does not fit but would without the messages that
    it covers itself, those are purged; else the overflow policy decides. REFUSE: FULL. DROP_NEW:
    the message is dropped, and what it covers stays. RANDOM: what it covers is purged, then held
    messages are dropped until it fits, those of its own source while that has used up its share.
7.  After storing, and after being told of the guard: WATERMARK with more than the high mark held
    purges marked messages down to the low mark. Marked ones go in the order in which they became
    obsolete; those of one cover in any order.
8.  In place (EAGER only), *values* (a key, no rank) and *others* are two queues. An other that
    covers others goes where the foremost of them was; one that covers none and is late, directly
    before the first held one of its stream with a larger number. A stream is one key of a source,
    ranked or not, or what of it has neither key nor annotation. What is about several keys is an
    other, and stands in none.
9.  In place a message knows which numbers of its source it skipped: those of the messages that it
    replaced there, and those that they skipped; smaller than its own, in order. What of its source
    was replaced by another source's message, or arrived obsolete, the next one that is stored tells
    if its number is larger.
10. In place, the next message is the first of the others; but a value, if there is one, when there
    are no others or seven of them were taken since the last value: of the key whose turn it is, the
    one with the smallest number. Turns: a key (of a source) that a value comes for waits from then
    on if it did not wait before; and it is the freshest of all. One that was taken from has had its
    turn; if more of its values wait, it is as if one had come now. The first value that is taken,
    and every third after it, is of the freshest key; all others are of the one that waits longest.
11. In place, before the message that is next by rule 10 comes whatever is held about one of its
    keys (and has no rank) of a former life of its sender, or of its own with a smaller number; and
    so on from there. Of several the first life counts, then the first key, then the number. That
    is then taken as if it were its turn.

Two choices are the buffer's own: which message a random drop hits, and the order within one
cover's victims. The model reads those off the buffer's records, and fails if they break a rule.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from semcast.errors import MessageTooLargeError
from semcast.ids import Source
from semcast.obsolescence import obsoletes
from semcast.protocol import BufferConfig, Overflow, Purged, Purging, Reason, Verdict
from semcast.wire.message import Message

Key = tuple[Source, bytes]
# Messages are told apart by identity: the same number may come twice.
Gone = list[tuple[Reason, Message]]


def name(message: Message) -> tuple[Source, int]:
    return message.source, int(message.seq)


def stream_of(message: Message) -> tuple[Source, bool, bytes] | None:
    """What is taken in order even in place; None: nothing is promised of this message."""
    if message.several or (not message.key and (message.bitmap or message.ranked)):
        return None
    return message.source, message.ranked, message.key


def is_value(message: Message) -> bool:
    return bool(message.key) and not message.ranked


def key_of(message: Message) -> Key:
    return message.source, message.key


def comes_before(one: Message, other: Message) -> bool:
    """Whether `one` is to be taken before `other`, in place: of one sender, about a common key."""
    about = set(one.keys) & set(other.keys)
    if not about or one.ranked or other.ranked or one.source.sender != other.source.sender:
        return False
    return (one.source.incarnation, one.seq) < (other.source.incarnation, other.seq)


class NaiveBuffer:
    """The model. Each call says what left without being taken."""

    def __init__(self, config: BufferConfig, allows: Callable[[Message], bool]) -> None:
        self.config = config
        self.queue: list[Message] = []
        # When each obsolete message became so, by identity.
        self.marked: dict[int, int] = {}
        self._allows = allows
        self._covers_tried = 0
        # In place, by identity.
        self.skipped: dict[int, list[int]] = {}
        # In place: the keys of values that wait, in the order in which they began to, and the same
        # keys, the freshest last; how many values were taken; and the key of what is coming.
        self.waiting: list[Key] = []
        self.changed: list[Key] = []
        self._values_taken = 0
        self._coming: Key | None = None
        self._others_taken = 0
        # In place: what of a source was skipped, and no message tells yet.
        self.untold: defaultdict[Source, set[int]] = defaultdict(set)
        self._gone: Gone = []
        self._choices: list[Message] = []

    # -- what the buffer offers ------------------------------------------------------------------

    def insert(self, message: Message, records: list[Purged]) -> tuple[Verdict, Gone]:
        self._start(records)
        verdict = self._insert(message)
        return verdict, self._gone

    def covers_released(self, source: Source, records: list[Purged]) -> Gone:
        self._start(records)
        covers = [held for held in self.queue if held.source == source]
        for cover in sorted(covers, key=lambda held: held.seq):
            if self._is_held(cover) and id(cover) not in self.marked:
                self._hit(cover)
        self._after()
        return self._gone

    def take(self) -> Message | None:
        chosen = self.peek()
        if chosen is None:
            return None
        if self.config.in_place:
            self._had_turn(chosen)
        self.forget(chosen)
        return chosen

    def _had_turn(self, chosen: Message) -> None:
        if not is_value(chosen):
            self._others_taken += 1
            return
        self._others_taken = 0
        self._values_taken += 1
        for keys in (self.waiting, self.changed):
            keys.remove(key_of(chosen))
            keys.append(key_of(chosen))

    def peek(self) -> Message | None:
        chosen = self._next_by_turn()
        while chosen is not None and self.config.in_place:
            earlier = [held for held in self.queue if comes_before(held, chosen)]
            if not earlier:
                break
            chosen = min(earlier, key=partial(self._urgency, chosen))
        return chosen

    @staticmethod
    def _urgency(than: Message, held: Message) -> tuple[int, int, int]:
        key = min(than.keys.index(key) for key in held.keys if key in than.keys)
        return int(held.source.incarnation), key, int(held.seq)

    def _next_by_turn(self) -> Message | None:
        values = [held for held in self.queue if is_value(held)]
        others = [held for held in self.queue if not is_value(held)]
        if not self.config.in_place:
            return self.queue[0] if self.queue else None
        if not values or (others and self._others_taken < 7):
            return others[0] if others else None
        due = self.waiting[0] if self._values_taken % 3 else self.changed[-1]
        return self._values_of(due)[0]

    def _values_of(self, key: Key) -> list[Message]:
        own = [held for held in self.queue if is_value(held) and key_of(held) == key]
        return sorted(own, key=lambda value: value.seq)

    def release(self, source: Source, stable_seq: int) -> list[Message]:
        released = [m for m in self.queue if m.source == source and m.seq <= stable_seq]
        for message in released:
            self.forget(message)
        return released

    def forget(self, message: Message) -> None:
        """It leaves, whatever the reason."""
        self.queue = [held for held in self.queue if held is not message]
        self.marked.pop(id(message), None)
        if self.config.in_place:
            self._forget_turns()

    def _forget_turns(self) -> None:
        """A key of which no value waits has no turn, unless one is coming."""
        kept = {key_of(held) for held in self.queue if is_value(held)} | {self._coming}
        self.waiting = [key for key in self.waiting if key in kept]
        self.changed = [key for key in self.changed if key in kept]
        self._sort()

    def find(self, source: Source, seq: int) -> Message | None:
        same = [m for m in self.queue if m.source == source and m.seq == seq]
        assert len(same) <= 1
        return same[0] if same else None

    @property
    def held_bytes(self) -> int:
        return sum(len(message.body) for message in self.queue)

    # -- the rules -------------------------------------------------------------------------------

    def _insert(self, message: Message) -> Verdict:
        if self.find(message.source, message.seq) is not None:
            return Verdict.DUPLICATE
        if any(self._covers(c, message) for c in self.queue if id(c) not in self.marked):
            self._gone.append((Reason.LATE, message))
            self.untold[message.source].add(int(message.seq))
            return Verdict.OBSOLETE
        self._coming = key_of(message) if self.config.in_place and is_value(message) else None
        covered = [held for held in self.queue if self._covers(message, held)]
        others = [held for held in covered if not is_value(held)]
        ahead = self._ahead_of(others[0]) if others else []
        if not self._fits(message):
            refused = self._make_room(message)
            if refused is not None:
                self._coming = None
                return refused
        if self.config.in_place:
            self.skipped[id(message)] = self._skipped_for(message, covered)
        if self.config.in_place and others and not is_value(message):
            self.queue.insert(sum(self._is_held(held) for held in ahead), message)
        else:
            self.queue.insert(self._place_of(message), message)
        self._hit(message)
        self._after()
        if self.config.in_place:
            self._arrange()
        return Verdict.STORED

    def _place_of(self, message: Message) -> int:
        """Where a message goes in the queue that takes nobody's place."""
        later = [
            at
            for at, held in enumerate(self.queue)
            if held.source == message.source
            and held.seq > message.seq
            and (not self.config.in_place or stream_of(held) == stream_of(message) is not None)
        ]
        if later:
            return later[0]
        if self.config.in_place:
            return sum(not is_value(held) for held in self.queue)
        return len(self.queue)

    def _arrange(self) -> None:
        """What came has its turn."""
        key, self._coming = self._coming, None
        if key is not None:
            if key not in self.waiting:
                self.waiting.append(key)
            self.changed = [one for one in self.changed if one != key] + [key]
        self._sort()

    def _sort(self) -> None:
        """Others in order, then values, the freshest key last."""
        keys = list(self.changed)
        if self._coming is not None and self._coming not in keys:
            keys.append(self._coming)
        others = [held for held in self.queue if not is_value(held)]
        self.queue = others + [value for key in keys for value in self._values_of(key)]

    def _ahead_of(self, message: Message) -> list[Message]:
        return self.queue[: next(at for at, held in enumerate(self.queue) if held is message)]

    def _skipped_for(self, cover: Message, covered: list[Message]) -> list[int]:
        untold = self.untold[cover.source]
        seqs = {seq for seq in untold if seq < cover.seq}
        untold -= seqs
        for victim in covered:
            told = seqs if victim.source == cover.source else self.untold[victim.source]
            told |= {int(victim.seq), *self.skipped.get(id(victim), [])}
        return sorted(seq for seq in seqs if seq < cover.seq)

    def _make_room(self, message: Message) -> Verdict | None:
        if len(message.body) > self.config.bytes_max:
            raise MessageTooLargeError(len(message.body), self.config.bytes_max)
        if self.config.purging is Purging.WATERMARK:
            self._purge_marked(self.config.low)
        if not self._fits(message):
            self._purge_marked(0)
        if self._fits(message):
            return None
        covered = [held for held in self.queue if self._covers(message, held)]
        lossy = self.config.overflow is Overflow.RANDOM
        if self._fits(message, covered) or lossy:
            for victim in covered:
                self._lose(Reason.REPLACED, victim)
        elif self.config.overflow is Overflow.DROP_NEW:
            self._gone.append((Reason.OVERFLOW, message))
            return Verdict.DROPPED
        else:
            return Verdict.FULL
        while not self._fits(message):
            assert not self.marked, "a random drop while something was purgeable"
            share_used = not self._share_left(message, [])
            self._lose(
                Reason.RANDOM,
                self._chosen(
                    [m for m in self.queue if not share_used or m.source == message.source]
                ),
            )
        return None

    def _hit(self, cover: Message) -> None:
        self._covers_tried += 1
        for victim in [held for held in self.queue if self._covers(cover, held)]:
            if self.config.purging is Purging.EAGER:
                self._lose(Reason.REPLACED, victim)
            else:
                self.marked.setdefault(id(victim), self._covers_tried)

    def _after(self) -> None:
        watermark = self.config.purging is Purging.WATERMARK
        if watermark and len(self.queue) > self.config.high:
            self._purge_marked(self.config.low)

    def _purge_marked(self, until: int) -> None:
        while self.marked and len(self.queue) > until:
            oldest = min(self.marked.values())
            ties = [m for m in self.queue if self.marked.get(id(m)) == oldest]
            self._lose(Reason.REPLACED, self._chosen(ties))

    def _covers(self, cover: Message, message: Message) -> bool:
        if self.config.purging is Purging.OFF:
            return False
        return obsoletes(cover, message) and self._allows(cover)

    def _fits(self, message: Message, without: list[Message] | None = None) -> bool:
        gone = without or []
        held_bytes = self.held_bytes - sum(len(m.body) for m in gone)
        return (
            len(self.queue) - len(gone) < self.config.messages_max
            and held_bytes + len(message.body) <= self.config.bytes_max
            and self._share_left(message, gone)
        )

    def _share_left(self, message: Message, gone: list[Message]) -> bool:
        share = self.config.source_messages_max
        own = sum(m.source == message.source for m in self.queue)
        own -= sum(m.source == message.source for m in gone)
        return share is None or own < share

    # -- what the buffer chose -------------------------------------------------------------------

    def _start(self, records: list[Purged]) -> None:
        self._gone = []
        self._choices = [record.message for record in records]

    def _chosen(self, legal: list[Message]) -> Message:
        """The one of these that the buffer's records name first."""
        for choice in self._choices:
            if any(choice is message for message in legal) and self._is_held(choice):
                return choice
        raise AssertionError(f"one of {legal} had to go, the buffer recorded {self._choices}")

    def _lose(self, reason: Reason, victim: Message) -> None:
        self.forget(victim)
        self._gone.append((reason, victim))

    def _is_held(self, message: Message) -> bool:
        return any(held is message for held in self.queue)
