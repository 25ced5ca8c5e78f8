"""Rounds outdated (SRM §7.2): for how many rounds a member's value was older than the sender's.

A round is a frame of a game, or any other regular step of the sender. A value that was delivered
was outdated for no round, however late it came: lateness is latency. One that was replaced was
outdated until the round of the value that the member got instead. Rounds are told by the sender's
clock alone, so that clocks need not agree.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analyse.percentiles import ACCURACY, SHARES
from semcast.pipeline.analyse.schema import declared, share_of

# Thirty frames a second, as in the game of SRM §7.1.
ROUND_MS: Final = 1000 / 30
_WITHIN: Final = 10
ROUNDS: Final = (
    "run string, node string, view long, round_ms double, updates long, "
    "same_round_share double, within_10_rounds_share double, rounds_mean double, "
    + ", ".join(f"rounds_{name} long" for name in [*SHARES, "max"])
    + ", values_behind_mean double, values_behind_max long"
)


def rounds(replaced: DataFrame, round_ms: float = ROUND_MS) -> DataFrame:
    """From REPLACEMENTS, one row for each member and view; schema ROUNDS.

    Only messages with a key count, which are values of something: the others never get outdated.
    """
    round_ns = max(1, round(round_ms * 1e6))
    late = F.expr(f"made_up_sent_ns div {round_ns} - sent_ns div {round_ns}")
    known = replaced.where("keyed and made_up_ns is not null")
    known = known.withColumn("late", F.greatest(late, F.lit(0)))
    found = known.groupBy("run", "node", "view").agg(
        F.lit(round_ms).alias("round_ms"),
        F.count("*").alias("updates"),
        F.count_if(F.col("late") == 0).alias("same"),
        F.count_if(F.col("late") <= _WITHIN).alias("within"),
        F.avg("late").alias("rounds_mean"),
        F.percentile_approx("late", list(SHARES.values()), ACCURACY).alias("shares"),
        F.max("late").alias("rounds_max"),
        F.avg("values_behind").alias("values_behind_mean"),
        F.max("values_behind").alias("values_behind_max"),
    )
    percentiles = {
        f"rounds_{name}": F.get(F.col("shares"), F.lit(at)) for at, name in enumerate(SHARES)
    }
    found = found.withColumns(
        percentiles
        | {
            "same_round_share": share_of(F.col("same"), F.col("updates")),
            "within_10_rounds_share": share_of(F.col("within"), F.col("updates")),
        }
    )
    return declared(found, ROUNDS)
