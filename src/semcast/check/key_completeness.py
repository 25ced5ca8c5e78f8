"""Key Completeness, where the order is "key": if a process multicasts m before m', both of one
stream (about one key, alone or with others, or both unmarked), no process delivers m' unless it
delivered m before or something that was multicast by then replaces m. Holds on every prefix, so for
whoever stops in the middle.

Across streams a process that stops may have a newer value and lack an older unmarked message, which
still waited when the value took the place of the one before it. Who goes on gets that too: this is
what FIFO Completeness says, at rest. Whoever came later owes nothing before its join point, nor of
senders for which it told none.
"""

from typing import Final

from semcast.check._streams import Streams
from semcast.check.history import History, Step
from semcast.check.relation import NEVER
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Key Completeness"


def check(log: Journal | History) -> list[Violation]:
    """Follow each node along each stream; what it passes over must be replaced."""
    history = History.of(log)
    streams = Streams(history)
    found = []
    # By node and stream: the place of the first message that is still to come.
    following: dict[tuple[int, int], int] = {}
    joins: dict[tuple[int, str], int] = {}
    for step in history.steps:
        if step.event == "join":
            event = history.event(step)
            if event.sender is not None and event.seq is not None:
                joins.setdefault((step.node, event.sender), event.seq)
            continue
        if step.event != "deliver" or not streams.of[step.message]:
            continue
        # In order, and each once, though it be about several of the keys.
        passed: dict[int, None] = {}
        for stream, place in streams.of[step.message]:
            first = following.get((step.node, stream), 0)
            passed.update(dict.fromkeys(streams.messages[stream][first:place]))
            following[step.node, stream] = max(first, place + 1)
        owes_from = _owes_from(history, step, joins)
        found += [
            _violation(history, step, older)
            for older in passed
            if history.messages[older].seq >= owes_from and not _is_replaced(history, older, step)
        ]
    return found


def _owes_from(history: History, step: Step, joins: dict[tuple[int, str], int]) -> int:
    """The first seq of this sender that the node is to have."""
    sender = history.messages[step.message].sender
    if history.nodes[step.node] == sender:
        return 1 if history.header.deliver_own else NEVER
    if (history.initial >> step.node) & 1:
        return 1
    return joins.get((step.node, sender), NEVER)


def _is_replaced(history: History, message: int, step: Step) -> bool:
    replaced_at = history.relation.covered_at(message)
    return replaced_at < step.at if history.header.one_order else replaced_at != NEVER


def _violation(history: History, step: Step, older: int) -> Violation:
    event = history.event(step)
    name, other = history.messages[older], history.messages[step.message]
    text = (
        f"{event.node} delivers {other} but not {name}, which was multicast before it, of the same "
        "key or as unmarked, and which nothing replaces"
    )
    return Violation(PROPERTY, text, event.node, (name, other), event.time_ns)
