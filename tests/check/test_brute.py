"""Every checker agrees with its definition on random runs, good and bad."""

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.check import brute, brute_flow, brute_gossip, brute_open, test_federations
from tests.check.log import broken
from tests.check.runs import gossiped, journals, spread

from semcast.check import (
    PROPERTIES,
    History,
    MessageId,
    Property,
    flow_bounds,
    kernel,
    safe_purging,
)
from semcast.check.facts import NEVER
from semcast.check.property import FEDERATION
from semcast.check.rows import Rows
from semcast.check.sent import Sent
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

# Of properties of which runs of the toy protocol show little.
RUNS = {"Relaying": gossiped(), "Atomicity": spread()}

BruteForce = Callable[[Journal], brute.Found]

DEFINITIONS: dict[str, BruteForce] = {
    "Integrity": brute.integrity,
    "FIFO Order": brute.fifo_order,
    "Stream Completeness": brute_open.stream_completeness,
    "Key Order": brute.key_order,
    "Key Completeness": brute.key_completeness,
    "Accounting": brute.accounting,
    "Relaying": brute.relaying,
    "Flow Bounds": brute_flow.flow_bounds,
    "Safe Purging": brute_flow.safe_purging,
    "Stability": brute_flow.stability,
    "View Sequence": brute_open.view_sequence,
    "State": brute_open.state,
    "Atomicity": brute_gossip.atomicity,
    "FIFO Completeness": brute.fifo_completeness,
    "Validity": brute.validity,
    "Agreement": brute.agreement,
    "Sender Reliability": brute.sender_reliability,
}


def found_by(one: Property, journal: Journal) -> brute.Found:
    return {
        (violation.time_ns if one.safety else violation.node, violation.messages[0])
        if violation.messages
        else (violation.time_ns, MessageId("", 0))
        for violation in broken(one, journal)
    }


# What only federations promise is compared in test_federations.py.
COMPARED = [one for one in PROPERTIES if one.reliability != (FEDERATION,)]


def test_every_property_has_a_definition() -> None:
    here = {one.name for one in COMPARED}
    assert DEFINITIONS.keys() == here
    of_federations = {one.name for one in PROPERTIES} - here
    assert of_federations <= test_federations.NAMES


@pytest.mark.parametrize("one", COMPARED, ids=lambda one: one.name)
def test_a_kernel_finds_what_its_definition_says(
    one: Property, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However it looks at rows: each, or many at once by NumPy if they are as they should be."""
    verdicts: Counter[bool] = Counter()

    @runs
    @given(RUNS.get(one.name, journals()))
    def agrees(journal: Journal) -> None:
        expected = DEFINITIONS[one.name](journal)
        assert found_by(one, journal) == expected
        with monkeypatch.context() as patch:
            for module in (kernel, flow_bounds, safe_purging):
                patch.setattr(module, "MANY_ROWS", 1)
            assert found_by(one, journal) == expected
        verdicts[not expected] += 1

    agrees()
    # A comparison in which one verdict hardly occurs would show little.
    assert min(verdicts[True], verdicts[False]) >= EXAMPLES // 15


@runs
@given(journals())
def test_the_relation_is_the_transitive_closure_of_all_annotations(journal: Journal) -> None:
    facts, history = brute.Facts(journal), History(journal)
    sent: dict[str, Sent] = {}
    for number, (rows, _) in history.groups(kernel.BY_SENDER):
        name = history.facts.senders[number][1]
        sent[name] = Sent(history.run, name)
        sent[name].feed(Rows(rows))
    for older in facts.multicasts:
        own = sent[older.sender]
        ranked = own.ranked.get(own.index[older.seq])
        covers = {other for other in facts.multicasts if facts.replaced(older, other)}
        assert covers == {
            other
            for other in facts.multicasts
            if sent[other.sender].covers(
                sent[other.sender].index[other.seq],
                own.index[older.seq] if other.sender == older.sender else -1,
                ranked,
            )
        }
        first = min((facts.multicasts[cover] for cover in covers), default=NEVER)
        assert own.covered_at[own.index[older.seq]] == first


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
    for one in PROPERTIES:
        if one.safety and (one is not flow_bounds.PROPERTY or not cut):
            assert set(broken(one, prefix)) <= set(broken(one, journal))
