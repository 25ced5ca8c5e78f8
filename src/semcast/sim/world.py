"""The simulated world: a scenario and a seed in; what every node did, and the journal, out. Members
are counted beforehand (`closed_world`), or come and go (`open_world`).
"""

from collections.abc import Callable

from semcast.protocol.machine import MachineMaker
from semcast.protocol.member import Member
from semcast.sim.closed_world import Run, World
from semcast.sim.open_world import OpenWorld
from semcast.sim.scenario import ProtocolScenario

__all__ = ["Run", "World", "run"]


def run(
    scenario: ProtocolScenario,
    seed: int,
    journal: bool = True,
    progress: Callable[[float], None] | None = None,
    name: str = "sim",
    make: MachineMaker = Member,
) -> Run:
    """Run a scenario. `name` is what the journal calls the run; `make` makes its members."""
    world = OpenWorld if scenario.open else World
    return world(scenario, seed, journal, name, make).run(progress)
