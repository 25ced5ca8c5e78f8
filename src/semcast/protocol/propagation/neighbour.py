"""Another site as this one deals with it: the link, what waits for it, and what came from it."""

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.config import FederationConfig
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.federated import GROUPS_MAX
from semcast.protocol.propagation.lanes import Feed, Sink
from semcast.protocol.propagation.line import Line
from semcast.protocol.propagation.link import SiteLink
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.records import (
    CLOSE,
    OPEN,
    PASSED,
    POLL,
    SUBMIT,
    WANT,
    check_order,
    write_passed,
    write_submit,
)
from semcast.protocol.queue.guard import CoverGuard
from semcast.protocol.queue.policy import Purging
from semcast.wire.limits import Limits
from semcast.wire.message import Message
from semcast.wire.record_fields import RecordReader

# The largest record: a graph of many sites, or a history.
RECORD_BYTES_MAX: Final = 16 << 20
_CONTROL_ROOM: Final = 1 << 20


@mypyc_attr(allow_interpreted_subclasses=True)
class Listener(ABC):
    """Whoever acts on records that concern no message."""

    @abstractmethod
    def on_control(self, record: bytes, source: Source, now_ns: i64) -> None:
        """A record came on CONTROL."""


@final
class NotOwn(CoverGuard):
    """Nothing is purged for a message that only this site may have: if it fails, both are lost.

    A message of another site is still there: its source keeps it until everybody has it, as does
    the site that it came from (as SRM §4.3 purges only for what is safe, here with f = 1).
    """

    def __init__(self, me: Source) -> None:
        super().__init__()
        self._me: Final = me

    def allows(self, cover: Message) -> bool:
        return cover.source.site != self._me.sender


@final
class _ControlFeed(Feed):
    def __init__(self) -> None:
        super().__init__()
        self.records: deque[bytes] = deque()

    def put(self, record: bytes) -> None:
        """Say this. A later poll or wish takes the place of one that waits: they are said again and
        again, and would pile up for a site that is away for long.
        """
        kind = record[0]
        if kind in (POLL, WANT):
            self.records = deque(one for one in self.records if one[0] != kind)
        self.records.append(record)

    def next_record(self) -> bytes:
        return self.records.popleft() if self.records else b""

    def waits(self) -> bool:
        return bool(self.records)


@final
class _TreeFeed(Feed):
    def __init__(self, line: Line, streams: Streams) -> None:
        super().__init__()
        self._line: Final = line
        self._streams: Final = streams
        # Whether nothing may leave the line yet.
        self.holds = False

    def next_record(self) -> bytes:
        if self.holds:
            return b""
        item = self._line.pop()
        if item is None:
            return b""
        return write_passed(item, self._streams) if isinstance(item, Entry) else item.record

    def waits(self) -> bool:
        return not self.holds and not self._line.empty


@final
class _SourceFeed(Feed):
    def __init__(self, own: Own, site: int, streams: Streams) -> None:
        super().__init__()
        self._own: Final = own
        self._site: Final = site
        self._streams: Final = streams

    def next_record(self) -> bytes:
        group = self._own.next_group(self._site)
        if group is None:
            return b""
        return write_submit(group.next_entry(), group.graph, group.attempt, self._streams)

    def waits(self) -> bool:
        return self._own.next_group(self._site) is not None


@final
class _ControlSink(Sink):
    def __init__(self, listener: Listener, source: Source) -> None:
        super().__init__()
        self._listener: Final = listener
        self._source: Final = source

    def room(self) -> i64:
        return _CONTROL_ROOM

    def put(self, record: bytes, now_ns: i64) -> None:
        self._listener.on_control(record, self._source, now_ns)


@final
class _LineSink(Sink):
    """What came on TREE or SOURCE waits in a line until there is room for it further on."""

    def __init__(self, line: Line, streams: Streams, message_bytes_max: int, site: int) -> None:
        """`site`: on SOURCE, whose messages these are; -1 on TREE."""
        super().__init__()
        self._line: Final = line
        self._streams: Final = streams
        self._bytes_max: Final = message_bytes_max
        self._site: Final = site
        # On SOURCE, by stream: the latest attempt.
        self._attempts: Final[dict[Source, int]] = {}

    def room(self) -> i64:
        return self._line.room()

    def put(self, record: bytes, now_ns: i64) -> None:  # noqa: ARG002
        kind = record[0]
        if self._site < 0 and kind in (OPEN, CLOSE):
            # Whatever makes no sense is refused now: in the line nobody would be rid of it.
            check_order(record, self._streams)
            self._line.put_order(record)
            return
        if kind != (PASSED if self._site < 0 else SUBMIT):
            raise RemoteProtocolError(f"record of kind {kind} on a lane that it is not for")
        body = RecordReader(record)
        attempt = 0 if self._site < 0 else body.seq()
        entry = self._streams.read(body, self._bytes_max, attempt)
        body.end()
        if self._site < 0 or self._is_current(entry):
            self._line.put(entry)

    def _is_current(self, entry: Entry) -> bool:
        """Whether a message is of its source's latest attempt. If that is a new one, what is left
        of former ones is not wanted any more.
        """
        if entry.stream.site != self._site:
            raise RemoteProtocolError("a message that is sent for somebody else")
        latest = self._attempts.get(entry.stream, 0)
        if entry.attempt > latest:
            if not latest and len(self._attempts) >= GROUPS_MAX:
                raise RemoteProtocolError(f"a site that sends to more than {GROUPS_MAX} groups")
            self._attempts[entry.stream] = entry.attempt
            if latest:
                self._line.drop(lambda old: old.stream == entry.stream)
        return entry.attempt >= latest


@final
class Neighbour:
    """Another site, in one life."""

    def __init__(
        self,
        me: Source,
        to: Source,
        config: FederationConfig,
        purging: bool,
        limits: Limits,
        streams: Streams,
        own: Own,
        listener: Listener,
        observer: Observer | None,
    ) -> None:
        self.to: Final = to
        when = Purging.EAGER if purging else Purging.OFF
        guard = NotOwn(me)
        self.forward: Final = Line(config.forward_messages, when, "forward", observer, guard)
        self.came: Final = Line(config.wait_messages, when, "wait", observer, None)
        self.offered: Final = Line(config.wait_messages, when, "wait", observer, None)
        self._control: Final = _ControlFeed()
        self._tree: Final = _TreeFeed(self.forward, streams)
        site = int(to.sender)
        self.link: Final = SiteLink(
            to,
            (self._control, _SourceFeed(own, site, streams), self._tree),
            (
                _ControlSink(listener, to),
                _LineSink(self.offered, streams, limits.message_bytes_max, site),
                _LineSink(self.came, streams, limits.message_bytes_max, -1),
            ),
            RECORD_BYTES_MAX,
            limits.frames_bytes_max,
            config.wait_messages,
        )

    def tell(self, record: bytes) -> None:
        """Say something on CONTROL."""
        self._control.put(record)

    @property
    def holds(self) -> bool:
        """Whether nothing is sent on TREE, because the site is in another life and has not said
        how far that is: what it must have first would come behind.
        """
        return self._tree.holds

    def hold(self, holds: bool) -> None:
        """Send nothing on TREE; or again."""
        self._tree.holds = holds

    @property
    def held(self) -> int:
        """How much waits here that has not got on."""
        return len(self.forward) + len(self.came) + len(self.offered)


@final
class Neighbours:
    """The sites that this one deals with, each in its present life."""

    def __init__(
        self,
        me: Source,
        config: FederationConfig,
        purging: bool,
        limits: Limits,
        streams: Streams,
        own: Own,
        observer: Observer | None,
    ) -> None:
        self._me: Final = me
        self._config: Final = config
        self._purging: Final = purging
        self._limits: Final = limits
        self._streams: Final = streams
        self._own: Final = own
        self._observer: Final = observer
        self._listener: Listener | None = None
        self._sites: Final[dict[int, Neighbour]] = {}
        # The same in order of ids: another list whenever that changes, since whoever goes through
        # it may meet somebody meanwhile.
        self._in_order: list[Neighbour] = []
        # By site: what waits for it on TREE.
        self.lines: Final[dict[int, Line]] = {}
        # The sites of the graph that counts, in whatever life; and those of them that are in
        # another life and have to be asked how far it is.
        self.seated: frozenset[int] = frozenset()
        self.unasked: Final[dict[int, Source]] = {}

    def listen(self, listener: Listener) -> None:
        """Who gets the records on CONTROL."""
        self._listener = listener

    def __len__(self) -> int:
        return len(self._sites)

    def all(self) -> list[Neighbour]:
        """Everybody, in order of ids."""
        return self._in_order

    def _sort(self) -> None:
        self._in_order = [self._sites[site] for site in sorted(self._sites)]

    def find(self, site: int) -> Neighbour | None:
        """A site, if this one deals with it."""
        return self._sites.get(site)

    def meet(self, source: Source) -> Neighbour:
        """A site in this life; whatever there was with a former life is over."""
        site = int(source.sender)
        known = self._sites.get(site)
        if known is not None and known.to.incarnation >= source.incarnation:
            return known
        assert self._listener is not None
        assert site != self._me.sender
        found = Neighbour(
            self._me, source, self._config, self._purging, self._limits, self._streams,
            self._own, self._listener, self._observer,
        )  # fmt: skip
        self._sites[site] = found
        self._sort()
        self.lines[site] = found.forward
        if self._config.atomic and known is not None and site in self.seated:
            found.hold(True)
            self.unasked[site] = source
        return found

    def forget(self, site: int, life: int) -> None:
        """Deal with a life of a site no more."""
        known = self._sites.get(site)
        if known is not None and known.to.incarnation <= life:
            del self._sites[site]
            self._sort()
            del self.lines[site]
