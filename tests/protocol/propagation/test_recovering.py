"""One history out of many (PROP §5.2.1, Figures 6 to 8), and what to roll back (Figure 9)."""

from hypothesis import given
from hypothesis import strategies as st
from tests.protocol.propagation.samples import GROUPS, STREAMS, entry, opening

from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.recovering import (
    Past,
    Report,
    installed_floors,
    meant_for,
    merge,
    newest,
    past_of,
    rollback,
)

A, B, C, D, E = 1, 2, 3, 4, 5
PAST: Past = {1: GROUPS}
# No source sends anything again.
NOTHING: frozenset[tuple[int, str, int]] = frozenset()


def names(entries: list[Entry]) -> list[str]:
    return [f"{one.group}{one.place}" for one in entries]


def report(*history: str, settled: tuple[str, ...] = ()) -> Report:
    """What a site has installed, as `alpha1`; of `settled`, everybody is known to have it."""
    entries = [entry(name[:-1], int(name[-1])) for name in history]
    installed: dict[str, int] = {}
    for one in entries:
        installed[one.group] = max(installed.get(one.group, 0), one.place)
    kept = [one for one in entries if f"{one.group}{one.place}" not in settled]
    return Report(1, installed, kept, {STREAMS.stream(1, 1, g): n for g, n in installed.items()})


# Figure 6, as far as the text tells it: c, below a and b and above d and e, has failed. It alone
# has beta2 and beta3.
FIGURE_6 = {
    A: report("alpha1", "gamma1", "alpha2", "alpha3"),
    B: report("alpha1", "gamma1", "alpha2", "alpha3"),
    D: report("alpha1", "alpha2", "beta1"),
    E: report("alpha1", "alpha2"),
}
DELIVERED_BY_C = [
    entry(name[:-1], int(name[-1]))
    for name in ("alpha1", "alpha2", "beta1", "beta2", "alpha3", "beta3")
]


def test_survivors_agree_on_one_history_that_goes_on_from_each_of_theirs() -> None:
    """Sites d and e must deliver alpha3, and e beta1 (PROP Figures 6 to 8)."""
    found = merge(FIGURE_6, PAST)
    order = names([one for one, _ in found])
    assert sorted(order) == ["alpha1", "alpha2", "alpha3", "beta1", "gamma1"]
    for site, one in FIGURE_6.items():
        mine = [name for name in order if name in names(one.entries)]
        assert mine == names(one.entries), site
    missing = {
        site: names(FIGURE_6[site].lacked(meant_for(site, [one for one, _ in found], PAST)))
        for site in FIGURE_6
    }
    assert missing == {A: [], B: [], D: ["alpha3"], E: ["beta1", "alpha3"]}
    providers = {f"{one.group}{one.place}": site for one, site in found}
    assert providers["alpha3"] in (A, B)
    assert providers["beta1"] == D


def test_an_opening_says_what_each_survivor_lacks() -> None:
    recovered = opening(2, recovers=True)
    lacked = recovered.missing_at(D, report("alpha1", "alpha2", "beta1"))
    assert [(one.at, site) for one, site in lacked] == [((1, "alpha", 3), A)]
    assert recovered.missing_at(A, FIGURE_6[A]) == []


def test_c_rolls_back_what_the_others_do_not_have_and_all_after_it() -> None:
    """It is necessary to roll back beta2, alpha3 and beta3 at site c (PROP Figure 9)."""
    agreed = [one for one, _ in merge(FIGURE_6, PAST)]
    found = rollback(
        C, DELIVERED_BY_C, agreed, installed_floors(FIGURE_6, PAST), PAST, set(FIGURE_6), NOTHING
    )
    assert names(list(found.undo)) == ["beta3", "alpha3", "beta2"]
    assert names(list(found.redo)) == ["alpha3"]


def test_a_site_that_only_lags_has_nothing_to_undo() -> None:
    agreed = [one for one, _ in merge(FIGURE_6, PAST)]
    found = rollback(
        C,
        DELIVERED_BY_C[:2],
        agreed,
        installed_floors(FIGURE_6, PAST),
        PAST,
        set(FIGURE_6),
        NOTHING,
    )
    assert found.undo == ()
    assert names(list(found.redo)) == ["beta1", "alpha3"]


def test_what_everybody_had_before_is_kept_though_no_history_names_it() -> None:
    """Histories are bounded: the floors say what of them everybody had."""
    trimmed = {
        A: report("alpha1", "alpha2", "alpha3", settled=("alpha1",)),
        D: report("alpha1", "beta1", "alpha2", settled=("alpha1", "beta1")),
    }
    agreed = [one for one, _ in merge(trimmed, PAST)]
    assert names(agreed) == ["alpha2", "alpha3"]
    mine = [
        entry(name[:-1], int(name[-1]))
        for name in ("alpha1", "beta1", "alpha2", "beta2", "alpha3", "beta3")
    ]
    found = rollback(C, mine, agreed, installed_floors(trimmed, PAST), PAST, set(trimmed), NOTHING)
    assert names(list(found.undo)) == ["beta3", "alpha3", "beta2"]


def test_what_a_survivor_knows_to_be_everywhere_comes_before_what_it_still_lists() -> None:
    """Another one does not know that yet, and lists it: the order is that of the first."""
    history = ("beta1", "alpha1")
    trimmed = {D: report(*history, settled=("beta1",)), E: report("beta1")}
    agreed = [one for one, _ in merge(trimmed, PAST)]
    assert names(agreed) == list(history)
    mine = [entry("beta", 1), entry("alpha", 1)]
    found = rollback(C, mine, agreed, installed_floors(trimmed, PAST), PAST, set(trimmed), NOTHING)
    assert found.undo == found.redo == ()


def test_what_everybody_had_and_a_site_undoes_with_the_rest_it_does_again() -> None:
    """It alone has beta1, before alpha1, which no history names any more."""
    settled = {one: report("alpha1", "alpha2", settled=("alpha1",)) for one in (A, D)}
    agreed = [one for one, _ in merge(settled, PAST)]
    mine = [entry("beta", 1), entry("alpha", 1), entry("alpha", 2)]
    found = rollback(C, mine, agreed, installed_floors(settled, PAST), PAST, set(settled), NOTHING)
    assert names(list(found.undo)) == ["alpha2", "alpha1", "beta1"]
    assert names(list(found.redo)) == ["alpha1", "alpha2"]


def test_another_message_at_the_same_place_is_rolled_back() -> None:
    """The survivors gave the place to another one after c failed."""
    agreed = [entry("alpha", 1), entry("alpha", 2, seq=9)]
    mine = [entry("alpha", 1), entry("alpha", 2, seq=2)]
    found = rollback(C, mine, agreed, {(1, "alpha"): 2}, PAST, set(FIGURE_6), NOTHING)
    assert [one.seq for one in found.undo] == [2]
    assert [one.seq for one in found.redo] == [9]


def test_of_a_group_without_a_survivor_only_what_is_sent_again_is_rolled_back() -> None:
    """Another site came into beta in graph 2 and has beta1 of it. Of graph 1 c alone has beta1: if
    its source sends it to the newcomer, it gets a place behind that.
    """
    past: Past = {1: {"alpha": (A, B), "beta": (C,)}, 2: {"alpha": (A, B), "beta": (C, D)}}
    reports = {A: Report(2, {"alpha": 0}, [], {}), D: Report(2, {"beta": 1}, [], {})}
    reports[D].entries.append(entry("beta", 1, graph=2, seq=7))
    agreed = [one for one, _ in merge(reports, past)]
    mine = [entry("beta", 1), entry("beta", 1, graph=2, seq=7)]
    floors = installed_floors(reports, past)
    kept = rollback(C, mine, agreed, floors, past, {A, D}, NOTHING)
    assert kept.undo == kept.redo == ()
    found = rollback(C, mine, agreed, floors, past, {A, D}, frozenset({mine[0].at}))
    assert [one.seq for one in found.undo] == [7, 1]
    assert [one.seq for one in found.redo] == [7]


def test_what_everybody_had_is_kept_also_if_survivors_are_in_no_group_any_more() -> None:
    """They have nothing to say of the graph that they are in, and forgot those before it."""
    past: Past = {2: {"beta": (C,)}}
    reports = {A: Report(2, {}, [], {}), B: Report(2, {}, [], {})}
    mine = [entry("alpha", 1)]
    found = rollback(C, mine, [], installed_floors(reports, past), past, {A, B}, NOTHING)
    assert found.undo == found.redo == ()


def test_what_is_redone_is_redone_graph_by_graph() -> None:
    """Only c was in beta in graph 1, and d came into it in graph 2: what the source sent to both of
    them comes after what it had sent to c alone.
    """
    groups = {"alpha": (A, B, C), "beta": (C,)}
    past: Past = {1: groups, 2: {**groups, "beta": (C, D)}}
    reports = {A: Report(1, {"alpha": 0}, [], {}), D: Report(2, {"beta": 1}, [], {})}
    reports[D].entries.append(entry("beta", 1, graph=2, seq=7))
    agreed = [one for one, _ in merge(reports, past)]
    mine = [entry("alpha", 1), entry("beta", 1)]
    found = rollback(C, mine, agreed, installed_floors(reports, past), past, {A, D}, NOTHING)
    assert [one.at for one in found.undo] == [(1, "beta", 1), (1, "alpha", 1)]
    assert [one.at for one in found.redo] == [(1, "beta", 1), (2, "beta", 1)]


def test_who_has_the_message_itself_is_asked_and_not_who_purged_it() -> None:
    reports = {
        A: Report(1, {"alpha": 1}, [entry("alpha", 1).purged(5)], {}),
        D: Report(1, {"alpha": 1}, [entry("alpha", 1)], {}),
    }
    ((one, site),) = merge(reports, PAST)
    assert (one.cover, site) == (0, D)


def test_the_newest_number_of_a_stream_is_that_of_any_survivor() -> None:
    alpha, beta = STREAMS.stream(1, 1, "alpha"), STREAMS.stream(1, 1, "beta")
    reports = {A: Report(1, {}, [], {alpha: 4}), D: Report(1, {}, [], {alpha: 2, beta: 3})}
    assert newest(reports) == {alpha: 4, beta: 3}


def test_an_entry_of_a_later_graph_is_lacked_and_of_an_earlier_one_not() -> None:
    one = Report(2, {"alpha": 3}, [], {})
    has = [entry("alpha", 99, graph=1), entry("alpha", 3, graph=2)]
    lacks = [entry("alpha", 4, graph=2), entry("alpha", 1, graph=3)]
    assert one.lacked([*has, *lacks]) == lacks
    assert past_of([opening(1).graph]) == {1: GROUPS}


def test_what_a_site_caught_up_with_before_another_failure_it_has() -> None:
    """It still stands in the graph before the first failure, and has begun to install what all
    agreed on then, also of a later graph.
    """
    past: Past = {1: GROUPS, 2: GROUPS}
    history = [entry("alpha", 2), entry("beta", 1, graph=2), entry("alpha", 1, graph=2)]
    began = Report(1, {"alpha": 1, "beta": 0}, [entry("alpha", 1), *history[:2]], {})
    assert began.lacked(history) == history[2:]
    reports = {A: Report(2, {"alpha": 1}, [entry("alpha", 2), history[2]], {}), D: began}
    agreed = [one.at for one, _ in merge(reports, past)]
    assert agreed == [one.at for one in (entry("alpha", 1), *history)]


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Entry], dict[int, Report]]:
    """An order of all messages, and sites that have beginnings of what of it is meant for them."""
    chosen = draw(st.lists(st.sampled_from(["alpha", "beta", "gamma"]), max_size=25))
    places = dict.fromkeys(GROUPS, 0)
    order = []
    for group in chosen:
        places[group] += 1
        order.append(entry(group, places[group]))
    reports = {}
    for site in draw(st.lists(st.sampled_from([A, B, C, D, E]), min_size=1, unique=True)):
        mine = [one for one in order if site in GROUPS[one.group]]
        mine = mine[: draw(st.integers(0, len(mine)))]
        installed = {group: 0 for group in GROUPS if site in GROUPS[group]}
        for one in mine:
            installed[one.group] = one.place
        reports[site] = Report(1, installed, mine, {})
    return order, reports


@given(histories())
def test_beginnings_of_one_order_merge_to_one_that_all_can_go_on_to(
    drawn: tuple[list[Entry], dict[int, Report]],
) -> None:
    """Acyclic, complete, without duplicates, and whatever a site lacks comes after what it has
    (PROP Appendix II).
    """
    _, reports = drawn
    found = [one.at for one, _ in merge(reports, PAST)]
    assert len(set(found)) == len(found)
    assert set(found) == {one.at for report in reports.values() for one in report.entries}
    for site, report in reports.items():
        meant = [at for at in found if site in GROUPS[at[1]]]
        had = [one.at for one in report.entries]
        assert meant[: len(had)] == had
    for group in GROUPS:
        places = [at[2] for at in found if at[1] == group]
        assert places == sorted(places)


@given(histories(), st.data())
def test_after_undoing_and_redoing_a_site_has_what_the_survivors_agreed_on(
    drawn: tuple[list[Entry], dict[int, Report]], data: st.DataObject
) -> None:
    order, reports = drawn
    reports.pop(C, None)
    if not reports:
        return
    agreed = [one for one, _ in merge(reports, PAST)]
    mine = [one for one in order if C in GROUPS[one.group]]
    mine = mine[: data.draw(st.integers(0, len(mine)))]
    found = rollback(C, mine, agreed, installed_floors(reports, PAST), PAST, set(reports), NOTHING)
    kept = mine[: len(mine) - len(found.undo)]
    assert [one.at for one in found.undo] == [one.at for one in reversed(mine[len(kept) :])]
    # A group without any survivor is the site's own affair.
    shared = {group for group in GROUPS if not reports.keys().isdisjoint(GROUPS[group])}
    after = [one.at for one in (*kept, *found.redo) if one.group in shared]
    assert after == [one.at for one in agreed if C in GROUPS[one.group]]
