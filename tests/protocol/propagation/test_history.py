"""What a site keeps of messages: bounded, also while one member of one group is slow."""

from tests.protocol.propagation.company import Company
from tests.protocol.propagation.samples import STREAMS, entry

from semcast.errors import WindowFullError
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.config import FederationConfig
from semcast.protocol.propagation.history import History
from semcast.protocol.propagation.memory import COMPACT_RECORDS, Memory

GROUPS = {"alpha": "abc", "gamma": "ab"}


def test_what_comes_when_the_history_is_full_is_told_when_there_is_room() -> None:
    history = History(Memory(None, STREAMS), 2)
    assert [history.add(entry("alpha", 1)), history.add(entry("gamma", 1))] == [True, True]
    assert [history.add(entry("gamma", place)) for place in (2, 3, 4)] == [False] * 3
    assert history.caught_up() == []
    history.settle(1, "gamma", 1)
    assert history.caught_up() == [], "alpha1 is in front, and the order matters"
    history.settle(1, "alpha", 1)
    assert [one.at for one in history.caught_up()] == [(1, "gamma", 2), (1, "gamma", 3)]
    assert not history.add(entry("gamma", 5)), "those that are ahead come first"
    history.settle(1, "gamma", 3)
    assert [one.at for one in history.caught_up()] == [(1, "gamma", 4), (1, "gamma", 5)]
    assert history.add(entry("gamma", 6)) is False
    history.settle_before(2)
    assert [one.at for one in history.caught_up()] == [(1, "gamma", 6)]
    assert len(history) == 0
    assert history.add(entry("alpha", 1, graph=2))


def test_a_history_has_a_bound_in_bytes_too() -> None:
    one = entry("alpha", 1)
    assert one.message is not None
    history = History(Memory(None, STREAMS), 100, len(one.message.body) + 1)
    assert [history.add(entry("alpha", place)) for place in (1, 2, 3)] == [True, True, False]
    history.settle(1, "alpha", 2)
    assert [one.at for one in history.caught_up()] == [(1, "alpha", 3)]


def flood(company: Company, letter: str, group: str, rounds: int) -> int:
    """Send as much as there is room for; says how much that was."""
    sent = 0
    for _ in range(rounds):
        for _ in range(16):
            try:
                company.send(letter, group, f"{group} {sent}")
            except WindowFullError:
                break
            sent += 1
        company.run(30)
    return sent


def test_a_slow_member_of_one_group_does_not_fill_the_histories_of_others() -> None:
    """Entries that everybody has stay behind those that a slow site lacks. The bound is that of the
    history, and the windows of the sources.
    """
    company = Company(
        GROUPS,
        config=MemberConfig(window_messages=16, delivery_messages=8),
        federation=FederationConfig(history_messages=64),
    )
    company.run(20)
    company.slow["c"] = 1
    flood(company, "b", "alpha", 3)
    sent = flood(company, "b", "gamma", 40)
    held = [company.sites[letter].stats()["history_held"] for letter in "ab"]
    assert max(held) >= 64, "or the test shows nothing"
    assert max(held) <= 64 + 2 * 16
    assert sent < 40 * 16, "in the end the source waits"
    company.slow.clear()
    company.run(2_000)
    assert [company.sites[letter].stats()["history_held"] for letter in "abc"] == [0, 0, 0]
    assert company.texts("a") == company.texts("b")
    assert flood(company, "b", "gamma", 3) > 16, "and then it goes on"


def test_what_a_site_writes_down_does_not_grow_while_its_graph_stays() -> None:
    company = Company({"alpha": "ab"}, federation=FederationConfig(recovery="atomic"), keep="ab")
    company.run(20)
    most = 0
    for _ in range(36):
        flood(company, "a", "alpha", 8)
        most = max(most, *(len(store.records()) for store in company.stores.values()))
    assert len(company.texts("b")) == 36 * 8 * 16
    assert most < COMPACT_RECORDS + 2_000
