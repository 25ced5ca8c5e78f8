"""The same code over a cluster: a standalone master and worker on loopback.

The worker's Python has no semcast, so every test here shows as well that the package travels.
"""

import json
from pathlib import Path
from typing import Any

from tests.pipeline.cluster import Cluster, cluster
from tests.pipeline.processes import ROOT, run_python

from semcast import ids

__all__ = ["cluster"]  # a fixture


def _run(temporary: Path, *arguments: str) -> dict[str, Any]:
    job = ["-m", "tests.pipeline.cluster_job", *arguments]
    done = run_python(*job, temporary=temporary, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def test_a_cluster_computes_what_one_process_does_with_the_package_brought_to_it(
    cluster: Cluster, tmp_path: Path
) -> None:
    conf = [f"{key}={value}" for key, value in cluster.conf.items()]
    remote = _run(tmp_path, cluster.master, *conf)
    local = _run(tmp_path, "local[2]", "spark.driver.memory=1g")
    assert len(remote["results"]) == 1_000
    assert remote["results"] == local["results"]
    # Every task ran beside an executor, on what was unpacked there, compiled if we are compiled.
    for place in remote["places"]:
        assert all(Path(file).is_relative_to(cluster.work) for file in place)
        assert Path(place[1]).suffix == Path(ids.__file__ or "").suffix
    for place in local["places"]:
        assert Path(place[1]) == Path(ids.__file__ or "")
