"""What a site sends: payloads in, entries for primary destinations out, kept until all have them.

Each group has a window: messages that were sent and that not everybody has, and messages that wait
to be sent, of which those that a later one replaces are purged. Messages of a group go to one site,
its primary destination as this site knows it. When the groups change, the site goes on sending
there until that one says who it is now (PROP §5.1); then it sends again the first message that was
not accepted and all after it, or the order of this source would break (readings, R2). Each such
beginning is an attempt: an answer to a former one means nothing.
"""

from collections import deque
from heapq import heappop, heappush
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import (
    ConfigError,
    MessageTooLargeError,
    UnknownGroupError,
    WindowFullError,
)
from semcast.ids import SEQ_MAX, Source
from semcast.obsolescence.bitmap import K_MAX
from semcast.obsolescence.tagger import Predecessors, Replaces, Tagger
from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.policy import BufferConfig, Purging
from semcast.wire.message import Message

_WHERE: Final = "source"
# For each message of the window: how many that were purged, which are small, may wait with it.
_TOLD_EACH: Final = 8


@final
class OwnGroup:
    """What this site sends to one group."""

    def __init__(self, config: MemberConfig, stream: Source) -> None:
        self.stream: Final = stream
        self.tagger: Final = Tagger(config.k, by_key=config.by_key)
        purging = Purging.EAGER if config.purging else Purging.OFF
        self.waiting: Final = PurgingBuffer(
            BufferConfig(SEQ_MAX, SEQ_MAX, purging),
            _WHERE,
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


@final
class Own:
    """All messages of this site."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        streams: Streams,
        memory: Memory,
        observer: Observer | None,
    ) -> None:
        self._memory: Final = memory
        self._config: Final = config
        self._me: Final = me
        self._streams: Final = streams
        self._observer: Final = observer
        # By stream; a site that continues a former life has streams of that as well.
        self.groups: Final[dict[Source, OwnGroup]] = {}
        self.seq: int = 0
        self.blocked = False
        self.blocked_ns: i64 = 0
        self._blocked_since_ns: i64 = -1
        self.purged: i64 = 0
        self._all_before: int = 0

    # -- the application ---------------------------------------------------------------------------

    def multicast(
        self, graph: Graph | None, group: str, payload: bytes, replaces: Replaces, now_ns: i64
    ) -> Message:
        """The next message of this site; if it cannot be sent, this raises and changes nothing."""
        known = () if graph is None else tuple(graph.groups)
        if group not in known:
            raise UnknownGroupError(group, known)
        if len(payload) > self._config.limits.message_bytes_max:
            raise MessageTooLargeError(len(payload), self._config.limits.message_bytes_max)
        own = self._group(group)
        mark = own.tagger.tag(own.count + 1, own.counted(replaces), payload)
        if mark.ranked:
            own.tagger.take_back()
            raise ConfigError("a rank in a federation, where messages replace by key; leave it out")
        message = Message(
            own.stream, self.seq + 1, mark.key + payload if mark.key else payload, len(mark.key),
            own.bitmap(mark.bitmap, self.seq + 1), 0, False, now_ns, mark.several, mark.by_key,
        )  # fmt: skip
        if not self._fits(own, message):
            own.tagger.take_back()
            self._block(now_ns)
            raise WindowFullError(
                f"window of {group!r} full: {own.held}/{self._config.window_messages} messages "
                f"held, none replaced, everybody has all up to {own.stable}; wait, or raise "
                "window_messages",
                own.held,
                self._config.window_messages,
            )
        self._unblock(now_ns)
        self.seq += 1
        if self._observer is not None:
            self._observer.message("multicast", message, "", None)
        entry = Entry(0, group, 0, own.stream, self.seq, message)
        self._memory.sent(entry)
        self._wait(own, entry)
        own.wrote(self.seq)
        if own.target == NO_SITE and graph is not None:
            own.target = graph.primaries[group]
            own.graph = graph.number
        return message

    def can_multicast(self, group: str, payload_bytes: i64) -> bool:
        """Whether there is room for a message that replaces nothing."""
        own = self.groups.get(self._stream(group))
        return own is None or (
            own.held < self._config.window_messages
            and own.held_bytes + payload_bytes <= self._config.window_bytes
        )

    def _fits(self, own: OwnGroup, message: Message) -> bool:
        if own.held_bytes + len(message.body) > self._config.window_bytes:
            return False
        if len(own.told) + len(own.sent) >= _TOLD_EACH * self._config.window_messages:
            return False
        return own.held < self._config.window_messages or own.waiting.hits(message) > 0

    def _block(self, now_ns: i64) -> None:
        self.blocked = True
        if self._blocked_since_ns < 0:
            self._blocked_since_ns = now_ns
            if self._observer is not None:
                self._observer.progress("block", self._me, self.seq, None, 0)

    def _unblock(self, now_ns: i64) -> None:
        self.blocked = False
        if self._blocked_since_ns >= 0:
            self.blocked_ns += now_ns - self._blocked_since_ns
            self._blocked_since_ns = -1
            if self._observer is not None:
                self._observer.progress("unblock", self._me, self.seq, None, 0)

    def blocked_for_ns(self, now_ns: i64) -> int:
        """For how long altogether there was no room."""
        since = now_ns - self._blocked_since_ns if self._blocked_since_ns >= 0 else 0
        return int(self.blocked_ns + since)

    def _stream(self, group: str) -> Source:
        return self._streams.stream(int(self._me.sender), int(self._me.incarnation), group)

    def _group(self, group: str) -> OwnGroup:
        stream = self._stream(group)
        own = self.groups.get(stream)
        if own is None:
            own = self.groups[stream] = OwnGroup(self._config, stream)
        return own

    def _wait(self, own: OwnGroup, entry: Entry) -> None:
        """A message waits to be sent, or again; what it replaces need not be sent any more."""
        message = entry.message
        assert message is not None
        own.entries[entry.seq] = entry
        own.waiting.insert(message)
        for one in own.waiting.drain_purged():
            assert one.cover is not None
            self.purged += 1
            victim = own.entries.pop(int(one.message.seq)).purged(int(one.cover.seq))
            heappush(own.told, (victim.seq, victim))
            if self._observer is not None:
                self._observer.message("purge", one.message, _WHERE, one.cover)

    # -- to the primary destinations ---------------------------------------------------------------

    def next_group(self, target: int) -> OwnGroup | None:
        """The group whose next message goes to this site before those of others; None: nothing."""
        best: OwnGroup | None = None
        first = 0
        for own in self.groups.values():
            if own.target == target:
                head = own.head()
                if head and (best is None or head < first):
                    best, first = own, head
        return best

    def targets(self) -> set[int]:
        """The sites that this one sends to."""
        return {own.target for own in self.groups.values() if own.held or own.told}

    def _again(self, own: OwnGroup, target: int, graph: int) -> None:
        """Begin anew: send to `target` what has no place yet, and all that comes after it."""
        own.attempt += 1
        if target != own.target:
            own.offered = 0
        own.target = target
        own.graph = graph
        for entry in own.take_back():
            if entry.message is None:
                heappush(own.told, (entry.seq, entry))
            else:
                self._wait(own, entry)
        own.pass_over()

    def bounced(self, stream: Source, seq: int, attempt: int, graph: int, primary: int) -> None:
        """The site that messages of a group were sent to says that another one is to have them,
        from this one on. Those before it have their places.
        """
        own = self.groups.get(stream)
        if own is not None and own.attempt == attempt and graph >= own.graph and seq <= own.last:
            before = graph - 1
            own.accepted[before] = max(own.accepted.get(before, 0), seq - 1)
            self._again(own, primary, graph)
            if primary == NO_SITE:
                own.give_up()

    def settled(self, stream: Source, graph: int, accepted: int, stable: int) -> None:
        """The primary destination says what has its place, and what everybody has."""
        own = self.groups.get(stream)
        if own is None or max(accepted, stable) > own.last:
            return
        if accepted > own.ordered:
            self._memory.placed(stream, accepted)
        own.accepted[graph] = max(own.accepted.get(graph, 0), accepted)
        own.pass_over()
        own.settle(max(stable, accepted) if graph < self._all_before else stable)

    def all_before(self, graph: int) -> None:
        """Everybody has all that got its place in graphs before this one."""
        self._all_before = max(self._all_before, graph)
        for own in self.groups.values():
            past = [number for number in own.accepted if number < graph]
            if past:
                own.settle(max(own.accepted[number] for number in past))
                for number in past[:-1]:
                    del own.accepted[number]

    def opened(
        self, graph: Graph, gone: set[int], recovers: bool, ordered: dict[Source, int]
    ) -> None:
        """Another graph counts. `gone`: sites that messages may have been lost with. `recovers`: it
        does so after a failure; then `ordered` says, by stream, what has its place at a survivor.
        The places that failed sites gave are lost with them; but not those in this graph, of which
        this site may have heard before it had caught up.
        """
        for own in self.groups.values():
            if recovers:
                for former in [number for number in own.accepted if number < graph.number]:
                    del own.accepted[former]
                own.accepted[graph.number - 1] = ordered.get(own.stream, 0)
            primary = graph.primaries.get(own.stream.group, NO_SITE)
            outstanding = own.offered > own.ordered or (own.former and own.held > 0)
            begins = recovers or own.target in gone or own.target == NO_SITE
            if begins or not outstanding:
                self._again(own, primary, graph.number)
                if primary == NO_SITE:
                    own.give_up()

    def begin_anew(self, target: int) -> None:
        """A site has come back: send to it again what it may not have."""
        for own in self.groups.values():
            if own.target == target:
                self._again(own, target, own.graph)

    def give_up_on(self, target: int, graph: Graph) -> None:
        """A site has left, and said before what has a place: send the rest where it goes now."""
        for own in self.groups.values():
            if own.target == target:
                primary = graph.primaries.get(own.stream.group, NO_SITE)
                self._again(own, primary, graph.number)
                if primary == NO_SITE:
                    own.give_up()

    def recall(self, entry: Entry, graph: Graph) -> None:
        """A former life had sent a message that not everybody may have."""
        own = self.groups.get(entry.stream)
        if own is None:
            own = self.groups[entry.stream] = OwnGroup(self._config, entry.stream)
            own.target = graph.primaries.get(entry.group, NO_SITE)
            own.graph = graph.number
            own.former = True
        if own.target != NO_SITE:
            own.last = entry.seq
            self._wait(own, entry)

    def unsettled(self) -> list[Entry]:
        """What not everybody is known to have, of all groups."""
        return [entry for own in self.groups.values() for entry in own.unsettled()]

    def placed(self) -> dict[Source, int]:
        """By stream, up to which number its messages have a place."""
        found = {stream: own.ordered for stream, own in self.groups.items()}
        return {stream: seq for stream, seq in found.items() if seq}

    @property
    def held(self) -> int:
        """How many messages wait, or are not known to be everywhere."""
        return sum(own.held for own in self.groups.values())
