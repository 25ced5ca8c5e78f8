"""A propagation graph: a forest of sites, and where each group's messages enter it (PROP §3).

Groups, parents and primary destinations go in; who passes what on to whom comes out. A graph never
changes: another set of groups is another graph, with the next number (PROP §5.1). How a good forest
is found is not known here (`generator`).

The ways of messages may be long where many groups overlap, and no site needs more than its own
part of them. So they are not laid out in advance. A walk through each tree numbers its sites such
that a site and all below it have numbers without gaps; whether a member of a group is below a
site is then a search in a sorted list.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping
from typing import Final, final

from semcast.errors import ConfigError

# The parent of a root, and of a site that is in no group.
NO_SITE: Final = -1


@final
class Graph:
    """Sites are sender ids; groups go by their names."""

    def __init__(
        self,
        number: int,
        groups: Mapping[str, tuple[int, ...]],
        parents: Mapping[int, int],
        primaries: Mapping[str, int],
    ) -> None:
        """`parents` has every site that is placed; roots have NO_SITE. `primaries` has every
        group. Raises ConfigError unless PG1 and PG2 hold.
        """
        self.number: Final = number
        self.groups: Final = {name: tuple(sorted(groups[name])) for name in sorted(groups)}
        self.parents: Final = {site: parents[site] for site in sorted(parents)}
        self.primaries: Final = {name: primaries[name] for name in sorted(primaries)}
        self.roots: Final = tuple(
            site for site, parent in self.parents.items() if parent == NO_SITE
        )
        children: dict[int, list[int]] = {site: [] for site in self.parents}
        for site, parent in self.parents.items():
            if parent != NO_SITE:
                if parent not in children:
                    raise ConfigError(f"site {site} hangs on {parent}, which has no place")
                children[parent].append(site)
        self.children: Final = {site: tuple(below) for site, below in children.items()}
        # The walk: the number of each site, the first number beyond all below it, and its depth.
        self._first: Final[dict[int, int]] = {}
        self._end: Final[dict[int, int]] = {}
        self._depth: Final[dict[int, int]] = {}
        self._walk()
        # By group: the numbers of its members, sorted.
        self._numbers: Final = {name: self._checked(name) for name in self.groups}
        self._groups_of: Final[dict[int, list[str]]] = {}
        for name, members in self.groups.items():
            for member in members:
                self._groups_of.setdefault(member, []).append(name)
        # By site, by group: what was asked for before.
        self._next: Final[dict[int, dict[str, tuple[int, ...]]]] = {}
        self._loads: dict[int, int] | None = None

    def _walk(self) -> None:
        """Number the sites, each before those below it."""
        order: list[int] = []
        to_visit = list(reversed(self.roots))
        while to_visit:
            site = to_visit.pop()
            self._first[site] = len(order)
            parent = self.parents[site]
            self._depth[site] = 0 if parent == NO_SITE else self._depth[parent] + 1
            order.append(site)
            to_visit += reversed(self.children[site])
        if len(order) < len(self.parents):
            lost = next(site for site in self.parents if site not in self._first)
            raise ConfigError(f"site {lost} hangs on itself, by way of others; no root is above it")
        for site in reversed(order):
            below = self.children[site]
            self._end[site] = self._end[below[-1]] if below else self._first[site] + 1

    def _checked(self, name: str) -> list[int]:
        """The numbers of a group's members, all of them below its primary destination."""
        primary = self.primaries.get(name, NO_SITE)
        if primary not in self.parents:
            raise ConfigError(f"group {name!r} has no primary destination with a place (PG1)")
        first, end = self._first[primary], self._end[primary]
        numbers = []
        for member in self.groups[name]:
            number = self._first.get(member, -1)
            if not first <= number < end:
                raise ConfigError(
                    f"no way leads from {primary} to member {member} of {name!r} (PG2)"
                )
            numbers.append(number)
        numbers.sort()
        return numbers

    # -- what a site needs to know -----------------------------------------------------------------

    def holds(self, site: int) -> bool:
        """Whether a site has a place in the forest."""
        return site in self.parents

    def parent(self, site: int) -> int:
        """The parent of a site, or NO_SITE."""
        return self.parents.get(site, NO_SITE)

    def is_member(self, site: int, group: str) -> bool:
        """Whether a site is one of the destinations of a group."""
        members = self.groups.get(group, ())
        at = bisect_left(members, site)
        return at < len(members) and members[at] == site

    def groups_of(self, site: int) -> tuple[str, ...]:
        """The groups that a site is a member of."""
        return tuple(self._groups_of.get(site, ()))

    def passes(self, site: int, group: str) -> bool:
        """Whether messages of a group come through a site: as a member, or as an extra node."""
        numbers = self._numbers.get(group)
        if numbers is None or site not in self._first:
            return False
        primary = self.primaries[group]
        first = self._first[site]
        if not self._first[primary] <= first < self._end[primary]:
            return False
        at = bisect_left(numbers, first)
        return site == primary or (at < len(numbers) and numbers[at] < self._end[site])

    def next_sites(self, site: int, group: str) -> tuple[int, ...]:
        """The children that a site sends a message of a group to."""
        known = self._next.get(site)
        if known is None:
            known = self._next[site] = {}
        found = known.get(group)
        if found is None:
            found = known[group] = self._find_next(site, group)
        return found

    def _find_next(self, site: int, group: str) -> tuple[int, ...]:
        """From one member below the site to the next one that is below another child."""
        if not self.passes(site, group):
            return ()
        numbers, children = self._numbers[group], self.children[site]
        firsts = [self._first[child] for child in children]
        found = []
        at = bisect_left(numbers, self._first[site] + 1)
        while at < len(numbers) and numbers[at] < self._end[site]:
            child = children[bisect_right(firsts, numbers[at]) - 1]
            found.append(child)
            at = bisect_left(numbers, self._end[child])
        return tuple(found)

    def way_groups(self, site: int) -> tuple[str, ...]:
        """The groups whose messages come through a site."""
        return tuple(name for name in self.groups if self.passes(site, name))

    @property
    def sites(self) -> tuple[int, ...]:
        """All that have a place."""
        return tuple(self.parents)

    # -- what it costs (PROP §4.1) -----------------------------------------------------------------

    def depth(self, group: str) -> int:
        """d: how far the farthest member is from the primary destination."""
        farthest = max((self._depth[member] for member in self.groups[group]), default=0)
        return max(0, farthest - self._depth[self.primaries[group]])

    def extra_nodes(self, group: str) -> tuple[int, ...]:
        """The sites on the way that are not members of the group (PG4)."""
        return tuple(
            site for site in sorted(self._copies(group)) if not self.is_member(site, group)
        )

    def forwarding_nodes(self, group: str) -> int:
        """How many sites pass its messages on to others."""
        return sum(1 for copies in self._copies(group).values() if copies)

    def load(self, site: int) -> int:
        """How many messages a site sends and receives if each group gets one message. What the
        source does is not counted.
        """
        if self._loads is None:
            loads = dict.fromkeys(self.parents, 0)
            for name in self.groups:
                for one, copies in self._copies(name).items():
                    loads[one] += 1 + copies
            self._loads = loads
        return self._loads.get(site, 0)

    def delay_ns(self, group: str, latency_ns: Callable[[int, int], int]) -> int:
        """How long a message is on its way from the primary destination to the last member, if
        sites take no time to pass it on.
        """
        since_ns: dict[int, int] = {self.primaries[group]: 0}
        longest = 0
        for member in self.groups[group]:
            way = []
            site = member
            while site not in since_ns:
                way.append(site)
                site = self.parents[site]
            at_ns = since_ns[site]
            for one in reversed(way):
                at_ns += latency_ns(self.parents[one], one)
                since_ns[one] = at_ns
            longest = max(longest, since_ns[member])
        return longest

    def _copies(self, group: str) -> dict[int, int]:
        """How many copies each site on the way of a group sends: the whole way, laid out."""
        copies: dict[int, int] = {self.primaries[group]: 0}
        for member in self.groups[group]:
            if member in copies:
                continue
            copies[member] = 0
            site = self.parents[member]
            while site not in copies:
                copies[site] = 1
                site = self.parents[site]
            copies[site] += 1
        return copies
