"""Sessions start quietly, with our settings, and say clearly why not when they do not."""

import re
import socket
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.pipeline.processes import ROOT, run_python, run_until_interrupted, without_progress

from semcast.cli._spark import spark_session
from semcast.errors import ConfigError, PipelineError
from semcast.pipeline.spark.conf import DEFAULTS
from semcast.pipeline.spark.launch import require_answer
from semcast.pipeline.spark.session import open_session, where

_LINE = re.compile(r"semcast: Spark 4\.3\.0 on local\[2\], 2 cores, 1 GB\n")


def _folders(tmp_path: Path) -> tuple[Path, Path]:
    folders = tmp_path / "temporary", tmp_path / "cwd"
    for folder in folders:
        folder.mkdir()
    return folders


def test_a_session_has_our_settings_and_the_tests_own(spark: SparkSession) -> None:
    own = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "1g"}
    for key, value in {**DEFAULTS, **own}.items():
        assert spark.conf.get(key) == value
    assert where(spark) == "Spark 4.3.0 on local[2], 2 cores, 1 GB"


def test_one_session_serves_all_who_ask_for_the_same_and_outlives_a_command(
    spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    assert open_session("again") is spark
    assert open_session("again", "local[2]", {"spark.driver.memory": "1g"}) is spark
    with spark_session("a command", "local[2]", ["spark.sql.shuffle.partitions=2"]) as session:
        assert session is spark
    assert spark.range(3).count() == 3
    assert capfd.readouterr() == ("", "")


def test_asking_for_another_session_than_the_one_that_runs_changes_nothing(
    spark: SparkSession,
) -> None:
    with pytest.raises(ConfigError, match=r"runs on local\[2\] already.* to use local\[1\]"):
        open_session("other", "local[1]")
    with pytest.raises(ConfigError, match=r"without spark.sql.shuffle.partitions=3"):
        open_session("other", None, {"spark.sql.shuffle.partitions": "3"})
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"


@pytest.mark.usefixtures("spark")
def test_a_bad_option_is_refused_before_a_session_is_asked_for() -> None:
    with pytest.raises(ConfigError, match="nowhere"), spark_session("test", "nowhere"):
        pass
    with pytest.raises(ConfigError, match="no-setting"), spark_session("test", conf=["no-setting"]):
        pass


def test_ctrl_c_cancels_the_job_and_a_session_says_one_line_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    temporary, cwd = _folders(tmp_path)
    job = ["-m", "tests.pipeline.long_job", str(tmp_path), "local[2]", "spark.driver.memory=1g"]
    done = run_until_interrupted(job, tmp_path, temporary, cwd)
    assert _LINE.fullmatch(without_progress(done.stderr))
    assert done.stdout == "jobs left: 0\n"
    assert done.returncode == 130
    assert list(cwd.iterdir()) == []
    assert list(temporary.glob("semcast-spark-*")) == []


def test_a_start_that_fails_says_why_in_one_line_and_keeps_its_log(tmp_path: Path) -> None:
    temporary, cwd = _folders(tmp_path)
    wrong = "spark.driver.extraJavaOptions=-Xmx2g"
    job = ["-m", "tests.pipeline.long_job", str(tmp_path), "local[2]", wrong]
    done = run_python(*job, temporary=temporary, cwd=cwd)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Spark does not start: " in done.stderr
    assert "Not allowed to specify max heap(Xmx)" in done.stderr
    log = Path(done.stderr.strip().rpartition("log: ")[2])
    assert "Xmx" in log.read_text()
    assert log.is_relative_to(temporary)


def test_a_master_that_does_not_answer_is_said_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        with pytest.raises(PipelineError, match=rf"nobody answers at 127.0.0.1:{port} \(.*refused"):
            require_answer(f"127.0.0.1:{port}")
        with socket.create_server(("127.0.0.1", 0)) as listening:
            require_answer(f"127.0.0.1:{port},127.0.0.1:{listening.getsockname()[1]}")


def test_the_command_line_starts_without_loading_spark(tmp_path: Path) -> None:
    program = "import sys, semcast.cli; sys.exit('pyspark' in sys.modules)"
    done = run_python("-c", program, temporary=tmp_path, cwd=ROOT)
    assert done.returncode == 0


@pytest.mark.parametrize(
    "command",
    [
        "verify {folder}",
        "analyse {folder}",
        "profile {trace}",
        "plan {trace} --receiver-rate 1",
        "ingest {trace} --out {folder}/lake",
        "sweep {scenario} --grid delay_ms=5 --seeds 1 --out {folder}/sweep",
        "monitor quotes --insecure --size 2",
        "demo --seconds 1",
    ],
)
def test_missing_pyspark_is_one_clear_line(command: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,key\n1,a\n2,b\n")
    scenario = ROOT / "examples" / "scenarios" / "fig5-purging.toml"
    words = command.format(folder=tmp_path, trace=trace, scenario=scenario).split()
    program = (
        "import sys; sys.modules['pyspark'] = None\n"
        f"from semcast.cli import main; sys.exit(main({words!r}))"
    )
    done = run_python("-c", program, temporary=tmp_path, cwd=ROOT)
    assert done.returncode == 2, done.stderr
    assert re.fullmatch(r"semcast: pyspark is not installed .*semcast\[spark\]'\n", done.stderr)


def test_missing_java_is_one_clear_line(tmp_path: Path) -> None:
    program = (
        f"import os, sys; os.environ.update(PATH={str(tmp_path)!r}, JAVA_HOME='')\n"
        "from semcast.cli._errors import exit_code_of\n"
        "from semcast.cli._spark import spark_session\n"
        "sys.exit(exit_code_of(lambda: spark_session('test').__enter__()))"
    )
    done = run_python("-c", program, temporary=tmp_path, cwd=ROOT)
    assert done.returncode == 2
    assert re.fullmatch(r"semcast: Java not found; .*openjdk-17-jre-headless.*\n", done.stderr)
