"""The benchmark of many groups: it runs, and a further group takes what the documents say."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "bench.groups", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def test_a_further_group_takes_no_thread_and_as_many_sockets_as_the_documents_say() -> None:
    done = run("--groups", "3", "--seconds", "0.1")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for kind, sockets in (("multicast", 2), ("unicast", 0)):
        one, many = report[kind]["one"], report[kind]["many"]
        assert many["threads"] == one["threads"]
        assert many["sockets"] == one["sockets"] + 2 * sockets
        assert many["messages"] == 300
    assert "each further group" in done.stderr


@pytest.mark.parametrize("wrong", [["--groups", "1"], ["--seconds", "0"]])
def test_what_makes_no_sense_is_refused(wrong: list[str]) -> None:
    done = run(*wrong)
    assert done.returncode == 2
    assert "at least two groups" in done.stderr
