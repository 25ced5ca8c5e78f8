"""Settings in, a running Spark out, and not a word on the terminal; or one line on why not.

Whatever Spark and its JVM have to say goes to a log in a private folder of this process. The folder
is removed when the process ends, unless the start failed: then the error says where the log is.
"""

import atexit
import logging
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from semcast.errors import PipelineError
from semcast.pipeline.spark.failures import cause

_QUIET_LOGGERS: Final = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
_ANSWER_S_MAX: Final = 5.0
_LOG_BYTES_MAX: Final = 1 << 20  # read of a log, to find the reason of a failed start
_LOG4J: Final = """\
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""
_REASON: Final = re.compile(r"^(Error: .+|Unrecognized .+|Invalid .+|.*\w(?:Error|Exception): .+)$")


@cache
def private_folder() -> Path:
    """The folder for log and archives. A process has one, because its JVM stays the same too."""
    folder = Path(tempfile.mkdtemp(prefix="semcast-spark-"))
    atexit.register(_remove, folder)
    return folder


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


def java_options() -> list[str]:
    """Options for the driver's JVM.

    The log's settings go by a property rather than by SPARK_CONF_DIR, so that a user's own
    spark-defaults.conf stays in force.
    """
    folder = private_folder()
    properties = folder / "log4j2.properties"
    properties.write_text(_LOG4J.format(log=folder / "spark.log"))
    return ["-XX:+UseParallelGC", f"-Dlog4j2.configurationFile={properties.as_uri()}"]


def start(settings: Mapping[str, str], environment: Mapping[str, str]) -> SparkSession:
    """A classic session with these settings, and these variables for its JVM."""
    for name in _QUIET_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    log = private_folder() / "spark.log"
    try:
        with _said_to(log), _handler_kept(), _environment(environment):
            return SparkSession.builder.config(map=dict(settings)).getOrCreate()
    except Exception as error:
        atexit.unregister(_remove)
        reason = _reason(log) or cause(str(error))
        raise PipelineError(f"Spark does not start: {reason}; its log: {log}") from error


def require_answer(addresses: str) -> None:
    """Refuse a master that does not accept connections: Spark itself would try for a minute."""
    reasons = []
    for address in addresses.split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _ANSWER_S_MAX).close()
        except (OSError, OverflowError) as error:
            reasons.append(f"{address} ({getattr(error, 'strerror', None) or error})")
        else:
            return
    raise PipelineError(
        f"nobody answers at {', '.join(reasons)}; is Spark running there? See --master"
    )


def _reason(log: Path) -> str | None:
    """The first complaint in the log of a start that failed."""
    try:
        with log.open(encoding="utf-8", errors="replace") as file:
            text = file.read(_LOG_BYTES_MAX)
    except OSError:
        return None
    found = [line.strip() for line in text.splitlines() if _REASON.match(line.strip())]
    return cause(found[0]) if found else None


@contextmanager
def _said_to(log: Path) -> Iterator[None]:
    """Point file descriptors 1 and 2 at the log: the JVM that is started meanwhile keeps them.

    Both, because the JVM prints warnings of its own on stdout, where results belong.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    kept = [(fd, os.dup(fd)) for fd in (1, 2)]
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        for fd, _ in kept:
            os.dup2(file, fd)
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.close(file)
        for fd, copy in kept:
            os.dup2(copy, fd)
            os.close(copy)


@contextmanager
def _handler_kept() -> Iterator[None]:
    """Keep the handler of Ctrl-C: pyspark installs one that calls the JVM from a signal handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
