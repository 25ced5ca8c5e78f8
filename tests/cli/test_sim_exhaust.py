"""`semcast sim exhaust`: how far it got, what it prints of a broken promise, and its mistakes."""

import json

import pytest

from semcast.check import Violation
from semcast.cli import main
from semcast.sim.exhausting import exhaust as search
from semcast.sim.exhausting.exhaust import Outcome
from semcast.sim.exhausting.scope import Scope

SMALL = ["--messages", "2", "--processes", "2"]
DEPTH_KEYS = [
    "ticks", "relations_begun", "relations_exhausted", "states", "interleavings", "ends",
    "journals_judged",
]  # fmt: skip


def result(
    capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0
) -> tuple[dict[str, object], list[dict[str, int]]]:
    """The whole answer, and its part on each number of timers."""
    assert main(["sim", "exhaust", *SMALL, *arguments, "--json"]) == code
    out, err = capsys.readouterr()
    assert err == ""
    found = json.loads(out)
    assert list(found) == ["relations", "by_ticks", "violations", "transcript"]
    return found, found["by_ticks"]


def words(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What people see, however the terminal breaks its lines."""
    assert main(["sim", "exhaust", *SMALL, *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def test_every_relation_is_exhausted_with_no_timer_and_then_with_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, depths = result(capsys, "--ticks", "2")
    assert [list(depth) for depth in depths] == [DEPTH_KEYS] * 3
    assert [depth["ticks"] for depth in depths] == [0, 1, 2]
    assert {depth["relations_exhausted"] for depth in depths} == {found["relations"]} == {5}
    states = [depth["states"] for depth in depths]
    assert states == sorted(set(states))
    assert found["violations"] == found["transcript"] == []


def test_a_protocol_of_stability_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    found, depths = result(capsys, "--stability", "s_train", "--branching", "2")
    assert found["violations"] == []
    assert [depth["relations_exhausted"] for depth in depths] == [5, 5]
    _, gossiping = result(capsys)
    assert depths[1]["states"] != gossiping[1]["states"]


def test_a_protocol_that_there_is_not_is_a_user_s_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "exhaust", *SMALL, "--stability", "bus"]) == 2
    assert "choose one of 'gossip', 'coordp'" in " ".join(capsys.readouterr().err.split())


def test_when_the_time_is_up_it_says_what_was_not_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """The 377 relations of four messages take minutes."""
    larger = ["--messages", "4", "--processes", "4", "--seconds", "0.5"]
    found, depths = result(capsys, *larger)
    assert found["relations"] == 377
    assert [depth["ticks"] for depth in depths] == [0]
    assert depths[0]["states"] > 0
    assert 1 <= depths[0]["relations_begun"] < 377
    assert depths[0]["relations_exhausted"] < 377
    assert "Not all was seen" in words(capsys, *larger)


def test_a_relation_with_too_many_states_is_left_and_the_next_begun(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found, depths = result(capsys, "--ticks", "0", "--states-max", "5")
    assert depths[0]["relations_begun"] == found["relations"]
    assert depths[0]["relations_exhausted"] == 0
    assert depths[0]["states"] == 5 * depths[0]["relations_begun"]
    text = words(capsys, "--ticks", "0", "--states-max", "5")
    assert "0 of 5 relations exhausted with 0 timers at any time. Not all was seen" in text


def test_people_are_told_that_everything_was_kept(capsys: pytest.CaptureFixture[str]) -> None:
    text = words(capsys, "--ticks", "0")
    assert "5 of 5 relations exhausted with 0 timers" in text
    assert "Everything promised was kept" in text
    assert "Not all was seen" not in text


def test_a_broken_promise_is_printed_with_its_run_and_ends_the_search(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks(scope: Scope, *_: object) -> Outcome:
        violation = Violation("Integrity", "p1.1 delivers p0.1#1 twice", "p1.1", (), 3)
        return Outcome(scope, states=1, violations=[violation], transcript=["   0 p0 crashes"])

    monkeypatch.setattr(search, "exhaust", breaks)
    found, depths = result(capsys, "--ticks", "1", code=1)
    assert [depth["relations_begun"] for depth in depths] == [1]
    assert found["transcript"] == ["   0 p0 crashes"]
    text = words(capsys, code=1)
    assert "VIOLATED with -, -:" in text
    assert "p1.1 delivers p0.1#1 twice" in text
    assert "p0 crashes" in text
    assert "was kept" not in text


@pytest.mark.parametrize(
    "line", ["--messages 0", "--processes 1", "--seconds 0", "--states-max 0", "--reliability all"]
)
def test_a_mistake_gets_one_line_and_exit_code_2(
    line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["sim", "exhaust", *line.split()]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1


def test_the_search_shows_its_states_as_it_goes_and_holds_no_more_than_allowed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "_PROGRESS_STATES", 10)
    seen: list[int] = []
    outcome = search.exhaust(Scope((None, None)), states_max=25, progress=seen.append)
    assert seen == [10, 20]
    assert outcome.states == 25
    assert not outcome.complete
