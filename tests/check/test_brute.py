"""Every checker agrees with its definition on random runs, good and bad."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.check import brute, brute_flow
from tests.check.runs import journals

from semcast.check import (
    History,
    MessageId,
    Violation,
    accounting,
    agreement,
    fifo_completeness,
    fifo_order,
    flow_bounds,
    integrity,
    key_completeness,
    key_order,
    safe_purging,
    sender_reliability,
    stability,
    validity,
)
from semcast.check.relation import NEVER
from semcast.journal import Journal

EXAMPLES = 300
settings.register_profile(
    "runs",
    max_examples=EXAMPLES,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
runs = settings.get_profile("runs")

CheckJournal = Callable[[Journal | History], list[Violation]]
BruteForce = Callable[[Journal], brute.Found]

SAFETY: list[tuple[CheckJournal, BruteForce]] = [
    (integrity.check, brute.integrity),
    (fifo_order.check, brute.fifo_order),
    (key_order.check, brute.key_order),
    (key_completeness.check, brute.key_completeness),
    (accounting.check, brute.accounting),
    (flow_bounds.check, brute_flow.flow_bounds),
    (safe_purging.check, brute_flow.safe_purging),
    (stability.check, brute_flow.stability),
]
LIVENESS: list[tuple[CheckJournal, BruteForce]] = [
    (fifo_completeness.check, brute.fifo_completeness),
    (validity.check, brute.validity),
    (agreement.check, brute.agreement),
    (sender_reliability.check, brute.sender_reliability),
]


def found_by(check: CheckJournal, journal: Journal, at_end: bool) -> brute.Found:
    return {
        (violation.node if at_end else violation.time_ns, violation.messages[0])
        if violation.messages
        else (violation.time_ns, MessageId("", 0))
        for violation in check(journal)
    }


@pytest.mark.parametrize(
    ("check", "by_definition", "at_end"),
    [(*pair, False) for pair in SAFETY] + [(*pair, True) for pair in LIVENESS],
    ids=[pair[1].__name__ for pair in SAFETY + LIVENESS],
)
def test_a_checker_finds_what_its_definition_says(
    check: CheckJournal, by_definition: BruteForce, at_end: bool
) -> None:
    verdicts: Counter[bool] = Counter()

    @runs
    @given(journals())
    def agrees(journal: Journal) -> None:
        expected = by_definition(journal)
        assert found_by(check, journal, at_end) == expected
        verdicts[not expected] += 1

    agrees()
    # A comparison in which one verdict hardly occurs would show little.
    assert min(verdicts[True], verdicts[False]) >= EXAMPLES // 10


@runs
@given(journals())
def test_the_relation_is_the_transitive_closure_of_all_annotations(journal: Journal) -> None:
    facts, history = brute.Facts(journal), History(journal)
    numbers = {name: at for at, name in enumerate(history.messages)}
    for older in facts.multicasts:
        covers = {other for other in facts.multicasts if facts.replaced(older, other)}
        assert covers == {
            other
            for other in facts.multicasts
            if history.relation.covers(numbers[other], numbers[older])
        }
        first = min((facts.multicasts[cover] for cover in covers), default=NEVER)
        assert history.relation.covered_at(numbers[older]) == first


@runs
@given(journals(), st.integers(0, 80))
def test_what_is_unsafe_stays_unsafe(journal: Journal, length: int) -> None:
    """Safety properties hold on every prefix: a longer log has the same violations, and more.

    Flow Bounds are looked at when the purges that an arrival causes are through, so a log may not
    end before them.
    """
    assume(journal.header.one_order)
    prefix = Journal(journal.header)
    for event in journal.events[:length]:
        prefix.append(event)
    cut = any(event.event == "purge" for event in journal.events[length : length + 3])
    for check, _ in SAFETY:
        if check is not flow_bounds.check or not cut:
            assert set(check(prefix)) <= set(check(journal))
