"""The same code over a cluster: a standalone master and worker on loopback.

The worker's Python has no semcast, so every test here shows as well that the package travels.
"""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from tests.pipeline.cluster import Cluster, cluster
from tests.pipeline.cluster_commands import told
from tests.pipeline.processes import ROOT, run_python, without_progress

from semcast import ids
from semcast.journal import write_journal
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.world import run

__all__ = ["cluster"]  # a fixture


def _run(temporary: Path, *arguments: str) -> dict[str, Any]:
    job = ["-m", "tests.pipeline.cluster_job", *arguments]
    done = run_python(*job, temporary=temporary, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert without_progress(done.stderr) == ""
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


def _commands(folder: Path, out: str) -> list[list[str]]:
    """What is asked of a trace, of a journal, and of a scenario."""
    scenarios = ROOT / "examples" / "scenarios"
    trace, journals = folder / "trace.csv", folder / "journals"
    if not trace.exists():
        rows = [f"{at * 0.01:.2f},s{at % 2},k{at * 7 % 13},update,10" for at in range(500)]
        trace.write_text("\n".join(["time_s,sender,key,kind,size", *rows, ""]))
        scenario = load(scenarios / "slow-reader.toml", ["duration_s=1", "warm_up_s=0.2"])
        assert isinstance(scenario, ProtocolScenario)
        journal = run(scenario, 7, True, None, "slow").journal
        assert journal is not None
        write_journal(journal, journals)
    grid = ["--grid", "r=0,0.5 duration_s=2 warm_up_s=1", "--seeds", "2"]
    return [
        ["profile", str(trace)],
        ["analyse", str(journals), "--show", "throughput,semantic"],
        ["verify", str(journals)],
        ["sweep", str(scenarios / "fig5-purging.toml"), *grid, "--out", str(folder / out)],
    ]


def _comparable(value: Any) -> Any:
    """Without what names a folder, and without the last digits: sums depend on their order."""
    if isinstance(value, dict):
        return {key: _comparable(one) for key, one in value.items() if key != "folder"}
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    return float(f"{value:.9g}") if isinstance(value, float) else value


def test_commands_say_over_a_cluster_what_they_say_here(
    cluster: Cluster, spark: SparkSession, tmp_path: Path
) -> None:
    assert spark is not None  # the commands here find it
    remote = [[*words, "--json", *cluster.options] for words in _commands(tmp_path, "there")]
    done = run_python(
        "-m", "tests.pipeline.cluster_commands", json.dumps(remote), temporary=tmp_path, cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    here = [told([*words, "--json"]) for words in _commands(tmp_path, "here")]
    for there, (code, out) in zip(json.loads(done.stdout), here, strict=True):
        assert there[0] == code == 0, done.stderr
        assert _comparable(json.loads(there[1])) == _comparable(json.loads(out))
    # One line for each, on what runs where.
    assert done.stderr.count(cluster.master) == len(remote)
