"""How broken variants (`tests/sim/mutants.py`) are hunted: run as a script inside a patched copy.

Says what was caught, in one line. Knows nothing of the variants.
"""

import random
import sys
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semcast.sim.scenario import ProtocolScenario

CAUGHT: Final = 1
SURVIVED: Final = 0


def exhaust_scopes(first: int, states_max: int) -> str:
    """What breaks in the first of a few small scopes that breaks anything."""
    from semcast.sim.exhaust import exhaust
    from semcast.sim.scope import Scope, relations

    every = relations(3)[1:7]
    # The first of these is large, and is left after a while.
    scopes = [Scope(every[0], ticks=1, losses=2)]
    scopes += [Scope(relation, ticks=1) for relation in every]
    scopes += [Scope(relation, ticks=1, slow=2, delivery_messages=1) for relation in every]
    for scope in scopes[first - 1 :] + scopes[: first - 1]:
        outcome = exhaust(scope, states_max=states_max)
        if outcome.violations:
            return f"{scope.name}: {outcome.violations[0]}"
    return ""


def cases(hunt: str, first: int) -> Iterator["ProtocolScenario"]:
    """The cases of the explorer, from a seed on, that a hunt is after."""
    from semcast.settings.table import STABILITY_PROTOCOLS
    from semcast.sim.cases import case
    from semcast.sim.scenario import Leave, Restart, Restarts

    rounds = [name for name in STABILITY_PROTOCOLS if name != "gossip"]
    for seed in count(first):
        by_rounds = hunt in ("rounds", "back")
        scenario = case(seed, rounds[seed % len(rounds)] if by_rounds else None)
        # What these find is not what the broken variants are about, and each takes its time.
        if any(isinstance(one, Restarts) for one in scenario.processes):
            continue
        # With few bits not all messages of a key name each other: there is most to get wrong.
        if hunt == "key" and (scenario.protocol.order != "key" or scenario.protocol.k > 4):
            continue
        if hunt == "reborn":
            back = {one.member for one in scenario.processes if isinstance(one, Restart)}
            if scenario.protocol.order != "key" or back.isdisjoint(scenario.senders):
                continue
        if hunt == "back" and not any(isinstance(one, Restart) for one in scenario.processes):
            continue
        if hunt == "leave" and not any(isinstance(one, Leave) for one in scenario.processes):
            continue
        yield scenario


def explore_cases(hunt: str, first: int, cases_max: int, breaks: str) -> str:
    """What breaks in the first of the cases that breaks this property, or anything."""
    from semcast.sim.explore import judge

    for scenario in islice(cases(hunt, first), cases_max):
        broken = judge(scenario).broken
        if breaks in broken or (broken and not breaks):
            by, text = scenario.protocol.stability, broken[breaks or next(iter(broken))]
            return f"case {scenario.seed} ({by}): {text}"
    return ""


def run_trackers(first: int, runs_max: int) -> str:
    """What breaks in the first group of trackers that breaks: stability or safety, in turn."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.protocol.stability.lossy_group import TRACKERS, restless_group

    kinds = sorted(TRACKERS)
    for seed in range(first, first + runs_max):
        kind, members = kinds[seed % len(kinds)], 3 + seed // len(kinds) % 5
        votes = 3 if seed % 2 and members > 3 else members
        try:
            restless_group(kind, members, votes, random.Random(seed))
        except AssertionError as error:
            return f"run {seed} ({kind}), agreed too early: {error}"
    return ""


def run_members(first: int, runs_max: int) -> str:
    """What breaks in the first group of members on a lossy network, two of whom come back often."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.protocol.stability.test_detection import restless

    from semcast.settings.table import STABILITY_PROTOCOLS

    for seed in range(first, first + runs_max):
        kind = STABILITY_PROTOCOLS[seed % len(STABILITY_PROTOCOLS)]
        try:
            group = restless(kind, seed)
            group.settle()
            forgot = group.run(20_000, group.forgot_what_is_over)
            assert forgot, f"sources followed and held: {group.followed()}"
        except AssertionError as error:
            return f"run {seed} ({kind}): {str(error)[:300]}"
    return ""


def main(hunt: str, first: int, hunt_max: int, breaks: str) -> int:
    """Hunt, say what was caught, and exit accordingly."""
    if hunt == "exhaust":
        found = exhaust_scopes(first, hunt_max)
    elif hunt == "trackers":
        found = run_trackers(first, hunt_max)
    elif hunt == "members":
        found = run_members(first, hunt_max)
    else:
        found = explore_cases(hunt, first, hunt_max, breaks)
    print(found or "nothing was caught")
    return CAUGHT if found else SURVIVED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]))
