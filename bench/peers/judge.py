"""What semcast is held to against its peers, and whether it is met. Pure functions over rows.

A requirement for which nothing was measured is neither met nor missed.
"""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from bench.peers.api import LATENCY, SLOW_READER, SPIN, THROUGHPUT
from bench.peers.case import Case
from bench.peers.outcome import Figures
from bench.peers.payload import KEYS
from bench.peers.plan import Row

OURS = "semcast"
KEEP_LAST = "DDS KEEP_LAST(1)"
BATCH_RATIO_MIN = 2.0
PLAIN_RATIO_MIN = 1.0
LATENCY_RATIO_MAX = 1.0
FAST_P99_RATIO_MAX = 1.5
AGE_RATIO_MAX = 1.0
TURN_RATIO_MAX = 1.5
# A clock tick at the end of a run may cost a few messages: not a lack of speed.
KEPT_SHARE_MIN = 0.99
# Allocators keep what they once had; beyond this it is a queue that grows.
RSS_GROWTH_MAX = 0.10


@dataclass(frozen=True)
class Requirement:
    """One thing that is asked for: figures of both, the bound, and whether it is met."""

    name: str
    ours: float | None
    # The best peer's figure and name, where it is a comparison.
    theirs: float | None
    peer: str
    bound: str
    met: bool | None

    @property
    def ratio(self) -> float | None:
        if self.ours is None or not self.theirs:
            return None
        return self.ours / self.theirs

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio}


def requirements(rows: Iterable[Row]) -> list[Requirement]:
    """Everything that can be said about these rows."""
    measured = list(rows)
    every = list(dict.fromkeys(row.case for row in measured))
    found: list[Requirement] = []
    for case in every:
        here = [row for row in measured if row.case == case]
        if case.workload == THROUGHPUT:
            found += _throughput(case, here)
        elif case.workload == LATENCY:
            found += _latency(case, here)
        elif case.workload == SLOW_READER and case.slow:
            without = replace(case, slow=False)
            found += _slow_reader(case, here, [row for row in measured if row.case == without])
    return found


def _throughput(case: Case, rows: list[Row]) -> list[Requirement]:
    peer, theirs = _best_peer(rows, "delivered_per_s", higher=True)
    rate = theirs["delivered_per_s"] if theirs else None
    found = []
    for row in _ours(rows):
        bound = PLAIN_RATIO_MIN if row.entry.variant.plain else BATCH_RATIO_MIN
        ours = row.figures
        met = None
        if ours and rate:
            met = ours["delivered_per_s"] >= bound * rate and ours["lost_share"] == 0
        name = f"{case.name}: {row.entry.variant.name}, messages/s, none lost"
        value = ours["delivered_per_s"] if ours else None
        found.append(Requirement(name, value, rate, peer, f"at least {bound:g}×", met))
    return found


def _latency(case: Case, rows: list[Row]) -> list[Requirement]:
    # As ZeroMQ receives; not as an application can make it, which is only shown.
    zmq = [
        row
        for row in rows
        if row.entry.peer.name in (OURS, "zmq") and SPIN not in row.entry.variant.options
    ]
    found = []
    for which in ("p50_us", "p99_us"):
        peer, theirs = _best_peer(zmq, which)
        limit = theirs[which] if theirs else None
        for row in _ours(rows):
            ours = row.figures[which] if row.figures else None
            met = ours <= LATENCY_RATIO_MAX * limit if ours is not None and limit else None
            name = f"{case.name}: {row.entry.variant.name}, {which[:3]} in µs"
            bound = f"at most {LATENCY_RATIO_MAX:g}× pyzmq"
            found.append(Requirement(name, ours, limit, peer, bound, met))
    return found


def _slow_reader(case: Case, rows: list[Row], without: list[Row]) -> list[Requirement]:
    found: list[Requirement] = []
    for row in _ours(rows):
        if row.misfit:
            continue
        variant, ours = row.entry.variant, row.figures
        label = f"{case.mix}: {variant.name}"
        lost = [
            ("unreplaced messages that the slow reader lost", "slow_unreplaced_lost"),
            ("stale keys at the slow reader", "slow_stale_keys"),
            ("unreplaced messages that the fast reader lost", "fast_unreplaced_lost"),
        ]
        found += [_bounded(f"{label}, {text}", ours, key, 0) for text, key in lost]
        # With more that must be kept than the reader can take, holding the sender up is honest.
        if case.unreplaced_share > 0.1:
            continue
        found.append(_kept(label, ours))
        found.append(_fast_p99(label, row, without))
        for which in ("p50", "p99") if variant.options.get("order") == "key" else ("p99",):
            found += _ages(label, row, rows, which)
        found.append(_within_turn(label, ours))
        for who in ("sender", "slow"):
            growth = f"{label}, growth of the {who}'s memory"
            found.append(_bounded(growth, ours, f"{who}_rss_growth_share", RSS_GROWTH_MAX))
    return found


def _kept(label: str, ours: Figures | None) -> Requirement:
    value = ours["kept_share"] if ours else None
    met = None if value is None else value >= KEPT_SHARE_MIN
    text = f"{label}, share of the rate that the sender kept"
    return Requirement(text, value, None, "", f"at least {KEPT_SHARE_MIN:g}", met)


def _fast_p99(label: str, row: Row, without: list[Row]) -> Requirement:
    twins = [w for w in without if w.entry == row.entry]
    twin = twins[0].figures if twins else None
    value = row.figures["fast_p99_us"] if row.figures else None
    before = twin["fast_p99_us"] if twin else None
    met = value <= FAST_P99_RATIO_MAX * before if value is not None and before else None
    text = f"{label}, the fast reader's p99 in µs"
    bound = f"at most {FAST_P99_RATIO_MAX:g}× without a slow one"
    return Requirement(text, value, before, "the same without", bound, met)


def _ages(label: str, row: Row, rows: list[Row], which: str) -> list[Requirement]:
    """With any number of keys beside DDS, which replaces by key as well; with the usual one all."""
    keep_last = [peer for peer in rows if peer.entry.variant.name == KEEP_LAST]
    found = [_age(label, row, keep_last, which, f"lower than {KEEP_LAST}")]
    if row.case.keys == KEYS:
        lossless = [peer for peer in rows if _loses_nothing(peer.figures)]
        found.append(_age(label, row, lossless, which, "lower than every peer that loses nothing"))
    return found


def _age(label: str, row: Row, peers: list[Row], which: str, bound: str) -> Requirement:
    key = f"slow_keyed_age_{which}_ms"
    peer, theirs = _best_peer(peers, key)
    limit = theirs[key] if theirs else None
    value = row.figures[key] if row.figures else None
    met = value < AGE_RATIO_MAX * limit if value is not None and limit else None
    text = f"{label}, age of a key's value at the slow reader, {which} in ms"
    return Requirement(text, value, limit, peer, bound, met)


def _within_turn(label: str, ours: Figures | None) -> Requirement:
    value = ours["slow_keyed_age_p99_ms"] if ours else None
    turn = ours["slow_turn_ms"] if ours else None
    met = value <= TURN_RATIO_MAX * turn if value is not None and turn else None
    text = f"{label}, age of a key's value beside one turn of the slow reader, p99 in ms"
    bound = f"at most {TURN_RATIO_MAX:g}× one turn"
    return Requirement(text, value, turn, "one turn", bound, met)


def _bounded(name: str, ours: Figures | None, key: str, value_max: float) -> Requirement:
    value = ours[key] if ours else None
    met = None if value is None else value <= value_max
    return Requirement(name, value, None, "", f"at most {value_max:g}", met)


def _loses_nothing(found: Figures | None) -> bool:
    if found is None:
        return False
    lost: int = found["slow_unreplaced_lost"] + found["slow_stale_keys"]
    return lost == 0


def _ours(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row.entry.peer.name == OURS]


def _best_peer(rows: list[Row], key: str, higher: bool = False) -> tuple[str, Figures | None]:
    """The peer with the lowest figure, or the highest: its name, all its figures."""
    found = [
        (row.entry.variant.name, row.figures)
        for row in rows
        if row.entry.peer.name != OURS and row.figures
    ]
    if not found:
        return "", None
    return min(found, key=lambda pair: -float(pair[1][key]) if higher else float(pair[1][key]))
