"""Turns what members report into events: the member says what happened, the clock says when.

Every world's observer is a `TupleObserver`: it makes a plain tuple of each report and passes it on.
A `Scribe` makes events of such tuples: at once in simulated worlds (`JournalObserver`), later in
another thread in the live one (`live.record`). This file knows nothing of what events mean.
"""

from collections.abc import Callable
from typing import Any, Final, TypeAlias, final

from semcast.ids import Source
from semcast.journal.event import Event
from semcast.journal.journal import Journal
from semcast.journal.names import keys_text, node_name, origin_name
from semcast.obsolescence.bitmap import distances
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.protocol.observer import Observer
from semcast.wire.message import Message

# What is reported of a message: the time, the event, the message's own parts, and its cover's.
Observation: TypeAlias = tuple[Any, ...]
# Stands in the place of a bitmap if a message replaces by its key; and what the journal then says.
BY_KEY: Final = -1
_ALL_OF_KEY: Final = (0,)
# The member reports a new view, which sets the column `view` from here on. If members agreed on it,
# it is an event too.
VIEW: Final = "view"
# A site of a federation reports the graph that counts from here on; so does the column `view`.
OPEN: Final = "open"


class TupleObserver(Observer):
    """Makes a tuple of everything that one member reports, and passes it to `put`."""

    def __init__(self, clock: Callable[[], int], put: Callable[[Observation], None]) -> None:
        super().__init__()
        self._clock: Final = clock
        self._put: Final = put

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        """Something happened to a message."""
        self._put((
            self._clock(), event, message.source, message.seq,
            BY_KEY if message.by_key else message.bitmap, message.keys,
            message.rank if message.ranked else None, message.sent_ns, len(message.body), where,
            None if cover is None else cover.source, 0 if cover is None else cover.seq,
        ))  # fmt: skip

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        """Something is known of a source up to, or at, a number."""
        self._put((
            self._clock(), event, source, seq, 0, (), None, None, None, "", by_source, by_seq
        ))  # fmt: skip

    def opened(self, number: int, groups: tuple[str, ...]) -> None:
        """Another graph counts, in which this site is a member of these groups."""
        keys = tuple(group.encode() for group in groups)
        self._put((self._clock(), OPEN, None, number, 0, keys, None, None, None, "", None, 0))

    def view(self, view: View) -> None:
        """Another view counts: what happens from now on happens in it."""
        self._put((self._clock(), VIEW, view, 0, 0, (), None, None, None, "", None, 0))


@final
class Scribe:
    """Makes the events of one node."""

    def __init__(self, node: str, with_obsoletes: frozenset[str]) -> None:
        """`with_obsoletes` are the events that say what their message replaces."""
        self.node: Final = node
        self._with_obsoletes: Final = with_obsoletes
        # The number of the view in force; None before the first.
        self.view: int | None = None
        # Names are kept, because a group has few sources and a journal many events.
        self._names: Final[dict[Source, str]] = {}

    def event(self, observed: Observation, lsn: int, epoch_ns: int = 0) -> Event | None:
        """The event with this number, its time since `epoch_ns`; None if it is no event."""
        time_ns, event, source, seq, bitmap, keys, rank, sent_ns, size, where, by, by_seq = observed
        if event == VIEW:
            return self._view_event(source, time_ns + epoch_ns, lsn)
        if source is None:
            self.view = seq
            key = keys_text(keys)
            return Event(time_ns + epoch_ns, lsn, self.node, event, seq=seq, key=key, view=seq)
        obsoletes = None
        if event in self._with_obsoletes:
            obsoletes = _ALL_OF_KEY if bitmap == BY_KEY else tuple(distances(bitmap))
        return Event(
            time_ns + epoch_ns, lsn, self.node, event, self._name(source), seq, obsoletes,
            keys_text(keys), rank, sent_ns, size, where or None,
            None if by is None else self._name(by), None if by is None else by_seq, self.view,
            source.group or None,
        )  # fmt: skip

    def _view_event(self, view: View, time_ns: int, lsn: int) -> Event | None:
        """A view that nobody agreed on is no event: its number says nothing to others."""
        self.view = view.number
        if view.origin == NO_ORIGIN:
            return None
        origin = origin_name(view.origin)
        present = [Source(sender, view.life(sender)) for sender in view.present]
        members = keys_text([node_name(one).encode() for one in present])
        return Event(
            time_ns, lsn, self.node, VIEW, origin, view.number, key=members,
            by_sender=origin, by_seq=int(view.digest), view=view.number,
        )  # fmt: skip

    def _name(self, source: Source) -> str:
        name = self._names.get(source)
        if name is None:
            name = self._names[source] = node_name(source)
        return name


class JournalObserver(TupleObserver):
    """Writes down everything that one member reports, at once."""

    def __init__(self, journal: Journal, node: str, clock: Callable[[], int]) -> None:
        scribe = Scribe(node, frozenset(("multicast",)))

        def put(observed: Observation) -> None:
            event = scribe.event(observed, journal.next_lsn(node))
            if event is not None:
                journal.append(event)

        super().__init__(clock, put)
