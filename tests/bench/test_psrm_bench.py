"""`python -m bench.psrm`: its rows are the setting of the scenario, and it says what is apart."""

from pathlib import Path

import pytest
from bench.psrm import ROWS, Row, line, main, searched

from semcast.protocol.epidemic.config import Late, Room
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.scenario import load

SCENARIOS = Path(__file__).parents[2] / "examples" / "scenarios"


def test_the_plain_row_is_the_setting_of_the_scenario() -> None:
    (plain,) = [row for row in ROWS if row.name == "buffer 10, eager"]
    ours = plain.scenario()
    theirs = load(SCENARIOS / "psrm-largest-rate.toml")
    assert isinstance(theirs, GossipScenario)
    assert ours.config() == theirs.config()
    assert (ours.config().late, ours.config().room) == (Late.RELAY, Room.EACH)
    assert (ours.traffic, ours.faults, ours.network) == (
        theirs.traffic,
        theirs.faults,
        theirs.network,
    )
    assert ours.search is not None
    assert theirs.search is not None
    assert ours.search.kept_share == theirs.search.kept_share


def test_a_row_says_how_far_it_is_apart() -> None:
    assert line(Row("this", 50), [50.0, 60.0]) == "| this | 50 | 55 | 50 to 60 | +10% |"


def test_a_rate_is_found() -> None:
    """In a second of simulated time at rates that links carry, so that all is kept."""
    assert searched((Row("few", 4.0), 1, 2.0)) > 0


def test_what_names_no_row_is_an_error() -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])
