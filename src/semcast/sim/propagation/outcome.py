"""What came of a simulated federation: messages, delays and load as PROP §4 counts them."""

import statistics
from dataclasses import dataclass

from semcast.sim.closed_world import Run
from semcast.sim.propagation.counting import RecordCounter
from semcast.sim.propagation.meter import Meter
from semcast.sim.tally import percentile_ms


@dataclass(frozen=True)
class SiteOutcome:
    """What one site did, in all its lives."""

    site: str
    # Messages of the protocol that it sent, and that were sent to it: its load (PROP §4.1).
    records_sent: int
    records_received: int
    load: int


@dataclass(frozen=True)
class FederationOutcome:
    """What was measured of one run."""

    # Multicast by applications, taken by them, and not taken since something replaced it.
    sent: int
    delivered: int
    purged: dict[str, int]
    skipped: int
    # Deliveries that were rolled back.
    undone: int
    # N: messages between sites for each multicast, without acknowledgements and null messages, and
    # transmissions on a broadcast medium; and all datagrams that were really sent.
    messages_per_multicast: float | None
    transmissions_per_multicast: float | None
    datagrams_per_multicast: float | None
    # D: from multicast until the last member has it, of messages that all members took.
    delay_mean_ms: float | None
    delay_p50_ms: float | None
    delay_p99_ms: float | None
    delay_max_ms: float | None
    # Messages that a site sends and receives, for each multicast of the federation.
    load_mean: float | None
    load_max: float | None
    blocked_share_max: float
    sites: tuple[SiteOutcome, ...]
    quiescent: bool
    ended_s: float
    rested_s: float
    events: int


def outcome_of(run: Run, meter: Meter, counter: RecordCounter) -> FederationOutcome:
    """Sum up a run."""
    delays = sorted(meter.delays_ns)
    loads = [counter.load(site) for site in range(len(counter.sent))]
    datagrams = sum(node.datagrams_sent for node in run.nodes)
    measured = sum(node.sent for node in run.nodes)
    sites = tuple(
        SiteOutcome(f"p{site}", counter.sent[site], counter.received[site], load)
        for site, load in enumerate(loads)
    )
    return FederationOutcome(
        sent=meter.multicasts,
        delivered=meter.delivered,
        purged=dict(sorted(meter.purged.items())),
        skipped=meter.skipped,
        undone=meter.undone,
        messages_per_multicast=_ratio(counter.records, meter.multicasts),
        transmissions_per_multicast=_ratio(counter.transmissions, meter.multicasts),
        datagrams_per_multicast=_ratio(datagrams, measured),
        delay_mean_ms=statistics.fmean(delays) / 1e6 if delays else None,
        delay_p50_ms=percentile_ms(delays, 0.5),
        delay_p99_ms=percentile_ms(delays, 0.99),
        delay_max_ms=percentile_ms(delays, 1),
        load_mean=_ratio(statistics.fmean(loads), meter.multicasts),
        load_max=_ratio(max(loads), meter.multicasts),
        blocked_share_max=max((node.blocked_share for node in run.nodes), default=0.0),
        sites=sites,
        quiescent=run.quiescent,
        ended_s=run.ended_s,
        rested_s=run.rested_s,
        events=run.events,
    )


def _ratio(part: float, whole: int) -> float | None:
    return part / whole if whole else None
