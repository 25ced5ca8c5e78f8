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
