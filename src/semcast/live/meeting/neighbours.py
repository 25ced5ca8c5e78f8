"""News of a group that gossips: what overlay and member found out in; what applications are told,
out.

Neighbours are a sample of a group that nobody knows in full, so nothing is said here of who joined
the group or left it. A neighbour is named once it has said its name, which it does at once.
"""

from typing import Final, final

from semcast.ids import Source
from semcast.live.meeting.roster import Roster
from semcast.protocol.epidemic.overlay.overlay import ALONE, DOWN, SPLIT, UP, OverlayEvent

# The kind of an event, the member that it is about, and a text.
Told = tuple[str, str, str]


@final
class Neighbours:
    """Which neighbours an application was told of."""

    def __init__(self) -> None:
        # INV-TOLD: by sender, the neighbours, and the names by which they were told; "" if not yet.
        self._told: Final[dict[int, str]] = {}

    def on_events(self, events: list[OverlayEvent], roster: Roster) -> list[Told]:
        """Something happened to the overlay."""
        found: list[Told] = []
        for event in events:
            sender = int(event.source.sender)
            if event.kind == UP:
                self._told[sender] = ""
                found += self.on_named(sender, roster)
            elif event.kind == DOWN:
                name = self._told.pop(sender, "")
                if name:
                    found.append(("neighbour-lost", name, f"{name} is no neighbour any more"))
            elif event.kind == SPLIT:
                text = "parts of the group had lost each other, and are joined again"
                found.append(("split", roster.name, text))
            elif event.kind == ALONE:
                text = "this member has no neighbour: it is cut off, or alone"
                found.append(("isolated", roster.name, text))
        return found

    def on_silent(self, silent: list[tuple[Source, list[int]]]) -> list[Told]:
        """Messages did not come, and nothing of their senders that could say so."""
        found: list[Told] = []
        for source, lost in silent:
            name = source.name or f"{source.site:x}"
            which = f"{lost[0]}" if len(lost) == 1 else f"{lost[0]} to {lost[-1]} ({len(lost)})"
            text = f"of the messages of {name}, {which} did not come, and nothing came since"
            found.append(("gap", name, text))
        return found

    def on_named(self, sender: int, roster: Roster) -> list[Told]:
        """Somebody may have said its name."""
        peer = roster.peers.get(sender)
        if self._told.get(sender) != "" or peer is None or not peer.name:
            return []
        self._told[sender] = peer.name
        return [("neighbour", peer.name, f"{peer.name} is a neighbour")]
