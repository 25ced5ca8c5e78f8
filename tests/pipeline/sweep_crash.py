"""A process that sweeps until it is killed, after its first chunk; its arguments are below."""

import os
import signal
import sys
from pathlib import Path

from semcast.pipeline.spark.session import open_session
from semcast.pipeline.sweeping.cells import cells_of
from semcast.pipeline.sweeping.grid import points_of
from semcast.pipeline.sweeping.run import Folder, run_sweep


def killed(done: int, total: int) -> None:
    print(done, total, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    scenario, grid, seeds, folder, master = sys.argv[1:]
    cells = cells_of(points_of(Path(scenario), grid)[1], range(1, int(seeds) + 1))
    spark = open_session("crash", master, {"spark.driver.memory": "512m"})
    run_sweep(spark, cells, Folder(Path(folder)), watch=killed)
