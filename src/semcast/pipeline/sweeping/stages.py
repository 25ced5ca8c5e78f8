"""The stages of a sweep: cells, and results as DataFrames, in; DataFrames out.

    simulated   the results of cells; each task runs its cells one by one
    settled     each cell's result once, in an order that does not depend on who ran what when
    summarized  mean and 95% confidence interval of each measure at each point of the grid

Results hold `took_s`, the time that a cell took; `settled` leaves it out, and what remains is the
same whatever the parallelism.
"""

import pickle
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (its name everywhere)

from semcast.model.confidence import t_95
from semcast.pipeline.sweeping.cells import Cell
from semcast.pipeline.sweeping.simulate import ERROR, MEASURES, OK, simulate

# A result, as it is stored. Measures of the other model are null.
RESULTS: Final = (
    "cell string, point string, settings map<string, string>, seed bigint, model string, "
    "status string, detail string, "
    f"{', '.join(f'{name} double' for name in MEASURES)}, took_s double"
)
SUMMARY: Final = "point string, measure string, seeds bigint, mean double, ci95 double"
_SEEDS_IN_TABLE: Final = 1000
_ROW: Final = pa.schema(
    [
        ("cell", pa.string()),
        ("point", pa.string()),
        ("settings", pa.map_(pa.string(), pa.string())),
        ("seed", pa.int64()),
        ("model", pa.string()),
        ("status", pa.string()),
        ("detail", pa.string()),
        *((name, pa.float64()) for name in MEASURES),
        ("took_s", pa.float64()),
    ]
)


def simulated(
    spark: SparkSession, tasks: Sequence[Sequence[Cell]], journals: Path | None = None
) -> DataFrame:
    """`RESULTS`, of as many tasks as lists of cells are given.

    Cells travel with the function, packed for each task. From a frame they would be dealt out by a
    shuffle, and that is a stage of its own: it would wait for a core behind the cells of the jobs
    before it, and then all cores would wait for it.
    """
    packed = [zlib.compress(pickle.dumps(list(cells)), 1) for cells in tasks]

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for task in batch.column(0).to_pylist():
                for cell in pickle.loads(zlib.decompress(packed[task])):
                    yield pa.RecordBatch.from_pylist([simulate(cell, journals)], schema=_ROW)

    return spark.range(0, len(packed), 1, len(packed)).mapInArrow(run, RESULTS)


def settled(results: DataFrame) -> DataFrame:
    """Each cell once, by point and seed, without `took_s`; a run that failed yields to another."""
    kept = [name for name in results.columns if name not in ("cell", "took_s")]
    best = F.min_by(F.struct(*kept), (F.col("status") == ERROR).cast("int"))
    once = results.groupBy("cell").agg(best.alias("kept"))
    return once.select("cell", "kept.*").orderBy("point", "seed", "cell")


def summarized(results: DataFrame) -> DataFrame:
    """`SUMMARY`: of the cells that went well. With one seed there is no interval.

    Values are sorted before they are added up, because sums of floats depend on the order.
    """
    long = results.where(F.col("status") == OK).unpivot("point", list(MEASURES), "measure", "value")
    lists = (
        long.where(F.col("value").isNotNull())
        .groupBy("point", "measure")
        .agg(F.sort_array(F.collect_list("value")).alias("values"))
    )
    known = lists.withColumn("seeds", F.size("values").cast("bigint"))
    known = known.withColumn("mean", _sum(F.col("values")) / F.col("seeds"))
    apart = F.transform("values", lambda value: F.pow(value - F.col("mean"), 2))
    variance = _sum(apart) / (F.col("seeds") - 1)
    half = _t_95(F.col("seeds") - 1) * F.sqrt(variance / F.col("seeds"))
    ci95 = F.when(F.col("seeds") > 1, half)
    return known.select("point", "measure", "seeds", "mean", ci95.alias("ci95")).orderBy(
        "point", "measure"
    )


def _sum(values: Column) -> Column:
    return F.aggregate(values, F.lit(0.0), lambda total, value: total + value)


def _t_95(freedom: Column) -> Column:
    """Student's quantile; beyond a thousand seeds that of a thousand, equal to three digits."""
    table = F.array(*(F.lit(t_95(at)) for at in range(1, _SEEDS_IN_TABLE)))
    return F.get(table, F.least(freedom, F.lit(_SEEDS_IN_TABLE - 1)).cast("int") - 1)
