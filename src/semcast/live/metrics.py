"""Metrics: what a member counts in, Prometheus text out.

Everything in `stats()` is here under a name with its unit: counters end in `_total`, what was
purged and refused has its reason as a label. Three histograms are sampled by turns of the engine,
so that they cost next to nothing: how old the next message is that the application will take, how
many datagrams a turn deals with, and how long it takes. Knows neither ports nor groups.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Final

from semcast.live.engine import Engine

# Every so many turns are looked at.
SAMPLED_TURNS: Final = 8
_AGE_S: Final = (1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
_TURN_S: Final = (1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 5e-3, 0.01, 0.1, 1.0)
_BATCH: Final = (1, 2, 4, 8, 16, 32, 64, 128)


class Histogram:
    """Counts by fixed bounds."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds: Final = bounds
        # By bound, and one for what is beyond the last.
        self.counts: Final = [0] * (len(bounds) + 1)
        self.sum = 0.0
        # The newest values themselves, for whoever wants to count them in a way of its own.
        self.newest: deque[float] | None = None

    def add(self, value: float) -> None:
        """One more of this size."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        if self.newest is not None:
            self.newest.append(value)

    @property
    def count(self) -> int:
        """How many there were."""
        return sum(self.counts)


class Samples:
    """Looks at the engine after some of its turns, with its lock held."""

    def __init__(self, engine: Engine) -> None:
        self._engine: Final = engine
        self._turns = 0
        self._opened = 0
        self._last: object = None
        self.age_s: Final = Histogram(_AGE_S)
        self.turn_s: Final = Histogram(_TURN_S)
        self.batch: Final = Histogram(_BATCH)

    def on_turn(self, began_ns: int) -> None:
        """A turn is over that began then."""
        opened = self._engine.session.opener.opened
        datagrams, self._opened = opened - self._opened, opened
        self._turns += 1
        if self._turns % SAMPLED_TURNS:
            return
        now_ns = int(self._engine.clock.now_ns())
        self.turn_s.add((now_ns - began_ns) / 1e9)
        if datagrams:
            self.batch.add(datagrams)
        member = self._engine.session.member
        oldest = None if member is None else member.oldest()
        # A message that waits for long counts once.
        if member is not None and oldest is not None and oldest is not self._last:
            self.age_s.add(member.age_ns(oldest, now_ns) / 1e9)
        self._last = oldest

    def all(self) -> Iterator[tuple[str, str, Histogram]]:
        """Name, meaning, histogram."""
        yield "semcast_delivery_age_seconds", "Age of the next message to be taken", self.age_s
        yield "semcast_turn_seconds", "How long a turn of the engine takes", self.turn_s
        yield "semcast_turn_datagrams", "Datagrams that a turn deals with", self.batch


# By key in `stats()`: the metric's name and its labels. What begins with "refused_" is labelled by
# its reason; everything else is here or below, also what a member only counts once it has begun.
COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "multicast": ("semcast_sent_messages_total", ""),
    "delivered": ("semcast_delivered_messages_total", ""),
    "purged_delivery": ("semcast_purged_messages_total", 'where="delivery"'),
    "purged_retransmit": ("semcast_purged_messages_total", 'where="retransmit"'),
    "naks_sent": ("semcast_sent_naks_total", ""),
    "naks_received": ("semcast_received_naks_total", ""),
    "retransmitted": ("semcast_retransmitted_messages_total", ""),
    "blocked_times": ("semcast_blocked_times_total", ""),
    "blocked_ms": ("semcast_blocked_seconds_total", ""),
    "stability_rounds": ("semcast_stability_rounds_total", ""),
    "stability_tree_number": ("semcast_stability_trees_total", ""),
    "datagrams_in": ("semcast_received_datagrams_total", ""),
    "datagrams_out": ("semcast_sent_datagrams_total", ""),
    "datagrams_opened": ("semcast_opened_datagrams_total", ""),
    "bytes_in": ("semcast_received_bytes_total", ""),
    "bytes_out": ("semcast_sent_bytes_total", ""),
    "send_calls": ("semcast_send_calls_total", ""),
    "receive_calls": ("semcast_receive_calls_total", ""),
    "send_full": ("semcast_send_full_total", ""),
    "send_errors": ("semcast_send_errors_total", ""),
    "send_too_large": ("semcast_send_too_large_total", ""),
    "receive_errors": ("semcast_receive_errors_total", ""),
    "recorded_events": ("semcast_recorded_events_total", ""),
    "recorded_left_out": ("semcast_recorded_left_out_events_total", ""),
}
GAUGES: Final[Mapping[str, str]] = {
    "delivery_held": "semcast_delivery_held_messages",
    "retained_held": "semcast_retained_held_messages",
    "early_held": "semcast_early_held_messages",
    "request_window": "semcast_request_window_messages",
    "behind_ms": "semcast_behind_seconds",
    "stability_round_us": "semcast_stability_round_seconds",
    "stability_pages_led": "semcast_stability_led_pages",
    "receive_buffer_bytes": "semcast_receive_buffer_bytes",
    "path_mtu_bytes": "semcast_path_mtu_bytes",
    "multicast_transport": "semcast_multicast_transport",
    "members": "semcast_members",
    "sources_held": "semcast_held_sources",
    "sources_followed": "semcast_followed_sources",
}
_REFUSED: Final = "refused_"


def named(key: str) -> tuple[str, str, str]:
    """Of a key in `stats()`: the metric's name, its labels, and whether it is counter or gauge."""
    if key in COUNTERS:
        return (*COUNTERS[key], "counter")
    if key.startswith(_REFUSED):
        reason = f'reason="{key.removeprefix(_REFUSED)}"'
        return "semcast_refused_datagrams_total", reason, "counter"
    return GAUGES.get(key, f"semcast_{key}"), "", "gauge"


def in_units(key: str, value: float) -> float:
    """Times are told in seconds."""
    if key.endswith("_ms"):
        return value / 1e3
    return value / 1e6 if key.endswith("_us") else value


def exposition(group: str, member: str, stats: Mapping[str, float], samples: Samples | None) -> str:
    """Everything as Prometheus text, version 0.0.4."""
    common = f'group="{_escaped(group)}",member="{_escaped(member)}"'
    by_name: dict[str, tuple[str, list[str]]] = {}
    for key, value in stats.items():
        name, labels, kind = named(key)
        all_labels = f"{common},{labels}" if labels else common
        by_name.setdefault(name, (kind, []))[1].append(
            f"{name}{{{all_labels}}} {in_units(key, value)}"
        )
    lines: list[str] = []
    for name, (kind, rows) in by_name.items():
        lines += [f"# TYPE {name} {kind}", *rows]
    for name, text, histogram in samples.all() if samples is not None else ():
        lines += [f"# HELP {name} {text}.", f"# TYPE {name} histogram"]
        lines += _histogram_lines(name, common, histogram)
    return "\n".join(lines) + "\n"


def _histogram_lines(name: str, common: str, histogram: Histogram) -> Iterator[str]:
    up_to = 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        up_to += count
        shown = bound if isinstance(bound, str) else f"{bound:g}"
        yield f'{name}_bucket{{{common},le="{shown}"}} {up_to}'
    yield f"{name}_sum{{{common}}} {histogram.sum!r}"
    yield f"{name}_count{{{common}}} {up_to}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
