"""Traces into the lake: whatever the format, every good row once, numbered, and no bad one lost."""

import gzip
import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from semcast.errors import InputError
from semcast.journal import Event, Header, Journal, read_journal, write_journal
from semcast.journal.growing_log import LogWriter, read_growing_log
from semcast.pipeline.ingest import journals
from semcast.pipeline.ingest.ingested import as_rows, read_trace_rows
from semcast.pipeline.ingest.inputs import TraceOptions, find_files
from semcast.pipeline.ingest.journals import ingest_journals, journal_files
from semcast.pipeline.ingest.lake import Lake
from semcast.pipeline.ingest.number import number_in_blocks
from semcast.pipeline.ingest.read import read_rows
from semcast.pipeline.ingest.traces import FileReport, ingest_traces
from semcast.pipeline.profiling.kernel import Question
from semcast.pipeline.profiling.run import profile_rows

HEADING = "time_s,sender,key,kind,size\n"
Message = tuple[float, str, str, str, int]


def messages(seed: int, length: int = 60) -> list[Message]:
    draw = random.Random(f"messages/{seed}")
    keys = ["", "a", "b, quoted", 'c "too"', "ключ"]
    return [
        (at / 4, f"s{draw.randrange(3)}", draw.choice(keys), "q", draw.randrange(100))
        for at in range(length)
    ]


def as_csv(rows: list[Message]) -> str:
    def cell(value: object) -> str:
        text = str(value)
        return '"' + text.replace('"', '""') + '"' if '"' in text or "," in text else text

    return HEADING + "".join(",".join(map(cell, row)) + "\n" for row in rows)


def ingest(
    spark: SparkSession,
    out: Path,
    *inputs: Path,
    trace: str | None = None,
    options: TraceOptions | None = None,
) -> list[FileReport]:
    options = options or TraceOptions()
    return ingest_traces(spark, find_files(inputs, options), out, options, trace)


def stored(out: Path, trace: str) -> list[dict[str, object]]:
    """What is in the lake, read without Spark and without our own reader."""
    files = sorted(Lake(out).trace_folder(trace).glob("source=*/*.parquet"))
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    return sorted(rows, key=lambda row: row["pos"])


def check_numbers(rows: list[dict[str, object]]) -> None:
    assert [row["pos"] for row in rows] == list(range(1, len(rows) + 1))
    seqs: Counter[object] = Counter()
    for row in rows:
        seqs[row["sender"]] += 1
        assert row["seq"] == seqs[row["sender"]]


def test_every_format_gives_the_same_rows_once(spark: SparkSession, tmp_path: Path) -> None:
    rows = messages(1)
    text = as_csv(rows)
    names = HEADING.strip().split(",")
    (tmp_path / "plain.csv").write_text(text)
    (tmp_path / "packed.csv.gz").write_bytes(gzip.compress(text.encode()))
    lines = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines) + "\n")
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "table.parquet")
    out = tmp_path / "lake"
    reports = ingest(spark, out, tmp_path)
    assert {one.trace: (one.added, one.rows, one.rejected) for one in reports} == {
        name: (True, len(rows), {}) for name in ("plain", "packed", "lines", "table")
    }
    for name in ("plain", "packed", "lines", "table"):
        found = stored(out, name)
        check_numbers(found)
        assert [tuple(row[column] for column in names) for row in found] == rows
    again = ingest(spark, out, tmp_path)
    assert [(one.added, one.rows) for one in again] == [(False, 0)] * 4
    assert len(stored(out, "plain")) == len(rows)


def test_a_trace_goes_on_where_it_ended(spark: SparkSession, tmp_path: Path) -> None:
    """Three files of one trace, the last one later, and one of them named twice."""
    out = tmp_path / "a lake [with] {letters}*"
    parts = [messages(seed, 25) for seed in range(3)]
    paths = [tmp_path / f"part{at}.csv" for at in range(3)]
    for path, part in zip(paths, parts, strict=True):
        path.write_text(as_csv(part))
    first = ingest(spark, out, paths[0], paths[1], trace="the feed=1/2")
    second = ingest(spark, out, paths[1], paths[2], trace="the feed=1/2")
    assert [one.added for one in (*first, *second)] == [True, True, False, True]
    found = stored(out, "the feed=1/2")
    check_numbers(found)
    assert [row["key"] for row in found] == [row[2] for part in parts for row in part]
    lake = Lake(out)
    assert lake.trace_names() == ["the feed=1/2"]
    rows = as_rows(read_trace_rows(spark, lake, "the feed=1/2"))
    profile = profile_rows(spark, rows, "feed", Question(per_sender=False))
    assert profile.messages == 75
    assert profile.times_back == 2  # each part begins at 0 again


BAD = """time_s,sender,key,kind,size
0,x,a,q,1
1,x,a
never,x,a,q,1
-1,x,a,q,1
2,x,a,q,many
2,x,a,q,1.5
2,x,a,q,9999999
1e300,x,a,q,1
NaN,x,a,q,1
,x,a,q,1
3,x,\xff,q,1
2,y,,q,

1,x,a,q,2
"""


def test_bad_rows_are_counted_and_kept_aside_with_the_reason(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "bad.csv"
    path.write_bytes(BAD.encode("latin-1"))
    (report,) = ingest(spark, tmp_path / "lake", path)
    assert report.rows == 3
    assert report.times_back == 1
    assert report.rejected == {
        "too few or too many columns, or no JSON object": 1,
        "time missing, or not one of its unit": 2,
        "time below 0": 1,
        "time of 1e+12 s or more": 2,
        "size not a whole number from 0 to 1048576": 3,
        "not text in UTF-8": 1,
    }
    found = stored(tmp_path / "lake", "bad")
    check_numbers(found)
    assert [(row["time_s"], row["sender"], row["key"], row["size"]) for row in found] == [
        (0.0, "x", "a", 1), (2.0, "y", "", None), (1.0, "x", "a", 2),
    ]  # fmt: skip
    folder = Lake(tmp_path / "lake").rejected_folder("bad", report.source)
    aside = [row for file in folder.glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    assert sorted(row["record"] for row in aside) == list(range(2, 12))
    texts = {row["record"]: row["text"] for row in aside}
    assert texts[2] == "1,x,a"
    assert json.loads(texts[5])["size"] == "many"


@pytest.mark.parametrize(
    ("unit", "written"),
    [("ms", "1500"), ("us", "1500000"), ("ns", "1500000000"), ("iso", "1970-01-01T00:00:01.5Z")],
)
def test_times_of_other_units_are_seconds_in_the_end(
    spark: SparkSession, tmp_path: Path, unit: str, written: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"when,key\n{written},a\nsoon,b\n")
    options = TraceOptions({"time_s": "when"}, unit)  # type: ignore[arg-type]
    rows = read_rows(spark, find_files([path], options), options).collect()
    assert [(row.time_s, row.reason is None) for row in rows] == [(1.5, True), (None, False)]


def test_a_crash_before_the_end_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = tmp_path / "a.csv", tmp_path / "lake"
    path.write_text(as_csv(messages(5, 10)))

    def crash(*_: object) -> None:
        raise RuntimeError("the lights went out")

    with monkeypatch.context() as patch:
        patch.setattr(Lake, "commit", crash)
        with pytest.raises(RuntimeError):
            ingest(spark, out, path)
    assert not list(out.glob("traces/**/*.parquet"))
    (report,) = ingest(spark, out, path)
    assert (report.added, report.rows, len(stored(out, "a"))) == (True, 10, 10)
    assert not Lake(out).temp.exists()


def test_a_gzip_that_breaks_off_is_the_files_fault(spark: SparkSession, tmp_path: Path) -> None:
    """Its beginning is fine, so only reading it all shows it."""
    draw = random.Random("noise")
    rows = "".join(f"{at},x,{draw.randbytes(12).hex()},q,1\n" for at in range(20_000))
    path = tmp_path / "broken.csv.gz"
    path.write_bytes(gzip.compress((HEADING + rows).encode())[:-50_000])
    with pytest.raises(InputError, match=r"broken\.csv\.gz: damaged gzip"):
        ingest(spark, tmp_path / "lake", path)
    assert not (tmp_path / "lake" / "traces").exists()


def test_pieces_of_a_large_file_keep_its_order(spark: SparkSession, tmp_path: Path) -> None:
    """Some hundred pieces, read in any order by many tasks: numbers are those of the file."""
    path = tmp_path / "large.csv"
    path.write_text("key,size\n" + "".join(f"k{at % 7},{at}\n" for at in range(4000)))
    files = find_files([path], TraceOptions())
    kept = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", "2048")
    try:
        (report,) = ingest_traces(spark, files, tmp_path / "lake")
        pieces = number_in_blocks(read_rows(spark, files, TraceOptions()))
        assert pieces.select("start").distinct().count() > 5
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", str(kept))
    assert report.rows == 4000
    found = stored(tmp_path / "lake", "large")
    check_numbers(found)
    assert [row["size"] for row in found] == list(range(4000))


# -- journals: no Spark ----------------------------------------------------------------------------


def journal(run: str, events: int = 3) -> Journal:
    made = Journal(Header(run=run, members=("p1.1",)))
    for at in range(1, events + 1):
        made.append(Event(at, at, "p1.1", "multicast", "p1.1", at, (), "k", size=1))
    return made


def test_journals_are_copied_whole_and_once(tmp_path: Path) -> None:
    source, out = tmp_path / "journals", tmp_path / "lake"
    for run in ("one", "two"):
        write_journal(journal(run), source)
    first = ingest_journals(journal_files(source), out)
    assert [(one.run, one.added, one.events) for one in first] == [
        ("one", True, 3), ("two", True, 3),
    ]  # fmt: skip
    again = ingest_journals(journal_files(source / "run=two"), out)
    assert [(one.run, one.added) for one in again] == [("two", False)]
    read = read_journal(Lake(out).journals, "one")
    assert (read.header, read.events) == (journal("one").header, journal("one").events)
    # Another journal of the same name would be mixed with the first one.
    write_journal(journal("two", events=5), tmp_path / "other")
    with pytest.raises(InputError, match="another journal of run 'two'"):
        ingest_journals(journal_files(tmp_path / "other"), out)


def test_a_life_that_goes_on_is_taken_as_far_as_it_went_and_then_to_its_end(
    tmp_path: Path,
) -> None:
    source, out = tmp_path / "journals", tmp_path / "lake"
    header = Header(run="live", members=("p1.1",), node="p1.1", one_order=False)
    events = journal("live", 5).events
    writer = LogWriter(source, header)
    writer.write(events[:2])
    (first,) = ingest_journals(journal_files(source), out)
    assert (first.added, first.events) == (True, 2)
    (same,) = ingest_journals(journal_files(source), out)
    assert not same.added
    writer.write(events[2:])
    writer.finish(left_out=0)
    (last,) = ingest_journals(journal_files(source), out)
    assert (last.added, last.events) == (True, 5)
    assert [path.name for path in journal_files(Lake(out).journals)] == ["p1.1.parquet"]


@pytest.mark.parametrize("looked_at", [False, True])
def test_a_life_that_ends_while_it_is_taken_is_taken_whole(
    looked_at: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, lake = tmp_path / "journals", Lake(tmp_path / "lake")
    writer = LogWriter(source, Header(run="live", members=("p1.1",), node="p1.1"))
    writer.write(journal("live").events)
    found = journal_files(source)
    then = read_growing_log

    def finished_before(path: Path) -> object:
        writer.finish(left_out=2)
        return then(path)

    if looked_at:
        monkeypatch.setattr(journals, "read_growing_log", finished_before)
    else:
        writer.finish(left_out=2)
    (report,) = ingest_journals(found, lake.root)
    assert (report.added, report.events, report.reason) == (True, 3, None)
    assert read_journal(lake.journals, "live").header.left_out == 2
    assert not lake.rejected.exists()


def test_a_damaged_journal_is_set_aside_and_the_others_are_taken(tmp_path: Path) -> None:
    source, out = tmp_path / "journals", tmp_path / "lake"
    write_journal(journal("good"), source)
    bad = source / "run=bad" / "journal.parquet"
    bad.parent.mkdir()
    bad.write_bytes(b"PAR1 and then nothing")
    other = source / "run=other" / "journal.parquet"
    other.parent.mkdir()
    pq.write_table(pa.table({"x": [1]}), other)
    reports = {one.run: one for one in ingest_journals(journal_files(source), out)}
    assert reports["good"].added
    assert "cannot be read as a journal" in (reports["bad"].reason or "")
    assert "it has no header" in (reports["other"].reason or "")
    kept = Lake(out).rejected / "run=bad" / "journal.parquet"
    assert kept.read_bytes() == bad.read_bytes()
