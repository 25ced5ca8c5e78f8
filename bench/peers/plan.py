"""Which runs there are and in which order: peer after peer, then all of them again.

Goes in: the peers and what the user chose. Comes out: a row for each case and variant, with its
figures or the reason why there are none.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module

from bench.peers import case as cases
from bench.peers.api import LATENCY, SLOW_READER, THROUGHPUT, Peer, UnavailableError, Variant
from bench.peers.case import Case
from bench.peers.outcome import Figures, best, figures
from bench.peers.payload import KEYS
from bench.peers.trial import Facts, TrialError

ADAPTERS = tuple(
    f"bench.peers.adapters.{name}"
    for name in ("semcast", "zeromq", "zenoh", "cyclone", "nats", "redis", "mqtt")
)
SIZES_BYTES = (64, 1_000)
RATES = (1_000, 10_000)
SHARES = (0.1, 0.2)
SECONDS = {THROUGHPUT: 3.0, LATENCY: 3.0, SLOW_READER: 10.0}
ROUNDS = {THROUGHPUT: 3, LATENCY: 5, SLOW_READER: 1}


@dataclass(frozen=True)
class Entry:
    """A variant, and the module it comes from."""

    module: str
    peer: Peer
    variant: Variant


@dataclass
class Row:
    """One case of one variant: its rounds so far, or why there are none."""

    case: Case
    entry: Entry
    rounds: list[Figures] = field(default_factory=list)
    reason: str = ""

    @property
    def figures(self) -> Figures | None:
        return best(self.case, self.rounds) if self.rounds else None

    @property
    def misfit(self) -> str:
        """Why the case makes no sense for the variant; empty where it does."""
        keys_max = self.entry.variant.keys_max
        if keys_max is None or self.case.keys <= keys_max:
            return ""
        return f"its buffers of {keys_max:,} messages cannot hold {self.case.keys:,} keys"


@dataclass(frozen=True)
class Step:
    """One run: the row that it fills, and which of its rounds this is."""

    row: Row
    round: int


def entries(modules: Iterable[str], only: Iterable[str] = ()) -> list[Entry]:
    """All variants, or those whose peer or name is in `only`; ValueError for a word of no use."""
    every = [
        Entry(module, peer, variant)
        for module in modules
        for peer in [import_module(module).PEER]
        for variant in peer.variants
    ]
    words = [word.strip().lower() for word in only]
    for word in words:
        if not any(_chosen(entry, word) for entry in every):
            names = ", ".join(dict.fromkeys(entry.peer.name for entry in every))
            raise ValueError(f"no peer or variant is called {word!r}; peers: {names}")
    return [e for e in every if not words or any(_chosen(e, word) for word in words)]


def cases_of(
    workloads: Iterable[str],
    sizes_bytes: Iterable[int] = SIZES_BYTES,
    rates: Iterable[int] = RATES,
    shares: Iterable[float] = SHARES,
    seconds: float | None = None,
    keys: Iterable[int] = (KEYS,),
) -> list[Case]:
    """Every case; how long a run with a slow reader takes depends on the keys, if nobody says."""
    found: list[Case] = []
    for workload in workloads:
        length = SECONDS[workload] if seconds is None else seconds
        if workload == THROUGHPUT:
            found += [cases.throughput(size, length) for size in sizes_bytes]
        elif workload == LATENCY:
            found += [cases.latency(rate, length) for rate in rates]
        else:
            found += [
                cases.slow_reader(
                    share, slow, seconds or cases.slow_reader_s(count, length), keys=count
                )
                for count in keys
                for share in shares
                for slow in (False, True)
            ]
    return found


def steps_of(work: list[Case], who: list[Entry], rounds: int | None) -> list[Step]:
    """Every run in order: in each round, each case with one variant after another."""
    rows = [Row(case, e) for case in work for e in who if case.workload in e.variant.workloads]
    count = max((rounds or ROUNDS[case.workload] for case in work), default=0)
    return [
        Step(row, turn)
        for turn in range(count)
        for row in rows
        if turn < (rounds or ROUNDS[row.case.workload])
    ]


def perform(
    steps: Iterable[Step],
    run: Callable[[Row], Facts],
    unavailable: dict[str, str],
    before: Callable[[Step], None],
) -> None:
    """Do the runs. What cannot run is noted and not tried again; what fails gets its next round."""
    gone: dict[tuple[str, str], str] = {}
    for step in steps:
        before(step)
        row = step.row
        name = row.entry.peer.name, row.entry.variant.name
        reason = unavailable.get(row.entry.peer.name) or gone.get(name) or row.misfit
        if reason:
            row.reason = reason
            continue
        try:
            row.rounds.append(figures(row.case, run(row)))
        except UnavailableError as error:
            row.reason = gone[name] = str(error)
        except TrialError as error:
            row.reason = str(error)


def _chosen(entry: Entry, word: str) -> bool:
    return word == entry.peer.name or word in entry.variant.name.lower()
