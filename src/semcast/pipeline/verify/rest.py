"""Whether what must hold in the end can be judged of a run, as `check.rest` explains.

All of it is in the counts of the first look (`survey.COUNTS`).
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.check.rest import HOLDS, KEEPS, NOBODY
from semcast.pipeline.verify.facts import nodes_in
from semcast.pipeline.verify.frames import Frames

# Runs of which it cannot, and why.
RESTLESS: Final = "run_no int, why string"
_CORRECT: Final = "run string, node string, sender string, run_no int, keeps boolean"


def restless(frames: Frames) -> DataFrame:
    """Stage: a row for each run that was cut short (`RESTLESS`)."""
    rows = frames.counts.join(F.broadcast(_correct(frames)), ["run", "node", "sender"])
    gone = "event = 'deliver' or (event = 'purge' and where = 'delivery')"
    keeps = "event = 'multicast' or (event = 'receive' and keeps)"
    held = (
        rows.groupBy("run_no", "node", "sender")
        .agg(
            F.expr("coalesce(sum(times) filter (where event = 'receive'), 0)").alias("received"),
            F.expr(f"coalesce(sum(times) filter (where {gone}), 0)").alias("gone"),
            F.expr(f"coalesce(max(newest) filter (where {keeps}), 0)").alias("newest"),
            F.expr("coalesce(max(newest) filter (where event = 'stable'), 0)").alias("stable"),
        )
        .where("received > gone or newest > stable")
    )
    waiting = F.expr(
        f"""if(bool_or(received > gone),
              concat(min(node) filter (where received > gone), ' {HOLDS}'),
              concat(min(node), ' {KEEPS}'))"""
    )
    found = held.groupBy("run_no").agg(waiting.alias("why"))
    empty = [(no, NOBODY) for no, run in enumerate(frames.facts.runs) if not run.correct]
    return found.unionByName(frames.spark.createDataFrame(empty, RESTLESS))


def _correct(frames: Frames) -> DataFrame:
    """The correct nodes and senders of runs that stopped at a time (`_CORRECT`), and who keeps
    whose.
    """
    rows = []
    for no, name in frames.facts.senders:
        run = frames.facts.runs[no]
        stopped = run.header.one_order and run.correct & ~run.ended
        if stopped and run.only(name) & run.correct:
            for n in nodes_in(run.correct):
                node = run.nodes[n]
                keeps = run.header.reliability == "group" and node != name
                rows.append((run.header.run, node, name, no, keeps))
    return frames.spark.createDataFrame(rows, _CORRECT)
