"""Which site comes next in a tree that grows: candidates in, one of them out (PROP §3.1).

The candidates are the sites that may become the root, or that the site above shares a group with
and that are in one piece. Where a site hangs, and when it is chosen, is known in `generator`.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, final

from mypy_extensions import mypyc_attr

from semcast.protocol.membership.view import scatter
from semcast.protocol.propagation.field import Field
from semcast.protocol.propagation.graph import NO_SITE

# How long a message takes from one site to another.
LatencyNs: TypeAlias = Callable[[int, int], int]
# By group: its members that have no place yet. Their messages all come through the site to choose.
Waiting: TypeAlias = Mapping[str, Sequence[int]]
# To how many sites that wait a candidate's latency is looked at. More would take long and say
# little.
TARGETS_MAX: Final = 32
_CHANCES: Final = 1024


@final
class Turn:
    """What is to be decided: one of `candidates` is to hang on the site `above`, or to be a root
    if that is NO_SITE.
    """

    def __init__(
        self, above: int, candidates: Sequence[int], waiting: Waiting, field: Field
    ) -> None:
        self.above: Final = above
        self.candidates: Final = candidates
        self.waiting: Final = waiting
        self.field: Final = field


@mypyc_attr(allow_interpreted_subclasses=True)
class Choice(ABC):
    """One way to choose. `looks_ahead` says whether it wants to know who waits."""

    def __init__(self, looks_ahead: bool = False) -> None:
        self.looks_ahead: Final = looks_ahead

    @abstractmethod
    def best(self, turn: Turn) -> int:
        """One of the candidates. Their order and that of who waits must not matter."""


@final
class MostGroups(Choice):
    """The paper's greedy rule: the site in most groups, which keeps trees short."""

    def __init__(self) -> None:
        super().__init__()

    def best(self, turn: Turn) -> int:
        return max(turn.candidates, key=turn.field.by_groups)


@final
class NearlyMost(Choice):
    """The site in most groups, give or take two, as a hash of the site decides.

    Each draw gives another tree about as good as that of the greedy rule; the best of several is
    better.
    """

    def __init__(self, draw: int) -> None:
        super().__init__()
        self._draw: Final = draw

    def best(self, turn: Turn) -> int:
        field = turn.field
        return max(turn.candidates, key=lambda site: (self._weight(site, field), field.ranks[site]))

    def _weight(self, site: int, field: Field) -> int:
        chance = scatter(scatter(site) + self._draw) % _CHANCES
        return len(field.left[site]) * _CHANCES + 2 * chance


@final
class FewestPassed(Choice):
    """The site that is itself in most of the groups whose messages must come through it.

    Such a site is seldom the one in most groups, so trees get deeper, and their roots are the
    primary destinations of fewer groups.
    """

    def __init__(self) -> None:
        super().__init__(looks_ahead=True)

    def best(self, turn: Turn) -> int:
        field, wanted = turn.field, dict.fromkeys(turn.candidates, 0)
        for sites in turn.waiting.values():
            for site in sites:
                if site in wanted:
                    wanted[site] += 1
        return max(turn.candidates, key=lambda site: (wanted[site], *field.by_groups(site)))


@final
class Nearest(Choice):
    """The site that is near to the one above and to those that wait, of those that are in at
    least a share of the groups that the greedy rule's choice is in.
    """

    def __init__(self, latency_ns: LatencyNs, share: float) -> None:
        super().__init__(looks_ahead=True)
        self._latency_ns: Final = latency_ns
        self._share: Final = share

    def best(self, turn: Turn) -> int:
        field, candidates = turn.field, turn.candidates
        most = max(len(field.left[site]) for site in candidates)
        near = [site for site in candidates if len(field.left[site]) >= self._share * most]
        everywhere = _most_wanted(turn.waiting, field)
        delays = {
            site: self._delay_ns(turn.above, site, everywhere or _neighbours(site, field))
            for site in near
        }
        return min(near, key=lambda site: (delays[site], *(-one for one in field.by_groups(site))))

    def _delay_ns(self, above: int, site: int, targets: Sequence[int]) -> float:
        """From the site above, and on to those that wait, on average."""
        here = 0 if above == NO_SITE else self._latency_ns(above, site)
        others = [self._latency_ns(site, one) for one in targets if one != site]
        return here + (sum(others) / len(others) if others else 0.0)


def _most_wanted(waiting: Waiting, field: Field) -> list[int]:
    """The sites that wait for messages of most groups."""
    wanted: dict[int, int] = {}
    for sites in waiting.values():
        for site in sites:
            wanted[site] = wanted.get(site, 0) + 1
    ranked = sorted(wanted, key=lambda site: (-wanted[site], -field.ranks[site]))
    return ranked[:TARGETS_MAX]


def _neighbours(site: int, field: Field) -> list[int]:
    """The sites that a root would send to, of the highest labels."""
    found = {one for name in field.left[site] for one in field.groups[name]}
    return sorted(found, key=lambda one: -field.ranks[one])[:TARGETS_MAX]
