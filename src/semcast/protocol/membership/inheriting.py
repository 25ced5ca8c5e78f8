"""Inheriting: the state of all sources in; what an application gets of it, in its order, out.

Mostly the state of a source is all that it gets before the stream. If the stream has begun anew,
messages that came before may still wait, and have their place between what stood before them and
what stands after them. Knows nothing of where the state came from.
"""

from semcast.ids import Source
from semcast.obsolescence.relation import outranks
from semcast.protocol.membership.wants import Want
from semcast.protocol.order import Order
from semcast.wire.message import Message


def to_give(wants: dict[Source, Want], since: dict[Source, int], order: Order) -> list[Message]:
    """What the application gets now, by sources and numbers. `since`: how far it has got with each
    source, which grows; what waits in `order` and has its place here is taken out of it.
    """
    found: list[Message] = []
    for source in sorted(wants):
        want = wants[source]
        has = since.get(source, 0)
        some = [one for one in want.messages() if one.seq > has]
        some += order.withdraw(source, max(has, want.had))
        some.sort(key=_number)
        found += some
        if want.had > has:
            since[source] = int(want.had)
    return _unbeaten(found)


def _number(message: Message) -> int:
    return int(message.seq)


def _unbeaten(messages: list[Message]) -> list[Message]:
    """Without bids of the state that others beat: each source has its own best."""
    best: dict[bytes, Message] = {}
    for message in messages:
        if message.ranked and message.state:
            rival = best.get(message.key)
            if rival is None or outranks(message, rival):
                best[message.key] = message
    return [one for one in messages if not (one.ranked and one.state) or best[one.key] is one]
