"""What a federation promises: kernels agree with the definitions, and PROP's figures show it."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from tests.check import brute, brute_federation
from tests.check.federations import Federation, federations
from tests.check.log import message

from semcast.check import (
    MessageId,
    Property,
    Violation,
    accounting,
    check_all,
    check_run,
    group_orders,
    integrity,
    judge,
    kernel,
    member_delivery,
    rollback,
    single_source_order,
)
from semcast.journal import Journal

EXAMPLES = 150
# A case is a seed, so that there is nothing to shrink.
cases = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    phases=(Phase.generate,),
    suppress_health_check=[HealthCheck.too_slow],
)
Told = set[tuple[int | str, MessageId]]
NAMELESS = MessageId("", 0)


def told(one: Property, journal: Journal) -> Told:
    return {
        (found.time_ns if one.safety else found.node, (*found.messages, NAMELESS)[0])
        for found in judge(journal, [one]).violations
    }


def rolled_back(journal: Journal) -> Told:
    return {(at, about or NAMELESS) for at, about in brute_federation.rollback(journal)}


def whole_integrity(journal: Journal) -> Told:
    return brute.integrity(journal) | brute_federation.addressees(journal)


DEFINITIONS: dict[str, tuple[Property, Callable[[Journal], Told]]] = {
    "integrity": (integrity.PROPERTY, whole_integrity),
    "accounting": (accounting.PROPERTY, brute.accounting),
    "single": (single_source_order.PROPERTY, brute_federation.single_source_order),
    "rollback": (rollback.PROPERTY, rolled_back),
    "members": (member_delivery.PROPERTY, brute_federation.member_delivery),
}
# Of these a kernel tells some of all pairs.
PAIRS: dict[str, tuple[Property, Callable[[Journal], set[brute_federation.Pair]]]] = {
    "source": (group_orders.MULTIPLE_SOURCE_ORDER, brute_federation.multiple_source_order),
    "group": (group_orders.MULTIPLE_GROUP_ORDER, brute_federation.multiple_group_order),
}


# All that is compared here.
NAMES = {one.name for one, _ in (*DEFINITIONS.values(), *PAIRS.values())} | {
    group_orders.ACYCLIC_ORDER.name
}


@pytest.mark.parametrize("name", DEFINITIONS)
def test_a_kernel_finds_what_its_definition_says(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it looks at rows: each, or many at once."""
    one, definition = DEFINITIONS[name]
    verdicts: Counter[bool] = Counter()

    @cases
    @given(federations())
    def agrees(journal: Journal) -> None:
        expected = definition(journal)
        assert told(one, journal) == expected
        with monkeypatch.context() as patch:
            patch.setattr(kernel, "MANY_ROWS", 1)
            assert told(one, journal) == expected
        verdicts[not expected] += 1

    agrees()
    assert min(verdicts[True], verdicts[False]) >= EXAMPLES // 30, verdicts


@pytest.mark.parametrize("name", PAIRS)
def test_two_sites_disagree_where_a_kernel_says_so_and_nowhere_else(name: str) -> None:
    one, definition = PAIRS[name]
    verdicts: Counter[bool] = Counter()

    @cases
    @given(federations())
    def agrees(journal: Journal) -> None:
        expected = definition(journal)
        found = {(one.messages[0], one.messages[1]) for one in judge(journal, [one]).violations}
        assert bool(found) == bool(expected)
        assert found <= expected
        verdicts[not expected] += 1

    agrees()
    assert min(verdicts[True], verdicts[False]) >= EXAMPLES // 15, verdicts


def test_orders_have_a_cycle_where_a_kernel_says_so_and_nowhere_else() -> None:
    verdicts: Counter[bool] = Counter()

    @cases
    @given(federations())
    def agrees(journal: Journal) -> None:
        found = judge(journal, [group_orders.ACYCLIC_ORDER]).violations
        assert bool(found) == brute_federation.is_cyclic(journal)
        facts = brute_federation.Sites(journal)
        for one in found:
            # Each step is what one site says.
            for first, second in zip(
                one.messages, (*one.messages[1:], one.messages[0]), strict=True
            ):
                assert any(
                    first in order and second in order[order.index(first) :]
                    for order in facts.orders()
                )
        verdicts[not found] += 1

    agrees()
    assert min(verdicts[True], verdicts[False]) >= EXAMPLES // 15, verdicts


# -- by hand ---------------------------------------------------------------------------------------


def broken(fed: Federation) -> list[str]:
    """The properties that are broken, each once, in the order of reports."""
    return list(dict.fromkeys(one.property for one in check_all(fed.journal).violations))


def only(fed: Federation, one: Property) -> Violation:
    (found,) = judge(fed.journal, [one]).violations
    return found


def three_groups() -> Federation:
    """Three groups of two sites: no two sites share two groups."""
    return Federation({"alpha": ["p1", "p2"], "beta": ["p2", "p3"], "gamma": ["p1", "p3"]})


def test_a_cycle_over_three_sites_breaks_only_the_order_without_cycles() -> None:
    """Stronger than (c): each pair of messages has one site that delivers both."""
    fed = three_groups()
    a, b, c = fed.send("p1", "alpha"), fed.send("p2", "beta"), fed.send("p3", "gamma")
    fed.take("p2", a, b)
    fed.take("p3", b, c)
    fed.take("p1", c, a)
    assert broken(fed) == ["Acyclic Order"]
    found = only(fed, group_orders.ACYCLIC_ORDER)
    assert found.text == (
        "p2.1 delivers p1.1#1 before p2.1#1, p3.1 p2.1#1 before p3.1#1, p1.1 p3.1#1 before p1.1#1"
    )
    assert found.messages == (message(a), message(b), message(c))


def test_a_cycle_is_told_by_its_fewest_sites() -> None:
    """A site that delivers ten messages in a row is one step."""
    fed = three_groups()
    many = [fed.send("p1", "alpha") for _ in range(10)]
    b, c = fed.send("p2", "beta"), fed.send("p3", "gamma")
    fed.take("p2", *many, b)
    fed.take("p3", b, c)
    fed.take("p1", c, *many)
    assert len(only(fed, group_orders.ACYCLIC_ORDER).messages) == 3


def test_messages_of_two_groups_in_two_orders_break_the_order_of_groups_alone() -> None:
    """PROP §1 (c): two groups overlap in two sites. Figure 1."""
    fed = Federation({"alpha": ["p1", "p3", "p4"], "beta": ["p3", "p4", "p5"]})
    a, b = fed.send("p1", "alpha"), fed.send("p5", "beta")
    fed.take("p1", a)
    fed.take("p5", b)
    fed.take("p3", a, b)
    fed.take("p4", b, a)
    assert broken(fed) == ["Multiple Group Order", "Acyclic Order"]
    found = only(fed, group_orders.MULTIPLE_GROUP_ORDER)
    assert found.text == "p3.1 delivers p1.1#1 before p5.1#1, and p4.1 p5.1#1 before p1.1#1"


def test_messages_of_one_group_in_two_orders_break_the_order_of_sources() -> None:
    """PROP §1 (b)."""
    fed = Federation({"alpha": ["p1", "p2"]})
    a, b = fed.send("p1", "alpha"), fed.send("p2", "alpha")
    fed.take("p1", a, b)
    fed.take("p2", b, a)
    assert broken(fed) == ["Multiple Source Order", "Multiple Group Order", "Acyclic Order"]


def test_all_may_agree_on_an_order_that_is_not_the_source_s() -> None:
    """PROP §1 (a): only messages of one group are to be in the order of their source."""
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p1", "p2"]})
    a, b, c = fed.send("p1", "alpha"), fed.send("p1", "beta"), fed.send("p1", "alpha")
    fed.take("p1", b, a, c)
    fed.take("p2", b, a, c)
    assert broken(fed) == []
    fed = Federation({"alpha": ["p1", "p2"]})
    a, b = fed.send("p1", "alpha"), fed.send("p1", "alpha")
    fed.take("p1", b, a)
    fed.take("p2", b, a)
    assert broken(fed) == ["Single Source Order"]


def test_what_is_replaced_is_replaced_within_its_group() -> None:
    """A key of one group says nothing of the same key of another."""
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p1", "p2"]})
    a = fed.send("p1", "alpha", 0, key="k")
    b = fed.send("p1", "beta", 0, key="k")
    c = fed.send("p1", "alpha", 0, key="k")
    fed.take("p1", a, b, c)
    fed.receive("p2", a, b, c)
    fed.purge("p2", a, c)
    fed.deliver("p2", b, c)
    assert broken(fed) == []
    fed.skip("p2", b, c)
    assert "Accounting" in broken(fed)


def test_a_message_that_a_member_was_never_told_of_is_owed() -> None:
    """PROP §3.1 (2); one that was skipped for a cover is not."""
    fed = Federation({"alpha": ["p1", "p2", "p3"]})
    a = fed.send("p1", "alpha", 0, key="k")
    b = fed.send("p1", "alpha")
    c = fed.send("p1", "alpha", 0, key="k")
    fed.take("p1", a, b, c)
    fed.skip("p2", a, c)
    fed.take("p2", b, c)
    fed.take("p3", a)
    found = judge(fed.journal, [member_delivery.PROPERTY]).violations
    assert [(one.node, one.messages[0]) for one in found] == [
        ("p3.1", message(b)),
        ("p3.1", message(c)),
    ]
    assert check_run(fed.journal).not_at_rest
    fed.world("end", "p1", "p2", "p3")
    assert not check_run(fed.journal).not_at_rest


def test_a_message_that_nobody_received_is_told_of_its_source() -> None:
    fed = Federation({"alpha": ["p1", "p2"]}, sources=["p9.1"])
    fed.send("p9", "alpha")
    fed.send("p9", "nobody's")
    found = only(fed, member_delivery.PROPERTY)
    assert (found.node, found.messages[0]) == ("p9.1", message("p9#1"))


def test_a_site_receives_only_what_its_groups_get() -> None:
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p2", "p3"]})
    a = fed.send("p1", "alpha")
    fed.take("p1", a)
    fed.take("p2", a)
    fed.take("p3", a)
    found = only(fed, integrity.PROPERTY)
    assert found.text == "p3.1 receives p1.1#1 for 'alpha', which it is not in by graph 1"
