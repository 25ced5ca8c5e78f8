"""Validity (SRM Figure 3): a correct process that multicasts m delivers some m' with m ⊑ m'."""

from typing import Final

from semcast.check._owed import missing, sender_if_correct
from semcast.check.history import History
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Validity"


def check(log: Journal | History) -> list[Violation]:
    """Look at every message of a correct sender, at that sender."""
    history = History.of(log)
    found = []
    for sender, stream in history.streams.items():
        owing = sender_if_correct(history, sender)
        for message in stream:
            found += missing(history, PROPERTY, message, owing, "it multicast it")
    return found
