"""`python -m bench.crowd`: thousands of simulated processes join an open group at once.

All start in the same instant; nobody knows anybody. How many views it takes until all are in, and
how long that is in simulated time, does not depend on the machine; how long the simulation takes
does. JSON goes to standard output.
"""

import argparse
import json
import resource
import sys
import time
from dataclasses import asdict

from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Ideal
from semcast.sim.traffic import Overwrites
from semcast.sim.world import run


def crowd(members: int, seconds: float) -> ProtocolScenario:
    """So many processes, which all start with the run; one of them sends a little."""
    return ProtocolScenario(
        members=members,
        title=f"{members} processes join at once",
        duration_s=seconds,
        warm_up_s=0.0,
        drain_s=0.0,
        traffic=Overwrites(rate_msg_s=1.0),
        protocol=Protocol(membership="open"),
        network=Ideal(),
    )


def main(words: list[str] | None = None) -> int:
    """Run it once, and say what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--members", type=int, default=2_000)
    parser.add_argument("--seconds", type=float, default=2.0, help="of simulated time")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(words)
    began_s = time.monotonic()
    outcome = run(crowd(chosen.members, chosen.seconds), chosen.seed, journal=False)
    found = outcome.membership
    assert found is not None
    print(
        json.dumps(
            {
                "members": chosen.members,
                **asdict(found),
                "simulated_s": outcome.ended_s,
                "took_s": round(time.monotonic() - began_s, 1),
                "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
            },
            indent=2,
        )
    )
    return 0 if found.outside == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
