"""`python -m bench.gossip_scale` prints what it says, here for a group that is done in a moment."""

import json

import pytest
from bench.gossip_scale import main


def test_a_small_group_survives_the_crash_of_most(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "30", "--messages", "8", "--crash", "0.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["members"], found["crashed"]) == (30, 15)
    assert found["messages"] > 4
    assert found["atomic_share"] == 1.0
    assert len(found["reached_during_repair"]) == len(found["reached_after_repair"]) == 5
    assert found["reached_after_repair_min"] >= 0.99
    assert found["memory_mb"] > 0
