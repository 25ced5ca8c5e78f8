"""`python -m bench.epidemic`: a million members that gossip, by the round model.

Seconds of wall clock and of processor, and the memory that the process took at most, for each
policy. What comes of the messages depends on the seed and not on the machine. JSON goes to standard
output.
"""

import argparse
import json
import resource
import sys
import time

from semcast.model.epidemic import Epidemic, run


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
    """Run each policy once, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=1_000_000)
    parser.add_argument("--policies", default="eager", help="eager,random for both")
    parser.add_argument("--rounds", type=int, default=10, help="that are measured")
    parser.add_argument("--seed", type=int, default=1)
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
    print(json.dumps({"runs": runs}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
