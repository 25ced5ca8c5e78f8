"""What a site sends: payloads in, entries for primary destinations out, kept until all have them.

Each group has a window: messages that were sent and that not everybody has, and messages that wait
to be sent, of which those that a later one replaces are purged. Messages of a group go to one site,
its primary destination as this site knows it. When the groups change, the site goes on sending
there until that one says who it is now (PROP §5.1); then it sends again the first message that was
not accepted and all after it, or the order of this source would break (readings, R2). Each such
beginning is an attempt: an answer to a former one means nothing.
"""

from heapq import heappush
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import (
    ConfigError,
    MessageTooLargeError,
    UnknownGroupError,
    WindowFullError,
)
from semcast.ids import Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.own_group import AT_SOURCE, OwnGroup
from semcast.wire.message import Message

# For each message of the window: how many that were purged, which are small, may wait with it.
_TOLD_EACH: Final = 8


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
                self._observer.message("purge", one.message, AT_SOURCE, one.cover)

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
