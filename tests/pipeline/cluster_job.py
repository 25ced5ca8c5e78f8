"""A job that needs semcast in its tasks: `python -m tests.pipeline.cluster_job MASTER [CONF…]`.

Prints one JSON object: what the tasks computed, and where they found semcast.
"""

import json
import sys
from collections.abc import Iterator

import pyarrow as pa

from semcast.pipeline.spark.conf import parse_conf
from semcast.pipeline.spark.progress import run_job
from semcast.pipeline.spark.session import close_session, open_session

SCHEMA = "id long, bitmap long, semcast string, ids string, sealing string"


def annotate(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What each message replaces, if ids tell them apart by their last digit; and where we are."""
    import semcast.pipeline
    import semcast.sim.world  # what a sweep imports, down to sealing
    from semcast import ids
    from semcast.obsolescence import Tagger

    sealing = sys.modules["cryptography"]
    places = [str(module.__file__) for module in (semcast, ids, sealing)]
    for batch in batches:
        tagger = Tagger(32)
        numbers: list[int] = batch.column(0).to_pylist()
        bitmaps = [tagger.tag_key(seq, b"%d" % (at % 10)) for seq, at in enumerate(numbers, 1)]
        yield pa.record_batch(
            [
                pa.array(numbers, pa.int64()),
                pa.array(bitmaps, pa.int64()),
                *(pa.array([place] * len(numbers), pa.string()) for place in places),
            ],
            names=["id", "bitmap", "semcast", "ids", "sealing"],
        )


def main(master: str, *conf: str) -> None:
    spark = open_session("cluster test", master, parse_conf(conf))
    try:
        frame = spark.range(0, 1_000, 1, 4).mapInArrow(annotate, SCHEMA)
        rows = run_job(spark, "annotate", lambda: frame.orderBy("id").collect())
    finally:
        close_session(spark)
    print(
        json.dumps(
            {
                "results": [[row.id, row.bitmap] for row in rows],
                "places": sorted({(row.semcast, row.ids, row.sealing) for row in rows}),
            }
        )
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
