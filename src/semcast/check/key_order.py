"""Key Order, which stands for FIFO Order where the order is "key": if a process multicasts m before
m', and both are of one stream (about one key, alone or with others, or both unmarked) or m' names
m, no process delivers m after delivering m'. Nothing is said of other messages. Holds on every
prefix. Across the lives of a sender, `_lives` has what is promised.

So a newer value may overtake what was multicast before it, but never what is about its own key, and
what is never replaced comes as it was sent.
"""

from collections import defaultdict
from typing import Final

from semcast.check._lives import late_lives
from semcast.check._streams import Streams
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
        other = -1
        for stream, _ in streams.of[message]:
            last = latest.get((step.node, stream), -1)
            if last < 0 or history.multicast_at[last] <= history.multicast_at[message]:
                latest[step.node, stream] = message
            elif other < 0:
                other = last
        if other < 0:
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
    for at, late, before in late_lives(history, streams):
        event = history.journal.events[at]
        text = late_life_text(event.node, f"{late}", f"{before}")
        found.append(Violation(PROPERTY, text, event.node, (late, before), event.time_ns))
    return found


def late_life_text(node: str, late: str, before: str) -> str:
    """What is said of a message that came before one of a later life, and was delivered after."""
    return (
        f"{node} delivers {late} after {before}, which is about the same key and of a later life "
        "of its sender, although it had come before"
    )
