"""How broken variants (`tests/sim/mutants.py`) are hunted: run as a script inside a patched copy.

Says in one line what was caught first; or, given a number of seconds, everything that is caught in
them, with what each took. Knows nothing of the variants.
"""

import random
import sys
import time
from collections.abc import Iterator
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from semcast.sim.scenario import ProtocolScenario

CAUGHT: Final = 1
SURVIVED: Final = 0
_CHANCE: Final = "Atomicity"


def exhaust_scopes(first: int, states_max: int) -> Iterator[str]:
    """What breaks in a few small scopes, for each of them; nothing where nothing does."""
    from semcast.sim.exhausting.exhaust import exhaust
    from semcast.sim.exhausting.scope import Scope, relations

    every = relations(3)[1:7]
    # The first of these is large, and is left after a while.
    scopes = [Scope(every[0], ticks=1, losses=2)]
    scopes += [Scope(relation, ticks=1) for relation in every]
    scopes += [Scope(relation, ticks=1, slow=2, delivery_messages=1) for relation in every]
    for scope in scopes[first - 1 :] + scopes[: first - 1]:
        outcome = exhaust(scope, states_max=states_max)
        where = f"scope {scopes.index(scope) + 1} ({scope.name})"
        yield f"{where}: {outcome.violations[0]}" if outcome.violations else ""


def exhaust_agreements(first: int, states_max: int) -> Iterator[str]:
    """What breaks in small scopes of the agreement on views."""
    from semcast.sim.exhausting.agreement import exhaust_agreement
    from semcast.sim.exhausting.party import AgreementScope

    scopes = [
        AgreementScope(prepares=1, closing=False),
        AgreementScope(prepares=0, number_max=3, closing=False),
        AgreementScope(members=2, prepares=1, closing=False),
        AgreementScope(prepares=2, telling=False, closing=False),
    ]
    for scope in scopes[first - 1 :] + scopes[: first - 1]:
        outcome = exhaust_agreement(scope, states_max)
        yield f"{scope}: {outcome.violations[0]}" if outcome.violations else ""


def cases(hunt: str, first: int) -> Iterator["ProtocolScenario"]:
    """The cases of the explorer, from a seed on, that a hunt is after."""
    from semcast.settings.table import STABILITY_PROTOCOLS
    from semcast.sim.exploring.cases import case, open_case
    from semcast.sim.surroundings import Leave, Restart, Restarts

    if hunt in ("open", "feeds", "visits"):
        wanted = "sender" if hunt == "feeds" else "group"
        drawn = (open_case(seed, "gossip" if hunt == "visits" else None) for seed in count(first))
        yield from (one for one in drawn if one.protocol.reliability == wanted)
        return
    rounds = [name for name in STABILITY_PROTOCOLS if name != "gossip"]
    for seed in count(first):
        scenario = case(seed, rounds[seed % len(rounds)] if hunt == "rounds" else None)
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
        if hunt == "leave" and not any(isinstance(one, Leave) for one in scenario.processes):
            continue
        yield scenario


def explore_cases(hunt: str, first: int, cases_max: int, breaks: str) -> Iterator[str]:
    """How each case breaks this property, or anything."""
    from semcast.sim.exploring.explore import judge

    for scenario in islice(cases(hunt, first), cases_max):
        broken = judge(scenario).broken
        if breaks in broken or (broken and not breaks):
            by, text = scenario.protocol.stability, broken[breaks or next(iter(broken))]
            yield f"case {scenario.seed} ({by}): {text}"
        else:
            yield ""


def run_trackers(first: int, runs_max: int) -> Iterator[str]:
    """How each group of trackers breaks: stability or safety, in turn."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.protocol.stability.lossy_group import TRACKERS, restless_group

    kinds = sorted(TRACKERS)
    for seed in range(first, first + runs_max):
        kind, members = kinds[seed % len(kinds)], 3 + seed // len(kinds) % 5
        votes = 3 if seed % 2 and members > 3 else members
        try:
            restless_group(kind, members, votes, random.Random(seed))
            yield ""
        except AssertionError as error:
            yield f"run {seed} ({kind}), agreed too early: {error}"


def run_members(first: int, runs_max: int, crowds: bool) -> Iterator[str]:
    """How each group of members breaks on a lossy network, two of whom come back often; or how each
    crowd of them does.
    """
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.protocol.stability.test_detection import crowd, restless

    from semcast.settings.table import STABILITY_PROTOCOLS

    for seed in range(first, first + runs_max):
        kind = STABILITY_PROTOCOLS[seed % len(STABILITY_PROTOCOLS)]
        try:
            group = crowd(kind, seed) if crowds else restless(kind, seed)
            group.settle()
            forgot = group.run(20_000, group.forgot_what_is_over)
            assert forgot, f"sources followed and held: {group.followed()}"
            yield ""
        except AssertionError as error:
            yield f"run {seed} ({kind}): {str(error)[:300]}"


def run_comebacks(first: int, runs_max: int) -> Iterator[str]:
    """How groups break one of whose members is put out and comes back."""
    sys.path.append(str(Path(__file__).parents[2]))
    from tests.live.sent_again import all_once, pair_once

    for seed in range(first, first + runs_max):
        kind = "coordp" if seed % 2 else "gossip"
        try:
            all_once(seed, kind)
            pair_once(seed, "fifo")
            yield ""
        except AssertionError as error:
            yield f"run {seed} ({kind}): {str(error)[:300]}"


def run_gossip(first: int, runs_max: int, breaks: str) -> Iterator[str]:
    """How each small group that gossips over slow links breaks."""
    from semcast.check import check_run
    from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
    from semcast.sim.epidemic.world import GossipWorld
    from semcast.sim.surroundings import Shared
    from semcast.sim.traffic import Chains

    # Where links are overloaded, chance alone may break what is asked of shares.
    calm = breaks == _CHANCE
    for seed in range(first, first + runs_max):
        scenario = GossipScenario(
            members=6 + seed % 3,
            duration_s=3.0,
            warm_up_s=0.5,
            cool_down_s=0.5,
            traffic=Chains(rate_msg_s=80.0, diversity=3, length=6, ratio=0.8),
            network=Shared(bandwidth_mbit_s=10.0 if calm else 0.2),
            gossip=GossipSettings(fanout=4 if calm else 3, buffer_messages=4, patience_s=0.2),
        )
        world = GossipWorld(scenario, seed, journal=True)
        world.run()
        assert world.journal is not None
        found = check_run(world.journal).violations
        wanted = [
            one
            for one in found
            if one.property == breaks or (not breaks and one.property != _CHANCE)
        ]
        yield f"group {seed}: {wanted[0]}" if wanted else ""


def explore_relays(first: int, cases_max: int, breaks: str) -> Iterator[str]:
    """How each of the explorer's cases of groups that gossip breaks."""
    from semcast.sim.exploring.explore import judge
    from semcast.sim.exploring.gossip_cases import gossip_case

    for seed in range(first, first + cases_max):
        broken = judge(gossip_case(seed)).broken
        found = breaks in broken or (broken and not breaks)
        yield f"case {seed}: {broken[breaks or next(iter(broken))]}" if found else ""


def explore_federations(first: int, cases_max: int, breaks: str, protocol: str) -> Iterator[str]:
    """How each of the explorer's cases of federations breaks, with one protocol."""
    from semcast.sim.exploring.explore import judge
    from semcast.sim.exploring.federation_cases import federation_case

    for seed in range(first, first + cases_max):
        broken = judge(federation_case(seed, protocol)).broken
        found = breaks in broken or (broken and not breaks)
        yield f"case {seed}: {broken[breaks or next(iter(broken))]}" if found else ""


def hunted(hunt: str, first: int, hunt_max: int, breaks: str) -> Iterator[str]:
    """What each run of a hunt caught; an empty word for one that broke nothing."""
    if hunt == "exhaust":
        return exhaust_scopes(first, hunt_max)
    if hunt == "agreement":
        return exhaust_agreements(first, hunt_max)
    if hunt == "trackers":
        return run_trackers(first, hunt_max)
    if hunt == "comebacks":
        return run_comebacks(first, hunt_max)
    if hunt == "gossip":
        return run_gossip(first, hunt_max, breaks)
    if hunt == "relays":
        return explore_relays(first, hunt_max, breaks)
    if hunt in ("federations", "votes"):
        protocol = "two-phase" if hunt == "votes" else "propagation"
        return explore_federations(first, hunt_max, breaks, protocol)
    if hunt in ("members", "crowds"):
        return run_members(first, hunt_max, hunt == "crowds")
    return explore_cases(hunt, first, hunt_max, breaks)


def first_caught(runs: Iterator[str]) -> int:
    """Say what was caught first, and exit accordingly."""
    found = next(filter(None, runs), "")
    print(found or "nothing was caught")
    return CAUGHT if found else SURVIVED


def all_caught(runs: Iterator[str], seconds: float) -> int:
    """Say everything that is caught within so many seconds of processor time."""
    began_s = last_s = time.process_time()
    ran = caught = 0
    for found in runs:
        now_s = time.process_time()
        ran, caught = ran + 1, caught + bool(found)
        if found:
            print(f"  {now_s - last_s:6.2f} s  {found.splitlines()[0][:90]}", flush=True)
        last_s = now_s
        if now_s - began_s > seconds:
            break
    print(f"  caught in {caught} of {ran} runs", flush=True)
    return CAUGHT if caught else SURVIVED


def main(hunt: str, first: str, hunt_max: str, breaks: str, seconds: str = "0") -> int:
    """Hunt, say what was caught, and exit accordingly."""
    runs = hunted(hunt, int(first), int(hunt_max), breaks)
    return all_caught(runs, float(seconds)) if float(seconds) else first_caught(runs)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
