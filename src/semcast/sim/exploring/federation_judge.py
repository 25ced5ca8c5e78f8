"""Judges a federation: a scenario in; which promises its run broke, out.

Order, delivery and accounting are judged from the journal. When the traffic is over and nothing
goes wrong any more, the federation must come to rest, unless its protocol waits for a site that is
gone for good. Sites understand each other: if the network alters nothing, no datagram is refused.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, Final

from semcast.check import Report, check_all, check_safety
from semcast.journal import Journal
from semcast.protocol.propagation.council import is_quorum
from semcast.protocol.propagation.records import NO_TERM, Opening, Term
from semcast.sim.exploring.rest_bound import REST
from semcast.sim.propagation.federation_scenario import (
    CENTRAL,
    TWO_PHASE,
    FederationScenario,
    FederationSettings,
    GroupOf,
    SiteFault,
    SiteRestart,
)
from semcast.sim.propagation.making import SiteMaker, make_site
from semcast.sim.propagation.world import FederationWorld
from semcast.sim.surroundings import Consumer, Crash, Faults, Ideal, Leave, Pause
from semcast.sim.traffic import Overwrites

UNDERSTOOD: Final = "Understood"
# Making these larger does not make a scenario simpler; the others say what is judged.
_KEPT: Final = (
    "protocol", "recovery", "forward_messages", "wait_messages", "window_messages",
    "delivery_messages", "history_messages",
)  # fmt: skip
# How often sites say something, and for how long they may say nothing: one alone may make no sense.
_TOGETHER: Final = ("null_ms", "silence_ms")


def run_and_judge(
    scenario: FederationScenario, make: SiteMaker = make_site
) -> tuple[dict[str, str], int, float]:
    """By broken property its first violation, in one line; events; and virtual seconds."""
    world = FederationWorld(scenario, scenario.seed, journal=True, make=make)
    run = world.run()
    assert run.journal is not None
    report = report_of(run.journal, run.quiescent)
    broken: dict[str, str] = {}
    for violation in report.violations:
        broken.setdefault(violation.property, str(violation))
    if not run.quiescent and (comes_to_rest(scenario) or may_rest(world)):
        broken[REST] = (
            f"{REST}: {scenario.drain_s:g} s after everything was over, sites still hold messages "
            f"to deliver, or for others, or are not in: {'; '.join(world.restless())}"
        )
    refused = world.counter.refused
    if refused and not scenario.faults.corrupt:
        broken[UNDERSTOOD] = f"{UNDERSTOOD}: {refused} datagrams were refused that a site had sent"
    return broken, run.events, run.ended_s


def report_of(journal: Journal, quiescent: bool) -> Report:
    """Everything, if the run came to rest; else only what holds at every moment."""
    return check_all(journal) if quiescent else check_safety(journal)


def comes_to_rest(scenario: FederationScenario) -> bool:
    """Whether a scenario says by itself that nobody is waited for in vain: in the two-phase
    protocol and with atomic recovery all wait for a site that crashes, which has to come back with
    what it had written down (PROP §5.2).
    """
    crashed = {fault.member for fault in scenario.processes if isinstance(fault, Crash)}
    if scenario.federation.protocol == TWO_PHASE:
        return not crashed
    if scenario.federation.recovery != "atomic":
        gone = crashed | {one.member for one in scenario.processes if isinstance(one, Leave)}
        if gone:
            # Others may have been put out by then because they stood still.
            gone |= {one.member for one in scenario.processes if _stands_still(one, scenario)}
        return _may_go_on(scenario, gone)
    if any(isinstance(fault, Leave) for fault in scenario.processes):
        # It goes after its time even if the others still need it, and does not come back.
        return False
    crashes = sum(isinstance(fault, Crash) for fault in scenario.processes)
    returns = sum(isinstance(fault, SiteRestart) and fault.store for fault in scenario.processes)
    return crashes == returns


def _stands_still(fault: SiteFault, scenario: FederationScenario) -> bool:
    """Whether a site may be taken for a failed one."""
    long_ms = scenario.federation.silence_ms / 2
    return isinstance(fault, Pause) and 1000 * fault.for_s > long_ms


def _may_go_on(scenario: FederationScenario, gone: set[int]) -> bool:
    """Whether those who stay can decide without all others: of the sites that begin together they
    are more than half, or half with the first of all. Who comes later may not be in yet.
    """
    founders = [site for site in range(scenario.sites) if site not in scenario.come_later()]
    first = founders[0]
    if scenario.federation.protocol == CENTRAL and scenario.federation.central_site in founders:
        first = scenario.federation.central_site
    fewer = 2 * len(gone.intersection(founders)) - len(founders)
    return fewer < 0 or (fewer == 0 and first not in gone)


def may_rest(world: FederationWorld) -> bool:
    """Whether those who run at the end of a run can bring all to rest, by the openings that they
    know: of the sites of each that may count, enough are there in the lives that have a seat. With
    atomic recovery, nobody knows a graph of a site that is gone for good.
    """
    sites = world.sites()
    if world.atomic:
        lost = world.lost()
        seated = {
            seat.sender
            for site in sites
            for seats in (site.seats(), *(one.seats for _, one in site.prospects()))
            for seat in seats
        }
        return bool(sites) and not seated & lost
    running = {(int(site.me.sender), int(site.me.incarnation)) for site in sites}
    # By number, what may be decided; of two with one number that of the later term comes next.
    known: dict[int, tuple[Term, Opening]] = {}
    newest = 0
    for site in sites:
        for term, opening in site.prospects():
            if term == NO_TERM and opening.seat(int(site.me.sender)) is not None:
                # Who has no seat tells nobody.
                newest = max(newest, opening.number)
            if opening.number not in known or term > known[opening.number][0]:
                known[opening.number] = term, opening
    return newest > 0 and all(
        is_quorum(opening.seats, {site for site, life in running if _holds(opening, site, life)})
        for number, (_, opening) in known.items()
        if number >= newest
    )


def _holds(opening: Opening, site: int, life: int) -> bool:
    seat = opening.seat(site)
    return seat is not None and seat.life == life


# -- shrinking -------------------------------------------------------------------------------------


def simpler_steps(scenario: FederationScenario) -> Iterator[dict[str, Any]]:
    """Changes that make a scenario simpler, boldest first."""
    faults, settings = scenario.faults, scenario.federation
    yield {"faults": Faults()}
    yield {"processes": ()}
    yield {"consumers": ()}
    for share in (0.5, 0.8):
        yield {"duration_s": max(1e-3, float(f"{scenario.duration_s * share:.2g}"))}
    yield from _fewer_sites(scenario)
    for at in range(len(scenario.processes)):
        yield {"processes": scenario.processes[:at] + scenario.processes[at + 1 :]}
    yield from _fewer_groups(scenario)
    for sender in scenario.sending_sites():
        left = tuple(site for site in scenario.sending_sites() if site != sender)
        if left:
            yield {"senders": left}
    for one in fields(Faults):
        yield {"faults": replace(faults, **{one.name: getattr(Faults(), one.name)})}
    yield {"network": Ideal()}
    yield {"traffic": replace(_plain(scenario), rate_msg_s=_rate(scenario))}
    usual = FederationSettings()
    for setting in fields(FederationSettings):
        if setting.name not in (*_KEPT, *_TOGETHER):
            value = getattr(usual, setting.name)
            yield {"federation": replace(settings, **{setting.name: value})}
    times = {name: getattr(usual, name) for name in _TOGETHER}
    yield {"federation": replace(settings, **times)}


def _plain(scenario: FederationScenario) -> Overwrites:
    """Traffic without anything special, that replaces as much."""
    traffic = scenario.traffic
    return Overwrites(r=traffic.r if isinstance(traffic, Overwrites) else 0.5)


def _rate(scenario: FederationScenario) -> float:
    return getattr(scenario.traffic, "rate_msg_s", 20.0)


def _fewer_groups(scenario: FederationScenario) -> Iterator[dict[str, Any]]:
    """Without one of the groups, or without one of the sites of a group."""
    groups = scenario.groups
    for at, group in enumerate(groups):
        if len(groups) > 1:
            yield {"groups": groups[:at] + groups[at + 1 :]}
        for site in group.sites:
            left = tuple(one for one in group.sites if one != site)
            if left:
                yield {"groups": (*groups[:at], GroupOf(group.name, left), *groups[at + 1 :])}


def _fewer_sites(scenario: FederationScenario) -> Iterator[dict[str, Any]]:
    """Without the last site, and without what is said of it."""
    last = scenario.sites - 1
    if last < 1:
        return

    def without(sites: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(site for site in sites if site != last)

    groups = [
        GroupOf(one.name, without(one.sites)) for one in scenario.groups if one.sites != (last,)
    ]
    cuts = [cut for cut in scenario.faults.partitions if without(cut.members)]
    consumers = [one for one in scenario.consumers if without(one.members)]
    yield {
        "sites": last,
        "groups": tuple(groups),
        "senders": without(scenario.senders),
        "federation": replace(
            scenario.federation, central_site=min(scenario.federation.central_site, last - 1)
        ),
        "consumers": tuple(Consumer(without(one.members), one.delay_ms) for one in consumers),
        "processes": tuple(one for one in scenario.processes if one.member != last),
        "faults": replace(
            scenario.faults,
            to_members=without(scenario.faults.to_members),
            partitions=tuple(replace(cut, members=without(cut.members)) for cut in cuts),
        ),
    }
