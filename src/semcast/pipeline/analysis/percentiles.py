"""Percentiles of nanoseconds, told in milliseconds.

A percentile is the smallest value that at least this share of the values does not exceed, as the
simulator's own counters have it. It is exact for up to ACCURACY values; beyond that its rank is off
by at most one in ACCURACY, so that a p99 lies between the 98.99th and the 99.01st.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812

ACCURACY: Final = 10_000
SHARES: Final[Mapping[str, float]] = {"p50": 0.5, "p90": 0.9, "p99": 0.99}
_NS_PER_MS: Final = 1e6


def percentiles_of(value: Column, name: str) -> Column:
    """An aggregate with all percentiles, to be taken apart by `in_ms`."""
    return F.percentile_approx(value, list(SHARES.values()), ACCURACY).alias(name)


def in_ms(percentiles: str, max_ns: str, prefix: str) -> list[Column]:
    """`<prefix>_p50_ms` and so on up to `<prefix>_max_ms`."""
    columns = [
        (F.get(F.col(percentiles), F.lit(at)) / _NS_PER_MS).alias(f"{prefix}_{name}_ms")
        for at, name in enumerate(SHARES)
    ]
    return [*columns, (F.col(max_ns) / _NS_PER_MS).alias(f"{prefix}_max_ms")]


def ms_ddl(prefix: str) -> str:
    """These columns in a declared schema."""
    return ", ".join(f"{prefix}_{name}_ms double" for name in [*SHARES, "max"])
