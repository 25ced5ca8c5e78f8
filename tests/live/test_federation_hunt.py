"""Cases of `federation_hunt`: some that were broken once, and a few others."""

import pytest
from tests.live.federation_hunt import hunt


# Names that were lost with a life; lives of which others heard while the way there was cut; sites
# that were told of others, but not those of them; a federation that cannot go on; a recovery that
# was given up with its manager; groups that a former life had asked for.
@pytest.mark.parametrize("seed", [2, 9, 21, 38, 81, 110, 119])
def test_a_case_that_was_broken_once_keeps_its_promises(seed: int) -> None:
    assert hunt(seed) == []


@pytest.mark.parametrize("seed", range(10, 16))
def test_live_federations_keep_their_promises_whatever_goes_wrong(seed: int) -> None:
    assert hunt(seed) == []
