"""Progress: how messages get on. What a site installed goes in; what others hear of it comes out.

Each site tells its parent up to which place all below it have a group's messages. The primary
destination tells its children what everybody has, which trims histories, and the sources which of
their messages have a place and which everybody has, which frees windows. A source that sends to
the wrong site is told where to send instead (PROP §5.1).
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.propagation.entries import Streams, read_group
from semcast.protocol.propagation.graph import NO_SITE
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.passing import Passing
from semcast.protocol.propagation.records import (
    BOUNCE,
    FLOOR,
    REACHED,
    SETTLED,
    read_places,
    write_places,
)
from semcast.protocol.propagation.turns import Turns
from semcast.wire.record_fields import RecordReader, RecordWriter


@final
class Progress:
    """What this site says of messages, and hears of them."""

    def __init__(
        self,
        me: int,
        settle_ns: i64,
        own: Own,
        turns: Turns,
        streams: Streams,
        tell: Callable[[int, bytes], None],
    ) -> None:
        """`settle_ns`: for how long news are gathered before they are told."""
        self._me: Final = me
        self._settle_ns: Final[i64] = settle_ns
        self._own: Final = own
        self._turns: Final = turns
        self._streams: Final = streams
        self._tell: Final = tell
        self.due_ns: i64 = NEVER

    # -- in ----------------------------------------------------------------------------------------

    def on_record(self, kind: int, body: RecordReader, site: int) -> None:
        """Another site says how messages got on."""
        turns = self._turns
        passing = turns.passing
        if kind == BOUNCE:
            source = body.source()
            group = read_group(body)
            seq, attempt = body.seq(), body.seq()
            graph, primary = body.seq_or_none(), body.number()
            body.end()
            stream = self._streams.stream(int(source.sender), int(source.incarnation), group)
            self._own.bounced(stream, seq, attempt, graph, primary)
        elif kind == SETTLED:
            graph = body.seq_or_none()
            for _ in range(body.count(28)):
                life, group = body.site(), read_group(body)
                accepted, stable = body.seq_or_none(), body.seq_or_none()
                self._own.settled(
                    self._streams.stream(self._me, life, group), graph, accepted, stable
                )
            body.end()
        else:
            graph, places = read_places(body)
            if passing is None or graph != turns.number:
                return
            if kind == REACHED:
                for group, place in places:
                    passing.child_reached(site, group, place)
            elif passing.graph.parent(self._me) == site:
                self._settle_below(graph, places)

    def _settle_below(self, graph: int, places: list[tuple[str, int]]) -> None:
        """Everybody has these: forget them, and tell the children."""
        turns = self._turns
        assert turns.passing is not None
        rows: dict[int, list[tuple[str, int]]] = {}
        for group, place in places:
            turns.history.settle(graph, group, place)
            for child in turns.passing.graph.next_sites(self._me, group):
                rows.setdefault(child, []).append((group, place))
        for child, below in rows.items():
            self._tell(child, write_places(FLOOR, graph, below))

    # -- out ---------------------------------------------------------------------------------------

    def say_soon(self, now_ns: i64) -> None:
        """Others have to hear how everything stands."""
        self.due_ns = min(self.due_ns, now_ns)

    def bounce(self) -> None:
        """Tell sources what of their messages is for another site."""
        turns = self._turns
        for entry, primary in turns.bounces:
            out = RecordWriter(BOUNCE)
            out.source(entry.stream)
            out.text(entry.group)
            out.number(entry.seq)
            out.number(entry.attempt)
            out.number(turns.number)
            out.number(primary)
            self._tell(int(entry.stream.site), out.take())
        turns.bounces.clear()

    def look(self, now_ns: i64) -> None:
        """See whether there is news."""
        passing = self._turns.passing
        if passing is None:
            return
        passing.catch_up()
        if passing.groups_changed or passing.streams_changed:
            self.due_ns = min(self.due_ns, now_ns + self._settle_ns)

    def say(self) -> None:
        """Say what has changed: to the parent, to the children, and to sources."""
        self.due_ns = NEVER
        turns = self._turns
        passing = turns.passing
        if passing is None:
            return
        up: list[tuple[str, int]] = []
        down: list[tuple[str, int]] = []
        for group in passing.groups_changed:
            if passing.is_primary(group):
                down.append((group, passing.floor(group)))
            else:
                up.append((group, passing.reached(group)))
        parent = passing.graph.parent(self._me)
        if up and parent != NO_SITE:
            self._tell(parent, write_places(REACHED, turns.number, up))
        if down:
            self._settle_below(turns.number, down)
        passing.groups_changed.clear()
        self.tell_sources(passing)

    def tell_sources(self, passing: Passing) -> None:
        """Tell sources which of their messages have a place, and which everybody has."""
        sources: dict[int, list[Source]] = {}
        for stream in passing.streams_changed:
            sources.setdefault(int(stream.site), []).append(stream)
        for site, streams in sources.items():
            out = RecordWriter(SETTLED)
            out.number(passing.graph.number)
            out.count(len(streams))
            for stream in streams:
                out.number(stream.incarnation)
                out.text(stream.group)
                out.number(passing.last.get(stream, 0))
                out.number(passing.settled(stream))
            self._tell(site, out.take())
        passing.streams_changed.clear()
