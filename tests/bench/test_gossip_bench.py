"""`python -m bench.gossip` says what reached whom, and that the journals hold; here for a few."""

import json

import pytest
from bench.gossip import agrees, main


def test_a_few_processes_gossip_and_their_journals_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--members", "4", "--seconds", "1", "--rest", "4"]) == 0
    eager, random = json.loads(capsys.readouterr().out)["runs"]
    assert (eager["policy"], random["policy"]) == ("eager", "random")
    for one in (eager, random):
        assert one["members"] == len(one["neighbours"]) == 4
        assert one["kept_messages"] > 0
        assert 0 < one["mean_reached"] <= 1
        assert set(one["broken"]) <= {"Atomicity"}
    assert eager["broken"] == []
    assert random["purged_relay"] == 0


def test_what_spark_says_of_a_journal_is_what_the_checkers_say() -> None:
    broken, whole = {"judged": 9, "violations": 2}, {"judged": 9, "violations": 0}
    assert agrees({"broken": []})
    assert agrees({"broken": ["Atomicity"], "verified": {"Atomicity": broken, "Relaying": whole}})
    assert not agrees({"broken": [], "verified": {"Atomicity": broken, "Relaying": whole}})
    assert not agrees({"broken": ["Atomicity"], "verified": {"Atomicity": whole}})
