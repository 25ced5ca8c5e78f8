"""The sites that one deals with: in order, whoever comes and goes meanwhile; and what they keep."""

import gc

import pytest
from tests.protocol.propagation.company import Company

import semcast.ids
from semcast.ids import Source
from semcast.protocol.propagation.entries import Entry
from semcast.protocol.propagation.neighbour import Neighbours


def neighbours() -> Neighbours:
    """Of a site, b, that knows one other."""
    company = Company({"alpha": "ab"})
    company.run(10)
    return company.sites["b"]._neighbours


def ids(found: Neighbours) -> list[int]:
    return [int(one.to.sender) for one in found.all()]


def test_neighbours_are_in_order_of_ids_however_they_come_and_go() -> None:
    found = neighbours()
    for site in (9, 5, 7):
        found.meet(Source(site, 1))
    assert ids(found) == [1, 5, 7, 9]
    found.forget(7, 1)
    assert ids(found) == [1, 5, 9]
    later = found.meet(Source(5, 2))
    assert found.all()[1] is later


def test_who_goes_through_the_neighbours_may_meet_another_and_forget_one() -> None:
    found = neighbours()
    found.meet(Source(5, 1))
    seen = []
    for one in found.all():
        seen.append(int(one.to.sender))
        found.meet(Source(one.to.sender + 1000, 1))
        found.forget(int(one.to.sender), 1)
    assert seen == [1, 5]
    assert ids(found) == [1001, 1005]


def test_the_garbage_collector_does_not_look_at_entries() -> None:
    """Sites keep thousands of them."""
    if str(semcast.ids.__file__).endswith(".py"):
        pytest.skip("interpreted, every object is tracked")
    assert not gc.is_tracked(Entry(1, "alpha", 1, Source(1, 1), 1, None))
