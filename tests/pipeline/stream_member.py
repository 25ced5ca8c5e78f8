"""The member behind a stream, without Spark, in a process of its own: options as JSON in.

Run as `python -m tests.pipeline.stream_member`; it fills its spool until it is killed, or until its
stdin is closed.
"""

import json
import sys

from semcast.pipeline.streaming.options import source_options
from semcast.pipeline.streaming.spool import Spool
from semcast.pipeline.streaming.taker import Taker


def main() -> None:
    given = source_options(json.loads(sys.argv[1]))
    spool = Spool(given.spool, given.identity, given.spool_bytes_max)
    taker = Taker(given.config, spool)
    taker.start()
    sys.stdin.read()
    taker.stop()
    spool.close()
    taker.raise_failure()


if __name__ == "__main__":
    main()
