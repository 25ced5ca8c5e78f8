"""FIFO Order (SRM Figure 2): if a process multicasts m before m', no process delivers m after
delivering m'. Holds on every prefix.

The run that Figure 4 as printed allows (m1 relayed to a process that has m2 already) shows here.
"""

from typing import Final

from semcast.check.history import History
from semcast.check.relation import NEVER
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "FIFO Order"


def check(log: Journal | History) -> list[Violation]:
    """Each delivery must come later in its stream than all before it at that node."""
    history = History.of(log)
    found = []
    # By node and sender: of what it delivered, the message that was multicast last.
    latest: dict[tuple[int, str], int] = {}
    for step in history.steps:
        if step.event != "deliver":
            continue
        position = history.multicast_at[step.message]
        if position == NEVER:
            continue
        name = history.messages[step.message]
        stream = (step.node, name.sender)
        last = latest.get(stream, -1)
        if last < 0 or history.multicast_at[last] <= position:
            latest[stream] = step.message
            continue
        event = history.event(step)
        other = history.messages[last]
        text = f"{event.node} delivers {name} after {other}, which was multicast later"
        found.append(Violation(PROPERTY, text, event.node, (name, other), event.time_ns))
    return found
