"""What a spool has of each stream, so that nothing is taken twice: messages in, new or not out.

A member that was killed and comes back begins at the stable point of every sender, and is sent
again what its former life had taken but had not yet acknowledged. Within one life a member delivers
in order, so the last number of each stream shows what is new. With order "fifo" a stream is all of
a sender; with "key" it is a key of a sender, and a message without a key is a stream of its own.
"""

import json
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

# Streams remembered of each sender: twice the default window, and more than may be unstable.
STREAMS_MAX: Final = 1 << 16
# Lives of senders remembered: many more than are in a group at a time.
LIVES_MAX: Final = 4096


class Seen:
    """The last numbers of the senders and keys that were heard of latest."""

    def __init__(self, by_key: bool) -> None:
        self._by_key: Final = by_key
        self._last: Final[OrderedDict[tuple[str, int], OrderedDict[str, int]]] = OrderedDict()

    def last(self, sender: str, life: int) -> int:
        """The last number of a sender, if all of it is one stream; 0 if it is not, or is new."""
        last = self._last.get((sender, life))
        return 0 if last is None else last.get("", 0)

    def is_new(self, sender: str, life: int, seq: int, key: str | None) -> bool:
        """Whether this was not seen before; from now on it was."""
        source = (sender, life)
        last = self._last.get(source)
        if last is None:
            last = self._last[source] = OrderedDict()
            if len(self._last) > LIVES_MAX:
                self._last.popitem(last=False)
        stream = "" if not self._by_key else f"#{seq}" if key is None else f"={key}"
        if seq <= last.get(stream, 0):
            return False
        last[stream] = seq
        if self._by_key:
            last.move_to_end(stream)
            if len(last) > STREAMS_MAX:
                last.popitem(last=False)
        return True

    def add(self, rows: Iterable[tuple[str, int, int, str | None]]) -> None:
        """These were seen: sender, life, seq and key of each."""
        for row in rows:
            self.is_new(*row)

    def dump(self) -> bytes:
        """All of it, for the beginning of a segment."""
        listed = [[sender, life, list(last.items())] for (sender, life), last in self._last.items()]
        return json.dumps(listed).encode()

    def load(self, dumped: bytes | memoryview) -> None:
        """What `dump` wrote."""
        self._last.clear()
        for sender, life, last in json.loads(bytes(dumped)):
            self._last[sender, life] = OrderedDict((stream, seq) for stream, seq in last)
