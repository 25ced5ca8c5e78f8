"""Key Order, which stands for FIFO Order where the order is "key": if a process multicasts m before
m', and both are of one stream (one key, or both unmarked) or m' names m, no process delivers m
after delivering m'. Nothing is said of other messages. Holds on every prefix.

So a newer value may overtake what was multicast before it, but never one of its own key, and what
is never replaced comes as it was sent.
"""

from collections import defaultdict
from typing import Final

from semcast.check._streams import NO_STREAM, Streams
from semcast.check.history import History
from semcast.check.relation import NEVER
from semcast.check.violation import Violation
from semcast.journal import Journal

PROPERTY: Final = "Key Order"


def check(log: Journal | History) -> list[Violation]:
    """Each delivery must come later in its stream than all before it, and before its covers."""
    history = History.of(log)
    streams = Streams(history)
    found = []
    # By node and stream: of what it delivered, the message that was multicast last.
    latest: dict[tuple[int, int], int] = {}
    # By node: what it must not deliver any more, and the message that named it.
    named: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for step in history.steps:
        if step.event != "deliver" or history.multicast_at[step.message] == NEVER:
            continue
        message = step.message
        stream = (step.node, streams.of[message])
        other = latest.get(stream, -1) if stream[1] != NO_STREAM else -1
        if other < 0 or history.multicast_at[other] <= history.multicast_at[message]:
            latest[stream] = message
            other = named[step.node].get(message, -1)
        for older in history.relation.names(message):
            named[step.node].setdefault(older, message)
        if other >= 0:
            event = history.event(step)
            about = (history.messages[message], history.messages[other])
            text = (
                f"{event.node} delivers {about[0]} after {about[1]}, which was multicast later and "
                "is of the same key, names it, or is unmarked as well"
            )
            found.append(Violation(PROPERTY, text, event.node, about, event.time_ns))
    return found
