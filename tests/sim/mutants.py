"""Broken variants of the protocol, and how each is hunted (`tests/sim/hunts.py`).

A mutant is a change of text in a file of the package. The copy that has it runs interpreted, in a
process of its own, until a run of it breaks a promise, or after so many that it would have done so
long ago; how fast the machine is does not matter.

This is all of them, by families, each of which has a file.
"""

from typing import Final

from tests.sim.federation_mutants import FEDERATION_MUTANTS
from tests.sim.gossip_mutants import GOSSIP_MUTANTS
from tests.sim.group_mutants import GROUP_MUTANTS
from tests.sim.key_mutants import KEY_MUTANTS
from tests.sim.membership_mutants import MEMBERSHIP_MUTANTS
from tests.sim.stability_mutants import STABILITY_MUTANTS
from tests.sim.variant import Mutant

MUTANTS: Final[tuple[Mutant, ...]] = (
    *GROUP_MUTANTS,
    *KEY_MUTANTS,
    *STABILITY_MUTANTS,
    *MEMBERSHIP_MUTANTS,
    *GOSSIP_MUTANTS,
    *FEDERATION_MUTANTS,
)
