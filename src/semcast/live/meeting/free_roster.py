"""The free roster: what rosters of groups that anybody with the secret may join have in common.

A process that looks for such a group may find another kind of group of that name. Hellos of those
go in; what it is, and how to join it, for people, comes out.
"""

from collections.abc import Mapping
from typing import Any

from semcast.live.meeting.roster import Roster


class FreeRoster(Roster):
    """Who is known of a group whose members nobody has counted."""

    def __init__(self, name: str, incarnation: int) -> None:
        super().__init__(name, incarnation, ())
        # Whether this process is in, and how often it has said hello in vain.
        self.inside = False
        self.tries = 0
        # Who says that the group of this name is of another kind, and that kind's reliability; ""
        # if its members are counted.
        self.other_kind = ""
        self.other_reliability = ""

    def is_of_kind(self, reliability: str, said: Mapping[str, Any]) -> bool:
        """Whether a hello is of a group of this reliability. If not, remember what it is."""
        who = repr(str(said.get("name"))[:64])
        if said.get("open") is not True:
            self.other_kind = f"{who} says that its members are counted; say members or size, too"
            return False
        other = "sender" if said.get("feed") is True else "group"
        for kind in ("gossip", "federation"):
            if said.get(kind) is True:
                other = kind
        if other == reliability:
            return True
        self.other_kind = f"{who} has another reliability; join with reliability={other!r}"
        if other == "federation":
            self.other_kind = f"{who} says that it is a federation; use federate"
        self.other_reliability = other
        return False

    @property
    def complete(self) -> bool:
        return self.inside

    def missing(self) -> str:
        return "nobody has let it in" if self.peers else "nobody has answered"
