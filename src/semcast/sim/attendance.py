"""How processes come and go in a simulated open group: what happens to them in; how many views
there were, how long it took to get in and to notice who is gone, and for how long senders were held
up, out. Knows nothing of how a group agrees.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from semcast.ids import Source
from semcast.journal import node_name
from semcast.protocol.membership.view import View

_MS: Final = 1_000_000


@dataclass(frozen=True)
class Times:
    """Some times, in milliseconds."""

    count: int
    p50_ms: float | None
    p99_ms: float | None
    max_ms: float | None

    @staticmethod
    def of(times_ns: Iterable[int]) -> "Times":
        """The same of nanoseconds."""
        found = sorted(times_ns)
        if not found:
            return Times(0, None, None, None)
        return Times(len(found), _share(found, 0.5), _share(found, 0.99), found[-1] / _MS)


def _share(found: Sequence[int], share: float) -> float:
    return found[min(len(found) - 1, int(share * len(found)))] / _MS


@dataclass(frozen=True)
class Comings:
    """What came of it."""

    # How many views members agreed on; none in a feed, where nobody agrees.
    views: int | None
    # From the start of a process until it was in, and who is still not.
    joins: Times
    outside: int
    # From a crash, a leave or a stop until the last of the others went by a view without it.
    detections: Times
    undetected: int
    # For each view that began at a sender: for how long that sender had found no room meanwhile.
    pauses: Times
    # How often a process was put out although it lived, and came back by itself.
    rejoins: int


class Attendance:
    """Follows processes by their lives, which go by their names in the journal."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock: Final = clock
        # By life: when it started, and how long it took to get in.
        self._started: Final[dict[str, int]] = {}
        self._joins_ns: Final[list[int]] = []
        # By life that is there: the view that it goes by, and when each of its views began.
        self._views: Final[dict[str, View]] = {}
        self._began: Final[dict[str, list[int]]] = {}
        # By life that is gone: since when, and who still goes by a view with it.
        self._gone: Final[dict[str, tuple[int, Source, set[str]]]] = {}
        self._detections_ns: Final[list[int]] = []
        self._numbers: Final[set[tuple[int, int]]] = set()
        self.rejoins = 0

    def start(self, life: str) -> None:
        """A process begins a life."""
        self._started[life] = self._clock()

    def inside(self, life: str) -> None:
        """A life is in."""
        self._joins_ns.append(self._clock() - self._started.pop(life))

    def view(self, life: str, view: View, agreed: bool) -> None:
        """A life goes by another view; `agreed` if it is one of those who agreed on it."""
        self._views[life] = view
        self._began.setdefault(life, []).append(self._clock())
        if agreed:
            self._numbers.add((view.origin, view.number))
        for name, (_, source, waiting) in list(self._gone.items()):
            if view.holds(source):
                waiting.add(life)
            elif life in waiting:
                waiting.discard(life)
                self._look(name)

    def gone(self, source: Source) -> None:
        """A life is over, or stands still: others should notice."""
        life = node_name(source)
        self._views.pop(life, None)
        self._started.pop(life, None)
        waiting = {name for name, view in self._views.items() if view.holds(source)}
        if waiting:
            self._gone[life] = (self._clock(), source, waiting)
        for name, (_, _, others) in list(self._gone.items()):
            if life in others:
                others.discard(life)
                self._look(name)

    def back(self, source: Source) -> None:
        """A life goes on after it stood still."""
        self._gone.pop(node_name(source), None)

    def _look(self, name: str) -> None:
        since_ns, _, waiting = self._gone[name]
        if not waiting:
            del self._gone[name]
            self._detections_ns.append(self._clock() - since_ns)

    def comings(self, agreed: bool, held_up: dict[str, list[tuple[int, int]]]) -> Comings:
        """The sum of it; `held_up` says by life of a sender when it found no room."""
        pauses = [
            sum(until - since for since, until in times if since <= began <= until)
            for life, times in held_up.items()
            for began in self._began.get(life, [])[1:]
        ]
        return Comings(
            views=len(self._numbers) if agreed else None,
            joins=Times.of(self._joins_ns),
            outside=len(self._started),
            detections=Times.of(self._detections_ns),
            undetected=len(self._gone),
            pauses=Times.of(pauses),
            rejoins=self.rejoins,
        )
