"""How soon a group must be at rest: a scenario in, a bound in simulated seconds out.

The time counts from when everything is over: traffic, loss, partitions, pauses, and until others
have learned who crashed. From then on nothing is in the way, so what is still held has to be
repaired and voted for, which takes a number of round trips and no more. A member that leaves goes
on repairing until it may go, so leaving adds only the time until others hear of it. The bound is
the sum of all that may have to happen one after the other, with slack: generous for a protocol that
works, and far too short for one that waits in vain for a second at a time. Knows nothing of how a
run is judged.
"""

from typing import Final

from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Costs, Ideal, Lan, Leave, Pause, Shared, Slow

# What breaks if a group does not come to rest at all.
REST: Final = "Rest"
# A factor for bad luck, and for delays that add up.
SLACK: Final = 2.0
# A request that was lost is repeated after a second at the latest.
WAIT_S: Final = 1.0
# Members vote once in a period; after so many periods everybody knows what all have.
VOTES: Final = 12
# How many missing messages each round trip brings.
MESSAGES_PER_ROUND_TRIP: Final = 8
# How often a message may be sent again: by several members, and to everybody.
COPIES: Final = 4
# In an open group somebody who is gone, stopped or cut off has to be noticed first, and the living
# come back: views change, one after the other.
OPEN_S: Final = 12.0


def calm_s(scenario: ProtocolScenario) -> float:
    """The time from which on nothing goes wrong any more."""
    faults = scenario.faults
    held_ms = [faults.reorder_ms] * (faults.reorder > 0)
    held_ms += [faults.duplicate_ms] * (faults.duplicate > 0)
    # Datagrams that were held up during the traffic may arrive after it.
    times = [scenario.duration_s + max(held_ms, default=0.0) / 1000]
    times += [cut.until_s for cut in faults.partitions]
    for fault in scenario.process_faults():
        ends_s = fault.at_s
        if isinstance(fault, Pause):
            ends_s += fault.for_s
        elif fault.kind == "crash":
            ends_s += scenario.detection_ms / 1000
        if isinstance(fault, Leave):
            # In an open group others have to notice that it is gone.
            ends_s += fault.within_s if scenario.open else 0.0
        if scenario.open or not isinstance(fault, Leave):
            times.append(ends_s)
    return max(times)


def rest_s(scenario: ProtocolScenario) -> float:
    """How long after that the group is at rest, at the latest."""
    protocol = scenario.protocol
    window = protocol.window_messages * len(scenario.senders)
    period_ms = max(protocol.gossip_period_ms, protocol.stability_period_ms)
    votes_s = VOTES * (period_ms / 1000 + _round_trip_s(scenario))
    repair_s = window / MESSAGES_PER_ROUND_TRIP * _round_trip_s(scenario)
    leaving_s = scenario.detection_ms / 1000 if _leaves(scenario) else 0.0
    leaving_s += OPEN_S if scenario.open else 0.0
    return SLACK * (WAIT_S + votes_s + repair_s + _transmission_s(scenario, window)) + leaving_s


def _leaves(scenario: ProtocolScenario) -> bool:
    return any(fault.kind == "leave" for fault in scenario.processes)


def _round_trip_s(scenario: ProtocolScenario) -> float:
    """The time for a request, which waits at random so that one asks for all, and its answer."""
    network, host = scenario.network, scenario.host
    there_us = network.latency_us if isinstance(network, Ideal | Shared) else 100.0
    there_us += 1000 * max((link.delay_ms or 0.0 for link in scenario.links), default=0.0)
    if isinstance(host, Costs):
        there_us += scenario.members * (host.send_us + host.receive_us)
    busy_ms = [fault.delay_ms for fault in scenario.processes if isinstance(fault, Slow)]
    busy_ms += [consumer.delay_ms for consumer in scenario.consumers]
    return (2 * there_us + 1000 * scenario.protocol.nak_delay_ms) / 1e6 + max(
        busy_ms, default=0.0
    ) / 1000


def _transmission_s(scenario: ProtocolScenario, window: int) -> float:
    """How long the links need for a window, as far as they have a bandwidth."""
    network, protocol = scenario.network, scenario.protocol
    size_bytes = window * (getattr(scenario.traffic, "size_bytes", 400) + 100)
    bytes_s = [float(protocol.bandwidth_bytes_s)]
    if isinstance(network, Lan):
        bytes_s.append(network.bandwidth_mbit_s * 1e6 / 8)
    elif isinstance(network, Shared):
        links = scenario.members * max(scenario.members - 1, 1)
        bytes_s.append(network.bandwidth_mbit_s * 1e6 / 8 / links)
    slowest = min((one for one in bytes_s if one > 0), default=0.0)
    return COPIES * size_bytes / slowest if slowest > 0 else 0.0
