"""A live group into Parquet, by Spark: python examples/stream_to_parquet.py

Two members in this program send quotes and trades; Spark joins as the third, and what it receives
becomes Parquet. Needs `semcast[spark]` and Java 17. On your network the members are elsewhere, and
the query runs until it is stopped; killed and started again with the same folders, it goes on where
it was, without a message lost or doubled.
"""

import tempfile
import threading
import uuid
from pathlib import Path

from pyspark.sql import SparkSession

import semcast.blocking
from semcast.pipeline.spark.session import open_session
from semcast.pipeline.streaming import register

NAMES = ["feed", "reader", "spark"]
TRADES = 100
LAST = b"the end"


def feed(group_name: str, settings: semcast.Settings) -> None:
    """Ten quotes, then a trade, again and again."""
    with semcast.blocking.join(group_name, **(settings | {"name": "feed"})) as group:
        for number in range(TRADES):
            for cents in range(10):
                group.send(b"101.%02d" % cents, replaces="AAPL")
            group.send(b"trade %d" % number)
        group.send(LAST)
        # Leaving waits until everybody has everything.


def reader(group_name: str, settings: semcast.Settings) -> None:
    """Another member; it needs no Spark."""
    with semcast.blocking.join(group_name, **(settings | {"name": "reader"})) as group:
        for message in group:
            if message.payload == LAST:
                return


def run(spark: SparkSession, folder: Path) -> dict[str, int]:
    """Both members, and Spark beside them, until the last message is in Parquet."""
    secret = folder / "secret.txt"
    secret.write_text(uuid.uuid4().hex)
    group_name = f"quotes-{uuid.uuid4()}"
    settings: semcast.Settings = {
        "members": NAMES,
        "secret": secret.read_text(),
        "interface": "lo",
        "join_timeout_s": 120.0,  # Spark takes its time to start
    }
    members = [threading.Thread(target=one, args=(group_name, settings)) for one in (feed, reader)]
    for member in members:
        member.start()

    register(spark)
    rows = (
        spark.readStream.format("semcast")
        .option("group", group_name)
        .option("name", "spark")
        .option("members", ",".join(NAMES))
        .option("secret_file", str(secret))  # never in a plan, a log or a checkpoint
        .option("interface", "lo")
        .option("join_timeout_s", "120")
        .option("spool", str(folder / "spool"))  # what was received, and is not in Parquet yet
        .load()
    )
    query = (
        rows.writeStream.format("parquet")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start(str(folder / "quotes.parquet"))
    )
    for member in members:
        member.join()
    # Everybody has everything by now, Spark's member too; it may still be writing it down.
    found = spark.read.schema(rows.schema)
    while True:
        query.processAllAvailable()
        stored = found.parquet(str(folder / "quotes.parquet"))
        if stored.where(f"payload = cast('{LAST.decode()}' as binary)").count():
            break
    query.stop()
    return {
        "sent": 11 * TRADES + 1,
        "trades": stored.where("key is null").count() - 1,
        "quotes": stored.where("key = 'AAPL'").count(),
        "skipped": stored.selectExpr("sum(size(skipped))").collect()[0][0],
    }


def main() -> None:
    """Run it once, in a folder that is deleted afterwards."""
    spark = open_session("stream_to_parquet", master="local[2]")
    with tempfile.TemporaryDirectory() as folder:
        found = run(spark, Path(folder))
    print(f"{found['sent']} messages were sent")
    print(f"{found['trades']} trades are in Parquet, every one of them")
    print(f"{found['quotes']} quotes are, and {found['skipped']} were replaced before Spark's turn")
    spark.stop()


if __name__ == "__main__":
    main()
