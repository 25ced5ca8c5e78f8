"""A standalone Spark cluster on loopback, from the installed package: one master, one worker.

    from tests.pipeline.cluster import cluster  # noqa: F401  (a fixture)

    def test_…(cluster: Cluster) -> None:
        run_semcast("profile", trace, "--master", cluster.master)

The worker's Python does not have semcast: what tasks need of it must have been shipped.
"""

import os
import re
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark
import pytest

_UP_S_MAX: Final = 120.0
_DOWN_S_MAX: Final = 20.0
_WORKER_CORES: Final = 2
_WORKER_MEMORY: Final = "2g"
_MASTER: Final = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED: Final = re.compile("Successfully registered with master")
_LOG4J: Final = """\
rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n%ex
"""
# What a worker of ours has none of, though this process does.
_HIDDEN: Final = ("semcast", "librt", "mypy_extensions", "cryptography", "_cffi_backend", "tests")
_HIDDEN_TAIL: Final = ("__mypyc", ".pth", ".dist-info")


@dataclass(frozen=True)
class Cluster:
    """Where it is, and what a command needs to be run over it."""

    master: str
    python: Path
    work: Path  # below it the executors run

    @property
    def conf(self) -> dict[str, str]:
        return {
            "spark.pyspark.python": str(self.python),
            "spark.executor.memory": "1g",
            "spark.driver.memory": "1g",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": "2",
            # As in conftest: with few rows, compiling takes longer than running.
            "spark.sql.codegen.wholeStage": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1",
        }

    @property
    def options(self) -> list[str]:
        """For the command line."""
        pairs = [f"{key}={value}" for key, value in self.conf.items()]
        return ["--master", self.master, *(word for pair in pairs for word in ("--conf", pair))]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A master and a worker, stopped at the end of the module's tests."""
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "log4j2.properties").write_text(_LOG4J)
    work = folder / "work"
    python = bare_python(folder / "bare")
    with _daemon(folder, "master", ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]) as (
        process,
        log,
    ):
        master = _wait_for(process, log, _MASTER).group(1)
        arguments = ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0"]
        arguments += ["--cores", str(_WORKER_CORES), "--memory", _WORKER_MEMORY]
        arguments += ["--work-dir", str(work), master]
        with _daemon(folder, "worker", arguments) as (process, log):
            _wait_for(process, log, _REGISTERED)
            yield Cluster(master, python, work)


@contextmanager
def _daemon(
    folder: Path, role: str, arguments: list[str]
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    home = Path(pyspark.__file__).parent
    log = folder / f"{role}.log"
    environment = {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "SPARK_HOME": str(home),
        "SPARK_CONF_DIR": str(folder),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_NO_DAEMONIZE": "1",
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    name = f"org.apache.spark.deploy.{role}.{role.capitalize()}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(home / "bin" / "spark-class"), name, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # so that its executors can be ended with it
        )
    try:
        yield process, log
    finally:
        _end(process)


def _wait_for(
    process: subprocess.Popen[bytes], log: Path, wanted: re.Pattern[str]
) -> re.Match[str]:
    deadline = time.monotonic() + _UP_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        found = wanted.search(log.read_text(errors="replace"))
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError(f"{wanted.pattern!r} never came:\n{log.read_text(errors='replace')}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(_DOWN_S_MAX)
        except subprocess.TimeoutExpired:
            continue
        except ProcessLookupError:
            break


def bare_python(folder: Path) -> Path:
    """A Python like this one, but without semcast and what only semcast needs."""
    site = folder / "site"
    site.mkdir(parents=True)
    for path in Path(sysconfig.get_paths()["purelib"]).iterdir():
        hidden = path.name.split(".")[0] in _HIDDEN or any(
            part in path.name for part in _HIDDEN_TAIL
        )
        if not hidden:
            (site / path.name).symlink_to(path)
    python = folder / "python"
    # -S: no site-packages but the folder above; what Spark puts on the path comes first.
    python.write_text(
        f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{site}" exec "{sys.executable}" -S "$@"\n'
    )
    python.chmod(0o755)
    return python
