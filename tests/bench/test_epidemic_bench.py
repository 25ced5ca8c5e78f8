"""`python -m bench.epidemic` prints what it says, here for a group that is done in a moment."""

import json

import pytest
from bench.epidemic import main


def test_each_policy_has_its_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "60", "--rounds", "5", "--policies", "eager,random"]) == 0
    found = json.loads(capsys.readouterr().out)["runs"]
    assert [(one["members"], one["policy"]) for one in found] == [(60, "eager"), (60, "random")]
    assert all(one["memory_mb"] > 0 and one["cpu_s"] >= 0 for one in found)
    assert all(one["rounds"] == 45 and one["messages"] == 180 for one in found)
