"""`python -m bench.federation` measures all three protocols; here for a few messages."""

import json

import pytest
from bench.federation import PROTOCOLS, agree, fastest, main


def test_all_three_protocols_are_measured_and_orders_agree(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["--messages", "20", "--processes", "3", "--rounds", "1"]) == 0
    out, table = capsys.readouterr()
    assert all(protocol in table for protocol in PROTOCOLS), "nothing is cut off"
    found = json.loads(out)["runs"]
    assert [one["protocol"] for one in found] == list(PROTOCOLS)
    for one in found:
        assert one["multicasts"] == 20 * 7
        assert one["multicasts_s"] > 0
        assert one["deliveries_s"] > one["multicasts_s"]
        assert one["cpu_us"] > 0
        assert 0 < one["delay_ms_median"] <= one["delay_ms_p99"]


def test_orders_that_do_not_agree_are_found() -> None:
    first, second, other = ("alpha", "a", 1), ("beta", "b", 1), ("gamma", "c", 1)
    assert agree([[first, second], [first, other, second], []])
    assert not agree([[first, second], [second, first]])


def test_the_fastest_run_counts_and_no_disagreement_is_forgotten() -> None:
    slow = {"protocol": "central", "multicasts_s": 10.0, "agree": False}
    fast = {"protocol": "central", "multicasts_s": 20.0, "agree": True}
    assert fastest([slow, fast]) == {**fast, "agree": False}
    assert fastest([fast, fast]) == fast
