"""Spark Connect: the same jobs without a `sparkContext`; progress, cancelling and shipping work."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipeline.cluster import bare_python
from tests.pipeline.processes import (
    ROOT,
    environment,
    run_python,
    run_until_interrupted,
    without_progress,
)

pytest.importorskip("grpc", reason="the packages of semcast[spark-connect] are not installed")


def test_a_connect_server_of_ones_own_runs_a_job_and_ctrl_c_cancels_it(tmp_path: Path) -> None:
    job = ["-m", "tests.pipeline.long_job", str(tmp_path), "connect", "spark.driver.memory=1g"]
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    done = run_until_interrupted(job, tmp_path, temporary, ROOT)
    assert without_progress(done.stderr) == "semcast: Spark 4.3.0 through Spark Connect\n"
    assert done.stdout == "jobs left: 0\n"
    assert done.returncode == 130


def test_a_server_elsewhere_gets_the_package_and_computes_the_same(tmp_path: Path) -> None:
    python = bare_python(tmp_path / "bare")
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.connect_server", str(python), str(tmp_path)],
        cwd=ROOT,
        env=environment(tmp_path),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        job = ["-m", "tests.pipeline.cluster_job", url]
        done = run_python(*job, temporary=tmp_path, cwd=ROOT)
        refused = run_python(*job, "spark.driver.memory=1g", temporary=tmp_path, cwd=ROOT)
        server.communicate(timeout=60)
    finally:
        server.kill()
        server.wait()
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["results"]) == 1_000
    for place in result["places"]:
        assert all(Path(file).is_relative_to(tmp_path) for file in place)
    assert "cannot be set through Spark Connect" in refused.stderr
