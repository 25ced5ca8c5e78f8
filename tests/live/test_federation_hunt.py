"""Cases of `federation_hunt`: some that were broken once, and a few others."""

import pytest
from tests.live.federation_hunt import hunt


# Names that were lost with a life; lives of which others heard while the way there was cut; sites
# that were told of others, but not those of them, so that each began a federation of its own.
@pytest.mark.parametrize("seed", [2, 5, 13, 20, 28, 36, 75])
def test_a_case_that_was_broken_once_keeps_its_promises(seed: int) -> None:
    assert hunt(seed) == []


@pytest.mark.parametrize("seed", [194, 238, 793, 1005, 1020, *range(600, 605)])
def test_live_federations_keep_their_promises_whatever_goes_wrong(seed: int) -> None:
    assert hunt(seed) == []
