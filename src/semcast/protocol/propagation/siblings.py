"""Load for depth: siblings that pass messages on to each other (PROP §4.1, Figure 5(b)).

Children of one site that have no children go in; for some of them, a sibling as their new parent
comes out. A site may hang below a sibling that is in all of its groups: that one gets these
messages anyway, so it is no extra node, and the site above sends fewer copies.
"""

from collections.abc import Sequence
from typing import Final, final

from semcast.protocol.propagation.field import Field


def hang_below_siblings(field: Field, leaves: Sequence[int], children_max: int) -> dict[int, int]:
    """The new parents, of those that get one."""
    groups_of = {site: frozenset(field.all_groups[site]) for site in leaves}
    ranked = sorted(leaves, key=lambda site: (-len(groups_of[site]), -field.ranks[site]))
    # By group: siblings with room below them, the ones nearest to the top first.
    places: dict[str, _Places] = {}
    room = dict.fromkeys(leaves, children_max)
    parents: dict[int, int] = {}
    for site in ranked:
        names = groups_of[site]
        fewest = min((places[name] for name in names if name in places), key=len, default=None)
        if fewest is not None and all(name in places for name in names):
            parent = fewest.first(names, groups_of, room)
            if parent is not None:
                parents[site] = parent
                room[parent] -= 1
        for name in names:
            places.setdefault(name, _Places()).sites.append(site)
    return parents


@final
class _Places:
    """Siblings in one group, in the order in which they were placed."""

    def __init__(self) -> None:
        self.sites: Final[list[int]] = []
        self._full = 0  # so many of the first ones have no room

    def __len__(self) -> int:
        return len(self.sites) - self._full

    def first(
        self, names: frozenset[str], groups_of: dict[int, frozenset[str]], room: dict[int, int]
    ) -> int | None:
        """The first with room that is in all these groups."""
        while self._full < len(self.sites) and not room[self.sites[self._full]]:
            self._full += 1
        for at in range(self._full, len(self.sites)):
            site = self.sites[at]
            if room[site] and names <= groups_of[site]:
                return site
        return None
