"""One Spark session for all tests in this process: never stop it, nor change its settings."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from semcast.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session(
        "tests",
        master="local[2]",
        conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"},
    )
    yield session
    session.stop()
