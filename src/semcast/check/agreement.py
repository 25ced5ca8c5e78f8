"""Agreement (SRM Figure 3): if a correct process delivers m, all correct processes deliver some m'
with m ⊑ m', whoever crashed. A message that no correct process delivered owes nothing here. A
process that left when it was allowed to, because all it took was safe at the others, was correct
until then: what it delivered is owed to it by those who stayed.
"""

from typing import Final

from semcast.check._owed import missing
from semcast.check.history import History
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Agreement"


def check(log: Journal | History) -> list[Violation]:
    """Look at every message that was delivered by a correct node, or one that left settled."""
    history = History.of(log)
    found = []
    for stream in history.streams.values():
        for message in stream:
            witnesses = history.delivered[message] & history.trusted
            if witnesses:
                why = f"{history.nodes[next(history.nodes_in(witnesses))]} delivered it"
                found += missing(history, PROPERTY, message, history.correct, why)
    return found
