"""Message passing in one graph: an entry comes from the parent or from a source, and goes on.

A site that is the primary destination of a group gives each message its place; every site passes an
entry on to those of its children that lead to members, and lets its own application have it if it
is a member itself (PROP §3.2, Appendix I). An entry is installed everywhere or nowhere here: if one
queue is full, it waits where it is, and so does all that comes behind it on its lane.

INV-ORDER: every site installs entries in an order that agrees with one acyclic order of all. A site
has one parent, whose order it keeps, and merges into it only messages of which it is the primary
destination (PROP Appendix II).
"""

from collections import deque
from typing import Final, final

from semcast.ids import Source
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.history import History
from semcast.protocol.propagation.line import Line
from semcast.protocol.propagation.site_delivery import SiteDelivery


@final
class Passing:
    """What a site does with messages while one graph counts."""

    def __init__(
        self,
        me: int,
        graph: Graph,
        lines: dict[int, Line],
        delivery: SiteDelivery,
        history: History,
        last: dict[Source, int],
    ) -> None:
        """`lines`: by child, what waits for it. `last`: by stream, the newest number that has a
        place; it goes on from graph to graph.
        """
        self.graph: Final = graph
        self._me: Final = me
        self._lines: Final = lines
        self._delivery: Final = delivery
        self._history: Final = history
        self.last: dict[Source, int] = last
        # By group: up to which place this site has everything; and, by child, what is known of all
        # sites below it.
        self.installed: Final[dict[str, int]] = dict.fromkeys(graph.way_groups(me), 0)
        # By group: up to which place others may be told so.
        self._told: Final[dict[str, int]] = {}
        self._reached: Final[dict[int, dict[str, int]]] = {
            child: {} for child in graph.children.get(me, ())
        }
        # Of groups whose primary destination this site is: what is not known to be everywhere.
        self._unsettled: Final[dict[str, deque[Entry]]] = {
            name: deque() for name, site in graph.primaries.items() if site == me
        }
        self._stable: Final[dict[str, int]] = dict.fromkeys(self._unsettled, 0)
        # By stream of those groups: up to which number everybody has its messages; and whether
        # everybody has all that was sent in former graphs.
        self._settled: Final[dict[Source, int]] = {}
        self._all_before = False
        # The streams whose sources do not know that their messages have places.
        self._asked: Final[dict[Source, None]] = {}
        self._last_before: Final = dict(last)
        # The streams and the groups of which others should hear again how they stand.
        self.streams_changed: Final[dict[Source, None]] = {}
        self.groups_changed: Final[dict[str, None]] = {}

    def end(self) -> None:
        """Another graph counts. What gets its place there has none here, and must not be said to:
        sources take it that everybody has what has a place in a former graph.
        """
        self.last = dict(self.last)

    def forget(self, stream: Source) -> None:
        """Nobody sends for this stream any more."""
        self._settled.pop(stream, None)
        self._asked.pop(stream, None)
        self._last_before.pop(stream, None)
        self.streams_changed.pop(stream, None)

    # -- entries -----------------------------------------------------------------------------------

    def is_primary(self, group: str) -> bool:
        """Whether messages of a group get their places here."""
        return group in self._unsettled

    def has_place(self, entry: Entry) -> bool:
        """Whether a message was sent again, and has its place already: its source is told."""
        if entry.seq > self.last.get(entry.stream, 0):
            return False
        self._asked[entry.stream] = None
        self.streams_changed[entry.stream] = None
        return True

    def order(self, entry: Entry) -> bool:
        """Give the message of a source its place; False if there is no room for it now."""
        group = entry.group
        if self.has_place(entry):
            return True
        placed = entry.placed(self.graph.number, self.installed[group] + 1)
        if not self._has_room(placed):
            return False
        self._install(placed)
        self._unsettled[group].append(placed)
        self.streams_changed[entry.stream] = None
        self._settle(group)
        return True

    def accept(self, entry: Entry) -> bool:
        """Take an entry from the parent; False if there is no room for it now."""
        if entry.place <= self.installed.get(entry.group, entry.place):
            return True
        if not self._has_room(entry):
            return False
        self._install(entry)
        return True

    def _has_room(self, entry: Entry) -> bool:
        message = entry.message
        for child in self.graph.next_sites(self._me, entry.group):
            line = self._lines[child]
            if message is None:
                if line.told_full:
                    return False
            elif not line.admits(message):
                return False
        if message is None or not self.graph.is_member(self._me, entry.group):
            return True
        return self._delivery.admits(message)

    def _install(self, entry: Entry) -> None:
        group = entry.group
        self.installed[group] = entry.place
        self.last[entry.stream] = max(self.last.get(entry.stream, 0), entry.seq)
        if self._history.add(entry):
            self._told[group] = entry.place
        for child in self.graph.next_sites(self._me, group):
            self._lines[child].put(entry)
        if self.graph.is_member(self._me, group):
            self._delivery.put(entry)
        self.groups_changed[group] = None

    def recall_base(self, installed: dict[str, int]) -> None:
        """A former life had, by group, everything up to these places."""
        self.installed.update(installed)
        self._told.update(installed)

    def recall(self, entry: Entry, tells: bool) -> None:
        """A former life had installed an entry in this graph. `tells`: others may be told so."""
        self.installed[entry.group] = entry.place
        if tells:
            self._told[entry.group] = entry.place
        unsettled = self._unsettled.get(entry.group)
        if unsettled is not None:
            unsettled.append(entry)

    def say_all(self) -> None:
        """Somebody has to hear again how everything stands."""
        self.groups_changed.update(dict.fromkeys(self.installed))
        for group in self._unsettled:
            self._settle(group)
            for stream in self.last:
                if stream.group == group:
                    self.streams_changed[stream] = None

    # -- what everybody has ------------------------------------------------------------------------

    def reached(self, group: str) -> int:
        """Up to which place this site and all below it have a group's messages."""
        found = self._told.get(group, 0)
        for child in self.graph.next_sites(self._me, group):
            found = min(found, self._reached[child].get(group, 0))
        return found

    def catch_up(self) -> None:
        """There may be room in the history: tell others of what was ahead of it."""
        found = self._history.caught_up()
        while found:
            for entry in found:
                if entry.graph == self.graph.number and entry.group in self.installed:
                    self._told[entry.group] = entry.place
                    self.groups_changed[entry.group] = None
            for group in {entry.group for entry in found}:
                self._settle(group)
            found = self._history.caught_up()

    def child_reached(self, child: int, group: str, place: int) -> None:
        """A child says up to which place all in its subtree have a group's messages."""
        below = self._reached.get(child)
        if below is None or group not in self.installed:
            return
        below[group] = max(below.get(group, 0), place)
        self.groups_changed[group] = None
        self._settle(group)

    def _settle(self, group: str) -> None:
        """As primary destination: see what everybody has by now."""
        unsettled = self._unsettled.get(group)
        if unsettled is None:
            return
        reached = self.reached(group)
        self._stable[group] = reached
        while unsettled and unsettled[0].place <= reached:
            entry = unsettled.popleft()
            self._settled[entry.stream] = entry.seq
            self.streams_changed[entry.stream] = None
        self._history.settle(self.graph.number, group, reached)

    def all_before(self) -> None:
        """Everybody has all that was sent in former graphs: sources may have to hear of it."""
        self._all_before = True
        self.streams_changed.update(self._asked)
        for group in self._unsettled:
            for stream in self.last:
                if stream.group == group and stream not in self._settled:
                    self.streams_changed[stream] = None

    def settled(self, stream: Source) -> int:
        """Up to which number everybody is known to have a stream's messages."""
        unsettled = self._unsettled.get(stream.group)
        if unsettled is None:
            return self._last_before.get(stream, 0) if self._all_before else 0
        if self._all_before and all(entry.stream != stream for entry in unsettled):
            return self.last.get(stream, 0)
        return self._settled.get(stream, 0)

    def floor(self, group: str) -> int:
        """As primary destination: up to which place everybody has a group's messages."""
        return self._stable.get(group, 0)
