"""Journals by Spark are the journals that `read_journal` reads: events, order and headers."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.check.log import Log
from tests.journal.test_lives import HEADER as LIFE

from semcast.errors import InputError
from semcast.journal import Event, Journal, read_journal, write_journal
from semcast.journal.growing_log import LogWriter
from semcast.journal.lives import END, EVICT, GAP
from semcast.journal.rows import VERSION_KEY, folder_of, schema_of
from semcast.journal.schema import require_pyarrow
from semcast.pipeline import journals, unfinished_logs
from semcast.pipeline.journals import EVENTS, read_journals
from semcast.pipeline.unfinished_logs import FOLDER

pa: Any = require_pyarrow()


def a_run(run: str) -> Journal:
    log = Log(run=run)
    log.multicast("p1#1", key="a")
    log.take("p1", "p1#1")
    log.multicast("p1#2", 1, key="a")
    log.purge("p2", "p1#1", "p1#2")
    log.crash("p2")
    return log.journal


def events_in(rows: list[Any]) -> list[Event]:
    """Rows of Spark, in their order, as events of a group: there the header has its name."""
    rows = sorted(rows, key=lambda row: row["at"])
    return [
        Event._make(
            tuple(row[name]) if isinstance(row[name], list) else row[name] for name in Event._fields
        )._replace(group=None)
        for row in rows
    ]


def by_run(spark: SparkSession, path: Path) -> dict[str, list[Event]]:
    found: dict[str, list[Any]] = {}
    for row in read_journals(spark, path).events.collect():
        found.setdefault(row["run"], []).append(row)
    return {run: events_in(rows) for run, rows in found.items()}


def test_simulated_runs_are_read_as_they_were_written(spark: SparkSession, tmp_path: Path) -> None:
    """Whatever they are called, and all of them together."""
    names = ["plain", "50%/half = x", "été № 7", "007"]
    for name in names:
        write_journal(a_run(name), tmp_path)
    journals = read_journals(spark, tmp_path)
    assert sorted(journals.headers) == sorted(names)
    expected = spark.createDataFrame([], EVENTS).schema
    assert journals.events.schema.simpleString() == expected.simpleString()
    found = by_run(spark, tmp_path)
    for name in names:
        journal = read_journal(tmp_path, name)
        assert found[name] == journal.events
        assert journals.headers[name] == journal.header
    only = read_journals(spark, tmp_path, ["007"])
    assert list(only.headers) == ["007"]
    assert {row.run for row in only.events.select("run").distinct().collect()} == {"007"}


def test_a_run_in_several_files_is_in_one_order(spark: SparkSession, tmp_path: Path) -> None:
    """By time, and each node's events by their numbers although a clock went back."""
    rng = random.Random("several files")
    for part in ("a", "b"):
        journal = Journal(Log(run="split").journal.header)
        for _ in range(30):
            journal.record(rng.randrange(40), f"p{part == 'b':d}{rng.randrange(2)}.1", "join")
        write_journal(journal, tmp_path, part)
    assert by_run(spark, tmp_path)["split"] == read_journal(tmp_path).events


# -- lives -----------------------------------------------------------------------------------------


def write_live_run(folder: Path, run: str, rng: random.Random) -> None:
    """Logs of a few lives, at random: some whole, some with gaps, some killed, one never written.

    The last is of p4.1, whom the others hear of.
    """
    nodes = ["p1.1", "p2.1", "p2.2", "p3.1"]
    for at, node in enumerate(nodes):
        header = replace(LIFE, run=run, node=node, name=node, joined=at > 1 and rng.random() < 0.5)
        events: list[Event] = []
        for _ in range(rng.randrange(25)):
            kind = rng.choice(("multicast", "receive", "receive", "deliver", "stable"))
            sender = node if kind == "multicast" else rng.choice([*nodes, "p4.1"])
            time_ns = len(events) * 10 + rng.randrange(30)
            events.append(
                Event(time_ns, len(events) + 1, node, kind, sender, rng.randrange(1, 5),
                      sent_ns=rng.choice((None, 5)), obsoletes=(1,), size=3)
            )  # fmt: skip
        if rng.random() < 0.1:
            events.append(Event(290, len(events) + 1, node, EVICT, rng.choice(nodes)))
        if rng.random() < 0.2:
            events.append(Event(300, len(events) + 1, node, GAP, seq=3))
        whole = rng.random() < 0.6
        if whole:
            waiting = 0 if rng.random() < 0.7 else 2
            events.append(Event(rng.randrange(200, 400), len(events) + 1, node, END, seq=waiting))
        writer = LogWriter(folder, header)
        for first in range(0, len(events), 7):
            writer.write(events[first : first + 7])
        if whole or rng.random() < 0.3:
            writer.finish(left_out=0)
        else:
            writer.close()


def test_logs_of_lives_are_settled_as_in_one_process(spark: SparkSession, tmp_path: Path) -> None:
    """What follows from the logs is added, and nothing else; streams are read as far as they go."""
    rng = random.Random("lives")
    runs = [f"live-{number}" for number in range(12)]
    for run in runs:
        write_live_run(tmp_path, run, rng)
    write_journal(a_run("simulated"), tmp_path)
    journals = read_journals(spark, tmp_path)
    found: dict[str, list[Any]] = {}
    for row in journals.events.collect():
        found.setdefault(row["run"], []).append(row)
    seen = set()
    for run in runs:
        journal = read_journal(tmp_path, run)
        assert journals.headers[run] == journal.header
        for node in {event.node for event in journal} | {row["node"] for row in found[run]}:
            own = [row for row in found[run] if row["node"] == node]
            assert events_in(own) == list(journal.select(node=node)), f"{run}, {node}"
        seen |= {event.event for event in journal}
    assert {"crash", "leave", END, EVICT} <= seen
    assert events_in(found["simulated"]) == read_journal(tmp_path, "simulated").events


def test_a_stream_is_made_into_parquet_once_and_again_when_it_has_grown(
    spark: SparkSession, tmp_path: Path
) -> None:
    writer = LogWriter(tmp_path, replace(LIFE, run="one", node="p1.1"))
    writer.write([Event(1, 1, "p1.1", "join")])
    assert read_journals(spark, tmp_path).events.count() == 2  # and the crash
    (made,) = (tmp_path / FOLDER).rglob("*.parquet")
    read_journals(spark, tmp_path)
    assert list((tmp_path / FOLDER).rglob("*.parquet")) == [made]
    writer.write([Event(2, 2, "p1.1", "view")])
    writer.close()
    assert read_journals(spark, tmp_path).events.count() == 3
    # What its writer was killed over is not there.
    with writer.path.open("r+b") as file:
        file.truncate(writer.path.stat().st_size - 30)
    assert read_journals(spark, tmp_path).events.where("event = 'view'").count() <= 1


@pytest.mark.parametrize(
    ("where", "moment"),
    [(journals, "require_ipc"), (unfinished_logs, "_target"), (unfinished_logs, "convert")],
    ids=["header", "size", "rows"],
)
def test_a_stream_that_is_finished_while_it_is_read_is_read_as_its_final_file(
    where: Any, moment: str, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, replace(LIFE, run="one", node="p1.1"))
    writer.write([Event(1, 1, "p1.1", "join"), Event(2, 2, "p1.1", END, seq=0)])
    then = getattr(where, moment)

    def finished_before(*given: Any) -> Any:
        if writer.path.exists():
            writer.finish(left_out=2)
        return then(*given)

    monkeypatch.setattr(where, moment, finished_before)
    found = read_journals(spark, tmp_path)
    assert found.headers["one"] == read_journal(tmp_path, "one").header
    assert found.headers["one"].left_out == 2
    assert events_in(found.events.collect()) == read_journal(tmp_path, "one").events


def test_a_stream_that_was_taken_away_is_one_line(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, replace(LIFE, run="one", node="p1.1"))
    writer.write([Event(1, 1, "p1.1", "join")])
    writer.close()
    then = unfinished_logs._target

    def taken_before(base: Path, stream: Path) -> Path:
        stream.unlink()
        return then(base, stream)

    monkeypatch.setattr(unfinished_logs, "_target", taken_before)
    with pytest.raises(InputError, match=r"p1\.1\.arrows: it was there, and is gone"):
        read_journals(spark, tmp_path)


# -- what is refused -------------------------------------------------------------------------------


def test_what_is_no_journal_is_refused_in_one_line(spark: SparkSession, tmp_path: Path) -> None:
    write_journal(a_run("good"), tmp_path / "some")
    with pytest.raises(InputError, match="no such folder"):
        read_journals(spark, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there should be files run="):
        read_journals(spark, tmp_path / "empty")
    with pytest.raises(InputError, match="no journal of run 'bad'; choose from its 1 runs: good"):
        read_journals(spark, tmp_path / "some", ["bad"])

    folder = folder_of(tmp_path / "other", "x")
    folder.mkdir(parents=True)
    pa.parquet.write_table(pa.table({"x": [1]}), folder / "x.parquet")
    with pytest.raises(InputError, match="some other Parquet file"):
        read_journals(spark, tmp_path / "other")
    (folder / "x.parquet").write_bytes(b"PAR1 and then nothing")
    with pytest.raises(InputError, match="cannot be read as a journal, it may be damaged"):
        read_journals(spark, tmp_path / "other")


def test_another_schema_version_and_rows_without_a_node_are_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    header = a_run("x").header
    schema = schema_of(header)
    folder = folder_of(tmp_path, "x")
    folder.mkdir(parents=True)
    newer = schema.with_metadata({**schema.metadata, VERSION_KEY: b"2"})
    pa.parquet.write_table(newer.empty_table(), folder / "x.parquet")
    with pytest.raises(InputError, match="schema version 2, and this semcast reads version 1"):
        read_journals(spark, tmp_path)
    row = dict.fromkeys(schema.names) | {"time_ns": 1, "lsn": 1, "event": "join", "group": ""}
    pa.parquet.write_table(pa.Table.from_pylist([row], schema), folder / "x.parquet")
    with pytest.raises(InputError, match="1 of 1 events have no 'node'"):
        read_journals(spark, tmp_path)
    row |= {"node": "p1.1", "group": "another"}
    pa.parquet.write_table(pa.Table.from_pylist([row], schema), folder / "x.parquet")
    with pytest.raises(InputError, match="an event of group 'another' in the journal of ''"):
        read_journals(spark, tmp_path)
