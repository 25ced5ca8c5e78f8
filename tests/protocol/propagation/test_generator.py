"""The generator of propagation graphs: PG1 to PG3, the paper's figures, and its pseudo-code."""

import random
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.brute_generator import Brute
from tests.protocol.propagation.drawn_groups import (
    FIGURE_3,
    FIGURE_5,
    Groups,
    drawn,
    lettered,
    letters,
    uniform,
)

from semcast.errors import ConfigError
from semcast.protocol.propagation.generator import central, generate, overlapping, regenerate
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.rules import (
    FEWEST_EXTRA,
    GREEDY,
    Delay,
    ExtraNodes,
    MaximumLoad,
    Rule,
    by_latency,
    spread,
)


def latency_ns(one: int, other: int) -> int:
    """Sites on a ring of a hundred."""
    apart = abs(one * 37 - other * 37) % 100
    return 1 + min(apart, 100 - apart)


RULES: dict[str, Rule] = {
    "greedy": GREEDY,
    "spread": spread(),
    "chains": spread(1),
    "fewest-extra": FEWEST_EXTRA,
    "latency": by_latency(latency_ns),
}
rules = pytest.mark.parametrize("rule", RULES.values(), ids=RULES)


def same(one: Graph, other: Graph) -> bool:
    return (one.number, one.groups, one.parents, one.primaries) == (
        other.number,
        other.groups,
        other.parents,
        other.primaries,
    )


def way(graph: Graph, group: str, member: int) -> list[int]:
    """From a member up to the primary destination, by parents alone."""
    found = [member]
    while found[-1] != graph.primaries[group]:
        found.append(graph.parents[found[-1]])
    return found


# -- the paper's figures ---------------------------------------------------------------------------


def test_figure_3() -> None:
    """Eight groups of nine sites, one tree. PROP Figure 3"""
    graph = generate(lettered(FIGURE_3))
    assert letters(graph.parents) == {
        "d": None,
        **dict.fromkeys("cej", "d"),
        **dict.fromkeys("abh", "c"),
        "f": "e",
        "g": "b",
    }
    assert {name: chr(site) for name, site in graph.primaries.items()} == {
        **dict.fromkeys(("α1", "α3", "α4", "α8"), "d"),
        **dict.fromkeys(("α2", "α7"), "c"),
        "α5": "e",
        "α6": "b",
    }
    assert all(not graph.extra_nodes(name) for name in graph.groups)


def test_figure_3_does_not_depend_on_what_numbers_the_sites_have() -> None:
    """Live sites are hashes of names. With the names as labels the tree is the same. PROP §3.1"""
    numbers = {site: (at * 7919 + 5) % 101 for at, site in enumerate("abcdefghj")}
    labels = {number: site for site, number in numbers.items()}
    groups = {name: [numbers[site] for site in sites] for name, sites in FIGURE_3.items()}
    graph = generate(groups, labels=labels)
    named = {
        labels[site]: None if parent == NO_SITE else labels[parent]
        for site, parent in graph.parents.items()
    }
    assert named == letters(generate(lettered(FIGURE_3)).parents)
    with pytest.raises(ConfigError, match="has no label"):
        generate(groups, labels={})


def test_figure_4_the_first_level() -> None:
    """Site d is in most groups; c, e and j are its children. PROP Figure 4"""
    graph = generate(lettered(FIGURE_3))
    assert [chr(site) for site in graph.roots] == ["d"]
    assert [chr(site) for site in graph.children[ord("d")]] == ["c", "e", "j"]


def test_an_extra_node() -> None:
    """With α9 = {d, a} the tree is the same, and c an extra node for it. PROP §3.1"""
    before = generate(lettered(FIGURE_3))
    graph = generate(lettered({**FIGURE_3, "α9": "da"}))
    assert graph.parents == before.parents
    assert [chr(site) for site in graph.extra_nodes("α9")] == ["c"]


def test_figure_5_load_for_depth() -> None:
    """The tree gets deeper, its busiest site has less to do, and no node is extra. PROP §4.1

    We cannot see the paper's drawing of 5(b); this is what its text says of it.
    """
    flat = generate(lettered(FIGURE_5))
    assert letters(flat.parents) == {"b": None, **dict.fromkeys("acdefgh", "b")}
    deep = generate(lettered(FIGURE_5), rule=spread())
    assert (flat.load(ord("b")), deep.load(ord("b"))) == (11, 6)
    assert max(map(deep.load, deep.sites)) == 6
    assert max(map(deep.depth, deep.groups)) > max(map(flat.depth, flat.groups)) == 1
    assert not any(deep.extra_nodes(name) for name in deep.groups)


def test_figure_6_and_7_c_fails() -> None:
    """Five sites, and the four that are left when c has failed. PROP §5.2.1"""
    before = generate(lettered({"α": "abcde", "β": "cde", "γ": "ab"}))
    after = generate(lettered({"α": "abde", "β": "de", "γ": "ab"}), 2)
    assert ord("c") in before.parents
    assert ord("c") not in after.parents
    for graph in (before, after):
        assert len(graph.roots) == 1


# -- what every graph has --------------------------------------------------------------------------


@rules
@given(groups=drawn())
def test_every_group_has_a_way_to_each_member_from_a_member(rule: Rule, groups: Groups) -> None:
    """PG1, PG2 and PG3. PROP §3.1"""
    graph = generate(groups, rule=rule)
    assert set(graph.primaries) == set(groups)
    assert set(graph.parents) == set().union(*groups.values())
    for name, members in groups.items():
        assert graph.primaries[name] in members
        for member in members:
            assert way(graph, name, member)[-1] == graph.primaries[name]


@rules
@given(groups=drawn())
def test_each_tree_has_exactly_the_groups_that_overlap(rule: Rule, groups: Groups) -> None:
    """A forest: groups that share no site, not even through others, share no tree. PROP §3.1"""
    graph = generate(groups, rule=rule)
    parts = overlapping({name: tuple(sites) for name, sites in groups.items()})
    assert len(graph.roots) == len(parts)


@given(drawn())
def test_the_greedy_rule_is_the_pseudo_code(groups: Groups) -> None:
    """PROP Appendix I, transcribed with sets and a recursion."""
    brute = Brute({name: set(sites) for name, sites in groups.items()})
    graph = generate(groups)
    assert graph.parents == brute.parent
    assert graph.primaries == brute.primary


@pytest.mark.parametrize("seed", range(3))
def test_the_greedy_rule_is_the_pseudo_code_where_trees_are_deep(seed: int) -> None:
    """PROP Appendix I, on groups of 5 of 60 sites."""
    groups = uniform(60, 40, 5, seed)
    assert generate(groups).parents == Brute(groups).parent


@rules
@given(groups=drawn(), seed=st.randoms(use_true_random=False))
def test_the_order_of_groups_and_members_does_not_matter(
    rule: Rule, groups: Groups, seed: random.Random
) -> None:
    """Every site that computes the graph computes the same one. PROP §3"""
    names = list(groups)
    seed.shuffle(names)
    shuffled = {name: sorted(groups[name], reverse=True) for name in names}
    assert same(generate(groups, rule=rule), generate(shuffled, rule=rule))


# -- rules -----------------------------------------------------------------------------------------


@given(drawn())
def test_no_rule_is_worse_than_the_greedy_one_in_what_it_is_for(groups: Groups) -> None:
    """Load, extra nodes and delay (PG4 is measured, not promised). PROP §3.1, §4.1"""
    greedy = generate(groups)
    if groups:
        load = MaximumLoad()
        assert load.of(generate(groups, rule=spread())) <= load.of(greedy)
        assert load.of(generate(groups, rule=spread(1))) <= load.of(greedy)
    for cost, rule in (
        (ExtraNodes(), FEWEST_EXTRA),
        (Delay(latency_ns), by_latency(latency_ns)),
    ):
        assert cost.of(generate(groups, rule=rule)) <= cost.of(greedy)


def test_each_rule_is_better_in_what_it_is_for_on_groups_of_5() -> None:
    """Over 30 sets of 40 groups on 100 sites. PROP §4.1"""
    sets = [uniform(100, 40, 5, seed) for seed in range(30)]
    for cost, rule in (
        (MaximumLoad(), spread()),
        (ExtraNodes(), FEWEST_EXTRA),
        (Delay(latency_ns), by_latency(latency_ns)),
    ):
        ours = sum(cost.of(generate(groups, rule=rule)) for groups in sets)
        greedy = sum(cost.of(generate(groups)) for groups in sets)
        assert ours < 0.95 * greedy


@given(st.integers(2, 60), st.integers(1, 4))
def test_siblings_that_pass_messages_on_make_no_extra_nodes(size: int, children: int) -> None:
    """One group: a site has so many children at most, and its primary destination one. PROP §4.1"""
    graph = generate({"all": range(size)}, rule=spread(children))
    assert not graph.extra_nodes("all")
    assert max(len(below) for below in graph.children.values()) <= max(1, children)
    if children > 1:
        assert graph.depth("all") <= size.bit_length() + 1


def test_a_rule_that_compares_needs_a_cost() -> None:
    with pytest.raises(ConfigError, match="a cost if there are several"):
        Rule((*GREEDY.choices, *GREEDY.choices))
    with pytest.raises(ConfigError, match="at least 1"):
        spread(0)


# -- the centralized comparator --------------------------------------------------------------------


@given(drawn(), st.integers(0, 20))
def test_the_central_site_is_above_everybody(groups: Groups, site: int) -> None:
    """One tree of depth 1; only the central site may be an extra node. PROP §4, footnote"""
    graph = central(groups, site, 7)
    assert graph.number == 7
    assert graph.roots == (site,)
    for name, members in groups.items():
        assert graph.primaries[name] == site
        assert graph.extra_nodes(name) == (() if site in members else (site,))
        assert graph.depth(name) == (0 if members == {site} else 1)
    sent = sum(len(members - {site}) for members in groups.values())
    assert graph.load(site) == len(groups) + sent


# -- changes ---------------------------------------------------------------------------------------


@rules
@given(before=drawn(30, 10, 4), data=st.data())
def test_a_change_gives_what_generating_anew_gives(
    rule: Rule, before: Groups, data: st.DataObject
) -> None:
    """Groups come, go and change; labels stay. PROP §5.1"""
    after = dict(before)
    for name in data.draw(st.lists(st.sampled_from([*before, "new", "newer"]), max_size=3)):
        members = data.draw(st.none() | st.sets(st.integers(0, 29), min_size=1, max_size=4))
        if members is None:
            after.pop(name, None)
        else:
            after[name] = members
    old = generate(before, 1, rule)
    assert same(regenerate(old, after, 2, rule), generate(after, 2, rule))


def test_a_change_leaves_other_trees_alone() -> None:
    """Only the trees that a changed group touches are grown again. PROP §5.1"""
    groups = {f"g{at}": {2 * at, 2 * at + 1} for at in range(50)}
    asked: list[int] = []

    def counted(one: int, other: int) -> int:
        asked.extend((one, other))
        return 1

    rule = by_latency(counted)
    old = generate(groups, 1, rule)
    asked.clear()
    changed = {**groups, "g7": {14, 15, 100}}
    assert same(regenerate(old, changed, 2, rule), generate(changed, 2, by_latency(latency_one)))
    assert set(asked) <= {14, 15, 100}


def latency_one(_one: int, _other: int) -> int:
    return 1


# -- sizes and bad input ---------------------------------------------------------------------------


def test_a_tree_deeper_than_the_stack() -> None:
    """A chain of groups, each of which shares one site with the next. PROP Appendix I recurses."""
    length = 2 * sys.getrecursionlimit()
    graph = generate({f"g{at:05}": (at, at + 1) for at in range(length)})
    assert len(graph.roots) == 1
    assert len(graph.parents) == length + 1


def test_a_thousand_groups_of_a_thousand_sites() -> None:
    """As large as PROP §4.1 gets in sites, with 25 times its groups."""
    graph = generate(uniform(1000, 1000, 5, 1))
    assert len(graph.primaries) == 1000


@pytest.mark.parametrize("groups", [{"empty": ()}, {"below": (1, -1)}])
def test_groups_that_cannot_be(groups: dict[str, tuple[int, ...]]) -> None:
    for make in (generate, lambda found: central(found, 1)):
        with pytest.raises(ConfigError, match=r"no sites|from 0"):
            make(groups)
