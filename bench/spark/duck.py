"""A question in; DuckDB's answer, time and memory out, from a process of its own in .venv-bench."""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from bench.spark import environment
from bench.spark.data import Data
from bench.spark.queries import Query, views

_WORKER: Final = Path(__file__).resolve().parent / "duck_worker.py"
_SECONDS_MAX: Final = 3_600
_REASON_MAX: Final = 160


@dataclass(frozen=True)
class Answer:
    """What DuckDB found; or why not."""

    seconds: float = 0.0
    peak_bytes: int = 0
    rows: tuple[dict[str, Any], ...] = ()
    failed: str = ""


def ask(query: Query, data: Data, cores: int, memory_gb: int) -> Answer:
    """Run one query, with as many threads as Spark has cores and the memory that its JVM may use.

    What does not fit into that goes to a temporary folder beside the data.
    """
    with tempfile.TemporaryDirectory(dir=data.folder, prefix="duckdb-") as scratch:
        before = [
            f"SET threads = {cores}",
            f"SET memory_limit = '{memory_gb}GiB'",
            f"SET temp_directory = '{scratch}'",
            *views(data),
        ]
        order = json.dumps({"before": before, "query": query.sql})
        try:
            done = subprocess.run(
                [environment.PYTHON, _WORKER],
                input=order,
                capture_output=True,
                text=True,
                check=False,
                timeout=_SECONDS_MAX,
            )
        except subprocess.TimeoutExpired:
            return Answer(failed=f"more than {_SECONDS_MAX} s")
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return Answer(failed=lines[-1][:_REASON_MAX])
    found = json.loads(done.stdout)
    return Answer(found["seconds"], found["peak_bytes"], tuple(found["rows"]))
