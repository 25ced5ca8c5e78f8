"""What a site writes down, and what a later life reads: events in, records for a store out.

A site that keeps a store writes down each opening and Close, each entry before it acknowledges it,
each message that it sends, what its application takes, and what it has promised as to managers. In
a later life it is then where it was (PROP §5.2.2), or can tell what it had delivered (§5.2.1). Now
and then all is written anew, without what nobody needs any more.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, final

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.propagation.entries import Entry, Streams, read_group
from semcast.protocol.propagation.records import (
    NO_TERM,
    Term,
    read_entry_ids,
    write_entry_ids,
)
from semcast.protocol.propagation.store import Store
from semcast.wire.message import Message
from semcast.wire.record_fields import RecordReader, RecordWriter

_LIFE: Final = 1
_OPENED: Final = 2
_CLOSED: Final = 3
_ENTRY: Final = 4
_WAITING: Final = 5
_OWN: Final = 6
_TAKEN: Final = 7
_BALLOT: Final = 8
_BASE: Final = 9
_PLACED: Final = 10
_UNDONE: Final = 11
_TOLD: Final = 12
_OWED: Final = 13

# All is written anew when there are so many records more than were needed last time.
COMPACT_RECORDS: Final = 8192


@final
@dataclass
class Recalled:
    """What a former life had written down."""

    # The life that was the last to be in a graph.
    life: int = 0
    # The records of openings, in order, and the graphs that were closed.
    openings: list[bytes] = field(default_factory=list)
    closed: int = 0
    # By group, up to which place of the last graph there is everything; by stream, the newest
    # number that has a place: both of what is not among the entries any more.
    installed: dict[str, int] = field(default_factory=dict)
    last: dict[Source, int] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    # What everybody had, and the application had not taken.
    waiting: list[Entry] = field(default_factory=list)
    own: list[Entry] = field(default_factory=list)
    taken: set[tuple[Source, int]] = field(default_factory=set)
    # What the application took and has to undo, in this order.
    owed: list[Entry] = field(default_factory=list)
    # By stream of this site, up to which number its messages have a place.
    placed: dict[Source, int] = field(default_factory=dict)
    promised: Term = NO_TERM
    accepted: tuple[Term, int, bytes] | None = None
    # The last life that began.
    begun: int = 0

    def untaken(self) -> list[Entry]:
        """What the application had still to take. It takes in order: whatever came before the last
        that it took, and was not taken, was replaced or not wanted.
        """
        found = [*self.waiting, *self.entries]
        last = max((at for at, one in enumerate(found) if one.id in self.taken), default=-1)
        return found[last + 1 :]


@final
class Memory:
    """Writes down what a site does, if it keeps a store."""

    def __init__(self, store: Store | None, streams: Streams) -> None:
        self._store: Final = store
        self._streams: Final = streams
        self._records: int = 0
        # Writes down all that is needed, in place of what there is; set by the site.
        self.snapshot: Callable[[], None] | None = None

    @property
    def kept(self) -> bool:
        """Whether there is a store."""
        return self._store is not None

    def _append(self, record: bytes) -> None:
        assert self._store is not None
        self._store.append(record)
        self._records += 1

    def look(self) -> None:
        """Write all anew if much has come since the last time."""
        if self._records > COMPACT_RECORDS and self.snapshot is not None:
            self._records = 0
            self.snapshot()

    # -- what happens ------------------------------------------------------------------------------

    def begins(self, life: int) -> None:
        """A life begins."""
        if self._store is not None:
            self._append(_number(_LIFE, life))

    def opened(self, record: bytes) -> None:
        """An opening counts."""
        if self._store is not None:
            self._append(_data(_OPENED, record))

    def closed(self, number: int) -> None:
        """A graph is closed."""
        if self._store is not None:
            self._append(_number(_CLOSED, number))

    def installed(self, entry: Entry) -> None:
        """An entry is installed."""
        if self._store is not None:
            self._append(self._entry(_ENTRY, entry))

    def sent(self, entry: Entry) -> None:
        """The application sends a message."""
        if self._store is not None:
            self._append(self._entry(_OWN, entry))

    def took(self, message: Message) -> None:
        """The application takes a message."""
        if self._store is not None:
            self._append(_id(_TAKEN, message.source, int(message.seq)))

    def placed(self, stream: Source, seq: int) -> None:
        """Messages of this site have their places, up to this number."""
        if self._store is not None:
            self._append(_id(_PLACED, stream, seq))

    def told(self, wrong: list[Entry]) -> None:
        """A former life should not have installed these, the last one first: what of them the
        application took it is to undo.
        """
        if self._store is not None and wrong:
            self._append(write_entry_ids(_TOLD, wrong, self._streams))

    def undone(self, stream: Source, seq: int) -> None:
        """The application has undone a message."""
        if self._store is not None:
            self._append(_id(_UNDONE, stream, seq))

    def ballot(self, promised: Term, accepted_term: Term, number: int, record: bytes) -> None:
        """The site has promised something to a manager, or accepted something of it."""
        if self._store is not None:
            self._append(_ballot(promised, accepted_term, number, record))

    def write_anew(self, recalled: Recalled) -> None:
        """Write down this in place of all else."""
        if self._store is None:
            return
        records = [_number(_LIFE, recalled.life)]
        if recalled.promised != NO_TERM:
            term, number, record = recalled.accepted or (NO_TERM, 0, b"")
            records.append(_ballot(recalled.promised, term, number, record))
        records.extend(_data(_OPENED, one) for one in recalled.openings)
        records.append(_base(recalled.installed, recalled.last))
        if recalled.closed:
            records.append(_number(_CLOSED, recalled.closed))
        records.extend(self._entry(_ENTRY, entry) for entry in recalled.entries)
        records.extend(self._entry(_WAITING, entry) for entry in recalled.waiting)
        records.extend(self._entry(_OWN, entry) for entry in recalled.own)
        records.extend(_id(_PLACED, stream, seq) for stream, seq in recalled.placed.items())
        records.extend(_id(_TAKEN, stream, seq) for stream, seq in sorted(recalled.taken))
        records.extend(self._entry(_OWED, entry) for entry in recalled.owed)
        self._store.replace(records)

    def _entry(self, kind: int, entry: Entry) -> bytes:
        out = RecordWriter(kind)
        self._streams.write(out, entry)
        return out.take()

    # -- and back ----------------------------------------------------------------------------------

    def recall(self, message_bytes_max: int) -> Recalled | None:
        """What a former life had written down; None if there was none."""
        records = [] if self._store is None else self._store.records()
        if not records:
            return None
        found = Recalled()
        try:
            for record in records:
                self._read(record, found, message_bytes_max)
        except (RemoteProtocolError, IndexError) as error:
            raise ConfigError(
                f"the history of this site cannot be read: {error}; begin with an empty one"
            ) from error
        return found

    def _read(self, record: bytes, found: Recalled, bytes_max: int) -> None:
        body = RecordReader(record)
        kind = record[0]
        if kind == _LIFE:
            found.begun = body.site()
        elif kind == _OPENED:
            found.openings.append(body.data())
            found.installed = {}
            found.life = found.begun
        elif kind == _CLOSED:
            found.closed = body.seq()
        elif kind in (_ENTRY, _WAITING, _OWN, _OWED):
            entry = self._streams.read(body, bytes_max)
            kept = {_ENTRY: found.entries, _WAITING: found.waiting, _OWN: found.own}
            kept.get(kind, found.owed).append(entry)
        elif kind in (_TAKEN, _PLACED, _UNDONE):
            site, life, group = body.site(), body.site(), read_group(body)
            self._read_id(kind, self._streams.stream(site, life, group), body.seq(), found)
        elif kind == _TOLD:
            _read_told(read_entry_ids(body, self._streams), found)
        elif kind == _BALLOT:
            _read_ballot(body, found)
        elif kind == _BASE:
            self._read_base(body, found)
        else:
            raise RemoteProtocolError(f"a record of kind {kind}")
        body.end()

    def _read_id(self, kind: int, stream: Source, seq: int, found: Recalled) -> None:
        if kind == _TAKEN:
            found.taken.add((stream, seq))
        elif kind == _PLACED:
            found.placed[stream] = max(found.placed.get(stream, 0), seq)
        else:
            at = next((at for at, one in enumerate(found.owed) if one.id == (stream, seq)), -1)
            if at >= 0:
                del found.owed[at]

    def _read_base(self, body: RecordReader, found: Recalled) -> None:
        for _ in range(body.count(13)):
            group = read_group(body)
            found.installed[group] = body.seq_or_none()
        for _ in range(body.count(29)):
            site, life, group = body.site(), body.site(), read_group(body)
            stream = self._streams.stream(site, life, group)
            found.last[stream] = body.seq()


def _read_told(wrong: list[Entry], found: Recalled) -> None:
    places = {entry.at for entry in wrong}
    whole = {entry.at: entry for entry in found.entries if entry.at in places}
    undone = [whole[entry.at] for entry in wrong if entry.at in whole and entry.id in found.taken]
    found.entries = [entry for entry in found.entries if entry.at not in places]
    found.owed = undone + found.owed
    found.taken -= {entry.id for entry in undone}


def _number(kind: int, number: int) -> bytes:
    out = RecordWriter(kind)
    out.number(number)
    return out.take()


def _data(kind: int, data: bytes) -> bytes:
    out = RecordWriter(kind)
    out.data(data)
    return out.take()


def _id(kind: int, stream: Source, seq: int) -> bytes:
    out = RecordWriter(kind)
    out.source(stream)
    out.text(stream.group)
    out.number(seq)
    return out.take()


def _ballot(promised: Term, accepted_term: Term, number: int, record: bytes) -> bytes:
    out = RecordWriter(_BALLOT)
    for part in (*promised, *accepted_term, number):
        out.number(part)
    out.data(record)
    return out.take()


def _read_ballot(body: RecordReader, found: Recalled) -> None:
    found.promised = (body.seq_or_none(), body.site())
    term = (body.seq_or_none(), body.site())
    number = body.seq_or_none()
    record = body.data()
    found.accepted = (term, number, record) if number else None


def _base(installed: dict[str, int], last: dict[Source, int]) -> bytes:
    out = RecordWriter(_BASE)
    out.count(len(installed))
    for group, place in installed.items():
        out.text(group)
        out.number(place)
    out.count(len(last))
    for stream, seq in last.items():
        out.source(stream)
        out.text(stream.group)
        out.number(seq)
    return out.take()
