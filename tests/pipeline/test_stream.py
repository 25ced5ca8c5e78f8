"""A live group as a stream of Spark: rows, back-pressure, offsets, and what is refused."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.pipeline.stream_groups import SPARK, has_come, party, wait_until

from semcast.pipeline.streaming import FORMAT, register
from semcast.pipeline.streaming.refusal import reason
from semcast.pipeline.streaming.spool import FolderLock

ALONE = {"group": "nobody", "members": "spark,other", "name": "spark", "insecure": "true"}
ALONE |= {"transport": "unicast", "host": "127.0.0.1", "join_timeout_s": "0.5"}


def stream(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    register(spark)
    return spark.readStream.format(FORMAT).options(**options).load()


@contextmanager
def to_parquet(rows: DataFrame, folder: Path, **trigger: Any) -> Iterator[StreamingQuery]:
    writer = rows.writeStream.format("parquet")
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    if trigger:
        writer = writer.trigger(**trigger)
    query = writer.start(str(folder / "out"))
    try:
        yield query
    finally:
        query.stop()


def end_of(query: StreamingQuery) -> str:
    """Why it ended, in one line."""
    wait_until(lambda: not query.isActive, "the query ends")
    error = query.exception()
    assert error is not None
    return reason(error)


def test_a_group_flows_into_parquet(spark: SparkSession, tmp_path: Path) -> None:
    """In order, explained by `skipped`, at most so many rows a batch, and no secret anywhere."""
    with party() as group:
        options = group.options | {"spool": str(tmp_path / "spool"), "maxRowsPerBatch": "300"}
        rows = stream(spark, options)
        with to_parquet(rows, tmp_path) as query:
            group.wait_complete()
            group["a"].send_many([b"%d" % one for one in range(1000)])
            group["b"].send_many([b"x"] * 1000, [f"key{one % 3}" for one in range(1000)])
            for member in group.members.values():
                member.drain(60)
            spool = tmp_path / "spool"
            wait_until(lambda: has_come(spool, {"a": 1000, "b": 1000}), "all messages")
            query.processAllAvailable()
            batches = [one["numInputRows"] for one in query.recentProgress]
            explained = query._jsq.toString() + str(query.lastProgress)
        wait_until(lambda: group.state_of(SPARK) == "left", "the member leaves with the query")
    assert max(batches) <= 300
    found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
    assert [row.offset for row in found] == list(range(len(found)))
    unmarked = [row for row in found if row.sender == "a"]
    assert [row.payload for row in unmarked] == [b"%d" % one for one in range(1000)]
    assert all(row.key is None and not row.skipped for row in unmarked)
    marked = [row for row in found if row.sender == "b"]
    assert {row.key for row in marked[-3:]} == {"key0", "key1", "key2"}
    assert len(marked) + sum(len(row.skipped) for row in marked) == 1000
    assert all(row.received_ns > row.sent_ns > 0 and row.life > 0 for row in found)
    _check_no_secret(options["secret"], explained, tmp_path)


def _check_no_secret(secret: str, explained: str, folder: Path) -> None:
    assert secret not in explained
    grep = ["grep", "-r", "-l", "-a", secret, str(folder)]
    assert subprocess.run(grep, capture_output=True, text=True, check=False).stdout == ""


def test_slow_spark_fills_its_spool_and_slows_nobody(spark: SparkSession, tmp_path: Path) -> None:
    """SRM §5: what waits for a slow member is replaced; its spool is bounded."""
    spool, bytes_max = tmp_path / "spool", 64 << 10
    go_on, newest = threading.Event(), {}

    def size() -> int:
        return sum(path.stat().st_size for path in spool.glob("*.spool"))

    def deal_with(batch: DataFrame, _: int) -> None:
        go_on.wait(120)
        for row in batch.orderBy("offset").select("key", "payload").collect():
            newest[row.key] = row.payload

    with party(delivery_messages=200, window_messages=200) as group:
        options = group.options | {"spool": str(spool), "spool_bytes_max": str(bytes_max)}
        rows = stream(spark, options)
        query = rows.writeStream.foreachBatch(deal_with).start()
        try:
            group.wait_complete()
            sent = 0

            def send_ten() -> None:
                nonlocal sent
                for number in range(sent, sent + 10):
                    group["a"].send(b"%d" % number, replaces=f"key{number % 10}", timeout=60)
                sent += 10

            # This takes the longer the more is replaced before it is taken.
            while size() < bytes_max:
                assert sent < 10_000_000, "it never fills up"
                send_ten()
            group["a"].drain(60)
            full = size()
            for _ in range(200):
                send_ten()
            group["a"].drain(60)
            assert not go_on.is_set(), "all is sent, while Spark has dealt with nothing"
            assert size() == full, "nothing more is written once it is full"
            # What was taken last goes in whole, with the number of each message that it replaced.
            assert bytes_max <= full < 3 * bytes_max + 8 * sent
            go_on.set()
            last = {f"key{one % 10}": b"%d" % one for one in range(sent - 10, sent)}
            wait_until(lambda: newest == last, "the newest of each key")
        finally:
            go_on.set()
            query.stop()


def test_what_is_in_the_spool_can_be_worked_off_without_the_group(
    spark: SparkSession, tmp_path: Path
) -> None:
    from tests.pipeline.test_stream_spool import message

    from semcast.pipeline.streaming.spool import Spool

    whose = {"group": "nobody", "name": "spark", "order": "fifo"}
    spool = Spool(tmp_path / "spool", whose, 1 << 20)
    spool.append([message(seq) for seq in range(1, 8)], 1)
    spool.close()
    options = ALONE | {"spool": str(tmp_path / "spool"), "maxRowsPerBatch": "3"}
    for _ in range(2):
        with to_parquet(stream(spark, options), tmp_path, availableNow=True) as query:
            assert query.awaitTermination(120)
        found = spark.read.parquet(str(tmp_path / "out")).orderBy("offset").collect()
        assert [row.seq for row in found] == [1, 2, 3, 4, 5, 6, 7]
    (tmp_path / "spool").rename(tmp_path / "elsewhere")
    with to_parquet(stream(spark, options), tmp_path, availableNow=True) as query:
        assert "they do not belong together" in end_of(query)


def test_options_are_checked_when_it_is_loaded(spark: SparkSession, tmp_path: Path) -> None:
    whole = ALONE | {"spool": str(tmp_path)}
    siteless = {name: text for name, text in whole.items() if name not in ("size", "members")}
    wrong = {
        "no spool": {name: text for name, text in whole.items() if name != "spool"},
        "no group": {name: text for name, text in whole.items() if name != "group"},
        "unknown option 'sise'": whole | {"sise": "3"},
        "only groups can be streams": siteless | {"reliability": "federation", "groups": "a"},
        "size is 'three'; it must be a whole number": whole | {"size": "three"},
        "not among members": whole | {"members": "a,b"},
        "spool_bytes_max is '1'": whole | {"spool_bytes_max": "1"},
        "maxrowsperbatch is '-1'": whole | {"maxRowsPerBatch": "-1"},
        "must be a folder in a file system": whole | {"spool": "hdfs://there/spool"},
        "cannot read the secret": whole | {"secret_file": str(tmp_path / "none")},
    }
    for text, options in wrong.items():
        with pytest.raises(AnalysisException) as error:
            stream(spark, options)
        assert text in reason(error.value), text


def test_who_cannot_join_is_told_why(spark: SparkSession, tmp_path: Path) -> None:
    with to_parquet(stream(spark, ALONE | {"spool": str(tmp_path / "1")}), tmp_path / "x") as query:
        assert "not complete after 0.5 s: not heard of: other" in end_of(query)
    with party() as group:
        options = group.options | {"secret": "not the one that they have...", "join_timeout_s": "2"}
        rows = stream(spark, options | {"spool": str(tmp_path / "2")})
        with to_parquet(rows, tmp_path / "y") as query:
            assert "is the secret the same everywhere" in end_of(query)


def test_a_spool_is_for_one_query_of_one_group(spark: SparkSession, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    rows = stream(spark, ALONE | {"spool": str(spool)})
    lock = FolderLock(spool)
    with to_parquet(rows, tmp_path / "x") as query:
        assert "in use by process" in end_of(query)
    lock.close()
    whose = {"version": 1, "spool": "1", "group": "trades", "name": "spark", "order": "fifo"}
    (spool / "spool.json").write_text(json.dumps(whose))
    with to_parquet(rows, tmp_path / "y") as query:
        assert "the spool of group 'trades', not of 'nobody'" in end_of(query)


def test_a_schema_cannot_be_chosen(spark: SparkSession, tmp_path: Path) -> None:
    register(spark)
    reader = spark.readStream.format(FORMAT).options(**ALONE, spool=str(tmp_path / "spool"))
    with to_parquet(reader.schema("seq bigint").load(), tmp_path) as query:
        assert "a schema was given; leave it out" in end_of(query)
