"""One group of jobs at one size, in a process and a JVM of its own: an order in, lines out.

The order is JSON on stdin; every measured line is JSON on stdout, as soon as it is there.
"""

import json
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.spark.data import Data
from bench.spark.meter import Budget, Line, Meter


@dataclass(frozen=True)
class Order:
    """What to measure."""

    group: str
    folder: str
    rows: int
    cores: int
    jobs: tuple[str, ...]
    memory_gb: int
    expected_s: dict[str, float] = field(default_factory=dict)
    deadline_s: float | None = None

    def as_json(self) -> str:
        return json.dumps(asdict(self))


START = "start of Spark"


def main() -> int:
    order = Order(**json.load(sys.stdin))
    meter = Meter(_report, Budget(order.expected_s, order.deadline_s))
    try:
        spark = meter.time(START, lambda: _start(order), shared=True)
        if spark is not None:
            from bench.spark.jobs import GROUPS

            wanted = frozenset(order.jobs).__contains__
            data = Data(Path(order.folder), order.rows)
            GROUPS[order.group](spark, data, meter, wanted)
            spark.stop()
    finally:
        meter.close()
    return 0


def _start(order: Order) -> Any:
    """A session, and one job in it: the first job and the first Python task take seconds more."""
    from semcast.pipeline.spark.session import open_session

    spark = open_session(
        "bench",
        f"local[{order.cores}]",
        {"spark.driver.memory": f"{order.memory_gb}g", "spark.local.dir": order.folder},
    )
    spark.range(1_000, numPartitions=order.cores).mapInArrow(lambda some: some, "id long").count()
    return spark


def _report(line: Line) -> None:
    print(json.dumps(line.as_dict()), flush=True)


if __name__ == "__main__":
    sys.exit(main())
