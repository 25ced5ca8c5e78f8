"""`semcast sim run` with stability rounds: its keys, its figures, and every way to get it wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from semcast.cli import _stability_show, main

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
STABILITY = str(EXAMPLES / "stability.toml")
SMALL = ["--branching", "2", "--height", "3", "--leaf-degree", "1"]
KEYS = [
    "model", "seed", "protocol", "members", "senders", "height", "finished", "rtt_root_ms",
    "rtt_member_min_ms", "rtt_member_mean_ms", "rtt_member_max_ms", "time_to_stable_ms",
    "messages_all_hops", "messages_all_hops_by_type", "bytes_all_hops", "messages_lost",
    "messages_processed", "link_queue_max", "host_queue_max", "wrong_members",
]  # fmt: skip


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(["sim", "run", *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    return json.loads(output(capsys, *arguments, "--json"))


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", "run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1
    return err


def test_the_papers_group_of_1109_gives_the_figures_of_the_literal_reading(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """STAB §5.3, §5.4; readings.md"""
    shape = ["--branching", "4", "--height", "5", "--leaf-degree", "3"]
    found = result(capsys, STABILITY, "--protocol", "s_coordp", *shape)
    assert list(found) == KEYS
    assert found["rtt_root_ms"] == pytest.approx(28.87, rel=0.005)
    assert found["messages_all_hops"] == 3324
    assert found["link_queue_max"] == 1
    assert found["messages_processed"] == {
        "root": 8,
        "internal": 7,
        "internal_above_leaves": 6,
        "leaf": 3,
    }


def test_people_get_a_table_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, STABILITY, "--protocol", "train", *SMALL)
    assert "round trip at the root" in shown
    assert "11 members in a tree of height 3" in shown
    assert "All members agreed on exactly what all have." in shown


def test_several_protocols_are_compared(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, STABILITY, "--protocol", "coordp,s_coordp", *SMALL)
    assert "s_coordp" in shown
    assert "11 members" in shown
    found = result(capsys, STABILITY, "--protocol", "all", *SMALL)
    assert [run["protocol"] for run in found["runs"]] == [
        "coordp", "fulldist", "train", "s_coordp", "s_train", "gossip",
    ]  # fmt: skip
    assert all(run["finished"] and run["wrong_members"] == 0 for run in found["runs"])


def test_variants_are_rows_and_the_least_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    variants = (
        "variants=[{title='near', links={delays_ms=[1]}}, {title='far', links={delays_ms=[50]}}]"
    )
    shown = output(capsys, STABILITY, "--protocol", "s_coordp,train", *SMALL, "--set", variants)
    assert "near" in shown
    assert "far" in shown
    assert "least" in shown


def test_seeds_are_repeated_only_where_something_is_drawn(
    capsys: pytest.CaptureFixture[str],
) -> None:
    repeat = ["--set", "repeat=3"]
    assert "runs" not in result(capsys, STABILITY, *SMALL, *repeat)
    random = ["--set", "tree={kind='random', members=20, branching=2, height=3}"]
    found = result(capsys, STABILITY, *random, *repeat)
    assert [run["seed"] for run in found["runs"]] == [1, 2, 3]


def test_rounds_under_traffic_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    traffic = ["--set", "traffic={duration_s=2, rate_msg_s=50, window_messages=20}"]
    shown = output(capsys, STABILITY, *SMALL, *traffic)
    assert "waiting blocked" in shown
    assert "11 members, seed 1." in shown
    found = result(capsys, STABILITY, *SMALL, *traffic)
    assert found["runs"][0]["rounds"] >= 4
    assert found["runs"][0]["time_to_stable_mean_ms"] > 0
    assert "leave it out" in complaint(capsys, STABILITY, *SMALL, *traffic, "--plot", "x.svg")


def test_agreeing_on_the_wrong_thing_is_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("semcast.sim.stability.world.wrong_members", lambda *_: 2)
    assert "WRONG: 2 members" in output(capsys, STABILITY, *SMALL, code=1)
    assert "WRONG in 2" in output(capsys, STABILITY, *SMALL, "--protocol", "coordp,train", code=1)


def test_a_deadline_that_is_too_short_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    short = ["--set", "deadline_s=0.001"]
    assert "raise deadline_s" in output(capsys, STABILITY, *SMALL, *short)
    both = output(capsys, STABILITY, *SMALL, *short, "--protocol", "coordp,train")
    assert "2 were not over at the deadline" in both


def test_a_plot_is_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "scale.svg"
    output(capsys, STABILITY, "--protocol", "coordp,s_coordp", *SMALL, "--plot", str(path))
    assert path.read_text().lstrip().startswith("<?xml")
    nowhere = str(tmp_path / "none" / "x.svg")
    assert main(["sim", "run", STABILITY, *SMALL, "--json", "--plot", nowhere]) == 2
    assert "No such file" in capsys.readouterr().err


def test_without_matplotlib_a_plot_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    monkeypatch.setattr(_stability_show, "_run_cases", lambda *_: pytest.fail("it was run"))
    assert "semcast[report]" in complaint(capsys, STABILITY, *SMALL, "--plot", "x.svg")


def test_mistakes_are_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "protocol is 'paxos'" in complaint(capsys, STABILITY, "--protocol", "paxos")
    assert "'paxos'" in complaint(capsys, STABILITY, "--protocol", "coordp,paxos")
    assert "leaf_degree is 9" in complaint(capsys, STABILITY, "--leaf-degree", "9")
    assert "height is 0" in complaint(capsys, STABILITY, "--height", "0")
    assert "at most" in complaint(capsys, STABILITY, "--branching", "900", "--height", "9")
    assert "links: loss is 2" in complaint(capsys, STABILITY, "--set", "links.loss=2")
    assert "keeps no journal" in complaint(capsys, STABILITY, "--journal", str(tmp_path))
    fig5 = str(EXAMPLES / "fig5-purging.toml")
    assert "model = 'stability'" in complaint(capsys, fig5, "--protocol", "train")
    assert "model = 'stability'" in complaint(capsys, fig5, "--plot", "x.svg")
