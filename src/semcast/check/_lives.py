"""Order by key across the lives of one sender: part of Key Order.

A process that comes back is another sender, and its messages replace nothing of its former life. So
a node may have values of one key of both. If m of the former life had come to the node (`receive`)
before it delivered m' of a later one about the same key, it does not deliver m after m'. What comes
only afterwards, because others send it again, is delivered all the same. Holds on every prefix.
"""

from collections import defaultdict
from collections.abc import Iterator

from semcast.check._streams import Streams
from semcast.check.history import History
from semcast.check.violation import MessageId
from semcast.journal import parse_node


def late_lives(history: History, streams: Streams) -> Iterator[tuple[int, MessageId, MessageId]]:
    """Every delivery that should have come before one of a later life: its position, and both."""
    lives = _keys_of_several_lives(history, streams)
    if not lives:
        return
    received: dict[tuple[int, int], int] = {}
    # By node, sender and key: of each life, the last delivery, and the message.
    last: defaultdict[tuple[int, int, str], dict[int, tuple[int, int]]] = defaultdict(dict)
    for step in history.steps:
        if step.event not in ("receive", "deliver") or step.message not in lives:
            continue
        if step.event == "receive":
            received.setdefault((step.node, step.message), step.at)
            continue
        came = received.get((step.node, step.message))
        sender, life, keys = lives[step.message]
        latest = (-1, -1)
        for key in keys:
            of_key = last[step.node, sender, key]
            latest = max([latest, *(one for other, one in of_key.items() if other > life)])
            of_key[life] = (step.at, step.message)
        if came is not None and latest[0] > came:
            yield step.at, history.messages[step.message], history.messages[latest[1]]


def _keys_of_several_lives(
    history: History, streams: Streams
) -> dict[int, tuple[int, int, list[str]]]:
    """By message: its sender, its life, and its keys; only of senders with several lives."""
    names = {sender: parse_node(sender) for sender in history.streams}
    count: defaultdict[int, int] = defaultdict(int)
    for source, _ in names.values():
        count[source] += 1
    found = {}
    for sender, sent in history.streams.items():
        source, life = names[sender]
        if count[source] > 1:
            for message in sent:
                keys = [streams.keys[stream] for stream, _ in streams.of[message]]
                found[message] = (source, life, [key for key in keys if key])
    return found
