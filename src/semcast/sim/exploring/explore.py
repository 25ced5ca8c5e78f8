"""The explorer: a seed in; a random group, traffic and faults, run and judged, out.

Every case is a scenario that follows from its seed alone (`cases`). Safety properties hold on
every prefix, so that judging the whole journal judges every moment of the run. When the traffic
ends, faults end, crashed members are removed and slow readers drain; the group must then come to
rest, within a time that follows from the case (`rest_bound`), and liveness is judged. A case that
fails is shrunk (`shrink`). Knows nothing of files or terminals.
"""

import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice
from multiprocessing import get_context
from typing import Final

from semcast.check import check_all, check_safety
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.exploring import federation_judge
from semcast.sim.exploring.cases import case, open_case
from semcast.sim.exploring.federation_cases import federation_case
from semcast.sim.exploring.gossip_cases import gossip_case
from semcast.sim.exploring.gossip_judge import run_and_judge
from semcast.sim.exploring.rest_bound import REST, calm_s, rest_s
from semcast.sim.exploring.shrink import Explorable, shrink
from semcast.sim.propagation.federation_scenario import FederationScenario
from semcast.sim.world import run

# What breaks if a group does not come to rest soon, and if our own code raises.
PACE: Final = "Pace"
EXCEPTION: Final = "Exception"
# One in so many cases is open.
OPEN_EACH: Final = 3
# How long to look for a smaller scenario, at most.
SHRINK_S: Final = 60.0
# What `explore` draws if it is asked for this reliability, and else does not.
GOSSIP: Final = "gossip"
FEDERATION: Final = "federation"


@dataclass(frozen=True)
class Verdict:
    """What came of one scenario."""

    # By property that is broken: the first violation of it, in one line.
    broken: dict[str, str]
    events: int = 0
    virtual_s: float = 0.0


@dataclass(frozen=True)
class Failure:
    """A scenario that breaks promises, and which."""

    # Of the case as it was drawn.
    seed: int
    scenario: Explorable
    broken: dict[str, str]


@dataclass(frozen=True)
class Explored:
    """What an exploration amounted to."""

    cases: int = 0
    events: int = 0
    virtual_s: float = 0.0
    failure: Failure | None = field(default=None)


def judge(scenario: Explorable) -> Verdict:
    """Run a scenario and judge it. A bug that raises is a broken promise as well."""
    try:
        if isinstance(scenario, GossipScenario):
            return Verdict(*run_and_judge(scenario))
        if isinstance(scenario, FederationScenario):
            return Verdict(*federation_judge.run_and_judge(scenario))
        outcome = run(scenario, scenario.seed)
    except Exception as error:
        # Whatever it is, it is ours; the innermost place says most.
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"{EXCEPTION}: {type(error).__name__}: {error} ({place.name}, line {place.lineno})"
        return Verdict({EXCEPTION: text})
    assert outcome.journal is not None
    report = check_all(outcome.journal) if outcome.quiescent else check_safety(outcome.journal)
    broken: dict[str, str] = {}
    for violation in report.violations:
        broken.setdefault(violation.property, str(violation))
    if not outcome.quiescent:
        broken[REST] = (
            f"{REST}: {scenario.drain_s:g} s after everything was over, members still hold "
            "messages to deliver, or for others"
        )
    took_s, bound_s = outcome.rested_s - calm_s(scenario), rest_s(scenario)
    if outcome.quiescent and took_s > bound_s:
        broken[PACE] = (
            f"{PACE}: the group was at rest {took_s:.2f} s after everything was over, "
            f"and should have been after {bound_s:.2f} s"
        )
    return Verdict(broken, outcome.events, outcome.ended_s)


def explore(
    seconds: float,
    seed: int,
    workers: int = 1,
    progress: Callable[[Explored], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
    stability: str | None = None,
    membership: str | None = None,
    reliability: str | None = None,
) -> Explored:
    """Judge case after case, from `seed` on, until one fails or the time is up.

    With `stability`, every case learns what to forget by that protocol; with `membership`, every
    group is closed, or open. With the reliability "gossip", every group gossips; with "federation",
    every case is one.
    """
    until_s = clock() + seconds
    done = Explored()
    for number, verdict in _verdicts(seed, workers, stability, membership, reliability):
        failure = None
        if verdict.broken:
            failed = drawn(number, stability, membership, reliability)
            failure = _shrunk(failed, verdict, clock)
        done = Explored(
            done.cases + 1,
            done.events + verdict.events,
            done.virtual_s + verdict.virtual_s,
            failure,
        )
        if progress is not None:
            progress(done)
        if failure is not None or clock() >= until_s:
            break
    return done


def drawn(
    seed: int,
    stability: str | None = None,
    membership: str | None = None,
    reliability: str | None = None,
) -> Explorable:
    """The case of a seed: one that gossips, a federation, closed or open as asked, or else one in
    `OPEN_EACH` open.
    """
    if reliability == GOSSIP:
        return gossip_case(seed)
    if reliability == FEDERATION:
        return federation_case(seed)
    is_open = seed % OPEN_EACH == 0 if membership is None else membership == "open"
    return open_case(seed, stability) if is_open else case(seed, stability)


def judge_case(
    seed: int,
    stability: str | None,
    membership: str | None = None,
    reliability: str | None = None,
) -> tuple[int, Verdict]:
    """One case, by its seed; what workers do."""
    return seed, judge(drawn(seed, stability, membership, reliability))


def _verdicts(
    seed: int,
    workers: int,
    stability: str | None,
    membership: str | None,
    reliability: str | None,
) -> Iterator[tuple[int, Verdict]]:
    """The verdicts on all cases from a seed on, in whatever order workers have them."""
    one = partial(judge_case, stability=stability, membership=membership, reliability=reliability)
    if workers == 1:
        yield from map(one, count(seed))
        return
    with get_context("spawn").Pool(workers) as pool:
        for first in count(seed, 50 * workers):
            yield from pool.imap_unordered(one, islice(count(first), 50 * workers))


def _shrunk(drawn: Explorable, verdict: Verdict, clock: Callable[[], float]) -> Failure:
    """The failure of a case, in a smaller scenario if there is one that breaks the same."""
    until_s = clock() + SHRINK_S
    name = next(iter(verdict.broken))
    found = shrink(
        drawn,
        lambda scenario: name in judge(scenario).broken,
        lambda: clock() < until_s,
    )
    return Failure(drawn.seed, found, judge(found).broken)
