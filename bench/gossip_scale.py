"""`python -m bench.gossip_scale`: thousands of members gossip over partial views, event by event.

All enter through one contact within ten seconds. When the overlay has settled, messages are
multicast and measured; then 80% of the members crash in one instant. One message is multicast in
every round from then on, and after five rounds of repair some more. The members are the real ones,
with frames as bytes, in virtual time. JSON to standard output; the exit code is 1 if a message that
came after the repair reached less than 99% of the survivors.
"""

import argparse
import gc
import json
import resource
import sys
import time
from random import Random

from semcast.sim.build import SECOND_NS
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.surroundings import Crash, Faults, Ideal
from semcast.sim.traffic import Chains

FORM_S = 10.0
SETTLE_S = 8.0
# While messages are multicast that are measured, and until they have arrived.
TRAFFIC_S = 4.0
ARRIVAL_S = 2.0
REPAIR_ROUNDS = 5
LATER_ROUNDS = 5
CRASH_S = FORM_S + SETTLE_S + TRAFFIC_S + ARRIVAL_S
END_S = CRASH_S + REPAIR_ROUNDS + LATER_ROUNDS + ARRIVAL_S
# What HyParView claims of the messages that come after repair.
SHARE_MIN = 0.99
SIZE_BYTES = 100


def scenario_of(members: int, crash: float, messages: int, seed: int) -> GossipScenario:
    """The group. The measured messages are its traffic; the rest is multicast by hand."""
    dead = Random(f"{seed}/crash").sample(range(members), int(members * crash))
    return GossipScenario(
        members=members,
        duration_s=END_S,
        warm_up_s=FORM_S + SETTLE_S,
        cool_down_s=END_S - CRASH_S + ARRIVAL_S,
        traffic=Chains(rate_msg_s=messages / TRAFFIC_S, ratio=0.0, size_bytes=SIZE_BYTES),
        network=Ideal(latency_us=10_000),
        # Datagrams take 10 to 20 ms, and one in a hundred is lost.
        faults=Faults(loss=0.01, jitter_ms=10.0),
        gossip=GossipSettings(
            views="partial",
            form_s=FORM_S,
            repair="pull",
            fanout=5,
            rounds=32,
            buffer_messages=64,
        ),
        processes=tuple(Crash(number, CRASH_S) for number in sorted(dead)),
    )


class Run:
    """One group, and messages of chosen members."""

    def __init__(self, scenario: GossipScenario, seed: int) -> None:
        self.world = GossipWorld(scenario, seed)
        self._random = Random(f"{seed}/bench")

    def until(self, time_s: float) -> None:
        """Let virtual time pass."""
        self.world.scheduler.run(round(time_s * SECOND_NS))

    def multicast(self, since_s: float, rounds: int) -> list[int]:
        """One message in each round, by anybody who lives; the numbers of these messages."""
        numbers = []
        for at in range(rounds):
            self.until(since_s + at)
            sender = self._random.choice(self.world.attendance.living())
            numbers.append(len(self.world.meter.messages))
            self.world.nodes[sender].multicast(bytes(SIZE_BYTES), None)
        return numbers

    def shares(self, numbers: list[int], alive: int) -> list[float]:
        """Which share of the living each message reached, the sender among them."""
        return [round(self.world.meter.receivers[number] / alive, 4) for number in numbers]


def measure(members: int, crash: float, messages: int, seed: int) -> dict[str, object]:
    """Form, settle, send, crash, repair, send; what came of each."""
    run = Run(scenario_of(members, crash, messages, seed), seed)
    traffic_s = FORM_S + SETTLE_S, FORM_S + SETTLE_S + TRAFFIC_S
    run.world.start((round(traffic_s[0] * SECOND_NS), round(traffic_s[1] * SECOND_NS)))
    run.until(FORM_S + SETTLE_S)
    formed_s = time.process_time()
    run.until(CRASH_S - 1e-3)
    outcome, sent_s = run.world.outcome(), time.process_time()
    during = run.multicast(CRASH_S + 1e-3, REPAIR_ROUNDS)
    alive = len(run.world.attendance.living())
    later = run.multicast(CRASH_S + 1e-3 + REPAIR_ROUNDS, LATER_ROUNDS)
    run.until(END_S)
    reached = run.shares(later, alive)
    return {
        "members": members,
        "messages": outcome.sent,
        "atomic_share": outcome.atomic_share,
        "receivers_mean": outcome.receivers_mean,
        "latency_p50_ms": outcome.latency_p50_ms,
        "latency_p99_ms": outcome.latency_p99_ms,
        "copies_per_delivery": outcome.copies_per_delivery,
        "messages_s": round(sent_s - formed_s, 1),
        "crashed": members - alive,
        "reached_during_repair": run.shares(during, alive),
        "reached_after_repair": reached,
        "reached_after_repair_min": min(reached),
        "missed": sum(one.stats()["missed"] for one in run.world.members),
        "events": int(run.world.scheduler.fired),
        "simulated_s": END_S,
    }


def main(words: list[str] | None = None) -> int:
    """Run it once, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--crash", type=float, default=0.8, help="which share crashes")
    parser.add_argument("--messages", type=int, default=40, help="that are measured")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    # There are millions of objects and hardly a cycle among them: looking for some takes long.
    gc.disable()
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    try:
        found = measure(chosen.members, chosen.crash, chosen.messages, chosen.seed)
    finally:
        gc.enable()
    found["took_s"] = round(time.monotonic() - began_s, 1)
    found["cpu_s"] = round(time.process_time() - began_cpu_s, 1)
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(found, indent=2))
    least = found["reached_after_repair_min"]
    assert isinstance(least, float)
    return 0 if least >= SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
