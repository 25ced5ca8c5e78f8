"""A name and a master in, a Spark session out: quiet, with our settings, the package on its way.

One session at a time in a process: who asks for another gets the one that runs, or an error if it
is not what was asked for. `semcast.cli._spark` is this for commands.
"""

import os
import re
import sys
import uuid
from collections.abc import Mapping

from semcast.errors import ConfigError, PipelineError

try:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession
except ImportError as error:
    raise PipelineError(
        f"pyspark is not installed ({error}); pip install 'semcast[spark]'"
    ) from error

from semcast.pipeline.spark import connect
from semcast.pipeline.spark.conf import (
    CONNECT,
    MASTER_DEFAULT,
    check_master,
    is_connect,
    is_local,
    session_settings,
)
from semcast.pipeline.spark.counting import is_classic
from semcast.pipeline.spark.java import require_java
from semcast.pipeline.spark.launch import java_options, private_folder, require_answer, start
from semcast.pipeline.spark.ship import add_to_session, add_to_settings, pack


def open_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A session with our settings; the one that runs already, if there is one in this process."""
    conf = conf or {}
    before = running_session()
    if before is not None:
        return _as_asked(before, master, conf)
    master = check_master(master or MASTER_DEFAULT)
    if is_connect(master):
        connect.require_packages()
    if master.startswith("sc://"):
        spark = connect.connect(master, conf)
        add_to_session(pack(private_folder()), spark)
        return spark
    require_java()
    if master == CONNECT:
        return _own_server(name, conf)
    return _classic(name, master, conf, {})


def running_session() -> SparkSession | None:
    """The session of this process, whoever opened it."""
    found = connect.running()
    if found is None and SparkContext._active_spark_context is not None:
        found = SparkSession.builder.getOrCreate()
    return found


def close_session(spark: SparkSession) -> None:
    """Stop the session, and the Connect server of this process if it spoke to that."""
    if is_classic(spark):
        spark.stop()
        return
    connect.disconnect(spark)
    if SparkContext._active_spark_context is not None:
        SparkSession.builder.getOrCreate().stop()


def where(spark: SparkSession) -> str:
    """What runs where, for people: Spark 4.3.0 on local[2], 2 cores, 12 GB."""
    if not is_classic(spark):
        return f"Spark {spark.version} through Spark Connect"
    context = spark.sparkContext
    master = context.master or ""
    text = f"Spark {spark.version} on {master}"
    if not is_local(master):
        return text  # its executors come and go, and bring their own memory
    memory = re.sub(r"^(\d+)g$", r"\1 GB", spark.conf.get("spark.driver.memory", None) or "")
    return ", ".join(filter(None, [text, f"{context.defaultParallelism} cores", memory]))


def _own_server(name: str, conf: Mapping[str, str]) -> SparkSession:
    token = uuid.uuid4().hex
    settings = {**connect.SERVER_SETTINGS, **conf}
    server = _classic(name, MASTER_DEFAULT, settings, {connect.TOKEN_VARIABLE: token})
    try:
        return connect.connect_to_own(server, token, {})
    except BaseException:
        server.stop()
        raise


def _classic(
    name: str, master: str, conf: Mapping[str, str], environment: Mapping[str, str]
) -> SparkSession:
    settings = session_settings(master, conf, java_options())
    settings["spark.master"] = master
    settings["spark.app.name"] = f"semcast {name}"
    folder = private_folder()
    if is_local(master):
        settings.setdefault("spark.sql.warehouse.dir", str(folder / "warehouse"))
    else:
        if master.startswith("spark://"):
            require_answer(master.removeprefix("spark://"))
        add_to_settings(pack(folder), settings)
    return start(settings, {**_variables(master, settings), **environment})


def _variables(master: str, settings: dict[str, str]) -> dict[str, str]:
    """The environment that the JVM and its Python workers get."""
    # Without it the workers take python3 from PATH, which may have no pyarrow and no semcast.
    python = settings.pop("spark.pyspark.python", None)
    if python is None and not is_local(master):
        python = os.environ.get("PYSPARK_PYTHON")  # the workers' may be elsewhere
    variables = {"PYSPARK_PYTHON": python or sys.executable}
    if is_local(master):
        # Otherwise Spark looks up this machine's name, which may be slow, or somebody else's.
        variables["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    return variables


def _as_asked(spark: SparkSession, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    runs_on = spark.sparkContext.master if is_classic(spark) else CONNECT
    if master is not None and master != runs_on:
        raise ConfigError(
            f"Spark runs on {runs_on} already in this process; stop it first to use {master}"
        )
    for key, value in conf.items():
        if spark.conf.get(key, None) != value:
            raise ConfigError(
                f"Spark runs already in this process, without {key}={value}; stop it first"
            )
    return spark
