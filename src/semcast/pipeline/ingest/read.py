"""Trace files in, one DataFrame of their rows out: typed, in order, bad ones marked.

Every row says where it was: `file` (its place among the files), `start` (of the piece of the file
that one task read) and `row` (which grows within that piece, one by one). So the order of the
stream survives, whatever Spark does with the pieces, and nothing needs to be sorted.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql import types as T  # noqa: N812

from semcast.errors import InputError
from semcast.pipeline.ingest.inputs import COLUMNS, TimeUnit, TraceFile, TraceOptions
from semcast.pipeline.ingest.paths import to_read
from semcast.sim.trace import SIZE_BYTES_MAX, TIME_S_MAX

ROWS_SCHEMA: Final = (
    "file int, start bigint, row bigint, "
    "time_s double, sender string, key string, kind string, size int, "
    "reason string, text string"
)
# One plan holds all files of a read, and Spark takes milliseconds for each.
FILES_PER_READ_MAX: Final = 512
_BROKEN: Final = "_semcast_broken"
# What Spark puts in place of bytes that are not UTF-8.
_NOT_UTF8: Final = "\N{REPLACEMENT CHARACTER}"
_TICKS_PER_S: Final = {"s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9}


def read_rows(spark: SparkSession, files: Sequence[TraceFile], options: TraceOptions) -> DataFrame:
    """The rows of all files, as ROWS_SCHEMA; `reason` is null in good ones.

    Columns that a file lacks: an empty sender and kind, and no time or size.
    """
    if len(files) > FILES_PER_READ_MAX:
        raise InputError(
            f"{len(files)} files at once, and {FILES_PER_READ_MAX} is the most; "
            "put them into Parquet first, by semcast ingest"
        )
    parts = [
        _typed(_raw(spark, file), file, options.time_unit).select(
            F.lit(at).alias("file"), *_names(ROWS_SCHEMA)[1:]
        )
        for at, file in enumerate(files)
    ]
    return reduce(DataFrame.union, parts)


def _names(schema: str) -> list[str]:
    return [column.split()[0] for column in schema.split(",")]


def _raw(spark: SparkSession, file: TraceFile) -> DataFrame:
    """The file's own columns, and where each row was."""
    path = to_read(file.path)
    if file.format == "parquet":
        frame = spark.read.parquet(path)
        return frame.select(
            *(F.col(_quoted(name)) for name in file.columns.values()),
            F.lit(0).cast("bigint").alias("start"),
            F.col("_metadata.row_index").alias("row"),
            F.lit(None).cast("string").alias(_BROKEN),
        )
    names = file.heading if file.format == "csv" else tuple(file.columns.values())
    fields = [T.StructField(name, T.StringType()) for name in (*names, _BROKEN)]
    reader = spark.read.schema(T.StructType(fields)).option("columnNameOfCorruptRecord", _BROKEN)
    if file.format == "csv":
        frame = reader.csv(path, header=True, mode="PERMISSIVE", escape='"', enforceSchema=True)
    else:
        frame = reader.json(path, mode="PERMISSIVE")
    return frame.select(
        *(F.col(_quoted(name)) for name in (*file.columns.values(), _BROKEN)),
        F.col("_metadata.file_block_start").alias("start"),
        F.monotonically_increasing_id().alias("row"),
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _typed(raw: DataFrame, file: TraceFile, unit: TimeUnit) -> DataFrame:
    """The columns of a trace by our names and types, and what is wrong with the row, if anything.

    Nothing raises here: what cannot be read is null, and the row is marked.
    """
    types = {field.name: field.dataType for field in raw.schema.fields}
    here = {ours: F.col(_quoted(theirs)) for ours, theirs in file.columns.items()}
    text = {
        ours: F.coalesce(here[ours].cast("string"), F.lit("")) if ours in here else F.lit("")
        for ours in ("sender", "key", "kind")
    }
    time_s = size = F.lit(None).cast("double")
    if "time_s" in here:
        time_s = _seconds(here["time_s"], types[file.columns["time_s"]], unit)
    if "size" in here:
        size = here["size"].try_cast("double")
    reason = _reason(here, text, time_s, size)
    given = F.coalesce(
        F.col(_BROKEN), F.to_json(F.struct(*(here[name].alias(name) for name in here)))
    )
    return raw.select(
        "start",
        "row",
        time_s.alias("time_s"),
        *(text[name].alias(name) for name in ("sender", "key", "kind")),
        size.try_cast("int").alias("size"),
        reason.alias("reason"),
        F.when(reason.isNotNull(), given).alias("text"),
    )


def _seconds(time: Column, kind: T.DataType, unit: TimeUnit) -> Column:
    if isinstance(kind, T.TimestampType | T.TimestampNTZType | T.DateType):
        return F.unix_micros(time.cast("timestamp")) / F.lit(1e6)
    if unit == "iso":
        return F.unix_micros(F.try_to_timestamp(time.cast("string"))) / F.lit(1e6)
    return time.try_cast("double") / F.lit(_TICKS_PER_S[unit])


def _reason(
    here: dict[str, Column], text: dict[str, Column], time_s: Column, size: Column
) -> Column:
    """The first thing that is wrong with a row, in words that name no value of it."""
    found = F.when(F.col(_BROKEN).isNotNull(), "too few or too many columns, or no JSON object")
    found = found.when(
        F.concat(*(text[name] for name in text)).contains(_NOT_UTF8), "not text in UTF-8"
    )
    if "time_s" in here:
        found = found.when(time_s.isNull(), "time missing, or not one of its unit")
        found = found.when(time_s < F.lit(0.0), "time below 0")
        # Spark holds NaN for larger than every number.
        found = found.when(time_s >= F.lit(TIME_S_MAX), f"time of {TIME_S_MAX:g} s or more")
    if "size" in here:
        given = here["size"].cast("string")
        found = found.when(
            (size.isNull() & given.isNotNull() & (F.trim(given) != F.lit("")))
            | (size != F.floor(size))
            | ~size.between(F.lit(0.0), F.lit(float(SIZE_BYTES_MAX))),
            f"size not a whole number from 0 to {SIZE_BYTES_MAX}",
        )
    return found


assert _names(ROWS_SCHEMA)[3:8] == list(COLUMNS)
