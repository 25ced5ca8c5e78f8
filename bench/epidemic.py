"""`python -m bench.epidemic`: the paper's setting event by event, and a million by the round model.

The setting of PSRM §4.2 is one run of `examples/scenarios/psrm.toml`: 50 members of the real
protocol for 40 s at 100 messages/s. For both there are seconds of wall clock and of processor, and
the memory that the process took at most. What comes of the messages depends on the seed and not on
the machine. JSON goes to standard output.
"""

import argparse
import json
import resource
import sys
import time

from semcast.model.epidemic import Epidemic, run
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.traffic import Chains


def paper(seconds: float) -> dict[str, object]:
    """One run of the paper's setting, of so many simulated seconds: half of them are measured."""
    scenario = GossipScenario(
        duration_s=seconds,
        warm_up_s=seconds / 4,
        cool_down_s=seconds / 4,
        traffic=Chains(gaps="exponential"),
        gossip=GossipSettings(room="each", late="link"),
    )
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    found = GossipWorld(scenario, 1).run()
    return {
        "members": scenario.members,
        "simulated_s": seconds,
        "took_s": round(time.monotonic() - began_s, 1),
        "cpu_s": round(time.process_time() - began_cpu_s, 1),
        "events": found.events,
        "copies_sent": found.copies_sent,
        "atomic_share": found.atomic_share,
    }


def measured(settings: Epidemic) -> dict[str, object]:
    """One run: what it took, and what came of it."""
    began_s, began_cpu_s = time.monotonic(), time.process_time()
    outcome = run(settings)
    return {
        "members": settings.members,
        "policy": settings.policy,
        "rounds": settings.rounds,
        "messages": int(settings.rounds * settings.rate_msg_round),
        "took_s": round(time.monotonic() - began_s, 1),
        "cpu_s": round(time.process_time() - began_cpu_s, 1),
        # The most of this process so far: policies that come later include those before.
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
        "atomic_share": outcome.atomic_share,
        "latency_p99_rounds": outcome.latency_p99_rounds,
        "load_mean_copies_round": round(outcome.load_mean_copies_round, 2),
    }


def main(words: list[str] | None = None) -> int:
    """Run the paper's setting and each policy once, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--policies", default="eager", help="eager,random for both")
    parser.add_argument("--rounds", type=int, default=10, help="that are measured")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--paper-seconds", type=float, default=40.0, help="of simulated time")
    chosen = parser.parse_args(words)
    runs = [
        measured(
            Epidemic(
                members=chosen.members,
                policy=policy,
                measured_rounds=chosen.rounds,
                seed=chosen.seed,
            )
        )
        for policy in chosen.policies.split(",")
    ]
    print(json.dumps({"paper": paper(chosen.paper_seconds), "runs": runs}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
