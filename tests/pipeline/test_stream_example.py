"""The example does what it says."""

import runpy
from pathlib import Path

from pyspark.sql import SparkSession

EXAMPLE = Path(__file__).parents[2] / "examples" / "stream_to_parquet.py"


def test_every_trade_is_in_parquet_and_every_quote_is_there_or_skipped(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = runpy.run_path(str(EXAMPLE))["run"](spark, tmp_path)
    assert found["trades"] == 100
    assert found["quotes"] + found["skipped"] + 101 == found["sent"]
