"""What a site sends to one group: what waits, what is on its way, and what has its place.

A window of messages that were sent and that not everybody has, and of messages that wait to be
sent, of which those that a later one replaces are purged. Knows nothing of other groups, nor of
when to begin anew: `own` says so.
"""

from collections import deque
from heapq import heappop
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence.bitmap import K_MAX
from semcast.obsolescence.tagger import Predecessors, Replaces, Tagger
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.graph import NO_SITE
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.policy import BufferConfig, Purging

# Where messages are purged that wait here, in the journal.
AT_SOURCE: Final = "source"


@final
class OwnGroup:
    """What this site sends to one group."""

    def __init__(self, config: MemberConfig, stream: Source) -> None:
        self.stream: Final = stream
        self.tagger: Final = Tagger(config.k, by_key=config.by_key)
        purging = Purging.EAGER if config.purging else Purging.OFF
        self.waiting: Final = PurgingBuffer(
            BufferConfig(SEQ_MAX, SEQ_MAX, purging),
            AT_SOURCE,
            record=True,
        )
        self.entries: Final[dict[int, Entry]] = {}
        # Purged before they were sent: the primary destination is told, in the same order.
        self.told: Final[list[tuple[int, Entry]]] = []
        # INV-OWN: sent to `target` in this attempt, or accepted before, and not known to be
        # everywhere; in order of numbers, with those that were purged. [readings, R2]
        self.sent: Final[deque[Entry]] = deque()
        self._sent_messages: i64 = 0
        self._sent_bytes: i64 = 0
        self.target: int = NO_SITE
        # The graph in which the target is known to be the primary destination.
        self.graph: int = 0
        self.attempt: int = 1
        # The newest number that was sent to the target, in whatever attempt: it may have given
        # places up to there of which this site has not heard.
        self.offered: int = 0
        # How many messages there were, the number of the last one, and of the last k of them: a
        # tagger counts those of one stream, and a site numbers those of all.
        self.count: int = 0
        self.last: int = 0
        self._numbers: Final[deque[int]] = deque(maxlen=config.k)
        # Up to which number the messages have a place; by graph. And up to which all have them.
        self.accepted: Final[dict[int, int]] = {}
        self.stable: int = 0
        # Whether a former life sent these: nobody knows which of them have a place.
        self.former = False

    @property
    def ordered(self) -> int:
        """Up to which number the messages have a place."""
        return max(self.accepted.values(), default=0)

    @property
    def held(self) -> int:
        """How many messages the window holds."""
        return int(self.waiting.held + self._sent_messages)

    @property
    def held_bytes(self) -> int:
        """How many bytes these have."""
        return int(self.waiting.held_bytes + self._sent_bytes)

    def counted(self, replaces: Replaces) -> Replaces:
        """The same, with predecessors by their place in the stream; what is too far back, or of
        another group, is not named.
        """
        if not isinstance(replaces, Predecessors):
            return replaces
        first = self.count - len(self._numbers) + 1
        places = {seq: first + at for at, seq in enumerate(self._numbers)}
        return Predecessors(tuple(places[seq] for seq in replaces.seqs if seq in places))

    def bitmap(self, tagged: int, seq: int) -> int:
        """What a tagger names by counting back in the stream, by numbers of the site; what lies too
        far back is not named.
        """
        found = 0
        while tagged:
            distance = tagged.bit_length()
            tagged ^= 1 << (distance - 1)
            if distance <= len(self._numbers):
                back = seq - self._numbers[-distance]
                if back <= K_MAX:
                    found |= 1 << (back - 1)
        return found

    def wrote(self, seq: int) -> None:
        """Note the number of the last message."""
        self.count += 1
        self.last = seq
        self._numbers.append(seq)

    def head(self) -> int:
        """The number of the next message to send, or of one that was purged; 0 if there is none."""
        message = self.waiting.peek()
        if not self.told:
            return 0 if message is None else int(message.seq)
        first = self.told[0][0]
        return first if message is None else min(first, int(message.seq))

    def peek_entry(self) -> Entry:
        """The next to send, which goes on waiting."""
        head = self.head()
        if self.told and self.told[0][0] == head:
            return self.told[0][1]
        return self.entries[head]

    def next_entry(self) -> Entry:
        """The next to send, which counts as sent."""
        if self.told and self.told[0][0] == self.head():
            entry = heappop(self.told)[1]
        else:
            message = self.waiting.take()
            assert message is not None
            entry = self.entries.pop(int(message.seq))
            self._sent_messages += 1
            self._sent_bytes += len(message.body)
        self.sent.append(entry)
        self.offered = max(self.offered, entry.seq)
        return entry

    def _unsend(self, entry: Entry) -> None:
        if entry.message is not None:
            self._sent_messages -= 1
            self._sent_bytes -= len(entry.message.body)

    def unsettled(self) -> list[Entry]:
        """The messages that not everybody is known to have, in order."""
        sent = [entry for entry in self.sent if entry.message is not None]
        return [*sent, *(self.entries[seq] for seq in sorted(self.entries))]

    def settle(self, stable: int) -> None:
        """Everybody has everything up to this number."""
        self.stable = max(self.stable, stable)
        while self.sent and self.sent[0].seq <= self.stable:
            self._unsend(self.sent.popleft())

    def give_up(self) -> None:
        """The group has no members any more: what waits is for nobody."""
        while self.head():
            self.next_entry()
        self.settle(self.last)

    def take_back(self) -> list[Entry]:
        """What was sent and has no place yet; it counts as not sent."""
        ordered, back = self.ordered, []
        while self.sent and self.sent[-1].seq > ordered:
            entry = self.sent.pop()
            self._unsend(entry)
            back.append(entry)
        back.reverse()
        return back

    def pass_over(self) -> None:
        """What waits to be sent again, and has its place after all, is not sent again: whoever is
        the primary destination by then may not know that place, and would give it another.
        """
        while 0 < self.head() <= self.ordered:
            self.next_entry()
