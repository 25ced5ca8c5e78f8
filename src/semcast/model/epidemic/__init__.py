"""Gossip with a purging layer among up to millions of members: settings in, measures out (PSRM).

A round is the time that a link takes for one message. All members are advanced together, one
message at a time, as arrays with one entry per member; so a million members take minutes, where an
event for each copy would take days. `docs/design/epidemic-rounds.md` says what the model leaves out
and how far it is from simulations that have an event for each copy.

Needs numpy, so `semcast.model` does not import it by itself.
"""

from semcast.model.epidemic.outcome import Outcome
from semcast.model.epidemic.reach import share_reached
from semcast.model.epidemic.rounds import run
from semcast.model.epidemic.settings import POLICIES, VIEWS, Epidemic, relays_for

__all__ = ["POLICIES", "VIEWS", "Epidemic", "Outcome", "relays_for", "run", "share_reached"]
