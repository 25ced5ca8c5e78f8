"""Commands in hints, errors and help are as the user can type them; stages are plain lines."""

import subprocess
import sys
from pathlib import Path

import pytest

from semcast.cli import main
from semcast.cli._demo_group import Traffic
from semcast.cli._program import program, spelled
from semcast.cli.demo import _print_next, _without_purging

INSTALLED = "semcast"


@pytest.fixture
def venv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The program was started as `.venv/bin/semcast`, which no path leads to."""
    started = tmp_path / ".venv" / "bin" / INSTALLED
    started.parent.mkdir(parents=True)
    started.write_text("#!/bin/sh\n")
    started.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(sys, "argv", [".venv/bin/semcast"])
    return ".venv/bin/semcast"


def test_a_program_that_no_path_leads_to_is_named_as_it_was_started(venv: str) -> None:
    assert program() == venv
    assert spelled("`semcast keys new` > x; semcast sim run") == (
        f"`{venv} keys new` > x; {venv} sim run"
    )


@pytest.mark.usefixtures("venv")
def test_a_program_on_the_path_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / ".venv" / "bin"))
    assert program() == INSTALLED
    assert spelled("semcast keys new") == "semcast keys new"


def test_another_of_that_name_on_the_path_is_not_meant(
    venv: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other" / INSTALLED
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", str(other.parent))
    assert program() == venv


def test_who_calls_commands_from_a_program_of_its_own_reads_plain_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/pytest"])
    assert spelled("semcast doctor") == "semcast doctor"


@pytest.mark.usefixtures("venv")
def test_other_sentences_about_semcast_stay_as_they_are() -> None:
    for text in ("this semcast reads version 1", "semcast: no room", "a/semcast sim", "semcast"):
        assert spelled(text) == text


def test_hints_errors_and_examples_can_be_typed_as_printed(
    venv: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _print_next(None)
    assert f"  {venv} demo --journal demo\n  {venv} analyse demo --all\n" in capsys.readouterr().out
    _print_next(Path("a folder"))
    assert f"  {venv} verify 'a folder'\n" in capsys.readouterr().out
    assert main(["keys", "install", "quotes", "2", "--insecure"]) == 2
    assert f"{venv} keys new new.txt" in capsys.readouterr().err
    assert main(["sim", "explore", "--help"]) == 0
    assert f"\n    {venv} sim explore --seconds 600" in capsys.readouterr().out


def test_a_stage_is_a_plain_line_that_is_there_at_once() -> None:
    """Whoever reads the pipe has the line while the stage still runs."""
    script = "from semcast.cli._stages import Stages; s = Stages(2); s.begin('waits'); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == b"semcast:   0 s: 1/2 waits\n"
        assert process.poll() is None
        process.communicate(b"\n")


@pytest.mark.parametrize("gap_s", [0.001, 0.05])
def test_what_would_have_been_without_purging_is_no_matter_of_the_machine(
    gap_s: float, tmp_path: Path
) -> None:
    """The feed of a busy machine is slow; its messages are simulated at the rate that was meant."""
    traffic = Traffic(seconds=1.0, rate_msg_s=1000, slow_ms=8.0)
    trace = tmp_path / "trace.csv"
    rows = [f"{number * gap_s:.6f},feed,S{number % 5},,6\n" for number in range(1001)]
    trace.write_text("time_s,sender,key,kind,size\n" + "".join(rows))
    without = _without_purging(traffic, trace)
    assert without.sent_rate_msg_s < traffic.rate_msg_s / 2
    assert without.nodes[0].blocked_share > 0.1
