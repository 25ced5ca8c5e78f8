"""Gaps: what an application does not get it is told, and once.

Every message that is taken goes in, with what it says of numbers that will not come; faults come
out. Of each source, from the first message on that counts, a number is taken or told and never
both. One that is missing for longer than the patience, while messages of its source go on coming,
must have been told. Holds on every prefix. `end` asks for what no message could say: of a source
that fell silent, what was missing for twice the patience must be in the journal.
"""

from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.journal import node_name
from semcast.sim.epidemic.nodes import Application
from semcast.wire.message import Message

GAPS: Final = "Gaps"
# A newcomer may begin a source anywhere but among its first numbers.
_FIRST: Final = 16


class _Stream:
    """One source at one application."""

    def __init__(self, first: int) -> None:
        self.taken: Final[set[int]] = set()
        self.told: Final[set[int]] = set()
        # Up to here every number was looked at.
        self.settled = first - 1
        # When a message was taken, and the newest number then.
        self.times_ns: Final[list[int]] = []
        self.newest: Final[list[int]] = []


class Gaps(Application):
    """Follows what one application takes at once, and notes what it should have been told."""

    def __init__(self, node: str, joining: bool, patience_ns: int) -> None:
        super().__init__()
        self.node: Final = node
        self._joining: Final = joining
        self._patience_ns: Final = patience_ns
        self._streams: Final[dict[Source, _Stream]] = {}
        self.faults: Final[list[str]] = []

    def took(self, message: Message, now_ns: i64) -> None:
        seq = int(message.seq)
        stream = self._streams.get(message.source)
        if stream is None:
            first = seq if self._joining and seq > _FIRST else 1
            stream = self._streams[message.source] = _Stream(first)
        for number in message.skipped:
            if number in stream.taken:
                self._fault(message, f"is told that {number} will not come, and had it")
            if number in stream.told:
                self._fault(message, f"is told twice that {number} will not come")
            stream.told.add(number)
        if seq in stream.taken:
            self._fault(message, "is taken twice")
        if seq in stream.told:
            self._fault(message, "is taken, and it was told that it would not come")
        stream.taken.add(seq)
        stream.times_ns.append(int(now_ns))
        stream.newest.append(max(seq, stream.newest[-1] if stream.newest else 0))
        self._look(stream, message, int(now_ns))

    def _look(self, stream: _Stream, message: Message, now_ns: int) -> None:
        """What was missing when a message came long ago must be here, or told. The patience is
        measured in quarters, from a message on that comes.
        """
        marked = bisect_right(stream.times_ns, now_ns - self._patience_ns - 1) - 1
        if marked < 0:
            return
        since_ns = stream.times_ns[marked] - self._patience_ns // 4 - 1
        known = bisect_right(stream.times_ns, since_ns) - 1
        if known < 0:
            return
        for number in range(stream.settled + 1, stream.newest[known] + 1):
            if number not in stream.taken and number not in stream.told:
                self._fault(message, f"comes, and nothing was told of {number}")
            stream.settled = number

    def end(self, reported: Collection[tuple[str, int]], now_ns: int) -> None:
        """The run is over, and the process lives. `reported`: what its journal says it skipped,
        missed or dropped, by the name of the source and the number.
        """
        for source, stream in self._streams.items():
            known = bisect_right(stream.times_ns, now_ns - 2 * self._patience_ns - 1) - 1
            if known < 0:
                continue
            for number in range(stream.settled + 1, stream.newest[known] + 1):
                here = number in stream.taken or number in stream.told
                if not here and (node_name(source), number) not in reported:
                    about = f"{node_name(source)}#{number}"
                    self.faults.append(f"{GAPS}: {self.node}: nothing was ever said of {about}")

    def _fault(self, message: Message, what: str) -> None:
        about = f"{node_name(message.source)}#{message.seq}"
        self.faults.append(f"{GAPS}: {self.node}: {about} {what}")
