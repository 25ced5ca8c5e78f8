"""`python -m bench.psrm`: its rows are the setting of the scenario, and it says what is apart."""

from pathlib import Path

import pytest
from bench.page import END, mark_of
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
    assert (ours.config().late, ours.config().room) == (Late.LINK, Room.EACH)
    assert (ours.traffic, ours.faults, ours.network) == (
        theirs.traffic,
        theirs.faults,
        theirs.network,
    )
    assert ours.search is not None
    assert theirs.search is not None
    assert ours.search.kept_share == theirs.search.kept_share


def test_all_rates_stand_on_the_grid_that_the_scenario_halves() -> None:
    theirs = load(SCENARIOS / "psrm-largest-rate.toml")
    assert isinstance(theirs, GossipScenario)
    assert theirs.search is not None
    cell = theirs.search.high_msg_s - theirs.search.low_msg_s
    while cell > theirs.search.within_msg_s:
        cell /= 2
    for row in ROWS:
        search = row.scenario().search
        assert search is not None
        assert search.low_msg_s < row.expected_msg_s < search.high_msg_s
        assert ((search.low_msg_s - theirs.search.low_msg_s) / cell).is_integer()
        assert search.within_msg_s == cell


def test_a_row_says_how_far_it_is_apart() -> None:
    assert line(Row("this", 50), [50.0, 60.0]) == "| this | 50 | 55 | 50 to 60 | +10% |"


def test_a_rate_is_found() -> None:
    """In a second of simulated time at rates that links carry, so that all is kept."""
    assert searched((Row("few", 4.0), 1, 2.0)) > 0


def test_what_names_no_row_is_an_error() -> None:
    with pytest.raises(SystemExit):
        main(["--only", "nothing"])


def test_a_page_gets_all_rows_or_none(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("what people wrote")
    with pytest.raises(SystemExit):
        main(["--only", "buffer 3", "--write", str(page)])
    with pytest.raises(SystemExit):
        main(["--write", str(page)])
    assert page.read_text() == "what people wrote"


def test_the_table_goes_between_the_marks_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    begin = mark_of(f"python -m bench.psrm --write {page}")
    page.write_text(f"before\n\n{begin}\nold\n{END}\n\nafter\n")
    monkeypatch.setattr("bench.psrm.ROWS", (Row("few", 4.0),))
    assert main(["--seeds", "1", "--seconds", "2", "--workers", "1", "--write", str(page)]) == 0
    before, _, rest = page.read_text().partition(begin)
    table, _, after = rest.partition(END)
    assert (before, after) == ("before\n\n", "\n\nafter\n")
    assert "| few | 4 |" in table
    assert "old" not in table
