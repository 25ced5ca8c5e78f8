"""Sites that leave a federation while others wait for what only they pass on (PROP §5.1)."""

import pytest
from tests.protocol.propagation.company import MS, Company

from semcast.protocol.propagation.site import Site

GROUPS = {"alpha": "abcde", "beta": "cde", "gamma": "ab"}


def decided(site: Site) -> list[str]:
    """Who has a seat in the newest opening that a site knows."""
    return [seat.name for seat in site.prospects()[0][1].seats]


def parent_of(company: Company, letter: str) -> str:
    """The site above one, in the graph that this has."""
    graph = company.sites[letter].graph()
    assert graph is not None
    return chr(96 + graph.parent(ord(letter) - 96))


def leaver_above(company: Company) -> tuple[str, str]:
    """A site that does not manage, and one below it."""
    below = next(one for one in "bcde" if parent_of(company, one) in "bcde")
    return parent_of(company, below), below


def number_of(company: Company, letter: str) -> int:
    return company.sites[letter].stats()["graph"]


def leave_in_the_midst(company: Company) -> tuple[str, str]:
    """A site leaves, and is cut off from those below it once there is a graph without it."""
    company.run(100)
    leaver, below = leaver_above(company)
    company.cut = lambda start, end: start == leaver and end != "a"
    company.sites[leaver].begin_leaving(company.now_ns)
    waited = 0
    while leaver in decided(company.sites["a"]):
        company.run(1)
        waited += 1
        assert waited < 300, "nobody decides on a graph without it"
    return leaver, below


@pytest.mark.parametrize("seed", range(4))
def test_nobody_waits_for_a_site_that_went_before_it_had_passed_on_its_last_close(
    seed: int,
) -> None:
    """It has no seat any more, and those below it have heard of no graph without it."""
    company = Company(GROUPS, seed=seed)
    leaver, below = leave_in_the_midst(company)
    company.run(50)
    company.crash(leaver)
    assert number_of(company, below) == 1
    company.cut = lambda _start, _end: False
    company.run(5_000)
    left = "abcde".replace(leaver, "")
    assert len({number_of(company, letter) for letter in left}) == 1
    assert [seat.name for seat in company.sites[below].seats()] == list(left)
    company.send("a", "alpha", "later")
    company.run(200)
    assert all(company.texts(letter) == ["later"] for letter in left)


def test_a_site_that_leaves_stays_until_all_have_opened_a_graph_without_it() -> None:
    """Also if it has nothing to pass on itself: what it has may still have to be reported."""
    company = Company(GROUPS)
    company.run(100)
    leaver, late = "d", "b"
    above = parent_of(company, late)
    assert leaver not in {parent_of(company, one) for one in "abcde"}
    company.cut = lambda start, end: (start, end) == (above, late)
    company.sites[leaver].begin_leaving(company.now_ns)
    company.run(450)
    site = company.sites[leaver]
    assert (number_of(company, leaver), number_of(company, late)) == (2, 1)
    assert not site.may_leave([], company.now_ns)
    company.cut = lambda _start, _end: False
    company.run(450)
    assert {number_of(company, one) for one in "abce"} == {2}, "nothing had to be mended"
    assert site.may_leave([], company.now_ns)


def test_a_site_that_leaves_waits_for_nobody_who_is_not_there() -> None:
    """All others crash before anybody can say that it may go."""
    company = Company(GROUPS)
    leaver, _ = leave_in_the_midst(company)
    company.run(300)
    for letter in "abcde".replace(leaver, ""):
        company.crash(letter)
    silent = [number for number in range(1, 6) if chr(96 + number) != leaver]
    site = company.sites[leaver]
    assert not site.may_leave(silent, company.now_ns)
    company.run(3_000)
    assert site.may_leave(silent, company.now_ns)


@pytest.mark.parametrize("pause_ms", [0, 15, 100])
def test_all_sites_may_leave(pause_ms: int) -> None:
    """At once, or one soon after the other, the manager first: nobody is left to say who may go."""
    company = Company(GROUPS)
    company.run(100)
    for letter in "abcde":
        company.sites[letter].begin_leaving(company.now_ns)
        company.run(pause_ms)
    waited = 0
    while company.sites:
        company.run(5)
        silent = [number for number in range(1, 6) if chr(96 + number) not in company.sites]
        for letter in list(company.sites):
            if company.sites[letter].may_leave(silent, company.now_ns):
                company.crash(letter)
        waited += 1
        assert waited < 1_000, f"{sorted(company.sites)} cannot leave"


def test_a_site_that_leaves_may_go_if_the_others_have_gone_on_after_a_failure() -> None:
    """Its last Close came to nobody, since the site above it failed."""
    company = Company(GROUPS)
    company.run(100)
    leaver = next(one for one in "abcde" if parent_of(company, one) in "bcde")
    above = parent_of(company, leaver)
    company.cut = lambda start, end: (start, end) == (above, leaver)
    company.sites[leaver].begin_leaving(company.now_ns)
    company.run(300)
    assert leaver not in decided(company.sites["a"])
    assert number_of(company, leaver) == 1
    company.crash(above)
    company.cut = lambda _start, _end: False
    company.run(5_000)
    site = company.sites[leaver]
    assert site.may_leave([ord(above) - 96], company.now_ns)
    assert not site.settled([ord(above) - 96]), "what it has may be in another order than theirs"
    left = [one for one in "abcde" if one not in (leaver, above)]
    assert all(decided(company.sites[letter]) == left for letter in left)


def test_who_is_left_behind_by_others_that_left_need_not_wait_for_them() -> None:
    """Nobody is there any more to decide on a graph without it; all its messages are everywhere."""
    company = Company({"alpha": "abc"})
    company.send("c", "alpha", "the last word")
    company.run(500)
    for letter in "ab":
        company.crash(letter)
    site = company.sites["c"]
    site.begin_leaving(company.now_ns)
    company.run(100)
    assert not site.may_leave([], company.now_ns), "they may have been away for a moment"
    company.run(3 * company.federation.silence_ns / MS)
    assert site.may_leave([], company.now_ns)


def test_whoever_still_has_something_for_others_waits_for_them() -> None:
    company = Company({"alpha": "abc"})
    for letter in "ab":
        company.crash(letter)
    company.send("c", "alpha", "nobody has it")
    site = company.sites["c"]
    site.begin_leaving(company.now_ns)
    company.run(5 * company.federation.silence_ns / MS)
    assert not site.may_leave([], company.now_ns)
