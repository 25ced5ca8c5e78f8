"""`make test` runs its parts side by side: what failed, and why, comes at the end of the record."""

import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tools.together import Stream

TOOL = str(Path(__file__).parents[1] / "tools" / "together.py")
DEADLINE_S = 60.0


def begin(folder: Path, **scripts: str) -> "subprocess.Popen[str]":
    """Run shell scripts of these names side by side."""
    commands = []
    for name, script in scripts.items():
        path = folder / name
        path.write_text(script)
        commands.append(f"sh {shlex.quote(name)}")
    return subprocess.Popen(
        [sys.executable, TOOL, *commands], cwd=folder, stdout=subprocess.PIPE, text=True
    )


def told(folder: Path, **scripts: str) -> tuple[int, list[str]]:
    """The exit code, and the lines."""
    with begin(folder, **scripts) as process:
        output, _ = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output.splitlines()


def test_all_that_pass_pass(tmp_path: Path) -> None:
    code, lines = told(tmp_path, one="echo 1", two="echo 2", three="printf unfinished")
    assert code == 0
    assert {"one| 1", "two| 2"} < set(lines)
    assert [line.partition(" in ")[0] for line in lines[-3:]] == [
        "== one passed", "== two passed", "== three passed",
    ]  # fmt: skip


@pytest.mark.parametrize("which", ["first", "last"])
def test_what_failed_and_why_comes_at_the_end_whichever_it_was(tmp_path: Path, which: str) -> None:
    fails = "seq 1000; echo 'FAILED tests/x.py::y - assert 1 == 2'; echo 'the end'; exit 3"
    scripts = {"first": "seq 1000", "middle": "seq 1000", "last": "seq 1000", which: fails}
    code, lines = told(tmp_path, **scripts)
    assert code == 1
    assert lines[-1] == f"{which}: FAILED tests/x.py::y - assert 1 == 2"
    assert f"== {which} FAILED (exit code 3)" in {line.partition(" in ")[0] for line in lines[-4:]}
    told_at = next(at for at, line in enumerate(lines) if line.endswith("its last lines:"))
    assert "the end" in lines[told_at:]


def test_a_command_that_does_not_start_is_a_failure(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, TOOL, "true", "no-such-command"],
        cwd=tmp_path, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "== no-such-command did not end"


def test_what_a_command_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    code, lines = told(tmp_path, one=f"sleep {2 * DEADLINE_S:.0f} & echo $!")
    (pid,) = [line.removeprefix("one| ") for line in lines if line.startswith("one| ")]
    subprocess.run(["kill", pid], check=True)  # it was still running
    assert code == 0


def test_an_end_from_outside_tells_how_far_everything_was(tmp_path: Path) -> None:
    with begin(tmp_path, one="echo begun; exec sleep 600", two="exec sleep 600") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "one| begun\n"
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 128 + signal.SIGTERM
    assert "== one did not end; its last lines:\nbegun\n" in output
    assert output.endswith("== one did not end\n== two did not end\n")


def test_what_is_stopped_did_not_end_however_soon_it_is_gone() -> None:
    stream = Stream(f"{sys.executable} -c 'import time; print(1, flush=True); time.sleep(600)'")
    running = threading.Thread(target=stream.run)
    running.start()
    while not stream.tail:
        time.sleep(0.01)
    stream.stop()
    running.join(DEADLINE_S)
    assert not running.is_alive()
    assert stream.ended == "did not end"


def test_what_is_stopped_before_its_turn_is_not_started(tmp_path: Path) -> None:
    stream = Stream(f"touch {shlex.quote(str(tmp_path / 'started'))}")
    stream.stop()
    stream.run()
    assert stream.ended == "did not end"
    assert not (tmp_path / "started").exists()
