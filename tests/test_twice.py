"""tools/twice.py: a failure counts if it happens twice, and is named in any case."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
from pathlib import Path

def test_that_is_fine():
    pass

def test_that_fails_the_first_time():
    seen = Path(__file__).parent / "seen"
    before = seen.exists()
    seen.touch()
    assert before

def test_that_always_fails():
    assert {passes}
"""


def run(folder: Path, passes: bool, *more: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_some.py").write_text(TESTS.format(passes=passes))
    words = [sys.executable, str(ROOT / "tools/twice.py"), "-q", "--rootdir", str(folder)]
    return subprocess.run(
        [*words, "-c", "/dev/null", str(folder), *more],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


def test_what_passes_the_second_time_passes_and_is_named(tmp_path: Path) -> None:
    ran = run(tmp_path, True)
    assert ran.returncode == 0, ran.stdout
    assert "1 failed, 2 passed" in ran.stdout
    assert "PASSED ONLY THE SECOND TIME" in ran.stdout


def test_what_fails_twice_has_failed(tmp_path: Path) -> None:
    ran = run(tmp_path, False)
    assert ran.returncode == 1
    assert "2 failed, 1 passed" in ran.stdout
    assert "1 failed, 1 passed" in ran.stdout
    assert "PASSED ONLY" not in ran.stdout


@pytest.mark.parametrize("more", [["-k", "nothing"], ["--no-such-option"]])
def test_what_is_no_failure_of_a_test_is_not_tried_again(tmp_path: Path, more: list[str]) -> None:
    ran = run(tmp_path, True, *more)
    assert ran.returncode not in (0, 1)
    assert "once more" not in ran.stdout
