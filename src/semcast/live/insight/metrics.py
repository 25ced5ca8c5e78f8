"""Metrics: a key of `stats()` goes in; its published name, and what it means, come out.

Everything in `stats()` has a name here with its unit: counters end in `_total`, and what was purged
or refused has its reason as a label. Three histograms sample some turns of the engine, so that they
cost next to nothing: how old the message is that the application takes next, how many datagrams a
turn deals with, and how long it takes. `metrics_server` publishes to Prometheus, and `telemetry` to
OpenTelemetry.
"""

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from semcast.live.host.engine import Engine

# One turn in so many is sampled.
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


class Observed(Protocol):
    """What publishers need of a member."""

    @property
    def group(self) -> str: ...
    @property
    def member(self) -> str: ...
    @property
    def samples(self) -> Samples | None: ...
    def stats(self) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class Metric:
    """What a number of `stats()` is called where it is published, and what it means."""

    name: str
    meaning: str
    label: dict[str, str] = field(default_factory=dict)  # beside those of group and member

    @property
    def is_counter(self) -> bool:
        """It only grows; anything else goes up and down."""
        return self.name.endswith("_total")


_PURGED: Final = "semcast_purged_messages_total"
_PURGED_MEANING: Final = "Messages that a newer one replaced before they were taken or forgotten"
_REFUSED: Final = "refused_"

# By key in `stats()`. What begins with "refused_" is labelled by its reason; everything else is
# here, also what a member only counts once the group has begun.
METRICS: Final[Mapping[str, Metric]] = {
    "multicast": Metric("semcast_sent_messages_total", "Messages that this member sent"),
    "delivered": Metric("semcast_delivered_messages_total", "Messages that the application took"),
    "purged_delivery": Metric(_PURGED, _PURGED_MEANING, {"where": "delivery"}),
    "purged_retransmit": Metric(_PURGED, _PURGED_MEANING, {"where": "retransmit"}),
    "naks_sent": Metric("semcast_sent_naks_total", "Requests for missing messages sent"),
    "naks_received": Metric("semcast_received_naks_total", "Requests for messages received"),
    "retransmitted": Metric("semcast_retransmitted_messages_total", "Messages sent once more"),
    "blocked_times": Metric("semcast_blocked_times_total", "Times that a send found no room"),
    "blocked_ms": Metric("semcast_blocked_seconds_total", "How long sends had no room"),
    "stability_rounds": Metric("semcast_stability_rounds_total", "Stability rounds that ended"),
    "stability_tree_number": Metric("semcast_stability_trees_total", "Trees chosen for rounds"),
    "datagrams_in": Metric("semcast_received_datagrams_total", "Datagrams received"),
    "datagrams_out": Metric("semcast_sent_datagrams_total", "Datagrams sent"),
    "datagrams_opened": Metric("semcast_opened_datagrams_total", "Datagrams found genuine"),
    "bytes_in": Metric("semcast_received_bytes_total", "Bytes of datagrams received"),
    "bytes_out": Metric("semcast_sent_bytes_total", "Bytes of datagrams sent"),
    "send_calls": Metric("semcast_send_calls_total", "System calls that send"),
    "receive_calls": Metric("semcast_receive_calls_total", "System calls that receive"),
    "send_full": Metric("semcast_send_full_total", "Sends that the system had no room for"),
    "send_errors": Metric("semcast_send_errors_total", "Sends that the system refused"),
    "send_too_large": Metric("semcast_send_too_large_total", "Datagrams too large for the path"),
    "receive_errors": Metric("semcast_receive_errors_total", "Receives that the system refused"),
    "ports_closed": Metric(
        "semcast_port_closed_times_total", "Times that the system found a member's port closed"
    ),
    "recorded_events": Metric("semcast_recorded_events_total", "Events written to the journal"),
    "recorded_left_out": Metric(
        "semcast_recorded_left_out_events_total", "Events that the journal had no room for"
    ),
    "delivery_held": Metric("semcast_delivery_held_messages", "Messages that wait to be taken"),
    "retained_held": Metric("semcast_retained_held_messages", "Messages kept for those who ask"),
    "early_held": Metric("semcast_early_held_messages", "Messages that wait for earlier ones"),
    "standing_keys": Metric("semcast_standing_keys", "Keys whose newest value is kept"),
    "standing_bytes": Metric("semcast_standing_bytes", "What these values take"),
    "standing_dropped": Metric(
        "semcast_standing_dropped_messages_total", "Values that found no room"
    ),
    "state_messages": Metric("semcast_state_messages", "Values that this member got on joining"),
    "state_pending": Metric("semcast_state_pending", "1: the state is still to come"),
    "state_incomplete": Metric("semcast_state_incomplete", "1: something that stood was missing"),
    "request_window": Metric("semcast_request_window_messages", "Messages asked for at once"),
    "behind_ms": Metric("semcast_behind_seconds", "Age of the oldest message that waits"),
    "stability_round_us": Metric("semcast_stability_round_seconds", "How long a round takes"),
    "stability_pages_led": Metric("semcast_stability_led_pages", "Pages whose rounds begin here"),
    "receive_buffer_bytes": Metric("semcast_receive_buffer_bytes", "Size of the receive buffer"),
    "path_mtu_bytes": Metric("semcast_path_mtu_bytes", "Largest datagram that the path takes"),
    "multicast_transport": Metric("semcast_multicast_transport", "1: multicast; 0: unicast"),
    "members": Metric("semcast_members", "Members of the group, this one among them"),
    "readers": Metric("semcast_readers", "Processes that read from this one, or through it"),
    "patrons": Metric("semcast_patrons", "Members that serve this reader"),
    "sources_held": Metric("semcast_held_sources", "Senders' lives of which messages are held"),
    "sources_followed": Metric("semcast_followed_sources", "Senders' lives that are followed"),
}


def named(key: str) -> Metric:
    """How a key of `stats()` is published."""
    if key.startswith(_REFUSED):
        reason = {"reason": key.removeprefix(_REFUSED)}
        return Metric("semcast_refused_datagrams_total", "Datagrams dropped unread", reason)
    return METRICS.get(key) or Metric(f"semcast_{key}", f"{key} of stats()")


def in_units(key: str, value: float) -> float:
    """A value in published units: times are seconds."""
    if key.endswith("_ms"):
        return value / 1e3
    return value / 1e6 if key.endswith("_us") else value
