"""FIFO Completeness (SRM Figure 3): if a process multicasts m before m', no correct process
delivers m' without delivering some m'' with m ⊑ m''. Judged at the end of the log, when all covers
are known.

The m1, m2, m3 run of SRM §4.3 (m1 purged for m3, which then dies with its sender) shows here.
"""

from typing import Final

from semcast.check.history import History
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "FIFO Completeness"


def check(log: Journal | History) -> list[Violation]:
    """Walk each stream backwards: who delivered something later must have this one or a cover."""
    history = History.of(log)
    found = []
    for stream in history.streams.values():
        # The correct nodes that delivered a later message, and for each the first of those.
        later = 0
        shown: dict[int, int] = {}
        for message in reversed(stream):
            for node in history.nodes_in(later & ~history.satisfied[message]):
                name, other = history.messages[message], history.messages[shown[node]]
                text = (
                    f"{history.nodes[node]} delivered {other} but neither {name}, "
                    "which was multicast before it, nor anything that replaces it"
                )
                found.append(
                    Violation(PROPERTY, text, history.nodes[node], (name, other), history.end_ns)
                )
            delivered = history.delivered[message] & history.correct
            later |= delivered
            for node in history.nodes_in(delivered):
                shown[node] = message
    return found
