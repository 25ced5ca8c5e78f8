"""A Connect server for others: `python -m tests.pipeline.connect_server PYTHON FOLDER`.

Prints the URL with its secret, and serves until stdin ends. Its tasks run on PYTHON,
and what they are sent is put below FOLDER.
"""

import os
import sys

from semcast.pipeline.spark import connect
from semcast.pipeline.spark.conf import session_settings
from semcast.pipeline.spark.launch import java_options, start


def main(python: str, folder: str) -> None:
    conf = {
        **connect.SERVER_SETTINGS,
        "spark.driver.memory": "1g",
        "spark.local.dir": folder,
        "spark.master": "local[2]",
    }
    settings = session_settings("local[2]", conf, java_options())
    os.environ.pop("PYTHONPATH", None)  # its tasks must not find semcast through it
    server = start(settings, {connect.TOKEN_VARIABLE: "secret", "PYSPARK_PYTHON": python})
    try:
        print(f"sc://localhost:{connect.port_of(server)}/;token=secret", flush=True)
        sys.stdin.read()
    finally:
        server.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
