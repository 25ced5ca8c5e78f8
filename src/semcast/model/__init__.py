"""The closed forms of the papers: what to expect before anything is run.

`purge` says how slow a receiver may be and how large a buffer it takes (SRM, OBS), `stability`
what a stability round costs and `trigger` when to start one (STAB), `propagation` what an
ordered multicast costs (PROP). Pure functions: numbers in, numbers out.

`epidemic` is no closed form but a model in rounds of gossip with purging (PSRM), for groups of up
to millions. It needs numpy, so whoever wants it imports it by name.
"""

from semcast.model import propagation, purge, stability, trigger

__all__ = ["propagation", "purge", "stability", "trigger"]
