"""What gossip promises with a probability, by its definition, as in `brute`."""

from math import sqrt

from tests.check.brute import Facts, Found, taken

from semcast.check import MessageId
from semcast.journal import Event, Journal


def has(event: Event, node: str, message: MessageId) -> bool:
    return (
        event.node == node
        and (event.sender, event.seq) == message
        and (taken(event) or event.event == "ignore")
    )


def highest_share(good: int, counted: int) -> float:
    """The largest p from which what was seen is no farther away than 1.96 deviations: the larger
    root of (p' - p)² = z² p (1 - p) / n.
    """
    share, z2 = good / counted, 1.959964**2
    a, b, c = 1 + z2 / counted, -(2 * share + z2 / counted), share**2
    return (-b + sqrt(b * b - 4 * a * c)) / (2 * a)


def atomicity(journal: Journal) -> Found:
    """One pair for the run: the first message that is not atomic, and its sender."""
    facts = Facts(journal)
    correct = [node for node in facts.nodes if facts.is_correct(node)]
    cut = journal.header.one_order and not all(
        any(event.node == node and event.event == "end" for event in facts.events)
        for node in correct
    )
    end_ns = facts.events[-1].time_ns
    good: list[MessageId] = []
    bad: list[MessageId] = []
    for message, at in facts.multicasts.items():
        late = cut and facts.events[at].time_ns >= end_ns - end_ns // 4
        replaced = any(facts.replaced(message, other) for other in facts.multicasts)
        members = [node for node in correct if is_asked(facts, node, message)]
        if late or replaced or not members or not facts.is_trusted(message.sender):
            continue
        reached = [
            node for node in members if any(has(event, node, message) for event in facts.events)
        ]
        (good if len(reached) > 0.95 * len(members) else bad).append(message)
    counted = len(good) + len(bad)
    if counted < 20 or highest_share(len(good), counted) >= 0.95:
        return set()
    first = min(bad, key=lambda one: (facts.nodes.index(one.sender), one.seq))
    return {(first.sender, first)}


def is_asked(facts: Facts, node: str, message: MessageId) -> bool:
    """There from the start, or from the first message of the sender on that it got."""
    if node == message.sender and not facts.header.deliver_own:
        return False
    return node in facts.header.members or any(
        has(event, node, MessageId(message.sender, seq))
        for event in facts.events
        for seq in range(1, message.seq + 1)
    )
