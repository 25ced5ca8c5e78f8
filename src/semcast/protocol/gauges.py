"""What a member holds, counted for people. Nothing that a member does depends on it."""

from semcast.ids import Source
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.streams.inbound import Inbound


def gauges(
    waiting: PurgingBuffer, retained: PurgingBuffer, inbounds: dict[Source, Inbound]
) -> dict[str, int]:
    """What waits, what is kept, what was purged of both, and of how many sources."""
    return {
        "delivery_held": len(waiting),
        "retained_held": len(retained),
        "purged_delivery": sum(waiting.counts.values()),
        "purged_retransmit": sum(retained.counts.values()),
        "early_held": sum(inbound.waiting for inbound in inbounds.values()),
        "sources_held": max(len(inbounds), waiting.sources, retained.sources),
    }
