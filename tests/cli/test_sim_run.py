"""`semcast sim run`: its keys, its figures, its exit codes, and every way to get it wrong."""

import json
from pathlib import Path

import pytest

from semcast.check import Report, Violation
from semcast.cli import _protocol_show, main

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
PURGING = str(EXAMPLES / "fig5-purging.toml")
GROUP = str(EXAMPLES / "fig5-protocol.toml")
BRIEFLY = ["--set", "duration_s=2", "--set", "warm_up_s=1"]
TWO_BUFFER_KEYS = [
    "model", "seed", "sent", "sender_rate_msg_s", "fast_receiver_rate_msg_s",
    "slow_receiver_rate_msg_s", "purged_share", "purged_at_sender_share", "purged_fast_share",
    "occupancy_mean_messages", "latency_mean_ms", "latency_max_ms", "semantic_latency_mean_ms",
    "semantic_latency_max_ms", "blocked_share",
]  # fmt: skip
GROUP_KEYS = [
    "model", "seed", "members", "measured_s", "sent_rate_msg_s", "delivered_rate_min_msg_s",
    "nodes", "quiescent", "ended_s", "membership", "journal_events", "journal_file", "checked",
    "violations",
]  # fmt: skip
NODE_KEYS = [
    "node", "sent_rate_msg_s", "delivered_rate_msg_s", "not_delivered_share", "sent", "delivered",
    "purged_delivery", "purged_retransmit", "skipped", "latency_p50_ms", "latency_p99_ms",
    "latency_max_ms", "blocked_share", "naks", "retransmissions", "datagrams_sent", "bytes_sent",
    "datagrams_received", "datagrams_refused",
]  # fmt: skip


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    """What is printed, however the terminal breaks its lines."""
    assert main(["sim", "run", *arguments]) == code
    out, err = capsys.readouterr()
    assert err == ""
    return " ".join(out.split())


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    found = json.loads(output(capsys, *arguments, "--json"))
    assert isinstance(found, dict)
    return found


def complaint(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["sim", "run", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1
    return err


# -- the two-buffer model --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("example", "rate_msg_s"),
    [("fig5-purging", 98.5), ("fig5-no-purging", 50), ("fig5-small-buffer", 89)],
)
def test_the_examples_of_figure_5_give_its_figures(
    example: str, rate_msg_s: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """SRM §6.2; readings.md"""
    found = result(capsys, str(EXAMPLES / f"{example}.toml"))
    assert list(found) == TWO_BUFFER_KEYS
    assert found["sender_rate_msg_s"] == pytest.approx(rate_msg_s, abs=1)
    assert found["fast_receiver_rate_msg_s"] == found["sender_rate_msg_s"]


def test_people_get_a_table_and_a_verdict(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, PURGING, *BRIEFLY)
    assert "Purging carries a receiver of half the speed" in shown
    assert "slow receiver" in shown
    assert "50.0 msg/s" in shown
    off = output(capsys, PURGING, "--set", "buffers.purging=off", *BRIEFLY)
    assert "holds the sender up" in off
    quick = output(capsys, PURGING, "--set", "slow_delay_ms=5", *BRIEFLY)
    assert "does not disturb the sender" in quick


def test_a_seed_repeats_a_run_and_overrides_that_of_the_file(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = result(capsys, PURGING, "--seed", "5", "--set", "seed=4", *BRIEFLY)
    assert first["seed"] == 5
    assert first == result(capsys, PURGING, "--seed", "5", *BRIEFLY)
    assert first != result(capsys, PURGING, "--seed", "6", *BRIEFLY)


# -- groups ----------------------------------------------------------------------------------------


def test_a_group_is_run_and_checked(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, GROUP, *BRIEFLY)
    assert list(found) == GROUP_KEYS
    assert found["quiescent"] is True
    assert found["violations"] == []
    assert isinstance(found["nodes"], list)
    assert [list(node) for node in found["nodes"]] == [NODE_KEYS] * 3
    assert isinstance(found["checked"], dict)
    assert found["checked"]["FIFO Completeness"] > 100


def test_a_group_for_people_names_what_was_checked(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, GROUP, *BRIEFLY)
    assert "p2.1" in shown
    assert "Checked, and kept: Integrity, FIFO Order" in shown
    assert "blocked" not in shown
    plain = output(capsys, GROUP, "--set", "protocol.purging=false", *BRIEFLY)
    assert "p0.1 was blocked" in plain


def test_of_a_large_group_the_senders_and_the_slowest_are_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = ["--set", "members=20", "--set", "consumers.0.members=[17]"]
    shown = output(capsys, GROUP, *many, "--set", "duration_s=1.5", "--set", "warm_up_s=0.5")
    assert "p0.1" in shown
    assert "p17.1" in shown
    assert "8 more nodes" in shown


def test_without_checking_no_journal_is_kept(capsys: pytest.CaptureFixture[str]) -> None:
    found = result(capsys, GROUP, "--no-check", *BRIEFLY)
    assert (found["journal_events"], found["checked"], found["violations"]) == (None, None, None)
    assert "Nothing was checked." in output(capsys, GROUP, "--no-check", *BRIEFLY)


def test_a_journal_is_written_under_the_name_of_scenario_and_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    from semcast.journal import read_journal

    found = result(capsys, GROUP, "--seed", "3", "--journal", str(tmp_path), *BRIEFLY)
    journal = read_journal(tmp_path, "fig5-protocol-3")
    assert len(journal) == found["journal_events"]
    assert Path(str(found["journal_file"])).is_relative_to(tmp_path)
    shown = output(capsys, GROUP, "--journal", str(tmp_path), "--no-check", *BRIEFLY)
    assert "Journal: " in shown


def test_a_violation_is_exit_code_1_and_is_shown(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = Violation("FIFO Order", "p2.1 delivers 3 after 4", "p2.1", (), 5)
    report = Report("run", {"FIFO Order": 7}, [broken])
    monkeypatch.setattr(_protocol_show, "judged", lambda *_, **__: report)
    assert "p2.1 delivers 3 after 4" in output(capsys, GROUP, *BRIEFLY, code=1)
    assert "VIOLATED once" in output(capsys, GROUP, *BRIEFLY, code=1)
    assert json.loads(output(capsys, GROUP, "--json", *BRIEFLY, code=1))["violations"] == [
        str(broken)
    ]


def test_a_run_that_does_not_come_to_rest_is_judged_by_what_holds_at_every_moment(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cut = "faults.partitions=[{members=[1], at_s=0.5, until_s=99}]"
    restless = [GROUP, *BRIEFLY, "--set", cut, "--set", "drain_s=1"]
    found = result(capsys, *restless)
    assert (found["quiescent"], found["ended_s"]) == (False, 3)
    assert isinstance(found["checked"], dict)
    assert "Integrity" in found["checked"]
    assert "Agreement" not in found["checked"]
    assert "had not come to rest" in output(capsys, *restless)


# -- mistakes --------------------------------------------------------------------------------------


def test_a_missing_file_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in complaint(capsys, "no-such-file.toml")
    assert complaint(capsys)


def test_a_bad_setting_is_one_line_with_file_key_and_value(
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = complaint(capsys, PURGING, "--set", "traffic.r=2")
    assert said == f"semcast: {PURGING}: traffic: r is 2; it goes from 0 to 1\n"
    assert "unknown key 'slow'" in complaint(capsys, GROUP, "--set", "slow=1")
    assert "write key=value" in complaint(capsys, GROUP, "--set", "slow")


def test_a_missing_trace_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    replay = ["--set", "traffic={kind='replay', file='none.csv'}"]
    assert "none.csv: No such file" in complaint(capsys, PURGING, *replay)
    assert "none.csv: No such file" in complaint(capsys, GROUP, *replay)


def test_the_two_buffer_model_has_no_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "keeps no journal" in complaint(capsys, PURGING, "--journal", str(tmp_path))


def test_an_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("semcast.sim.two_buffers.Model.run", interrupted)
    assert main(["sim", "run", PURGING]) == 130
    assert capsys.readouterr() == ("", "")


def test_help_explains_every_option_and_gives_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "run", "--help"]) == 0
    out = capsys.readouterr().out
    for option in ("--seed", "--set", "--journal", "--check", "--no-check", "--json"):
        assert option in out
    assert "  semcast sim run examples/scenarios/fig5-purging.toml" in out
    assert main(["sim"]) == 0
    assert "run" in capsys.readouterr().out
