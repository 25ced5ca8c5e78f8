"""What a member reports of itself as it happens: the source of every journal.

A world subclasses `Observer` and gives it to its members. The member says what happened; the world
knows when and where. Nothing here is part of the protocol, and an observer is optional.
"""

from mypy_extensions import mypyc_attr

from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.wire.message import Message


@mypyc_attr(allow_interpreted_subclasses=True)
class Observer:
    """Hears everything and does nothing; override what you want to know."""

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        """One of multicast, receive, ignore, deliver, state, purge, retransmit happened to a
        message; `docs/design/journal.md` says what each means.

        `where` is "", "delivery" or "retransmit"; a purge has the cover that replaces it.
        """

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        """One of safe, stable, skip, nak, block, unblock, join, state-begun, state-done, again,
        unsure, close, out, resume concerns a source and a seq.
        """

    def opened(self, number: int, groups: tuple[str, ...]) -> None:
        """In a federation: from now on the graph with this number counts, in which this site is a
        member of these groups; or what it lacks of that graph, which it went over, comes now.
        """

    def view(self, view: View) -> None:
        """From now on this view counts: what is reported next happens in it."""
