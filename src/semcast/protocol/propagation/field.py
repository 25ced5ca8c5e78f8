"""What is left of a set of overlapping groups while a tree grows through them (PROP Appendix I).

Groups go in; at any time one can ask which groups of a site have no primary destination yet, and
which sites still hang together through such groups. Which site comes next is decided elsewhere
(`choices`), and so is where it hangs (`generator`).
"""

from collections.abc import Mapping, Sequence
from typing import Final, final


@final
class Field:
    """Groups that overlap, and which of them are unmarked: they have no primary destination yet.

    A site is in one piece with another if groups that are unmarked lead from one to the other. All
    unmarked groups of a site are in the same piece, so that how many a site has left is also how
    many it has in its piece.
    """

    def __init__(self, groups: Mapping[str, tuple[int, ...]], ranks: Mapping[int, int]) -> None:
        """`ranks` orders the sites by their labels; the highest wins where all else is equal."""
        self.groups: Final = groups
        self.ranks: Final = ranks
        # The unmarked groups of each site, as the keys of a dictionary: a set that keeps its order.
        self.left: Final[dict[int, dict[str, None]]] = {}
        for name, members in groups.items():
            for site in members:
                self.left.setdefault(site, {})[name] = None
        # All groups of each site, marked or not.
        self.all_groups: Final = {site: tuple(names) for site, names in self.left.items()}

    @property
    def sites(self) -> list[int]:
        """All sites of these groups."""
        return list(self.left)

    def mark(self, name: str) -> None:
        """A group has its primary destination now, and holds no piece together any more."""
        for site in self.groups[name]:
            del self.left[site][name]

    def by_groups(self, site: int) -> tuple[int, int, int]:
        """How the paper's rule ranks a site: by groups in its piece, then by all its groups, and
        then by its label. No two sites are equal.
        """
        return len(self.left[site]), len(self.all_groups[site]), self.ranks[site]


@final
class Pieces:
    """Which of some sites are still in one piece.

    We search from all of these sites at once, a step from each in turn, and stop when only one
    search is left: what the others have not found belongs to it. So the largest piece is never
    searched through, and a long chain of groups costs no more than a short one.
    """

    def __init__(self, field: Field, seeds: Sequence[int]) -> None:
        """Each of `seeds` has an unmarked group."""
        self._field: Final = field
        self._seen: Final[set[str]] = set()
        # By site: the search that found it first. By search: the one that it has met and joined.
        self._found_by: Final[dict[int, int]] = {}
        self._joined: Final = list(range(len(seeds)))
        self._to_visit: Final = [[site] for site in seeds]
        for number, site in enumerate(seeds):
            self._found_by[site] = number
        self._last = self._search()
        pieces: dict[int, list[int]] = {}
        for site in seeds:
            pieces.setdefault(self.of(site), []).append(site)
        self.seeds: Final = pieces

    def of(self, site: int) -> int:
        """The piece of a site that is in one of them, as a key of `seeds`."""
        number = self._found_by.get(site)
        return self._leader(self._last if number is None else number)

    def _search(self) -> int:
        """Go on until one search is left; which one it is."""
        active = list(self._joined)
        while len(active) > 1:
            for number in active:
                if self._leader(number) == number and self._to_visit[number]:
                    self._visit(number, self._to_visit[number].pop())
            left = [one for one in active if self._leader(one) == one and self._to_visit[one]]
            if not left:
                return active[0]
            active = left
        return active[0] if active else 0

    def _visit(self, number: int, site: int) -> None:
        """One step of a search: all groups of a site, and their members."""
        for name in self._field.left[site]:
            if name in self._seen:
                continue
            self._seen.add(name)
            for member in self._field.groups[name]:
                other = self._found_by.get(member)
                if other is None:
                    self._found_by[member] = number
                    self._to_visit[number].append(member)
                else:
                    number = self._join(number, self._leader(other))

    def _join(self, one: int, other: int) -> int:
        """Two searches have met: the one with more to visit takes over the other."""
        if one == other:
            return one
        if len(self._to_visit[one]) < len(self._to_visit[other]):
            one, other = other, one
        self._joined[other] = one
        self._to_visit[one] += self._to_visit[other]
        self._to_visit[other].clear()
        return one

    def _leader(self, number: int) -> int:
        while self._joined[number] != number:
            self._joined[number] = self._joined[self._joined[number]]
            number = self._joined[number]
        return number
