"""What every command on Spark shares: --master, --conf, and the session they ask for."""

import sys
from collections.abc import Iterator, Sequence
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


def require_spark() -> None:
    """PipelineError if pyspark is not installed: before whatever imports it."""
    import semcast.pipeline.spark.session  # noqa: F401


@contextmanager
def spark_session(
    command: str, master: str | None = None, conf: Sequence[str] | None = None
) -> "Iterator[SparkSession]":
    """A session for one command, stopped at its end.

    One that runs in this process already (a notebook's, a test's) is used and left alone.
    """
    from semcast.pipeline.spark.conf import check_master, parse_conf

    wishes = parse_conf(conf or ())  # before the seconds that the imports and the start take
    if master is not None:
        check_master(master)
    from semcast.pipeline.spark.session import close_session, open_session, running_session, where

    ours = running_session() is None
    spark = open_session(command, master, wishes)
    try:
        if ours:
            print(f"semcast: {where(spark)}", file=sys.stderr)
        yield spark
    finally:
        if ours:
            close_session(spark)
