"""Standing values: messages that everybody has in; of every key the one that still stands, out.

A process that comes late begins each stream after what is stable of it (its *cut*). What it needs
besides is the newest value of every key up to the cut. Messages that are stable have just left the
retransmission buffer, so they are handed on from there to this table, in batches; what was purged
before never comes here.

What stands. A message without a key does not. Of the messages of a source about one key the newest
stands; a message about several keys stands as long as it is the newest about one of them. Of ranked
messages of one key and source that of the highest rank stands. A message that a later one names in
its bitmap does not stand, whatever their keys.

Why this suffices for any cut that is not later than what was handed on. What stood at the cut and
is here no longer was replaced by a message after the cut, and that comes with the stream.

The table is bounded. If it is full, the source with the most keys loses those that were not updated
for longest; who asks for them is told that something is missing. Knows nothing of time or networks.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.obsolescence.bitmap import distances
from semcast.obsolescence.relation import outranks
from semcast.protocol.config import MemberConfig
from semcast.wire.message import Message

# A full table loses so large a part of the largest source at once: looking for what is oldest then
# costs little for each key, even if every message has another key.
_SHARE: Final = 8


@final
class _Table:
    """What stands of one source."""

    def __init__(self) -> None:
        self.values: Final[dict[bytes, Message]] = {}
        # Ranked messages: nothing unranked replaces them.
        self.bids: Final[dict[bytes, Message]] = {}
        # By number, for bitmaps, as soon as one comes; may have more than stands.
        self.by_seq: dict[int, Message] | None = None
        # INV-FED: everything up to here was handed on, and is not taken again.
        self.fed: i64 = 0
        # No more messages will come.
        self.ended = False
        # The newest message that was dropped for lack of room.
        self.dropped: i64 = 0
        # While the state up to a cut is still to come: numbers up to it that bitmaps have named.
        self.cut: i64 = 0
        self.struck: set[int] | None = None

    @property
    def keys(self) -> int:
        return len(self.values) + len(self.bids)


@final
class Standing:
    """What stands of all sources whose messages this member keeps for others."""

    def __init__(self, keys_max: int, bytes_max: int) -> None:
        self._keys_max: Final = keys_max
        self._bytes_max: Final = bytes_max
        self._tables: Final[dict[Source, _Table]] = {}
        # Messages come in runs of one source, so the last table is often right.
        self._last_source: Source | None = None
        self._last = _Table()
        self._keys: i64 = 0
        # A message counts once for each of its keys.
        self._bytes: i64 = 0
        # How many keys were dropped for lack of room.
        self.dropped: i64 = 0
        # Whether some of these were of sources that have ended, or the state that this member got
        # itself lacked something.
        self.lacks_ended = False

    def __len__(self) -> int:
        return self._keys

    @property
    def held_bytes(self) -> int:
        return self._bytes

    # -- in ----------------------------------------------------------------------------------------

    def add(self, message: Message) -> None:
        """The next message of its source that everybody has; those without key or bitmap need not
        be said.
        """
        source = message.source
        table = self._last if source is self._last_source else self._table(source)
        if message.seq <= table.fed:
            return
        table.fed = message.seq
        if message.bitmap != 0:
            self._strike(table, message)
        if message.key_len > 0:
            self._stand(table, message)

    def absorb(self, messages: list[Message]) -> None:
        """The same for several of one source, which may still be kept elsewhere too."""
        for message in messages:
            if message.key_len > 0 or message.bitmap != 0:
                self.add(message)

    def _stand(self, table: _Table, message: Message) -> None:
        if message.several:
            for key in message.keys:
                self._put(table, key, message)
        elif message.ranked:
            self._bid(table, message)
        else:
            self._put(table, message.body[: message.key_len], message)
        if table.by_seq is not None:
            table.by_seq[int(message.seq)] = message
            if len(table.by_seq) > 2 * table.keys + 64:
                table.by_seq = None
        if self._keys > self._keys_max or self._bytes > self._bytes_max:
            self._make_room()

    def _put(self, table: _Table, key: bytes, message: Message) -> None:
        size: i64 = len(message.body)
        older = table.values.get(key)
        if older is None:
            self._keys += 1
        elif older.seq < message.seq:
            size -= len(older.body)
        else:
            return
        table.values[key] = message
        self._bytes += size

    def _bid(self, table: _Table, message: Message) -> None:
        key = message.key
        size: i64 = len(message.body)
        rival = table.bids.get(key)
        if rival is None:
            self._keys += 1
        elif outranks(message, rival):
            size -= len(rival.body)
        else:
            return
        table.bids[key] = message
        self._bytes += size

    def _strike(self, table: _Table, cover: Message) -> None:
        """What a bitmap names stands no longer."""
        by_seq = table.by_seq
        if by_seq is None:
            by_seq = table.by_seq = dict(_messages(table))
        for distance in distances(cover.bitmap):
            seq = int(cover.seq) - distance
            named = by_seq.pop(seq, None)
            if named is not None:
                self._remove(table, named)
            if table.struck is not None and seq <= table.cut:
                table.struck.add(seq)

    def _remove(self, table: _Table, message: Message) -> None:
        held = table.bids if message.ranked else table.values
        for key in message.keys:
            if held.get(key) is message:
                del held[key]
                self._keys -= 1
                self._bytes -= len(message.body)

    # -- bounds ------------------------------------------------------------------------------------

    def _make_room(self) -> None:
        self._drop_former_lives()
        while self._keys > self._keys_max or self._bytes > self._bytes_max:
            source, table = max(self._tables.items(), key=_keys_of)
            oldest = sorted(_messages(table))[: 1 + table.keys // _SHARE]
            for seq, message in oldest:
                before = self._keys
                self._remove(table, message)
                self.dropped += before - self._keys
                table.dropped = max(table.dropped, seq)
            self._lacks(source, table)

    def _drop_former_lives(self) -> None:
        """Values of a sender's former lives go first if a later life has the same key: whoever gets
        them gets the newer one as well.
        """
        for source, table in sorted(self._tables.items(), key=_source_of):
            for later, its_table in self._tables.items():
                if later.sender != source.sender or later.incarnation <= source.incarnation:
                    continue
                for key in [key for key in table.values if key in its_table.values]:
                    self._bytes -= len(table.values.pop(key).body)
                    self._keys -= 1
            if table.ended and table.keys == 0:
                self._forget(source)

    def _lacks(self, source: Source, table: _Table) -> None:
        if table.ended:
            self.lacks_ended = True
            if table.keys == 0:
                self._forget(source)

    # -- sources -----------------------------------------------------------------------------------

    def end(self, source: Source) -> None:
        """Nothing more will come of this source. What stands goes on standing."""
        table = self._tables.get(source)
        if table is None:
            return
        # The table may be remembered as the last one that was used, under the same name.
        self._last_source = None
        table.ended = True
        table.by_seq = None
        if table.dropped > 0:
            self.lacks_ended = True
        if table.keys == 0 and table.struck is None:
            self._forget(source)

    def expect(self, source: Source, cut: i64) -> None:
        """The state of this source up to a cut is still to come."""
        table = self._table(source)
        if table.struck is None:
            table.struck = set()
            table.cut = cut

    def fill(self, source: Source, messages: list[Message], ended: bool) -> None:
        """The state of this source has come: what stood at the cut, but for what was replaced since
        then.
        """
        table = self._table(source)
        struck = table.struck or set()
        table.struck = None
        for message in messages:
            if int(message.seq) not in struck:
                self._stand(table, message)
        if ended or table.ended:
            self.end(source)

    def lost(self, source: Source) -> None:
        """Something of what stood is not here, and nobody had it."""
        table = self._table(source)
        table.dropped = max(table.dropped, 1)

    def _table(self, source: Source) -> _Table:
        table = self._tables.get(source)
        if table is None:
            table = self._tables[source] = _Table()
        self._last_source = source
        self._last = table
        return table

    def _forget(self, source: Source) -> None:
        self._tables.pop(source, None)
        self._last_source = None

    # -- out ---------------------------------------------------------------------------------------

    def sources(self) -> list[tuple[Source, bool]]:
        """Of which sources anything stands, in order, and whether they have ended."""
        sources = [source for source, table in self._tables.items() if table.keys > 0]
        return [(source, self._tables[source].ended) for source in sorted(sources)]

    def has_ended(self, source: Source) -> bool:
        """Whether something of this source stands, and nothing more will come of it."""
        table = self._tables.get(source)
        return table is not None and table.ended and table.struck is None

    def messages(self, source: Source, after: i64, upto: i64) -> list[Message]:
        """What stands of a source after one number and up to another, in order, each once."""
        table = self._tables.get(source)
        if table is None:
            return []
        return [message for seq, message in sorted(_messages(table)) if after < seq <= upto]

    def is_incomplete(self, source: Source, after: i64) -> bool:
        """Whether something of this source that stood after this number was dropped."""
        table = self._tables.get(source)
        return table is not None and table.dropped > after


def _messages(table: _Table) -> list[tuple[int, Message]]:
    found = {int(message.seq): message for message in table.values.values()}
    for message in table.bids.values():
        found[int(message.seq)] = message
    return list(found.items())


def _keys_of(named: tuple[Source, _Table]) -> int:
    return named[1].keys


def _source_of(named: tuple[Source, _Table]) -> Source:
    return named[0]


def make_standing(config: MemberConfig) -> Standing | None:
    """The table of a member, if it keeps one."""
    if config.state != "keys":
        return None
    return Standing(config.standing_keys_max, config.standing_bytes_max)
