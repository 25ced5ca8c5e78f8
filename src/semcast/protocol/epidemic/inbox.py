"""What came of each source: duplicates told apart, gaps found. Numbers and times in, both out.

Gossip brings each message several times, in any order, and some not at all. Of each source the
inbox remembers the number up to which everything is *settled* (it came, or was given up) and the
later ones that came. A number that is missing for longer than the patience allows, or lies too far
back, is given up: the application is told that it misses it, and it is not taken any more. So
memory is bounded by the window, by the patience and by the number of sources. A source that falls
silent hides nothing: `expire` looks at its gaps four times within the patience.
"""

from collections import OrderedDict, deque
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.epidemic.config import GossipConfig

# How finely the patience is measured.
_STEPS: Final = 4
# Of a longer gap than this only the end is told number by number; the rest is counted.
_TOLD_MAX: Final = 1 << 16

# A source of which one of its first numbers comes first may have begun after this member came, and
# its messages overtake each other: nothing of it is taken for old.
_FIRST: Final = 16


@final
class Stream:
    """One source."""

    def __init__(self, first: i64) -> None:
        # INV-SETTLED: every number up to here came or was given up; no later one was given up.
        self.settled: i64 = first - 1
        self.newest: i64 = first - 1
        self.came: Final[set[int]] = set()
        # (a time, the newest number then), at most `_STEPS` or so within the patience.
        self.marks: Final[deque[tuple[int, int]]] = deque()
        # When the last of these marks was made (-1: there is none), and when the first is over.
        self.marked_ns: i64 = -1
        self.due_ns: i64 = NEVER


@final
class Inbox:
    """Everything that came, as far as it must be known."""

    def __init__(self, config: GossipConfig, joining: bool) -> None:
        """`joining`: the group already runs, so that sources begin with what is heard of them."""
        self._joining: Final = joining
        self._window: Final[i64] = config.seen_messages
        self._sources_max: Final = config.sources_max
        self._patience_ns: Final[i64] = config.patience_ns
        self._step_ns: Final[i64] = max(config.patience_ns // _STEPS, 1)
        self._streams: Final[OrderedDict[Source, Stream]] = OrderedDict()
        # INV-PATIENT: holds every stream that has a gap, and `_look_ns` is within a quarter of the
        # patience while there is one.
        self._gapped: Final[dict[Source, Stream]] = {}
        self._look_ns: i64 = NEVER
        # How often a source was forgotten to make room for another.
        self.forgotten: i64 = 0
        # Numbers that were given up, and not told one by one.
        self.untold: i64 = 0

    def __len__(self) -> int:
        return len(self._streams)

    def is_new(self, source: Source, seq: i64) -> bool:
        """Whether this message did not come before, and was not given up."""
        stream = self._streams.get(source)
        return stream is None or (seq > stream.settled and int(seq) not in stream.came)

    def note(self, source: Source, seq: i64, now_ns: i64) -> list[int]:
        """A new message came. Returns the numbers of its source that are given up now, in order."""
        stream = self._streams.get(source)
        if stream is None:
            stream = self._begin(source, seq)
        else:
            self._streams.move_to_end(source)
        stream.newest = max(stream.newest, seq)
        if seq == stream.settled + 1:
            stream.settled = seq
            if stream.came:
                self._advance(stream)
        else:
            stream.came.add(int(seq))
        if stream.settled >= stream.newest:
            return []
        if stream.marked_ns < 0:
            self._gapped[source] = stream
            self._look_ns = min(self._look_ns, now_ns + self._step_ns)
        return self._give_up(stream, now_ns)

    def next_deadline_ns(self) -> i64:
        """When gaps have to be looked at."""
        return self._look_ns

    def expire(self, now_ns: i64) -> list[tuple[Source, list[int]]]:
        """The numbers that are given up now, by source, although nothing new came of it."""
        if now_ns < self._look_ns:
            return []
        found: list[tuple[Source, list[int]]] = []
        for source, stream in list(self._gapped.items()):
            lost = self._give_up(stream, now_ns) if stream.settled < stream.newest else []
            if lost:
                found.append((source, lost))
            if stream.settled >= stream.newest:
                # What comes next begins with a patience of its own.
                stream.marks.clear()
                stream.marked_ns = -1
                stream.due_ns = NEVER
                del self._gapped[source]
        self._look_ns = now_ns + self._step_ns if self._gapped else NEVER
        return found

    def missing(self, source: Source, seq: i64) -> bool:
        """Whether a message of a known source may still come."""
        stream = self._streams.get(source)
        return stream is not None and seq > stream.settled and int(seq) not in stream.came

    def _begin(self, source: Source, seq: i64) -> Stream:
        """A source is new. What it multicast before this member came is not missing here."""
        if len(self._streams) >= self._sources_max:
            oldest, _ = self._streams.popitem(last=False)
            self._gapped.pop(oldest, None)
            self.forgotten += 1
        # Once sources had to be forgotten, any may be one that was here: it misses nothing of then.
        begun = self.forgotten > 0 or (self._joining and seq > _FIRST)
        stream = self._streams[source] = Stream(seq if begun else 1)
        return stream

    def _advance(self, stream: Stream) -> None:
        while int(stream.settled + 1) in stream.came:
            stream.settled += 1
            stream.came.discard(int(stream.settled))

    def _give_up(self, stream: Stream, now_ns: i64) -> list[int]:
        """What is missing for too long, or lies too far back."""
        upto = stream.newest - self._window
        if stream.marked_ns < 0 or (now_ns - stream.marked_ns) * _STEPS >= self._patience_ns:
            stream.marks.append((int(now_ns), int(stream.newest)))
            stream.marked_ns = now_ns
            stream.due_ns = min(stream.due_ns, now_ns + self._patience_ns)
        if now_ns > stream.due_ns:
            upto = max(upto, self._expired(stream, now_ns))
        if upto - stream.settled > _TOLD_MAX:
            self.untold += upto - stream.settled - _TOLD_MAX
            stream.settled = upto - _TOLD_MAX
            stream.came.difference_update([seq for seq in stream.came if seq <= stream.settled])
        lost: list[int] = []
        while stream.settled < upto:
            stream.settled += 1
            if int(stream.settled) in stream.came:
                stream.came.discard(int(stream.settled))
            else:
                lost.append(int(stream.settled))
        if lost:
            self._advance(stream)
        return lost

    def _expired(self, stream: Stream, now_ns: i64) -> i64:
        """The newest number that was known when the patience began that is over now."""
        marks = stream.marks
        upto: i64 = 0
        while marks and now_ns - marks[0][0] > self._patience_ns:
            upto = marks.popleft()[1]
        if marks:
            stream.due_ns = marks[0][0] + self._patience_ns
        else:
            stream.marked_ns = -1
            stream.due_ns = NEVER
        return upto
