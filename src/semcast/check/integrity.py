"""Integrity (SRM Figure 2): every process delivers m at most once, and only if m was multicast
before by some process. Holds on every prefix.

A log in which one number names two messages, or a process speaks for another, breaks it too: then
"m" would not be one message.
"""

from typing import Final

from semcast.check.history import History, Step
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Integrity"


def check(log: Journal | History) -> list[Violation]:
    """Look at every multicast and every delivery."""
    history = History.of(log)
    found = []
    delivered = [0] * len(history.messages)
    for step in history.steps:
        if step.event == "multicast":
            fault = _multicast_fault(history, step)
        elif step.event == "deliver":
            fault = _delivery_fault(history, step, delivered[step.message])
            delivered[step.message] |= 1 << step.node
        else:
            continue
        if fault:
            event = history.event(step)
            name = history.messages[step.message]
            text = f"{event.node} {fault.format(name)}"
            found.append(Violation(PROPERTY, text, event.node, (name,), event.time_ns))
    return found


def _multicast_fault(history: History, step: Step) -> str:
    if history.multicast_at[step.message] != step.at:
        return "multicasts {} a second time"
    if history.nodes[step.node] != history.messages[step.message].sender:
        return "multicasts {} in the name of another"
    return ""


def _delivery_fault(history: History, step: Step, delivered: int) -> str:
    if (delivered >> step.node) & 1:
        return "delivers {} again"
    if not history.multicast_before(step.message, step.at):
        return "delivers {}, which nobody had multicast"
    return ""
