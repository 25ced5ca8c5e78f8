"""Judges a gossip group: a scenario in; which promises its run broke, out.

Integrity, Accounting and Relaying are judged from the journal. What applications are told of gaps
is in no journal, and judged as they take messages, and in the end (`sim.epidemic.gaps`). Members
understand each other: on a network that alters nothing, no datagram is refused.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any, Final

from semcast.check import check_safety
from semcast.sim.epidemic.gaps import GAPS, Gaps
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.surroundings import Faults, Ideal
from semcast.sim.traffic import Chains

UNDERSTOOD: Final = "Understood"
# What a journal says of messages that do not come.
_REPORTS: Final = ("skip", "miss", "drop", "purge")


def run_and_judge(scenario: GossipScenario) -> tuple[dict[str, str], int, float]:
    """By broken property its first violation, in one line; events; and virtual seconds."""
    applications: list[Gaps] = []
    patience_ns = scenario.config().patience_ns

    def application(name: str, joining: bool) -> Gaps:
        applications.append(Gaps(name, joining, patience_ns))
        return applications[-1]

    world = GossipWorld(scenario, scenario.seed, journal=True, application=application)
    outcome = world.run()
    assert world.journal is not None
    broken: dict[str, str] = {}
    for violation in check_safety(world.journal).violations:
        broken.setdefault(violation.property, str(violation))
    _end(world)
    for one in applications:
        for fault in one.faults:
            broken.setdefault(GAPS, fault)
    refused = sum(int(node.refused) for node in world.nodes)
    if refused and not scenario.faults.corrupt:
        broken[UNDERSTOOD] = (
            f"{UNDERSTOOD}: {refused} datagrams were refused that a member had sent"
        )
    return broken, outcome.events, scenario.duration_s


def _end(world: GossipWorld) -> None:
    """Let those who live say what their applications could not be told."""
    assert world.journal is not None
    reported: dict[str, set[tuple[str, int]]] = {}
    for event in world.journal.events:
        if event.event in _REPORTS:
            reported.setdefault(event.node, set()).add((str(event.sender), int(event.seq or 0)))
    for node in world.nodes:
        if node.member is not None and isinstance(node.application, Gaps):
            there = reported.get(node.application.node, set())
            node.application.end(there, int(world.scheduler.now_ns))


def simpler_steps(scenario: GossipScenario) -> Iterator[dict[str, Any]]:
    """Changes that make a scenario simpler, boldest first."""
    faults, settings = scenario.faults, scenario.gossip
    yield {"faults": Faults()}
    yield {"processes": ()}
    for share in (0.5, 0.8):
        yield {"duration_s": max(1e-3, float(f"{scenario.duration_s * share:.2g}"))}
    if scenario.members > 2:
        yield {"members": scenario.members - 1}
    for at in range(len(scenario.processes)):
        yield {"processes": scenario.processes[:at] + scenario.processes[at + 1 :]}
    for one in fields(Faults):
        value = getattr(Faults(), one.name)
        yield {"faults": replace(faults, **{one.name: value})}
    yield {"network": Ideal()}
    yield {"traffic": Chains(rate_msg_s=20.0)}
    usual = GossipSettings()
    plain = replace(settings, tree=False, optimistic=False)
    yield {"gossip": plain}
    for one in fields(GossipSettings):
        if one.name not in ("patience_s", "buffer_messages"):
            yield {"gossip": replace(plain, **{one.name: getattr(usual, one.name)})}
