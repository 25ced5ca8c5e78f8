"""`python -m bench.epidemic` prints what it says, here for a group that is done in a moment."""

import json

import pytest
from bench.epidemic import main


def test_each_policy_has_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--members", "60", "--rounds", "5", "--paper-seconds", "2"]
    assert main([*few, "--policies", "eager,random"]) == 0
    printed = json.loads(capsys.readouterr().out)
    paper, found = printed["paper"], printed["runs"]
    assert (paper["members"], paper["simulated_s"]) == (50, 2.0)
    assert paper["events"] > paper["copies_sent"] > 0
    assert [(one["members"], one["policy"]) for one in found] == [(60, "eager"), (60, "random")]
    assert all(one["memory_mb"] > 0 and one["cpu_s"] >= 0 for one in found)
    assert all(one["rounds"] == 45 and one["messages"] == 180 for one in found)
