"""A frame and a declared schema in; the same frame with just these columns, of these types, out."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)
from pyspark.sql.types import StructType


def declared(frame: DataFrame, ddl: str) -> DataFrame:
    """What a stage promises; a column that is missing is an error here and not further on."""
    schema = StructType.fromDDL(ddl)
    assert isinstance(schema, StructType)
    return frame.select([F.col(field.name).cast(field.dataType) for field in schema.fields])


def share_of(part: Column, whole: Column) -> Column:
    """A quotient; null where there is nothing to divide by."""
    return F.try_divide(part.cast("double"), whole.cast("double"))


def beside(left: DataFrame, right: DataFrame, *by: str) -> DataFrame:
    """Left join of small frames by these columns, null being equal to null."""
    other = right.select(
        [F.col(name).alias(f"{name}_there" if name in by else name) for name in right.columns]
    )
    condition = F.lit(True)
    for name in by:
        condition = condition & left[name].eqNullSafe(other[f"{name}_there"])
    return left.join(F.broadcast(other), condition, "left").drop(*[f"{name}_there" for name in by])
