"""What every command on Spark shares: --master, --conf, and the session they ask for."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MasterOption = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="MASTER",
        help="Where Spark runs: local[N] with N cores of this machine (all of them by default), "
        "spark://host:port, connect (a Spark Connect server of its own) or sc://host:port.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option(
        "--conf",
        metavar="KEY=VALUE",
        help="A setting of Spark, as in spark.driver.memory=4g; may be repeated.",
    ),
]


@contextmanager
def spark_opener(
    command: str, master: str | None = None, conf: Sequence[str] | None = None
) -> "Iterator[Callable[[], SparkSession]]":
    """A function that opens a session for one command, which is stopped at its end.

    So the command can look at its arguments before the seconds that Spark takes to start. A session
    that runs in this process already (a notebook's, a test's) is used and left alone.
    """
    from semcast.pipeline.spark import require_spark
    from semcast.pipeline.spark.conf import check_master, parse_conf

    wishes = parse_conf(conf or ())
    if master is not None:
        check_master(master)
    require_spark()
    from semcast.pipeline.spark.session import close_session, open_session, running_session, where

    ours: list[SparkSession] = []

    def open_once() -> "SparkSession":
        is_new = running_session() is None
        spark = open_session(command, master, wishes)
        if is_new:
            ours.append(spark)
            print(f"semcast: {where(spark)}", file=sys.stderr)
        return spark

    try:
        yield open_once
    finally:
        for spark in ours:
            close_session(spark)


@contextmanager
def spark_session(
    command: str, master: str | None = None, conf: Sequence[str] | None = None
) -> "Iterator[SparkSession]":
    """A session for one command, opened at once."""
    with spark_opener(command, master, conf) as open_spark:
        yield open_spark()
