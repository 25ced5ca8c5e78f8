"""Sender Reliability (SRM Figure 2): if a correct process multicasts m, all correct processes
deliver some m' with m ⊑ m'. All that S-SM promises of messages; S-RM's Validity and Agreement
together give it too. A sender that left when it was allowed to was correct until then.
"""

from typing import Final

from semcast.check._owed import missing
from semcast.check.history import History
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Sender Reliability"


def check(log: Journal | History) -> list[Violation]:
    """Look at every message of a correct sender, at all correct nodes."""
    history = History.of(log)
    found = []
    for sender, stream in history.streams.items():
        if history.trusted & history.only(sender):
            why = f"{sender} multicast it and did not crash"
            for message in stream:
                found += missing(history, PROPERTY, message, history.correct, why)
    return found
