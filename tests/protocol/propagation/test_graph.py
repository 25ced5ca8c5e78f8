"""A propagation graph: what each site passes on, and what that costs, against walks by parents."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.drawn_groups import Groups, drawn

from semcast.errors import ConfigError
from semcast.protocol.propagation.generator import central, generate
from semcast.protocol.propagation.graph import NO_SITE, Graph

graphs = st.one_of(drawn().map(generate), drawn().map(lambda groups: central(groups, 3)))


def edges(graph: Graph, group: str) -> set[tuple[int, int]]:
    """All links that a message of a group takes: up from each member."""
    found = set()
    for member in graph.groups[group]:
        site = member
        while site != graph.primaries[group]:
            found.add((graph.parents[site], site))
            site = graph.parents[site]
    return found


@given(graphs)
def test_a_site_passes_on_to_the_children_with_members_below(graph: Graph) -> None:
    """PROP §3.2"""
    for name in graph.groups:
        links = edges(graph, name)
        reached = {graph.primaries[name], *(site for _, site in links)}
        for site in (*graph.sites, 999):
            below = tuple(sorted(child for parent, child in links if parent == site))
            assert graph.next_sites(site, name) == below
            assert graph.passes(site, name) == (site in reached)
            assert (name in graph.way_groups(site)) == (site in reached)
            assert graph.is_member(site, name) == (site in graph.groups[name])
            assert (name in graph.groups_of(site)) == (site in graph.groups[name])


@given(graphs)
def test_depth_extra_nodes_and_load(graph: Graph) -> None:
    """As PROP §4.1 counts them: load is messages sent and received, one message a group."""
    load = dict.fromkeys(graph.sites, 0)
    for name, members in graph.groups.items():
        links = edges(graph, name)
        reached = {graph.primaries[name], *(site for _, site in links)}
        assert graph.extra_nodes(name) == tuple(sorted(reached - set(members)))
        assert graph.forwarding_nodes(name) == len({parent for parent, _ in links})
        assert graph.delay_ns(name, lambda _one, _other: 1) == graph.depth(name)
        for parent, site in links:
            load[parent] += 1
            load[site] += 1
        load[graph.primaries[name]] += 1
    assert {site: graph.load(site) for site in graph.sites} == load
    assert graph.load(999) == 0


@given(drawn())
def test_messages_are_as_many_as_members_and_extra_nodes(groups: Groups) -> None:
    """N = n + ε, the one to the primary destination included. PROP Table 1"""
    graph = generate(groups)
    for name, members in groups.items():
        assert 1 + len(edges(graph, name)) == len(members) + len(graph.extra_nodes(name))


@pytest.mark.parametrize(
    ("parents", "primaries", "complaint"),
    [
        ({1: NO_SITE, 2: 1}, {}, "PG1"),
        ({1: NO_SITE, 2: 1}, {"g": 9}, "PG1"),
        ({1: NO_SITE, 2: NO_SITE}, {"g": 1}, "PG2"),
        ({1: NO_SITE}, {"g": 1}, "PG2"),
        ({1: NO_SITE, 2: 7}, {"g": 1}, "has no place"),
        ({1: 2, 2: 1}, {"g": 1}, "hangs on itself"),
    ],
)
def test_a_graph_without_a_way_to_every_member_is_refused(
    parents: dict[int, int], primaries: dict[str, int], complaint: str
) -> None:
    """PG1 and PG2. PROP §3.1"""
    with pytest.raises(ConfigError, match=complaint):
        Graph(1, {"g": (1, 2)}, parents, primaries)
