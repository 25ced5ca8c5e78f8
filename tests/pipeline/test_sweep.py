"""Sweeps on Spark: the same results whoever runs them, nothing lost, nothing run twice."""

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)

from semcast.check import check_all
from semcast.cli import main, sweep
from semcast.errors import InputError
from semcast.journal import read_journal
from semcast.model.confidence import t_95
from semcast.pipeline.sweeping import run
from semcast.pipeline.sweeping.cells import Cell, cells_of
from semcast.pipeline.sweeping.grid import points_of
from semcast.pipeline.sweeping.run import (
    CELLS_PER_TASK_MAX,
    Folder,
    cells_left,
    results_in,
    results_of,
    run_cells,
    run_sweep,
    task_sizes,
)
from semcast.pipeline.sweeping.simulate import ERROR, MEASURES, OK, VIOLATION, simulate
from semcast.pipeline.sweeping.stages import (
    RESULTS,
    settled,
    simulated,
    summarized,
)
from semcast.sim.scenario import MODELS

ROOT = Path(__file__).parents[2]
TWO_BUFFERS = ROOT / "examples/scenarios/fig5-purging.toml"
GROUP = ROOT / "examples/scenarios/fig5-protocol.toml"
FEDERATION = ROOT / "examples/scenarios/federation.toml"
GRID = "r=0.25,0.5 delay_ms=15,25 duration_s=20 warm_up_s=5"
SEEDS = 3
NAMES = ("fine", "broken", "failed", "mended", "new")
KEYS = [
    "scenario", "model", "axes", "seeds", "cells", "cells_run", "cells_failed", "points",
    "failures", "folder",
]  # fmt: skip


def cells(path: Path, grid: str, seeds: int = 1) -> list[Cell]:
    return cells_of(points_of(path, grid)[1], range(1, seeds + 1))


def by_cell(rows: Sequence[Row]) -> dict[str, dict[str, object]]:
    """Rows as plain values, without the one that is a time."""
    found: dict[str, dict[str, object]] = {}
    for row in rows:
        values = row.asDict()
        values.pop("took_s", None)
        found[values["cell"]] = values
    return found


def in_a_loop(wanted: Sequence[Cell]) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    for cell in wanted:
        row = simulate(cell)
        del row["took_s"]
        row["settings"] = dict(cell.settings)
        found[cell.cell] = row
    return found


# -- the same whoever runs it ----------------------------------------------------------------------


def test_killed_on_one_core_and_finished_on_two_it_equals_a_plain_loop(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Only what is missing runs, and a third time nothing does."""
    wanted, folder = cells(TWO_BUFFERS, GRID, SEEDS), Folder(tmp_path / "out")
    script = Path(__file__).with_name("sweep_crash.py")
    arguments = [str(TWO_BUFFERS), GRID, str(SEEDS), str(folder.path), "local[1]"]
    ended = subprocess.run(
        [sys.executable, str(script), *arguments],
        cwd=ROOT,
        # A process that is killed leaves its temporary files behind.
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        timeout=600,
        check=False,
    )
    done, total = map(int, ended.stdout.split())
    assert 0 < done < total == len(wanted)
    assert results_in(spark, folder).count() == done
    assert run_sweep(spark, wanted, folder) == total - done
    assert run_sweep(spark, wanted, folder) == 0
    rows = results_of(spark, folder, wanted).collect()
    assert by_cell(rows) == in_a_loop(wanted)
    assert [(row.point, row.seed) for row in rows] == sorted(
        (one.point, one.seed) for one in wanted
    )


def test_a_job_that_fails_loses_only_its_own_chunk(spark: SparkSession) -> None:
    wanted = cells(TWO_BUFFERS, GRID, SEEDS)
    stored: list[str] = []

    def store(results: pa.Table) -> None:
        if stored:
            raise RuntimeError("no more room")
        stored.extend(results["cell"].to_pylist())

    told: list[tuple[int, int]] = []
    with pytest.raises(RuntimeError, match="no more room"):
        run_cells(spark, wanted, store, watch=lambda done, total: told.append((done, total)))
    assert told == [(len(stored), len(wanted))]


def test_every_task_gets_its_own_cells_and_there_is_one_stage_only(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second stage would have all cores wait between two chunks."""
    wanted = cells(TWO_BUFFERS, "r=0,0.25,0.5,0.75,1 duration_s=1 warm_up_s=0.5")
    tasks = [wanted[:2], wanted[2:3], wanted[3:]]
    frame = simulated(spark, tasks)
    frame.explain()
    plan = capsys.readouterr().out
    assert "MapInArrow" in plan
    assert "Exchange" not in plan
    rows = frame.select("cell", F.spark_partition_id().alias("task")).collect()
    assert [(row.cell, row.task) for row in rows] == [
        (one.cell, at) for at, some in enumerate(tasks) for one in some
    ]


def test_tasks_are_a_second_and_chunks_some_seconds_for_each_core() -> None:
    many = 10**6
    assert task_sizes(None, many, 2) == (1, 2)
    assert task_sizes(0.01, many, 2) == (100, 8)
    assert task_sizes(0.3, many, 2) == (3, 8)
    assert task_sizes(1.0, many, 2) == (1, 8)
    assert task_sizes(4.0, many, 2) == (1, 2)
    assert task_sizes(600.0, many, 2) == (1, 1)
    assert task_sizes(0.0, many, 2) == (CELLS_PER_TASK_MAX, 8)
    # In the end they are small, so that all cores end together.
    assert task_sizes(0.01, 80, 2) == (10, 8)
    assert task_sizes(0.01, 7, 2) == (1, 8)


def test_chunks_grow_with_the_cluster(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = run._Chunks(spark, cells(TWO_BUFFERS, GRID, SEEDS), lambda _: None, None, None)
    for cores, taken in ((1, 2), (3, 6), (3, 4)):
        monkeypatch.setattr(run, "cores_of", lambda _, cores=cores: cores)
        part = chunks._take()
        assert part is not None
        assert (len(part[0]), part[1]) == (taken, 1)
    assert chunks._take() is None


# -- the stages ------------------------------------------------------------------------------------


def made(spark: SparkSession, rows: Sequence[tuple[str, str, int, str, float | None]]) -> DataFrame:
    """Results: cell, point, seed, status and one measure."""
    frame = spark.createDataFrame(
        list(rows), "cell string, point string, seed bigint, status string, blocked_share double"
    )
    wanted = spark.createDataFrame([], RESULTS)
    return wanted.unionByName(frame, allowMissingColumns=True)


def test_errors_are_missing_and_violations_are_not(spark: SparkSession, tmp_path: Path) -> None:
    results = made(
        spark,
        [
            ("fine", "p", 1, OK, 0.5),
            ("broken", "p", 2, VIOLATION, 0.5),
            ("failed", "p", 3, ERROR, None),
            ("mended", "p", 4, ERROR, None),
            ("mended", "p", 4, OK, 0.25),
            ("mended", "p", 4, OK, 0.25),
        ],
    )
    folder = Folder(tmp_path)
    wanted = [Cell(name, "p", (), 1, "", True) for name in NAMES]
    folder.prepare()
    assert cells_left(wanted, folder, journals=False) == wanted
    # In several files and in a folder of their own, as Spark may have written them.
    results.repartition(2, "seed").write.parquet(str(folder.results / "some"))
    (folder.results / ".half.parquet").write_bytes(b"not finished")
    left = cells_left(wanted, folder, journals=False)
    assert [one.cell for one in left] == ["failed", "new"]
    (folder.results / "broken.parquet").write_bytes(b"no Parquet")
    with pytest.raises(InputError, match="a file there cannot be read"):
        cells_left(wanted, folder, journals=False)
    once = settled(results).collect()
    assert [(row.cell, row.status) for row in once] == [
        ("fine", OK),
        ("broken", VIOLATION),
        ("failed", ERROR),
        ("mended", OK),
    ]
    assert "took_s" not in once[0]


def test_the_summary_is_mean_and_interval_of_the_cells_that_went_well(spark: SparkSession) -> None:
    stream = random.Random(5)
    values = {"a": [stream.random() for _ in range(7)], "b": [0.5, 0.75], "c": [1.5]}
    rows: list[tuple[str, str, int, str, float | None]] = [
        (f"{point}{at}", point, at, OK, value)
        for point, many in values.items()
        for at, value in enumerate(many)
    ]
    rows.append(("a-broken", "a", 99, VIOLATION, 1000.0))
    stream.shuffle(rows)
    found = {row.point: row for row in summarized(made(spark, rows)).collect()}
    assert {row.measure for row in found.values()} == {"blocked_share"}
    for point, many in values.items():
        row = found[point]
        assert row.seeds == len(many)
        assert row.mean == pytest.approx(statistics.fmean(many), rel=1e-12)
        if len(many) == 1:
            assert row.ci95 is None
            continue
        error = statistics.stdev(many) / len(many) ** 0.5
        assert row.ci95 == pytest.approx(t_95(len(many) - 1) * error, rel=1e-9)


# -- the command -----------------------------------------------------------------------------------


def test_a_cell_that_fails_is_reported_with_its_command_and_the_others_are_there(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None  # the command finds it
    (tmp_path / "good.csv").write_text("time_s,key\n" + "".join(f"{at},a\n" for at in range(9)))
    (tmp_path / "bad.csv").write_text("time_s,key\n1,a\n0,a\n")
    scenario = tmp_path / "replay.toml"
    scenario.write_text(
        'model = "two-buffers"\nduration_s = 9\nwarm_up_s = 0\n'
        '[traffic]\nkind = "replay"\nfile = "good.csv"\n'
    )
    command = [
        "sweep", str(scenario), "--grid", "file=good.csv,bad.csv", "--seeds", "2",
        "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    assert main([*command, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert (found["cells"], found["cells_run"], found["cells_failed"]) == (4, 4, 2)
    assert found["points"][0]["measures"]["sender_rate_msg_s"] == {
        "seeds": 2,
        "mean": 1.0,
        "ci95": 0.0,
    }
    assert found["points"][1]["measures"] == {}
    for failure in found["failures"]:
        assert failure["status"] == ERROR
        assert "sort the messages by time" in failure["detail"]
        assert failure["replay"].startswith(f"semcast sim run {scenario} --seed ")
        assert failure["replay"].endswith("--set traffic.file=bad.csv")
    # What failed is tried again; the rest stays as it is.
    assert main(command) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "4 cells: 2 run now, 2 there already." in out
    assert "ERROR: InputError" in out


def test_journals_are_written_once_and_kept(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    grid = "delay_ms=5,20 duration_s=2 warm_up_s=1"
    command = ["sweep", str(GROUP), "--grid", grid, "--seeds", "1", "--out", str(out), "--json"]
    picture = tmp_path / "picture.svg"
    assert main([*command, "--journals", "--plot", str(picture)]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cells_run"] == 2
    assert found["points"][0]["measures"]["quiescent"]["mean"] == 1
    assert picture.read_text().startswith("<svg")
    wanted = cells(GROUP, grid)
    for one in wanted:
        assert check_all(read_journal(out / "journals", one.cell)).ok
    shutil.rmtree(out / "journals" / f"run={wanted[0].cell}")
    assert main([*command, "--journals"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["cells_run"] == 1
    assert again["points"] == found["points"]
    assert read_journal(out / "journals", wanted[0].cell)
    rows = by_cell(results_of(spark, Folder(out), wanted).collect())
    assert {name: rows[name]["blocked_share_max"] for name in rows} == {
        one.cell: simulate(one)["blocked_share_max"] for one in wanted
    }


def test_interrupted_it_says_how_far_it_came(
    spark: SparkSession,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert spark is not None

    def interrupted(*arguments: object) -> int:
        watch = arguments[-1]
        assert callable(watch)
        watch(3, 8)
        raise KeyboardInterrupt

    monkeypatch.setattr("semcast.pipeline.sweeping.outcome.run_sweep", interrupted)
    arguments = ["sweep", str(TWO_BUFFERS), "--seeds", "8", "--out", str(tmp_path)]
    assert main(arguments) == 130
    assert "interrupted after 3 of 8 missing cells" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere.toml"], "nowhere.toml: No such file"),
        ([str(TWO_BUFFERS), "--grid", "nonsense=1"], "no setting nonsense"),
        ([str(TWO_BUFFERS), "--seeds", "0"], "--seeds"),
        ([str(TWO_BUFFERS), "--journals"], "keeps no journal"),
        ([str(TWO_BUFFERS), "--out", "/dev/null/out"], "cannot write to /dev/null/out"),
    ],
)
def test_bad_input_is_one_line(
    spark: SparkSession, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    assert main(["sweep", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err.splitlines()[-1]


def test_the_table_shows_known_measures_of_all_models() -> None:
    assert set(sweep.SHOWN) == set(MODELS) - {"stability"}, "rounds of stability are not swept"
    for shown in sweep.SHOWN.values():
        assert set(shown) <= set(MEASURES)


def test_federations_are_swept_and_shown_as_the_paper_measures_them(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """N, D and load of the three protocols, by running them. PROP §4.1"""
    assert spark is not None
    grid = "protocol=propagation,central,two-phase duration_s=0.5"
    asked = ["sweep", str(FEDERATION), "--grid", grid, "--seeds", "2", "--out", str(tmp_path)]
    assert main(asked) == 0
    printed = capsys.readouterr().out
    [heading] = [line for line in printed.splitlines() if line.startswith("protocol")]
    assert heading.split()[:3] == ["protocol", "N", "transmissions"]
    assert all(f"\n{protocol} " in printed for protocol in ("propagation", "central", "two-phase"))
    assert "6 cells: 6 run now" in " ".join(printed.split())
