"""`python -m bench.gossip_sizes` runs both kinds of groups and writes a page with a plot."""

from pathlib import Path

import pytest
from bench.gossip_sizes import EVENTS, IDLE, MODEL, Task, main, measured


def test_events_and_rounds_agree_without_overload() -> None:
    theirs = measured(Task(EVENTS, IDLE, "eager", 60))
    ours = measured(Task(MODEL, IDLE, "eager", 60))
    assert ours.atomic_share == theirs.atomic_share == 1.0
    assert ours.receivers_share == pytest.approx(theirs.receivers_share, abs=0.02)
    assert ours.latency_mean_rounds == pytest.approx(theirs.latency_mean_rounds, rel=0.1)
    assert ours.load_copies == pytest.approx(theirs.load_copies, rel=0.1)


def test_page_and_plot_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    page = tmp_path / "sizes.md"
    few = ["--events", "", "--idle", "20,40", "--eager", "20", "--random", ""]
    assert main([*few, "--write", str(page)]) == 0
    out = capsys.readouterr().out
    assert out.count("| model |") == 3
    assert "sizes.svg" in page.read_text()
    assert out.splitlines()[-1] in page.read_text()
    assert (tmp_path / "sizes.svg").read_text().startswith("<?xml")
