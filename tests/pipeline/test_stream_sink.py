"""Rows of a stream as messages of a group: in order, and no batch again that is known as sent."""

import json
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructType
from tests.pipeline.stream_groups import DEADLINE_S, SPARK, Party, party, wait_until

from semcast.errors import ConfigError, GroupClosedError, InputError
from semcast.pipeline.streaming import FORMAT, register
from semcast.pipeline.streaming.options import sink_options
from semcast.pipeline.streaming.outbox import NONE_YET, Outbox
from semcast.pipeline.streaming.refusal import reason
from semcast.pipeline.streaming.sink import GroupWriter, Rows, outbox_of

SCHEMA = StructType().add("key", StringType()).add("payload", BinaryType())
MORE = StructType().add("payload", BinaryType()).add("extra", LongType())
ALONE = {"group": "nobody", "members": "spark,other", "name": "spark", "insecure": "true"}
ALONE |= {"transport": "unicast", "host": "127.0.0.1", "join_timeout_s": "0.5"}


def batch(first: int, count: int, key: str | None = None) -> pa.RecordBatch:
    payloads = [b"%d" % number for number in range(first, first + count)]
    return pa.RecordBatch.from_pydict(
        {"key": pa.array([key] * count, pa.string()), "payload": pa.array(payloads, pa.binary())}
    )


def written(writer: GroupWriter, *batches: pa.RecordBatch) -> Rows:
    """As a task does it: with a copy of the writer, and its answer sent back."""
    copy: GroupWriter = pickle.loads(pickle.dumps(writer))
    answer: Rows = pickle.loads(pickle.dumps(copy.write(iter(batches))))
    return answer


@contextmanager
def ending(folder: Path) -> Iterator[None]:
    """The process that sends is ended with the test."""
    try:
        yield
    finally:
        kill_sender(folder, signal.SIGTERM)


def kill_sender(folder: Path, how: signal.Signals) -> None:
    outbox = Outbox(folder, "", "")
    if outbox.in_use():
        os.kill(int((folder / "lock").read_text()), how)
        wait_until(lambda: not outbox.in_use(), "the process that sends ends")


def numbers(group: Party, name: str) -> list[int]:
    return [int(message.payload) for message in group.taken[name]]


def wait_numbers(group: Party, expected: list[int]) -> None:
    """Both members have got exactly these, in this order."""
    wait_until(
        lambda: all(len(group.taken[name]) >= len(expected) for name in "ab"), f"{expected[-1]}"
    )
    for name in "ab":
        assert numbers(group, name) == expected


def test_batches_are_sent_in_order_and_again_only_if_it_is_not_known(tmp_path: Path) -> None:
    """What Spark does after a crash: the last batch comes again, with its number."""
    with party() as group, ending(tmp_path):
        options = sink_options(group.options | {"sent": str(tmp_path), "linger_s": "60"})
        writer = GroupWriter(options, SCHEMA)
        assert group.options["secret"] not in str(pickle.dumps(writer)), "tasks get no secret"
        first = [
            written(writer, batch(0, 5), batch(5, 5)),
            written(writer),
            written(writer, batch(10, 3)),
        ]
        joining = threading.Thread(target=group.wait_complete)
        joining.start()
        writer.commit([*first], 0)
        joining.join(DEADLINE_S)
        wait_numbers(group, list(range(13)))
        writer.commit([*first], 0)
        writer.commit([written(writer)], 1)
        kill_sender(tmp_path, signal.SIGKILL)
        writer.commit([written(writer, batch(13, 4, key="k"))], 2)
        assert outbox_of(options).sent() == 2
        writer.commit([written(writer, batch(13, 4, key="k"))], 2)
        writer.commit([written(writer, batch(17, 1))], 3)
        wait_until(lambda: all(numbers(group, name)[-1:] == [17] for name in "ab"), "the last one")
        for name in "ab":
            got = numbers(group, name)
            assert got[:13] == list(range(13))
            assert got == sorted(set(got)), "in order, and none twice"
            assert got[-2:] == [16, 17], "the newest of its key is there"
        kill_sender(tmp_path, signal.SIGTERM)
        wait_until(lambda: group.state_of(SPARK) == "left", "it leaves when it is ended")


def test_rows_of_a_query_reach_the_group_in_order(spark: SparkSession, tmp_path: Path) -> None:
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    source.mkdir()
    register(spark)
    rows = spark.readStream.schema("key string, payload string").json(str(source)).coalesce(1)

    def run(options: dict[str, str]) -> None:
        writer = rows.writeStream.format(FORMAT).options(**options)
        query = (
            writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        )
        try:
            assert query.awaitTermination(round(DEADLINE_S))
        finally:
            query.stop()

    with party() as group, ending(checkpoint / "semcast"):
        options = group.options | {"linger_s": "60"}
        _put(source, 0, 50)
        joining = threading.Thread(target=group.wait_complete)
        joining.start()
        run(options)
        joining.join(DEADLINE_S)
        wait_numbers(group, list(range(50)))
        # As if Spark was killed after the batch was sent, and before it noted that it was.
        for path in checkpoint.glob("commits/*0*"):
            path.unlink()
        for path in checkpoint.glob("commits/.*0*"):
            path.unlink()
        _put(source, 50, 10)
        run(options)
        wait_numbers(group, list(range(60)))


def _put(folder: Path, first: int, count: int) -> None:
    lines = [json.dumps({"payload": str(number)}) for number in range(first, first + count)]
    (folder / f"{first}.json").write_text("\n".join(lines))


def test_what_cannot_be_sent_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    options = ALONE | {"checkpointLocation": str(tmp_path)}
    rows = spark.readStream.format("rate").load()
    with pytest.raises(Exception, match="no column payload") as error:
        rows.writeStream.format(FORMAT).options(**options).start().awaitTermination(
            round(DEADLINE_S)
        )
    assert "no column payload in timestamp, value" in reason(error.value)
    for schema, text in (
        (StructType().add("payload", LongType()), "payload is bigint; it must be binary or string"),
        (MORE, "'extra' would not be sent"),
    ):
        with pytest.raises(ConfigError, match=text):
            GroupWriter(sink_options(options), schema)
    with pytest.raises(ConfigError, match="no folder to note in what was sent"):
        sink_options(ALONE)
    with pytest.raises(ConfigError, match="linger_s is '0'"):
        sink_options(options | {"linger_s": "0"})


def test_rows_that_cannot_be_sent_are_refused_before_any_is(tmp_path: Path) -> None:
    given = ALONE | {"sent": str(tmp_path), "message_bytes_max": "100"}
    writer = GroupWriter(sink_options(given), None)
    large = pa.RecordBatch.from_pydict({"payload": pa.array([b"x" * 101], pa.binary())})
    with pytest.raises(InputError, match="a payload has 101 bytes, and the group takes 100"):
        writer.write(iter([large]))
    empty = pa.RecordBatch.from_pydict({"payload": pa.array([None, b""], pa.binary())})
    with pytest.raises(InputError, match="1 of 2 rows have no payload"):
        writer.write(iter([empty]))
    writer = GroupWriter(sink_options(given | {"batch_bytes_max": "2000"}), None)
    answer = written(writer, batch(0, 100))
    with pytest.raises(InputError, match="bytes, and 2000 are allowed"):
        writer.commit([answer, answer], 0)


def test_a_group_that_is_not_there_is_said(tmp_path: Path) -> None:
    writer = GroupWriter(sink_options(ALONE | {"sent": str(tmp_path)}), None)
    with ending(tmp_path), pytest.raises(GroupClosedError, match="not heard of: other"):
        writer.commit([written(writer, batch(0, 1))], 0)


def test_what_was_sent_belongs_to_a_group_and_a_query(tmp_path: Path) -> None:
    Outbox(tmp_path, "quotes", "query 1").note_sent(7)
    assert Outbox(tmp_path, "quotes", "query 1").sent() == 7
    assert Outbox(tmp_path, "quotes", "query 2").sent() == NONE_YET, "its batches count anew"
    with pytest.raises(InputError, match="of a sink into group 'quotes', not 'trades'"):
        Outbox(tmp_path, "trades", "query 1").sent()
    (tmp_path / "sent.json").write_text("{")
    with pytest.raises(InputError, match="does not say what was sent"):
        Outbox(tmp_path, "quotes", "query 1").sent()
