"""PROP Appendix I, word for word: sets, a recursion, and no thought of speed.

The one change is in the closure step, where "∃ s ∈ G" must be "∃ s ∈ g". Ties are broken by
most groups in the partition, most groups overall, and the highest label.
"""

from collections.abc import Iterable

NONE = -1


class Brute:
    """Groups in; `parent` and `primary` out."""

    def __init__(self, groups: dict[str, set[int]]) -> None:
        self.groups = groups
        self.unmarked_groups = set(groups)
        self.unmarked_sites = set().union(*groups.values()) if groups else set()
        self.parent: dict[int, int] = {}
        self.primary: dict[str, int] = {}
        while self.unmarked_groups:
            root = self.most_frequent(self.unmarked_sites, self.unmarked_groups)
            self.parent[root] = NONE
            self.new_subtree(root)

    def most_frequent(self, sites: Iterable[int], within: set[str]) -> int:
        def key(site: int) -> tuple[int, int, int]:
            here = sum(site in self.groups[g] for g in within)
            return here, sum(site in members for members in self.groups.values()), site

        return max(sites, key=key)

    def new_subtree(self, subroot: int) -> None:
        self.unmarked_sites.discard(subroot)
        intersecters = {
            s
            for s in self.unmarked_sites
            if any(s in self.groups[g] and subroot in self.groups[g] for g in self.unmarked_groups)
        }
        for g in sorted(self.unmarked_groups):
            if subroot in self.groups[g]:
                self.unmarked_groups.discard(g)
                self.primary[g] = subroot
        closure = {g for g in self.unmarked_groups if self.groups[g] & intersecters}
        while True:
            sites = set().union(*(self.groups[g] for g in closure)) if closure else set()
            more = closure | {g for g in self.unmarked_groups if self.groups[g] & sites}
            if more == closure:
                break
            closure = more
        for s in intersecters:
            if not any(s in self.groups[g] for g in closure):
                self.parent[s] = subroot
                self.unmarked_sites.discard(s)
        for partition in self.partitions(closure):
            sites = set().union(*(self.groups[g] for g in partition))
            newsite = self.most_frequent(sites & intersecters, partition)
            self.parent[newsite] = subroot
            self.new_subtree(newsite)

    def partitions(self, names: set[str]) -> list[set[str]]:
        found: list[set[str]] = []
        for g in sorted(names):
            meeting = [one for one in found if any(self.groups[g] & self.groups[h] for h in one)]
            found = [one for one in found if one not in meeting]
            found.append({g}.union(*meeting))
        return found
