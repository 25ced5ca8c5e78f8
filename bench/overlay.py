"""`python -m bench.overlay`: thousands of members form an overlay, most crash, the rest go on.

All enter through one contact within ten seconds. The shape of the overlay is measured when it has
settled, then 80% of the members crash in one instant, and a message is flooded in every round from
then on. After five rounds of repair, twenty more are. In virtual time; JSON to standard output.
"""

import argparse
import gc
import json
import resource
import sys
import time
from dataclasses import asdict
from random import Random

from bench.overlay_shape import Shape, faults, shape_of
from bench.overlay_world import SECOND_NS, OverlayWorld

FORM_S = 10
SETTLE_S = 15
REPAIR_ROUNDS = 5
LATER_MESSAGES = 20
# What HyParView claims of the messages that come after repair.
SHARE_MIN = 0.99


def rounded(shape: Shape) -> dict[str, object]:
    """A shape with as many digits as mean something."""
    return {
        name: round(value, 4) if isinstance(value, float) else value
        for name, value in asdict(shape).items()
    }


def reached(world: OverlayWorld, number: int, alive: int) -> float:
    """The share of the living that a message of one member reaches within a round."""
    flood = world.flood(number)
    world.run(world.config.round_ns)
    return len(flood.hops) / alive


def measure(members: int, crash: float, seed: int) -> dict[str, object]:
    """Form, settle, crash, repair; what came of each."""
    world = OverlayWorld(seed)
    world.add_all(range(1, members + 1), 1, FORM_S * SECOND_NS)
    world.run(SETTLE_S * SECOND_NS)
    formed = shape_of(world.members)
    flood = world.flood(members // 2 + 1)
    frames, size = world.frames_sent, world.bytes_sent
    world.run(2 * world.config.round_ns)
    idle_frames = (world.frames_sent - frames) / members / 2
    idle_bytes = (world.bytes_sent - size) / members / 2
    random = Random(f"{seed}/bench")
    world.crash(random.sample(sorted(world.members), int(members * crash)))
    alive = sorted(world.members)
    after = shape_of(world.members)
    during = [reached(world, random.choice(alive), len(alive)) for _ in range(REPAIR_ROUNDS)]
    repaired = shape_of(world.members)
    later = [reached(world, random.choice(alive), len(alive)) for _ in range(LATER_MESSAGES)]
    return {
        "members": members,
        "crashed": members - len(alive),
        "formed": rounded(formed),
        "flood": {
            "reached": len(flood.hops),
            "hops_max": max(flood.hops.values()),
            "copies_per_member": round(flood.copies / members, 2),
            "latency_ms_max": (flood.last_ns - flood.sent_ns) // 1_000_000,
        },
        "round_frames_per_member": round(idle_frames, 1),
        "round_bytes_per_member": round(idle_bytes),
        "crash": rounded(after),
        "reached_in_round": [round(share, 4) for share in during],
        "repaired": rounded(repaired),
        "later_reached_min": round(min(later), 4),
        "later_reached_mean": round(sum(later) / len(later), 4),
        "faults_at_last": faults(world.members),
        "simulated_s": world.now_ns // SECOND_NS,
    }


def main(words: list[str] | None = None) -> int:
    """Run it once, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=10_000)
    parser.add_argument("--crash", type=float, default=0.8, help="which share crashes")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    # There are millions of objects and hardly a cycle among them: looking for some takes long.
    gc.disable()
    began_s = time.process_time()
    try:
        found = measure(chosen.members, chosen.crash, chosen.seed)
    finally:
        gc.enable()
    found["processor_s"] = round(time.process_time() - began_s, 1)
    found["memory_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(json.dumps(found, indent=2))
    least = found["later_reached_min"]
    assert isinstance(least, float)
    return 0 if least >= SHARE_MIN else 1


if __name__ == "__main__":
    sys.exit(main())
