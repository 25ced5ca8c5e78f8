"""Recovery without the failed (PROP §5.2.1): the histories of the survivors in, one history out.

The survivors report which entries they have installed, in their order. Every one of them has a
beginning of the same acyclic order of all, less what is not meant for it. So an entry that a site
lacks comes after all that it has, and there is an order that all of them can go on to (`merge`).

A site that failed may have delivered more, or in another order. When it comes back it compares what
it delivered with what the survivors agreed on: from the first difference on it has to undo its
deliveries, the last one first, and to redo what they agreed on (`rollback`).

Pure functions; nothing is known of who asks whom.
"""

from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final, TypeAlias, final

from semcast.errors import RemoteProtocolError
from semcast.ids import SEQ_MAX, Source
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.graph import Graph

# By graph: its groups and their sites.
Past: TypeAlias = dict[int, dict[str, tuple[int, ...]]]
_Place: TypeAlias = tuple[int, str, int]


@final
@dataclass(frozen=True)
class Report:
    """What a site has when it stops for a recovery."""

    # The graph that it is in, and by group up to which place it has everything there. Of former
    # graphs it has everything. If it was catching up when others failed, it has more: of this graph
    # and of later ones what its entries say.
    graph: int
    installed: dict[str, int]
    # What not everybody has as far as it knows, in its order; and by stream the newest number that
    # has a place.
    entries: list[Entry]
    last: dict[Source, int]

    def lacked(self, entries: list[Entry]) -> list[Entry]:
        """Those of some entries that are meant for the site which it has not installed."""
        has = {entry.at for entry in self.entries}
        return [entry for entry in entries if entry.at not in has and self._is_later(entry)]

    def _is_later(self, entry: Entry) -> bool:
        if entry.graph != self.graph:
            return entry.graph > self.graph
        return entry.place > self.installed.get(entry.group, 0)


def merge(reports: dict[int, Report], past: Past) -> list[tuple[Entry, int]]:
    """The one order of all entries that survivors have, each with a site that can give it away."""
    found: dict[_Place, tuple[Entry, int]] = {}
    after: dict[_Place, set[_Place]] = {}
    for site in sorted(reports):
        before: _Place | None = None
        for entry in reports[site].entries:
            # Whoever has the message itself is the better one to ask.
            if entry.at not in found or (found[entry.at][0].cover and not entry.cover):
                found[entry.at] = (entry, site)
            if before is not None:
                after.setdefault(before, set()).add(entry.at)
            before = entry.at
    entries = [entry for entry, _ in found.values()]
    for site in sorted(reports):
        report = reports[site]
        if not report.entries:
            continue
        first, newest = report.entries[0].at, report.entries[-1].at
        listed = {entry.at for entry in report.entries}
        meant = meant_for(site, entries, past)
        lacked = {entry.at for entry in report.lacked(meant)}
        after.setdefault(newest, set()).update(lacked)
        for entry in meant:
            if entry.at not in lacked and entry.at not in listed:
                # It knows that everybody has it, and so had it before all that it still lists.
                after.setdefault(entry.at, set()).add(first)
    return [found[at] for at in _sorted(set(found), after)]


def meant_for(site: int, entries: list[Entry], past: Past) -> list[Entry]:
    """Those of some entries whose group a site was in, in the graph of the entry."""
    return [entry for entry in entries if site in past.get(entry.graph, {}).get(entry.group, ())]


def _sorted(places: set[_Place], after: dict[_Place, set[_Place]]) -> list[_Place]:
    """All places, each behind those that it comes after; otherwise by graph, group and place."""
    waits: dict[_Place, int] = dict.fromkeys(places, 0)
    for followers in after.values():
        for place in followers:
            waits[place] += 1
    ready = [place for place, count in waits.items() if count == 0]
    heapify(ready)
    done: list[_Place] = []
    while ready:
        place = heappop(ready)
        done.append(place)
        for follower in after.get(place, ()):
            waits[follower] -= 1
            if waits[follower] == 0:
                heappush(ready, follower)
    if len(done) != len(places):
        # Histories of one acyclic order have no cycle (PROP Appendix II): somebody made this up.
        raise RemoteProtocolError("the histories of two sites contradict each other")
    return done


def newest(reports: dict[int, Report]) -> dict[Source, int]:
    """By stream, the newest number that has a place at any survivor."""
    found: dict[Source, int] = {}
    for site in sorted(reports):
        for stream, seq in reports[site].last.items():
            found[stream] = max(found.get(stream, 0), seq)
    return found


# -- whoever comes back ----------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class Rollback:
    """What a site that failed has to undo, and what it is to do again."""

    # Its last deliveries, the last one first.
    undo: tuple[Entry, ...]
    # What the survivors agreed on instead, in order.
    redo: tuple[Entry, ...]


def installed_floors(reports: dict[int, Report], past: Past) -> dict[tuple[int, str], int]:
    """By graph and group: up to which place the survivors together have everything. Of a graph
    that a member has left behind, it has everything.
    """
    found: dict[tuple[int, str], int] = {}
    for site, report in reports.items():
        for graph, groups in past.items():
            for group, members in groups.items():
                if graph < report.graph and site in members:
                    found[graph, group] = SEQ_MAX
        for group, place in report.installed.items():
            at = (report.graph, group)
            found[at] = max(found.get(at, 0), place)
    return found


def rollback(
    site: int,
    delivered: list[Entry],
    agreed: list[Entry],
    floors: dict[tuple[int, str], int],
    past: Past,
    survivors: set[int],
    sent_again: frozenset[_Place],
) -> Rollback:
    """What a failed site undoes and redoes. `delivered`: the last entries that it installed, in
    order. `agreed`: the survivors' history when they went on without it. `floors`: by graph and
    group, what they had together; what of that is not in the history, everybody had. Of a group
    without any survivor nobody else has a history: what has to be undone of it is redone as it was,
    unless it is `sent_again`, to those who came into the group later, and so has another place.
    """
    meant: Final = meant_for(site, agreed, past)
    places: Final = {entry.at: index for index, entry in enumerate(meant)}
    had: Final = _everywhere(delivered, floors, past) - places.keys()
    alone: Final = {
        entry.at
        for entry in delivered
        if entry.at not in sent_again and _is_alone(entry, past, survivors)
    }
    kept = 0
    following = 0
    for entry in delivered:
        index = places.get(entry.at, -1)
        if index < 0:
            if entry.at not in had and entry.at not in alone:
                break
        elif index != following or meant[index].id != entry.id:
            break
        else:
            following += 1
        kept += 1
    undone = delivered[kept:]
    own = [entry for entry in undone if entry.at in alone]
    # What everybody had, and no history names any more, came before what they name.
    again = [entry for entry in undone if entry.at in had and entry.at not in alone]
    # All that is of one graph comes before what is of a later one: by then such a group may have
    # members who survived, and what its sources sent to these comes after what they sent before.
    redone = sorted((*again, *meant[following:], *own), key=lambda entry: entry.graph)
    return Rollback(tuple(reversed(undone)), tuple(redone))


def _everywhere(
    entries: list[Entry], floors: dict[tuple[int, str], int], past: Past
) -> set[_Place]:
    """Those of some entries that the survivors had together. Of graphs before those that they were
    in, or if no group's way leads over them, that they knew, everybody has everything.
    """
    oldest = min((graph for graph, _ in floors), default=min(past, default=0))
    return {
        entry.at
        for entry in entries
        if entry.graph < oldest or entry.place <= floors.get((entry.graph, entry.group), 0)
    }


def _is_alone(entry: Entry, past: Past, survivors: set[int]) -> bool:
    """Whether no survivor was in the entry's group. In a graph that no survivor knows, a site gave
    places to messages all by itself, and these mean nothing.
    """
    groups = past.get(entry.graph)
    return groups is not None and survivors.isdisjoint(groups.get(entry.group, ()))


def past_of(graphs: list[Graph]) -> Past:
    """The groups of some graphs."""
    return {graph.number: dict(graph.groups) for graph in graphs}
