"""Processes come, go, die and are stopped: the schedule, the verdict, and a short run of it all."""

import subprocess
import sys
from pathlib import Path

import pytest
from bench.network import cannot_lose
from tests.live.churn import Outcome
from tests.live.churn_schedule import FORGET_S, JOIN, KILL, LEAVE, RESUME, STOP, schedule
from tests.live.churn_verdict import AWAY_S, Ledger, Verdict, judge_journals
from tests.live.comer import Account
from tests.live.groups import ROOT
from tests.live.namespace import unavailable

# -- the schedule ----------------------------------------------------------------------------------


def test_a_seed_is_a_schedule() -> None:
    assert schedule(1, 60) == schedule(1, 60)
    assert schedule(1, 60) != schedule(2, 60)
    drawn = [deed.what for deed in schedule(1, 60)]
    assert {*drawn} == {JOIN, LEAVE, KILL, STOP, RESUME}
    assert drawn.count(STOP) == drawn.count(RESUME)


@pytest.mark.parametrize("seed", range(20))
def test_a_majority_runs_after_every_deed(seed: int) -> None:
    running: set[str] = set()
    stopped: set[str] = set()
    killed: list[float] = []
    for deed in schedule(seed, 120):
        match deed.what:
            case "join":
                assert deed.process not in running
                running.add(deed.process)
            case "leave" | "kill" | "stop":
                running.remove(deed.process)
                if deed.what == STOP:
                    stopped.add(deed.process)
                elif deed.what == KILL:
                    killed.append(deed.at_s)
            case "resume":
                stopped.remove(deed.process)
                running.add(deed.process)
        lacking = len(stopped) + sum(deed.at_s - at_s < FORGET_S for at_s in killed)
        assert len(running) > lacking, deed
        assert len(running) + len(stopped) <= 8
    assert not stopped


def test_names_come_back_only_when_nobody_has_them() -> None:
    deeds = schedule(5, 300)
    names = {deed.process: deed.name for deed in deeds if deed.what == JOIN}
    there: set[str] = set()
    for deed in deeds:
        if deed.what == JOIN:
            assert deed.name not in there
            there.add(deed.name)
        elif deed.what == KILL:
            there.remove(names[deed.process])
    assert len({*names.values()}) < len(names), "some come back by a former name"


# -- the verdict -----------------------------------------------------------------------------------


def accounts() -> tuple[Account, Account]:
    """A sends three for good and two values; both take all."""
    sent = [
        ("a/0", "", 1.0),
        ("a/1", "k", 2.0),
        ("a/2", "", 3.0),
        ("a/3", "k", 4.0),
        ("a/4", "", 5),
    ]
    taken = [(text, key) for text, key, _ in sent if text != "a/1"]
    a = Account("a", in_s=0.5, safe=True, sent=sent, taken=list(taken))
    return a, Account("b", in_s=0.5, safe=True, taken=list(taken))


def judged(outcome: Outcome, feeds: bool = False) -> Verdict:
    verdict = Verdict()
    Ledger(outcome, feeds, verdict).judge()
    return verdict


def test_nothing_is_broken_if_all_have_everything() -> None:
    verdict = judged(Outcome(rested=[*accounts()]))
    assert verdict.ok
    assert verdict.owed == 6
    assert verdict.values == 2


def test_what_is_lost_is_found() -> None:
    a, b = accounts()
    b.taken.remove(("a/2", ""))
    assert judged(Outcome(rested=[a, b])).broken == [
        "b never got a/2, sent 2.5 s after the first was in"
    ]
    # It came after that one was sent, and so owes only what follows and what stands.
    b.in_s = 3.5
    assert judged(Outcome(rested=[a, b])).ok


def test_a_value_that_is_not_the_newest_is_found() -> None:
    a, b = accounts()
    b.in_s = 10.0
    b.taken = [("a/1", "k")]
    assert judged(Outcome(rested=[a, b])).broken == ["b has a/1 of k, and not a/3"]
    # Also of a sender that left, if it was told that all was safe.
    assert judged(Outcome(rested=[b], left=[a])).broken == ["b has a/1 of k, and not a/3"]
    a.safe = False
    assert judged(Outcome(rested=[b], left=[a])).ok


def test_what_comes_twice_is_found_also_after_coming_back() -> None:
    a, b = accounts()
    b.back_s = [4.5]
    b.taken.append(("a/3", "k"))
    assert judged(Outcome(rested=[a, b])).broken == ["b got a/3 2 times"]


def test_one_that_was_away_owes_nothing_of_that_time() -> None:
    a, b = accounts()
    b.taken.remove(("a/2", ""))
    b.back_s = [3.0 + AWAY_S / 2]
    assert judged(Outcome(rested=[a, b])).ok


def test_what_is_lost_with_a_life_is_counted_and_nothing_else_excused() -> None:
    a, b = accounts()
    c = Account("c", in_s=0.5, safe=True, taken=list(b.taken))
    a.back_s = [3.5]
    b.taken.remove(("a/2", ""))
    assert judged(Outcome(rested=[a, b, c])).broken == ["a/2 is missing at 1, and 1 have it"]
    c.reads = True
    assert judged(Outcome(rested=[a, b, c])).ok, "what only a reader has nobody owes"
    c.taken.remove(("a/2", ""))
    verdict = judged(Outcome(rested=[a, b, c]))
    assert verdict.ok
    assert verdict.lost_with_life == 1


def test_a_folder_without_journals_is_no_success(tmp_path: Path) -> None:
    verdict = Verdict()
    judge_journals(tmp_path, 3, verdict)
    assert verdict.broken


# -- a short run -----------------------------------------------------------------------------------


@pytest.mark.parametrize("feeds", [False, True], ids=["group", "feeds"])
def test_processes_that_come_and_go_lose_nothing(feeds: bool, tmp_path: Path) -> None:
    """The long one is `make soak-churn`."""
    why = cannot_lose()
    if why:
        unavailable(why)
    command = [sys.executable, "-m", "tests.soak_churn", "--seconds", "20", "--processes", "5"]
    command += ["--seed", "4", "--keep", str(tmp_path), *(["--feeds"] if feeds else [])]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "every promise was kept" in done.stdout
    verdict = Verdict()
    judge_journals(tmp_path, 100, verdict)
    assert "members ended at rest" in verdict.broken[0], "a hundred did not"
