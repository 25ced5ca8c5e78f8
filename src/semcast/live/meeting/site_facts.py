"""Facts about a site: its machine goes in; what people and commands want to know comes out.

The propagation graph goes by ids of senders, and people by names, which the roster knows.
"""

from typing import Any, final

from semcast.live.meeting.roster import Roster, member_id
from semcast.protocol.membership.view import View
from semcast.protocol.propagation.federated import Federated
from semcast.protocol.propagation.graph import NO_SITE, Graph


def facts_of(site: Federated, roster: Roster) -> dict[str, Any]:
    """What this site says of itself and of the graph that it knows."""
    graph = site.graph()
    manager = site.manager()
    found: dict[str, Any] = {
        "groups": list(site.groups()),
        "known_groups": list(site.known_groups()),
        "manager": "" if manager == NO_SITE else roster.name_of(manager),
        "graph": 0 if graph is None else graph.number,
        "parent": "",
        "primary_of": [],
    }
    if graph is not None:
        parent = graph.parents.get(roster.me, NO_SITE)
        found["parent"] = "" if parent == NO_SITE else roster.name_of(parent)
        found["primary_of"] = [
            name for name, primary in graph.primaries.items() if primary == roster.me
        ]
    return found


def named_graph(graph: Graph, roster: Roster) -> dict[str, Any]:
    """The whole graph, with the names of its sites."""

    def name(sender: int) -> str:
        return "" if sender == NO_SITE else roster.name_of(sender)

    return {
        "number": graph.number,
        "groups": {one: [name(site) for site in sites] for one, sites in graph.groups.items()},
        "parent": {name(site): name(parent) for site, parent in graph.parents.items()},
        "primary": {one: name(site) for one, site in graph.primaries.items()},
    }


def named_view(view: View, roster: Roster, awaited: tuple[str, ...]) -> View:
    """The same view, with the names of all sites. Protocols that need none may leave them out."""
    if view.names:
        return view
    known = {member_id(name): name for name in awaited}
    names = tuple(known.get(one) or roster.name_of(one) for one in view.members)
    return View(
        view.number, view.members, view.lives, view.f, names, view.gone, view.since, view.origin
    )


@final
class SiteNews:
    """What was last said of a site, so that applications hear of each change once."""

    def __init__(self) -> None:
        self._graph = 0
        self._manager = NO_SITE

    def of(self, site: Federated, roster: Roster) -> list[tuple[str, str, str]]:
        """What is new: the kinds of events, the sites that they are about, and texts."""
        found: list[tuple[str, str, str]] = []
        graph = site.graph()
        if graph is not None and graph.number != self._graph:
            self._graph = graph.number
            text = f"graph {graph.number} is open, with {len(graph.parents)} sites"
            found.append(("opened", roster.name, f"{text} and {len(graph.groups)} groups"))
        manager = site.manager()
        if manager not in (NO_SITE, self._manager):
            if self._manager != NO_SITE:
                name = roster.name_of(manager)
                found.append(("manager", name, f"{name} decides on graphs from now on"))
            self._manager = manager
        return found
