"""Catching up: a site installs what it lacks before it goes on (PROP §5.2.1).

After a failure that is what the survivors have and this site does not, and the graph that follows
counts when it is done. For a site that comes back it is what it has to do again. Entries are asked
for in batches of those who have them, and installed in the order that all agree on.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.records import (
    FETCH,
    Opening,
    read_entry_ids,
    write_entry_ids,
    write_fetched,
)
from semcast.protocol.propagation.turns import Turns
from semcast.wire.record_fields import RecordReader

# How many entries are asked for at once, and how often in vain before a site that comes back goes
# on without them.
FETCH_ENTRIES: Final = 64
REDO_TRIES: Final = 3


@final
class Catching:
    """What a site has to install first, and where it gets that from."""

    def __init__(
        self,
        turns: Turns,
        streams: Streams,
        message_bytes_max: int,
        patience_ns: i64,
        tell: Callable[[int, bytes], None],
    ) -> None:
        """`patience_ns`: what was asked for is asked for again after this time."""
        self._turns: Final = turns
        self._streams: Final = streams
        self._bytes_max: Final = message_bytes_max
        self._patience_ns: Final = patience_ns
        self._tell: Final = tell
        # The opening that counts afterwards, if there is one.
        self._next: Opening | None = None
        self._record: bytes = b""
        self._missing: Final[deque[tuple[Entry, int]]] = deque()
        # How many of these, at the front, a site that comes back does again. They come first,
        # whoever fails meanwhile. And whether it has to stand still afterwards.
        self._again: int = 0
        self._stands = False
        self._fetched: Final[dict[tuple[int, str, int], Entry]] = {}
        self._tries: int = 0
        self.due_ns: i64 = NEVER

    @property
    def busy(self) -> bool:
        """Whether something has to be done first."""
        return self._next is not None or bool(self._missing)

    def go_on_with(
        self, opening: Opening, record: bytes, missing: list[tuple[Entry, int]], now_ns: i64
    ) -> None:
        """After a failure: install what is missing, and then this opening, unless a later one is
        under way already.
        """
        if self._next is not None and self._next.number >= opening.number:
            return
        self._turns.frozen = True
        self.give_up()
        self._next = opening
        self._record = record
        self._begin(missing, now_ns)

    def give_up(self) -> None:
        """Others failed meanwhile: what is to be installed will be said anew, but for what a site
        that comes back does again.
        """
        self._next = None
        self._stands = True
        while len(self._missing) > self._again:
            self._missing.pop()
        if not self._missing:
            self._fetched.clear()
            self.due_ns = NEVER

    def redo(self, missing: list[tuple[Entry, int]], have: list[Entry], now_ns: i64) -> None:
        """A site that comes back installs these again, before anything else. `have`: those that it
        need not ask for.
        """
        if missing and not self.busy:
            self._stands = self._turns.frozen
            self._turns.frozen = True
            self._again = len(missing)
            self._begin(missing, now_ns)
            self._fetched.update({entry.at: entry for entry in have})

    def _begin(self, missing: list[tuple[Entry, int]], now_ns: i64) -> None:
        self._missing.extend(missing)
        self._tries = 0
        self.due_ns = now_ns

    def work(self, now_ns: i64) -> None:
        """Install what has come, in order; then go on."""
        if not self.busy:
            return
        while self._missing:
            entry, _ = self._missing[0]
            found = self._fetched.get(entry.at) or self._turns.history.find(*entry.at)
            if found is None and self._again and self._tries > REDO_TRIES:
                # Nobody has it any more.
                self._missing.popleft()
                self._again -= 1
                continue
            if found is None:
                if self.due_ns <= now_ns or self.due_ns == NEVER:
                    self._fetch(now_ns)
                return
            past = {} if self._next is None or self._again else self._next.past
            if not self._turns.catch_up(found, past):
                # The application has to make room first; there is nothing to ask for.
                self.due_ns = NEVER
                return
            self._missing.popleft()
            self._again = max(self._again - 1, 0)
            self._fetched.pop(entry.at, None)
            self._tries = 0
        self.due_ns = NEVER
        self._fetched.clear()
        opening, self._next = self._next, None
        if opening is None:
            self._turns.frozen = self._stands
        else:
            self._turns.install(opening, self._record)

    def _fetch(self, now_ns: i64) -> None:
        """Ask those who have them for the next entries that are missing."""
        self._tries += 1
        self.due_ns = now_ns + self._patience_ns
        asked: dict[int, list[Entry]] = {}
        for entry, provider in list(self._missing)[:FETCH_ENTRIES]:
            if entry.at not in self._fetched:
                asked.setdefault(provider, []).append(entry)
        for provider, entries in asked.items():
            self._tell(provider, write_entry_ids(FETCH, entries, self._streams))

    def on_fetch(self, body: RecordReader, site: int) -> None:
        """Another site asks for entries."""
        entries = read_entry_ids(body, self._streams)
        body.end()
        for entry in entries[:FETCH_ENTRIES]:
            found = self._turns.history.find(*entry.at)
            if found is not None:
                self._tell(site, write_fetched(found, self._streams))

    def on_fetched(self, body: RecordReader, now_ns: i64) -> None:
        """An entry came that was asked for."""
        entry = self._streams.read(body, self._bytes_max)
        body.end()
        if self._missing and len(self._fetched) < FETCH_ENTRIES:
            self._fetched[entry.at] = entry
            if all(one.at in self._fetched for one, _ in list(self._missing)[:FETCH_ENTRIES]):
                self.due_ns = now_ns
