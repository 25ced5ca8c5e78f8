"""`bench.overlay` on few members: what it measures, and that it says so in its exit code."""

import json

import pytest
from bench.overlay import main


def test_the_survivors_of_a_crash_get_later_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "100", "--crash", "0.5"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["members"], found["crashed"]) == (100, 50)
    assert found["formed"]["islands"] == 1
    assert found["flood"]["reached"] == 100
    assert found["crash"]["symmetric"] < 0.9
    assert found["later_reached_min"] >= 0.99
    assert found["faults_at_last"] == [] or "entries are dead" in found["faults_at_last"][0]
