"""Shrinking: a scenario that fails in, the smallest one found that still fails out; and as a file.

Simpler scenarios are tried one after the other, boldest steps first, and whichever still breaks the
same property takes the place of the one before. Knows nothing of what the properties mean.
"""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from semcast.errors import SemcastError
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.exploring import federation_judge, openings
from semcast.sim.exploring.gossip_judge import simpler_steps
from semcast.sim.propagation.federation_scenario import FederationScenario
from semcast.sim.scenario import Protocol, ProtocolScenario
from semcast.sim.surroundings import Consumer, Crash, Faults, Ideal, Restarts
from semcast.sim.traffic import Overwrites

# What the explorer draws.
Explorable: TypeAlias = ProtocolScenario | GossipScenario | FederationScenario
E = TypeVar("E", bound=Explorable)
# Keys that are written even where they have the default: they say which kind of table it is.
_ALWAYS: Final = ("kind", "model", "seed")
# Making these larger does not make a scenario simpler.
_KEPT: Final = ("reliability", "membership", "f", "delivery_messages", "window_messages")


def shrink(
    scenario: E,
    fails: Callable[[E], bool],
    in_time: Callable[[], bool],
) -> E:
    """The simplest scenario that still fails, as far as the time allows to look for it."""
    found: E | None = scenario
    while found is not None:
        scenario = found
        found = None
        for simpler in _simpler(scenario):
            if not in_time():
                break
            if fails(simpler):
                found = simpler
                break
    return scenario


def within_promise(scenario: Explorable) -> bool:
    """Whether no more members crash than are survived.

    A member that comes back has lost what it had, so it counts from its first crash on. It counts
    once: the copies that it loses in later crashes are none that anybody relied on. Groups that
    gossip promise nothing that a crash could break, and federations say themselves what they wait
    for.
    """
    if isinstance(scenario, GossipScenario | FederationScenario):
        return True
    if scenario.open:
        return openings.within_promise(scenario)
    crashed = {fault.member for fault in scenario.process_faults() if isinstance(fault, Crash)}
    return scenario.protocol.reliability == "sender" or len(crashed) <= scenario.protocol.f


def _simpler(scenario: E) -> Iterator[E]:
    """Scenarios that are a step simpler; steps that make no sense are left out."""
    for change in _changes(scenario):
        try:
            simpler = replace(scenario, **change)
        except SemcastError:
            continue
        if simpler != scenario and within_promise(simpler):
            yield simpler


def _changes(scenario: Explorable) -> Iterator[dict[str, Any]]:
    if isinstance(scenario, GossipScenario):
        return simpler_steps(scenario)
    if isinstance(scenario, FederationScenario):
        return federation_judge.simpler_steps(scenario)
    return _steps(scenario)


def _steps(scenario: ProtocolScenario) -> Iterator[dict[str, Any]]:
    faults, protocol = scenario.faults, scenario.protocol
    yield {"faults": Faults()}
    yield {"processes": ()}
    yield {"consumers": (), "links": ()}
    yield {"duration_s": _few_digits(scenario.duration_s / 2)}
    yield {"duration_s": _few_digits(scenario.duration_s * 0.8)}
    yield from _fewer_members(scenario)
    for at in range(len(scenario.processes)):
        yield {"processes": scenario.processes[:at] + scenario.processes[at + 1 :]}
    yield from _fewer_restarts(scenario)
    for at in range(len(faults.partitions)):
        left = faults.partitions[:at] + faults.partitions[at + 1 :]
        yield {"faults": replace(faults, partitions=left)}
    for name, value in vars(Faults()).items():
        yield {"faults": replace(faults, **{name: value})}
    default = ProtocolScenario(members=2)
    for name in ("links", "host", "consumers", "detection_ms", "socket_datagrams", "drain_s"):
        yield {name: getattr(default, name)}
    yield {"network": Ideal()}
    yield {"traffic": Overwrites(rate_msg_s=20.0)}
    yield from _smaller_windows(protocol)
    for name, value in vars(Protocol()).items():
        if name in _KEPT:
            continue
        try:
            simpler = replace(protocol, **{name: value})
        except SemcastError:  # it goes with another setting that is there
            continue
        yield {"protocol": simpler}


def _fewer_restarts(scenario: ProtocolScenario) -> Iterator[dict[str, Any]]:
    """Half as many, or one less, of each process that restarts again and again."""
    for at, fault in enumerate(scenario.processes):
        if isinstance(fault, Restarts) and fault.times > 1:
            for times in (fault.times // 2, fault.times - 1):
                fewer = replace(fault, times=times)
                before, after = scenario.processes[:at], scenario.processes[at + 1 :]
                yield {"processes": (*before, fewer, *after)}


def _smaller_windows(protocol: Protocol) -> Iterator[dict[str, Any]]:
    """Half of what is sent in a burst at the most."""
    if protocol.window_messages > 1:
        half = protocol.window_messages // 2
        room = max(1, protocol.delivery_messages // 2)
        yield {"protocol": replace(protocol, window_messages=half, delivery_messages=room)}
        yield {"protocol": replace(protocol, window_messages=half)}


def _fewer_members(scenario: ProtocolScenario) -> Iterator[dict[str, Any]]:
    """Without the last member, and without what is said of it; or with fewer senders."""
    last = scenario.members - 1

    def without(members: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(member for member in members if member != last)

    cuts = [replace(cut, members=without(cut.members)) for cut in scenario.faults.partitions]
    consumers = [Consumer(without(one.members), one.delay_ms) for one in scenario.consumers]
    yield {
        "members": last,
        "senders": without(scenario.senders) or (0,),
        "readers": without(scenario.readers),
        "links": tuple(link for link in scenario.links if link.member != last),
        "consumers": tuple(one for one in consumers if one.members),
        "processes": tuple(one for one in scenario.processes if one.member != last),
        "faults": replace(
            scenario.faults,
            to_members=without(scenario.faults.to_members),
            partitions=tuple(cut for cut in cuts if cut.members),
        ),
    }
    for sender in scenario.senders:
        yield {"senders": tuple(other for other in scenario.senders if other != sender)}


def _few_digits(value: float) -> float:
    return max(1e-3, float(f"{value:.2g}"))


# -- files -----------------------------------------------------------------------------------------


def to_toml(scenario: Explorable) -> str:
    """The scenario as a file for `semcast sim run`: only what is not as usual."""
    return "\n".join(_table(scenario, "")) + "\n"


def _table(settings: object, name: str) -> Iterator[str]:
    """Plain values first, then the tables inside."""
    tables: list[tuple[str, object, str]] = []
    assert is_dataclass(settings)
    for one in fields(settings):
        value = getattr(settings, one.name)
        inner = f"{name}.{one.name}" if name else one.name
        if one.name not in _ALWAYS and value == _default(one):
            continue
        if is_dataclass(value):
            tables.append((f"[{inner}]", value, inner))
        elif isinstance(value, tuple) and value and is_dataclass(value[0]):
            tables += [(f"[[{inner}]]", row, inner) for row in value]
        else:
            yield f"{one.name} = {_value(value)}"
    for heading, value, inner in tables:
        yield ""
        yield heading
        yield from _table(value, inner)


def _default(one: "Field[Any]") -> object:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return "[" + ", ".join(_value(one) for one in value) + "]"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return repr(value)
