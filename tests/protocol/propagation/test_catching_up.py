"""Sites that catch up slowly after a failure, while others fail (PROP §5.2.1)."""

from tests.protocol.propagation.company import Company

from semcast.protocol.config import MemberConfig


def test_a_site_that_catches_up_slowly_when_another_fails_gets_all_once_and_in_order() -> None:
    """It has room for one message of those that it lacks when the second site fails."""
    config = MemberConfig(delivery_messages=1, window_messages=8)
    company = Company({"alpha": "abcde"}, seed=1, config=config)
    company.slow["d"] = 1
    for number in range(4):
        company.send("a", "alpha", f"a {number}")
    company.run(50)
    late = company.sites["d"]
    company.crash("e")
    company.run(3_000)
    assert late.stats()["graph"] == 1
    company.taken["d"].extend(late.take(1, company.now_ns))
    company.run(50)
    assert late.stats()["graph"] == 1, "it still catches up"
    assert late.deliverable() == 1
    company.crash("b")
    company.run(3_000)
    del company.slow["d"]
    company.run(3_000)
    assert [seat.name for seat in late.seats()] == ["a", "c", "d"]
    company.send("c", "alpha", "c 0")
    company.run(500)
    for letter in "acd":
        assert company.texts(letter) == ["a 0", "a 1", "a 2", "a 3", "c 0"]
        assert company.sites[letter].all_stable()


def test_a_site_that_comes_back_has_all_that_it_is_to_do_again_if_another_fails_meanwhile() -> None:
    """Its former life had the first message; it has room for one of the others at a time."""
    config = MemberConfig(delivery_messages=1, window_messages=8)
    company = Company({"alpha": "abcde"}, seed=1, config=config, keep="d")
    company.send("a", "alpha", "a 0")
    company.run(50)
    company.crash("d")
    for number in range(1, 4):
        company.send("a", "alpha", f"a {number}")
        company.run(20)
    company.run(3_000)
    company.slow["d"] = 1
    back = company.again("d", ("alpha",), "a")
    company.run(50)
    assert back.deliverable() == 1
    assert back.stats()["graph"] == 0, "it still does it again"
    company.crash("e")
    company.run(3_000)
    del company.slow["d"]
    company.run(3_000)
    assert [seat.name for seat in back.seats()] == ["a", "b", "c", "d"]
    company.send("c", "alpha", "c 0")
    company.run(500)
    for letter in "abcd":
        assert company.texts(letter) == ["a 0", "a 1", "a 2", "a 3", "c 0"]


def test_a_newcomer_that_has_reported_what_it_has_opens_no_graph_from_before() -> None:
    """Its first Open comes after its report, from which the others go on."""
    company = Company({"alpha": "abcd", "beta": "abcd"}, seed=1)
    company.run(100)
    graph = company.sites["a"].graph()
    assert graph is not None
    top = "abcd"[graph.roots[0] - 1]
    failed, late = [one for one in "bcd" if one != top]
    company.cut = lambda start, end: (start, end) == (top, "e")
    newcomer = company.join("e", ("alpha",), "a")
    company.run(300)
    assert newcomer.stats()["graph"] == 0
    company.crash(failed)
    company.run(900)
    # What others have to report comes late.
    company.cut = lambda start, end: (start, end) in ((top, "e"), (late, "a"))
    company.run(400)
    assert newcomer.stats()["recovering"] == 1
    company.cut = lambda start, end: (start, end) == (late, "a")
    company.run(400)
    assert newcomer.stats()["graph"] == 0
    company.cut = lambda _start, _end: False
    company.run(3_000)
    assert {site.stats()["graph"] for site in company.sites.values()} == {3}
