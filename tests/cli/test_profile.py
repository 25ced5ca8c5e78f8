"""`semcast profile` and `semcast ingest`: figures, the pmf for the model, every way to be wrong."""

import gzip
import json
from pathlib import Path

import pytest
import typer

from semcast.cli import main
from semcast.cli._errors import exit_code_of
from semcast.cli.ingest import ingest
from semcast.pipeline.spark.session import open_session

HEADING = "time_s,sender,key,kind,size\n"
# Keys a, b, a, unmarked, b, a: D = 0, 0, 2, 0, 3, 3; the unmarked one and the last two remain.
ROWS = "0,x,a,q,1\n1,y,b,q,1\n2,x,a,q,1\n3,x,,t,1\n4,y,b,q,1\n5,x,a,q,1\n"
TRACES = Path(__file__).parents[2].parent / "shared" / "traces"


@pytest.fixture(scope="module", autouse=True)
def _session() -> None:
    """Commands use the session that runs: one start for all of them, and for tests/pipeline too."""
    open_session(
        "tests",
        master="local[2]",
        conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"},
    )


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


def test_the_whole_stream_counts_as_one_by_default(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And its pmf goes straight into the model."""
    pmf = tmp_path / "pmf.json"
    result = profile(capsys, str(trace), "--pmf-out", str(pmf))
    assert profile(capsys, str(trace), "--one-stream") == result
    assert (result["sense"], result["messages"], result["never_replaced"]) == ("one_stream", 6, 3)
    assert result["never_replaced_share"] == 0.5
    assert result["share_replacing_within"] == {
        "1": 0.0, "4": 0.5, "16": 0.5, "32": 0.5, "64": 0.5, "128": 0.5, "256": 0.5, "1024": 0.5,
        "4096": 0.5, "16384": 0.5, "65536": 0.5,
    }  # fmt: skip
    assert result["distance_messages"] == {"mean": 2.667, "p50": 3, "p90": 3, "p99": 3, "max": 3}
    rate = result["rate"]
    assert isinstance(rate, dict)
    assert (rate["duration_s"], rate["mean_msg_s"], rate["index_of_dispersion"]) == (5, 1.2, 0)
    assert main(["model", "purge", "--pmf", str(pmf), "--buffer", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["purge_ratio"] == pytest.approx(1 / 6)


def test_distances_are_per_sender_if_asked_and_gzip_reads_the_same(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    packed = tmp_path / "trace.csv.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    result = profile(capsys, str(packed), "--per-sender")
    within = result["share_replacing_within"]
    assert isinstance(within, dict)
    # x sends a, a, unmarked, a; y sends b, b: D = 1, 2 and 1.
    assert within["1"] == pytest.approx(2 / 6)
    assert within["4"] == pytest.approx(3 / 6)
    assert result["sense"] == "per_sender"
    assert profile(capsys, str(trace), "--per-sender") == result | {"trace": "trace.csv"}


def test_people_get_tables_and_a_page_and_are_told_of_bad_rows(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib", reason="plots need the extra semcast[report]")
    with trace.open("a") as file:
        file.write("6,x\n4,x,a,q,1\n")
    page = tmp_path / "page.html"
    assert main(["profile", str(trace), "--html", str(page)]) == 0
    said = capsys.readouterr()
    assert "42.9% are never replaced" in " ".join(said.out.split())
    assert "1 bad rows left out: too few or too many columns" in said.err
    assert "1 rows have a time before that of the row above" in said.err
    assert page.read_text().count("<svg") == 5


@pytest.mark.skipif(not TRACES.is_dir(), reason="the real traces are not beside this folder")
def test_the_figures_of_the_quake_trace(capsys: pytest.CaptureFixture[str]) -> None:
    result = profile(capsys, str(TRACES / "quake_4on4.csv.gz"), "--one-stream")
    assert result["never_replaced_share"] == 0.1555
    distance = result["distance_messages"]
    assert isinstance(distance, dict)
    assert (distance["p50"], distance["p90"], distance["p99"]) == (16, 53, 4380)


def test_a_missing_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "No such file" in complaint(capsys, tmp_path / "none.csv")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no column 'key'"),
        (HEADING.encode(), "no messages"),
        (HEADING.encode() + b"0,x\n", "only bad rows (1: too few or too many columns"),
        (b"\xff\xfe\x00junk", "not a text file"),
    ],
)
def test_a_bad_file_is_one_line(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What else can be bad: tests/pipeline/test_ingest_inputs.py."""
    path = tmp_path / "bad.csv"
    path.write_bytes(content)
    assert words in complaint(capsys, path)


# -- ingest ----------------------------------------------------------------------------------------


def run_ingest(*arguments: str) -> int:
    app = typer.Typer()
    app.command()(ingest)
    command = typer.main.get_command(app)
    return exit_code_of(lambda: command.main(args=[*arguments], standalone_mode=False))


def test_ingest_reports_bad_rows_and_what_is_there_and_profile_reads_it(
    trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with trace.open("a") as file:
        file.write("-1,x,a,q,1\n")
    lake = str(tmp_path / "lake")
    assert run_ingest(str(trace), "--out", lake, "--strict", "--json") == 1
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert (found["added_files"], found["added_rows"]) == (1, 6)
    assert found["rejected_by_reason"] == {"time below 0": 1}
    assert "1 bad rows left out: time below 0" in said.err
    assert run_ingest(str(trace), "--out", lake, "--strict") == 0
    assert "already there" in " ".join(capsys.readouterr().out.split())
    assert profile(capsys, lake, "--one-stream")["never_replaced"] == 3
    assert run_ingest(str(tmp_path / "none.csv"), "--out", lake) == 2
    assert "No such file" in capsys.readouterr().err
