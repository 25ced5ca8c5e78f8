"""The examples run as the documents say, in processes of their own."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str, *arguments: str) -> str:
    """What an example prints; it must end well."""
    command = [sys.executable, str(EXAMPLES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", ["hello_blocking.py", "hello_asyncio.py"])
def test_a_greeting_brings_the_newest_quote_and_the_trade(name: str) -> None:
    lines = run(name).splitlines()
    assert lines[-2:] == ["alice 2 AAPL 101.50", "alice 3  trade 17"]


def test_no_trade_is_lost_for_the_slow_reader_and_only_quotes_are_skipped() -> None:
    found = json.loads(run("quotes.py", "--seconds", "1.5", "--json"))
    sent = found["feed"]
    for name in ("fast", "slow"):
        reader = found[name]
        assert reader["trades"] == sent["trades"]
        assert reader["trades_in_order"]
        assert reader["quotes"] + reader["trades"] + reader["skipped"] == sent["sent"]
    # How many depends on how busy this machine is; it could take a quarter of them.
    assert found["slow"]["skipped"] > 0


def test_it_tells_people_too() -> None:
    out = run("quotes.py", "--seconds", "0.2")
    assert "lost 0 trades" in out
    assert "No trade was lost" in out


def test_a_late_reader_gets_what_stands_first() -> None:
    found = json.loads(run("late_joiner.py", "--json"))
    assert found["stocks"] == 1000
    assert found["state"] + found["live"] >= 1000
    assert found["state"] > 900
    assert found["live"] >= 100


def test_subscribers_come_and_go_and_know_every_symbol() -> None:
    lines = run("subscribers.py", "4").splitlines()
    assert len(lines) == 10
    quick = [line for line in lines if "(slow)" not in line]
    assert len(quick) == 8
    for line in quick:
        known = line[line.index("[") + 1 : line.index("]")].split(", ")
        assert set(known) == {"5000"}
    assert len((EXAMPLES / "subscribers.py").read_text().splitlines()) < 60


def test_all_bidders_learn_who_won() -> None:
    lines = run("auction.py", "2").splitlines()
    assert len(lines) == 10
    assert len({line.partition("at last: ")[2] for line in lines}) == 1
    assert "sold for" in lines[0]
    assert len((EXAMPLES / "auction.py").read_text().splitlines()) < 60


def test_subscribers_of_sensors_get_what_they_want_and_almost_every_alarm() -> None:
    lines = run("pubsub.py", "8").splitlines()
    assert len(lines) == 10
    # Ten alarms for each of ten; one that came late, on a busy machine, may lack some.
    assert sum(int(line.split()[-2]) for line in lines) >= 90
    sensors = [int(line.split(" sensors")[0].split()[-1]) for line in lines]
    # Every third process wants those of the hall alone.
    assert all(found <= 10 for found in sensors[::3])
    assert max(sensors) > 10
    assert len((EXAMPLES / "pubsub.py").read_text().splitlines()) < 60


def test_both_main_computers_of_the_bank_end_with_the_same_balances() -> None:
    first, second = run("federation.py", "60").splitlines()
    assert first.startswith("main1: a penalty of 6, and balances of ")
    assert first.removeprefix("main1") == second.removeprefix("main2")
    assert len((EXAMPLES / "federation.py").read_text().splitlines()) < 80
