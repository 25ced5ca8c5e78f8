"""The simulated world: scheduler, networks, hosts, faults, traffic, and members under all of it.

Gathered here is the kernel, on which worlds are built: time (`Scheduler`), when packets arrive
(`Network` and its models), what goes wrong on the way (faults) and what processors add to it
(hosts). `docs/design/simulator.md` says how they fit together.
"""

from semcast.sim.faults import (
    BurstLoss,
    Corruption,
    Delay,
    Duplication,
    Fault,
    Loss,
    Partition,
    Reordering,
)
from semcast.sim.host import (
    Cost,
    CostHosts,
    Hosts,
    LinearCost,
    MeasuredHosts,
)
from semcast.sim.network import (
    NO_PARENT,
    Ideal,
    Network,
    Receiver,
    RouterTree,
    SharedPointToPoint,
    SwitchedLan,
    tree_parents,
)
from semcast.sim.scheduler import NO_EVENT, Handler, Scheduler

__all__ = [
    "NO_EVENT",
    "NO_PARENT",
    "BurstLoss",
    "Corruption",
    "Cost",
    "CostHosts",
    "Delay",
    "Duplication",
    "Fault",
    "Handler",
    "Hosts",
    "Ideal",
    "LinearCost",
    "Loss",
    "MeasuredHosts",
    "Network",
    "Partition",
    "Receiver",
    "Reordering",
    "RouterTree",
    "Scheduler",
    "SharedPointToPoint",
    "SwitchedLan",
    "tree_parents",
]
