"""The load of the two comparators, if each group gets one message: groups in, messages out.

A message that a site sends counts as much as one that it receives; what the source does is not
counted (PROP §4.1).
"""

from collections.abc import Mapping, Sequence
from typing import Final

# Of the two-phase protocol, at each member: the message, the answer, and the final priority.
_TWO_PHASE: Final = 3


def groups_by_site(groups: Mapping[str, Sequence[int]]) -> dict[int, int]:
    """In how many groups each site is."""
    found: dict[int, int] = {}
    for members in groups.values():
        for site in members:
            found[site] = found.get(site, 0) + 1
    return found


def two_phase_load(groups: Mapping[str, Sequence[int]]) -> int:
    """What the site with most of it sends and receives."""
    return _TWO_PHASE * max(groups_by_site(groups).values())


def most_frequent(groups: Mapping[str, Sequence[int]]) -> int:
    """A good central site: one in most groups, and of these the one with the highest number."""
    counts = groups_by_site(groups)
    return max(counts, key=lambda site: (counts[site], site))


def centralized_load(groups: Mapping[str, Sequence[int]], center: int) -> int:
    """What the central site receives, and sends to all other members."""
    sent = sum(len(members) - (center in members) for members in groups.values())
    return len(groups) + sent
