"""Members and their buffers as numbers, for frames of many rows; names come back in the end.

A number is a hash of names: members are few enough for hashes to differ. Sorting and keeping rows
by one number costs a fraction of what it costs by two or three names.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

NAMES: Final = "member long, run string, node string"
BUFFER_NAMES: Final = "buffer_id long, member long, run string, node string, buffer string"
BUFFERS: Final = ("delivery", "retransmit")


def member_number() -> Column:
    """The number of a member, for a frame with run and node."""
    return F.xxhash64("run", "node")


def buffer_number(buffer: str, member: Column) -> Column:
    """The number of a member's buffer."""
    return F.xxhash64(member, F.lit(buffer))


def names_of(lived: DataFrame) -> DataFrame:
    """From LIVES, the names of all members; schema NAMES."""
    return lived.select(member_number().alias("member"), "run", "node").distinct()


def buffer_names_of(names: DataFrame) -> DataFrame:
    """From NAMES, those of their buffers; schema BUFFER_NAMES."""
    numbers = [
        F.struct(
            buffer_number(name, F.col("member")).alias("buffer_id"), F.lit(name).alias("buffer")
        )
        for name in BUFFERS
    ]
    found = names.select("*", F.inline(F.array(*numbers)))
    return found.select("buffer_id", "member", "run", "node", "buffer")
