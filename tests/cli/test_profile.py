"""`semcast profile`: figures of a trace, the pmf for the model, and every way a file can be bad."""

import gzip
import json
from pathlib import Path

import pytest

from semcast.cli import main

HEADING = "time_s,sender,key,kind,size\n"
# Keys a, b, a, unmarked, b, a: D = 0, 0, 2, 0, 3, 3; the unmarked one and the last two remain.
ROWS = "0,x,a,q,1\n1,y,b,q,1\n2,x,a,q,1\n3,x,,t,1\n4,y,b,q,1\n5,x,a,q,1\n"


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(HEADING + ROWS)
    return path


def profile(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert main(["profile", *arguments, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert isinstance(result, dict)
    return result


def complaint(capsys: pytest.CaptureFixture[str], path: Path) -> str:
    assert main(["profile", str(path)]) == 2
    text = capsys.readouterr().err
    assert text.startswith("semcast: ")
    assert text.count("\n") == 1
    return text


def test_the_whole_stream_is_counted_as_one(
    trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = profile(capsys, str(trace))
    assert result["messages"] == 6
    assert result["share_never_obsolete"] == 0.5
    assert result["share_replacing_within"] == {
        "1": 0.0, "4": 0.5, "16": 0.5, "32": 0.5, "64": 0.5, "128": 0.5, "256": 0.5, "1024": 0.5,
    }  # fmt: skip


def test_per_sender_distances_are_shorter(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = profile(capsys, str(trace), "--per-sender")
    within = result["share_replacing_within"]
    assert isinstance(within, dict)
    # x sends a, a, unmarked, a; y sends b, b: D = 1, 2 and 1.
    assert within["1"] == pytest.approx(2 / 6)
    assert within["4"] == pytest.approx(3 / 6)


def test_gzip_reads_the_same(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert profile(capsys, str(packed)) == profile(capsys, str(trace))


def test_the_pmf_goes_straight_into_the_model(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pmf = tmp_path / "pmf.json"
    profile(capsys, str(trace), "--pmf-out", str(pmf))
    assert main(["model", "purge", "--pmf", str(pmf), "--buffer", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["purge_ratio"] == pytest.approx(1 / 6)


def test_people_get_a_table(trace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(trace)]) == 0
    assert "50.0% are never replaced" in " ".join(capsys.readouterr().out.split())


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in complaint(capsys, tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no column 'key'"),
        (HEADING.encode(), "no messages"),
        (HEADING.encode() + b"0,x\n", "line 2 has too few columns"),
        (HEADING.encode() + b"1,x,a,q,1\n0,x,a,q,1\n", "line 3: time_s 0 after 1"),
    ],
)
def test_a_bad_file_is_one_line(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What else can be bad: tests/sim/test_trace.py."""
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert words in complaint(capsys, path)
