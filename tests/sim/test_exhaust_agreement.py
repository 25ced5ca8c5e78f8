"""The agreement on views in small scopes, in every run: one sequence of views, whoever crashes."""

import os

import pytest

from semcast.sim.exhausting.agreement import exhaust_agreement
from semcast.sim.exhausting.party import AgreementScope

SCOPES = [
    AgreementScope(prepares=0),
    AgreementScope(prepares=0, number_max=3),
    AgreementScope(members=2, prepares=1),
    AgreementScope(members=2, prepares=1, number_max=3, closing=False),
    # Three members, one that joins, one crash anywhere.
    AgreementScope(prepares=1),
]


@pytest.mark.parametrize("scope", SCOPES, ids=str)
def test_there_is_one_sequence_of_views_in_every_run(scope: AgreementScope) -> None:
    outcome = exhaust_agreement(scope)
    assert not outcome.violations
    assert outcome.complete
    assert len(outcome.decisions) == scope.number_max
    assert outcome.closings > 0 or not scope.closing


def test_any_of_the_changes_may_be_the_one_that_is_decided() -> None:
    """In some run each proposer has its way; otherwise nothing would have been shown."""
    outcome = exhaust_agreement(AgreementScope(prepares=1, closing=False))
    assert len(outcome.decisions[2]) == 3


def test_larger_scopes_are_gone_through_as_far_as_time_allows() -> None:
    """SEMCAST_AGREEMENT_STATES says how far. None of these is finished with six millions."""
    states_max = int(os.environ.get("SEMCAST_AGREEMENT_STATES", "20000"))
    for scope in (
        AgreementScope(prepares=2, closing=False),
        AgreementScope(prepares=2, telling=False, closing=False),
        AgreementScope(prepares=1, number_max=3, closing=False),
    ):
        outcome = exhaust_agreement(scope, states_max)
        assert not outcome.violations
        assert outcome.complete or outcome.states > states_max
