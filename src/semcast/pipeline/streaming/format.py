"""The format "semcast" of Spark's streams: options and a schema in, a reader or a writer out.

Made anew by Spark in every process that needs it, so it holds nothing but its options. Whatever
goes on to tasks goes without the secret.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, DataSourceStreamWriter
from pyspark.sql.types import StructType

from semcast.errors import ConfigError
from semcast.pipeline.streaming.options import SECRET, sink_options, source_options
from semcast.pipeline.streaming.segment import SCHEMA
from semcast.pipeline.streaming.source import GroupReader

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FORMAT = "semcast"


class SemcastDataSource(DataSource):
    """`spark.readStream.format("semcast")` and `df.writeStream.format("semcast")`."""

    @classmethod
    def name(cls) -> str:
        """What users write."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a source; what is wrong with its options is said here, at `load`."""
        source_options(self.options)
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """A reader; it joins the group when Spark first asks for an offset."""
        columns = ", ".join(f"{one.name} {one.dataType.simpleString()}" for one in schema)
        if columns != SCHEMA:
            raise ConfigError(f"a schema was given; leave it out, it is: {SCHEMA}")
        reader = GroupReader(source_options(self.options))
        self._forget_secret()
        return reader

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802
        """A writer; it sends nothing before its first commit."""
        from semcast.pipeline.streaming.sink import GroupWriter

        writer = GroupWriter(sink_options(self.options), schema)
        self._forget_secret()
        return writer

    def _forget_secret(self) -> None:
        """Spark sends this object to its tasks next, which have no use for it."""
        self.options = {name: text for name, text in self.options.items() if name != SECRET}


def register(spark: "SparkSession") -> None:
    """Let this session know the format "semcast"."""
    spark.dataSource.register(SemcastDataSource)
