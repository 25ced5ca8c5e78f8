"""Lives that are new in a view, and those that are over: what is remembered of either."""

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.streams.asking import Asking
from semcast.protocol.streams.inbound import Inbound
from semcast.wire.sources import Sources


def note_lives(
    before: View, view: View, asking: Asking, sources: Sources, inbounds: dict[Source, Inbound]
) -> None:
    """Who is there in another life can be asked anew; nothing is known of who is not there. Names
    may come later than the lives that have them: in a feed, who sends is met before it says its
    name.
    """
    names: dict[int, str] = {}
    for at, sender in enumerate(view.members):
        if view.names and view.names[at] and not sources.is_named(sender, view.names[at]):
            names[sender] = view.names[at]
        if view.lives[at] != before.life(sender):
            asking.restarted(sender)
    if names:
        sources.name_all(names)
    for at, sender in enumerate(before.members):
        if view.life(sender) == before.lives[at]:
            continue
        if view.position(sender) < 0:
            asking.dropped(sender)
            sources.unname(sender)
        source = Source(sender, before.lives[at])
        if source not in inbounds:
            sources.forget(source)
