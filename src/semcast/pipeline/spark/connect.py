"""Spark Connect: a server's URL in, a session that speaks to it out; and a server of one's own.

Such a session has no `sparkContext`; stages that use DataFrames alone work on both kinds.
"""

import os
from collections.abc import Mapping
from typing import Final, cast

from pyspark.sql import SparkSession

from semcast.errors import ConfigError, PipelineError
from semcast.pipeline.spark.conf import DEFAULTS
from semcast.pipeline.spark.failures import cause
from semcast.pipeline.spark.launch import require_answer

PORT_DEFAULT: Final = 15002
# The server asks for this secret, so that others on this machine cannot use it. It goes by the
# environment, because everybody can read a command line.
TOKEN_VARIABLE: Final = "SPARK_CONNECT_AUTHENTICATE_TOKEN"
SERVER_SETTINGS: Final[Mapping[str, str]] = {
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
}
# pyspark decides by this variable whether a column or a function is Connect's or the classic kind.
_MODE_VARIABLE: Final = "SPARK_CONNECT_MODE_ENABLED"
_SERVICE: Final = "org.apache.spark.sql.connect.service.SparkConnectService$"


def require_packages() -> None:
    """Connect speaks gRPC, which plain pyspark does without."""
    try:
        import pyspark.sql.connect.session  # noqa: F401
    except ImportError as error:
        raise PipelineError(
            f"Spark Connect needs more packages: {cause(str(error))}; "
            "pip install 'semcast[spark-connect]'"
        ) from error


def connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session with the server at the URL; settings that only its owner can make are refused."""
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    address = url.removeprefix("sc://").partition("/")[0]
    require_answer(address if ":" in address else f"{address}:{PORT_DEFAULT}")
    os.environ[_MODE_VARIABLE] = "1"
    try:
        # Its interface is the classic session's, but it is no subclass of it.
        session = cast(SparkSession, ConnectSession.builder.remote(url).getOrCreate())
        _configure(session, conf)
    except BaseException as error:
        os.environ.pop(_MODE_VARIABLE, None)
        if isinstance(error, Exception) and not isinstance(error, ConfigError):
            raise PipelineError(f"no session with {address}: {cause(str(error))}") from error
        raise
    return session


def connect_to_own(server: SparkSession, token: str, conf: Mapping[str, str]) -> SparkSession:
    """A session with the Connect server inside a classic session of this process."""
    return connect(f"sc://localhost:{port_of(server)}/;token={token}", conf)


def port_of(server: SparkSession) -> int:
    """Where the Connect server inside a classic session listens."""
    return int(getattr(getattr(server._jvm, _SERVICE), "MODULE$").localPort())


def running() -> SparkSession | None:
    """The session of this process, if it has one with a Connect server."""
    if _MODE_VARIABLE not in os.environ:
        return None
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    return cast("SparkSession | None", ConnectSession.getActiveSession())


def disconnect(session: SparkSession) -> None:
    """End the session; the server goes on, if it is somebody else's."""
    try:
        session.stop()
    finally:
        os.environ.pop(_MODE_VARIABLE, None)


def _configure(session: SparkSession, conf: Mapping[str, str]) -> None:
    for key, value in DEFAULTS.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    for key, value in conf.items():
        if not session.conf.isModifiable(key):
            raise ConfigError(
                f"--conf {key}={value}: cannot be set through Spark Connect; "
                "set it where the server is started"
            )
        session.conf.set(key, value)
