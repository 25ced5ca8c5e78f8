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
8.  In place (EAGER only): a message that covers held ones goes where the foremost of them was,
    unless it is a value (rule 10) and would overtake another of its key there, or is late and
    another of its key is held. Another that is late, directly before the first held one of its
    stream with a larger number. A stream is one key of a source, ranked or not, or what of it has
    neither key nor annotation.
9.  In place a message knows which numbers of its source it skipped: those of the messages that it
    replaced there, and those that they skipped; smaller than its own, in order.
10. In place, the next message is the first of the queue, unless that is a value: it has a key, no
    rank, and nothing else of its key (and source) is held. Then it is the value whose turn it is,
    if that is the only one of its key too; the first of the queue goes where that was. Turns: a
    value that comes belongs to the next cycle, or has the turn of what was where it goes. When no
    more than a quarter of all values are left in this cycle, and none of them was in the one before
    it, the next begins, with those too. Of those in it the one that came last is next.

Two choices are the buffer's own: which message a random drop hits, and the order within one
cover's victims. The model reads those off the buffer's records, and fails if they break a rule.
"""

from collections.abc import Callable

from semcast.errors import MessageTooLargeError
from semcast.ids import Source
from semcast.obsolescence import obsoletes
from semcast.protocol import BufferConfig, Overflow, Purged, Purging, Reason, Verdict
from semcast.wire.message import Message

# Messages are told apart by identity: the same number may come twice.
Gone = list[tuple[Reason, Message]]


def name(message: Message) -> tuple[Source, int]:
    return message.source, int(message.seq)


def stream_of(message: Message) -> tuple[Source, bool, bytes] | None:
    """What is taken in order even in place; None: nothing is promised of this message."""
    if not message.key and (message.bitmap or message.ranked):
        return None
    return message.source, message.ranked, message.key


def is_value(message: Message) -> bool:
    return bool(message.key) and not message.ranked


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
        # In place: values in the order in which they came.
        self.cycle: list[Message] = []
        self.later: list[Message] = []
        self.carried: set[int] = set()
        self.newest: dict[Source, int] = {}
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
        head = self.queue[0]
        if chosen is not head:
            self.queue = [head if held is chosen else held for held in self.queue[1:]]
        self.forget(chosen)
        return chosen

    def peek(self) -> Message | None:
        if not self.queue:
            return None
        return self._whose_turn(self.queue[0]) if self.config.in_place else self.queue[0]

    def _whose_turn(self, head: Message) -> Message:
        if not is_value(head) or not self._alone(head):
            return head
        carried = any(id(value) in self.carried for value in self.cycle)
        if not carried and 4 * len(self.cycle) <= len(self.cycle) + len(self.later):
            self.carried = {id(value) for value in self.cycle}
            self.cycle, self.later = self.cycle + self.later, []
        return self.cycle[-1] if self._alone(self.cycle[-1]) else head

    def _alone(self, value: Message) -> bool:
        same = [m for m in self.queue if is_value(m) and stream_of(m) == stream_of(value)]
        return len(same) == 1

    def release(self, source: Source, stable_seq: int) -> list[Message]:
        released = [m for m in self.queue if m.source == source and m.seq <= stable_seq]
        for message in released:
            self.forget(message)
        return released

    def forget(self, message: Message) -> None:
        """It leaves, whatever the reason."""
        self.queue = [held for held in self.queue if held is not message]
        self.marked.pop(id(message), None)
        self.cycle = [value for value in self.cycle if value is not message]
        self.later = [value for value in self.later if value is not message]

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
            return Verdict.OBSOLETE
        covered = [held for held in self.queue if self._covers(message, held)]
        ahead = self._ahead_of(covered[0]) if covered else []
        overtakes = self._would_overtake(message, covered)
        in_turn = (
            bool(covered) and not overtakes and any(value is covered[0] for value in self.cycle)
        )
        if not self._fits(message):
            refused = self._make_room(message)
            if refused is not None:
                return refused
        if self.config.in_place and covered:
            self.skipped[id(message)] = self._skipped_for(message, covered)
        if self.config.in_place and covered and not overtakes:
            self.queue.insert(sum(self._is_held(held) for held in ahead), message)
        else:
            later = [
                at
                for at, held in enumerate(self.queue)
                if held.source == message.source
                and held.seq > message.seq
                and (not self.config.in_place or stream_of(held) == stream_of(message) is not None)
            ]
            self.queue.insert(later[0] if later else len(self.queue), message)
        newest = self.newest.get(message.source, 0)
        self.newest[message.source] = max(newest, int(message.seq))
        if self.config.in_place and is_value(message):
            (self.cycle if in_turn else self.later).append(message)
            if in_turn and id(covered[0]) in self.carried:
                self.carried.add(id(message))
        self._hit(message)
        self._after()
        return Verdict.STORED

    def _would_overtake(self, message: Message, covered: list[Message]) -> bool:
        """Whether a value may not go where the foremost message that it covers is."""
        if not covered or not is_value(message):
            return False
        others = [
            at
            for at, held in enumerate(self.queue)
            if is_value(held)
            and stream_of(held) == stream_of(message)
            and not any(held is victim for victim in covered)
        ]
        late = message.seq <= self.newest.get(message.source, 0)
        return bool(others) and (late or max(others) > len(self._ahead_of(covered[0])))

    def _ahead_of(self, message: Message) -> list[Message]:
        return self.queue[: next(at for at, held in enumerate(self.queue) if held is message)]

    def _skipped_for(self, cover: Message, covered: list[Message]) -> list[int]:
        seqs: set[int] = set()
        for victim in covered:
            if victim.source == cover.source:
                seqs |= {int(victim.seq), *self.skipped.get(id(victim), [])}
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
