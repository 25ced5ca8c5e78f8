"""What sites pass on and remember of messages: entries, and how they are written in records.

An entry is one message at its place in the order of its group: graph, group and the number that the
primary destination gave it (PROP §5.2.1). If the message itself was purged on the way, the entry
says by what: what a purged message did to the numbers is told, never guessed.
"""

from typing import Final, final

from mypy_extensions import mypyc_attr

from semcast.errors import RemoteProtocolError
from semcast.ids import Source
from semcast.protocol.propagation.federated import GROUP_NAME_BYTES_MAX, stream_of
from semcast.wire.decode import decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.message import Message
from semcast.wire.record_fields import RecordReader, RecordWriter

# How many streams are known as one object each.
STREAMS_MAX: Final = 2048
# What an entry takes in a record at least, without its message.
ENTRY_BYTES: Final = 53


@final
@mypyc_attr(acyclic=True)
class Entry:
    """One message at its place. Sites keep thousands, so the garbage collector is not to look at
    them: nothing that an entry names leads back to it.
    """

    def __init__(
        self,
        graph: int,
        group: str,
        place: int,
        stream: Source,
        seq: int,
        message: Message | None,
        cover: int = 0,
        attempt: int = 0,
    ) -> None:
        """`place`: the number that the primary destination gave it, 0 before that. `cover`: of
        a purged message, the number of the one that replaces it. `attempt`: how often its source
        has begun anew, while it has no place.
        """
        self.graph: Final = graph
        self.group: Final = group
        self.place: Final = place
        self.stream: Final = stream
        self.seq: Final = seq
        self.message: Final = message
        self.cover: Final = cover
        self.attempt: Final = attempt

    @property
    def id(self) -> tuple[Source, int]:
        """Which message it is."""
        return self.stream, self.seq

    @property
    def at(self) -> tuple[int, str, int]:
        """Where it stands."""
        return self.graph, self.group, self.place

    def purged(self, cover: int) -> "Entry":
        """The same without its message, which another one replaces."""
        return Entry(
            self.graph, self.group, self.place, self.stream, self.seq, None, cover,
            self.attempt,
        )  # fmt: skip

    def placed(self, graph: int, place: int) -> "Entry":
        """The same at a place that it is given."""
        return Entry(graph, self.group, place, self.stream, self.seq, self.message, self.cover)

    def __repr__(self) -> str:
        what = f"purged by {self.cover}" if self.message is None else "here"
        return f"<{self.group}@{self.graph}#{self.place} {self.stream!r}#{self.seq} {what}>"


def read_group(record: RecordReader) -> str:
    """The name of a group."""
    name = record.text(GROUP_NAME_BYTES_MAX)
    if not name:
        raise RemoteProtocolError("a group without a name")
    return name


@final
class Streams:
    """The streams that a site knows, each as one object, so that buffers find them quickly."""

    def __init__(self) -> None:
        self._streams: Final[dict[tuple[int, int, str], Source]] = {}
        self._names: Final[dict[int, str]] = {}

    def learn_name(self, site: int, name: str) -> None:
        """What people call a site."""
        self._names[site] = name
        for (sender, _, _), stream in self._streams.items():
            if sender == site:
                stream.name = name

    def stream(self, site: int, life: int, group: str) -> Source:
        """The stream of a life of a site to a group."""
        key = (site, life, group)
        found = self._streams.get(key)
        if found is None:
            if len(self._streams) >= STREAMS_MAX:
                # They are equal by value: whoever holds one goes on with it.
                self._streams.clear()
            source = Source(site, life)
            source.name = self._names.get(site, "")
            found = self._streams[key] = stream_of(source, group)
        return found

    # -- records -----------------------------------------------------------------------------------

    def write(self, out: RecordWriter, entry: Entry) -> None:
        """Write an entry with its message."""
        self.write_id(out, entry)
        out.data(b"" if entry.message is None else encode_whole(entry.message))

    def read(self, record: RecordReader, message_bytes_max: int, attempt: int = 0) -> Entry:
        """Read an entry with its message."""
        bare = self.read_id(record)
        whole = record.data()
        if (not whole) != (bare.cover > 0):
            raise RemoteProtocolError("an entry has either its message or its cover")
        message = None
        if whole:
            message = decode_whole(whole, bare.stream, bare.seq, message_bytes_max)
            if message.ranked:
                raise RemoteProtocolError("a ranked message in a federation")
        return Entry(
            bare.graph, bare.group, bare.place, bare.stream, bare.seq, message, bare.cover,
            attempt,
        )  # fmt: skip

    def write_id(self, out: RecordWriter, entry: Entry) -> None:
        """Write an entry without its message."""
        out.number(entry.graph)
        out.text(entry.group)
        out.number(entry.place)
        out.source(entry.stream)
        out.number(entry.seq)
        out.number(entry.cover)

    def read_id(self, record: RecordReader) -> Entry:
        """Read an entry without its message."""
        graph = record.seq_or_none()
        group = read_group(record)
        place = record.seq_or_none()
        site = record.site()
        life = record.site()
        seq = record.seq()
        cover = record.seq_or_none()
        if cover and cover <= seq:
            raise RemoteProtocolError(f"message {seq} is said to be replaced by {cover}")
        return Entry(graph, group, place, self.stream(site, life, group), seq, None, cover)
