"""What Validity, Agreement and Sender Reliability have in common: somebody owes a message.

"There is a time after which no process multicasts m'' with m ⊏ m''" holds for every message of a
finite log, at its end, so all three are judged there, over the correct nodes.
"""

from semcast.check.history import History
from semcast.check.violation import Violation


def missing(
    history: History, property_name: str, message: int, owing: int, why: str
) -> list[Violation]:
    """A violation for each node of `owing` that has neither the message nor a cover of it."""
    name = history.messages[message]
    return [
        Violation(
            property_name,
            f"{history.nodes[node]} delivered neither {name} nor anything that replaces it, "
            f"although {why}",
            history.nodes[node],
            (name,),
            history.end_ns,
        )
        for node in history.nodes_in(owing & ~history.satisfied[message])
    ]


def sender_if_correct(history: History, sender: str) -> int:
    """The set of the sender alone, or nothing if it crashed."""
    return history.correct & history.only(sender)
