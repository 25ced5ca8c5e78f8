"""Rounds outdated (SRM §7.2): for how many rounds a member's value was older than the sender's.

A round is a frame of a game, or any other regular step of the sender. A value that was delivered
was outdated for no round, however late it came: lateness is latency. One that was replaced was
outdated until the round of the value that the member got instead. Rounds are counted by the
sender's clock alone, so that clocks need not agree.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812

from semcast.pipeline.analysis.percentiles import ACCURACY, SHARES
from semcast.pipeline.analysis.schema import declared, share_of

# Thirty frames a second, as in the game of SRM §7.1.
ROUND_MS: Final = 1000 / 30
_WITHIN: Final = 10
ROUNDS: Final = (
    "run string, node string, view long, round_ms double, updates long, "
    "same_round_share double, within_10_rounds_share double, rounds_mean double, "
    + ", ".join(f"rounds_{name} long" for name in [*SHARES, "max"])
    + ", values_behind_mean double, values_behind_max long"
)


def rounds_sums(round_ms: float = ROUND_MS) -> list[Column]:
    """Aggregates of REPLACEMENTS, by member and view, that `rounds` needs.

    Only messages with a key count, which are values of something: the others never get outdated.
    """
    round_ns = max(1, round(round_ms * 1e6))
    raw = F.expr(f"made_up_sent_ns div {round_ns} - sent_ns div {round_ns}")
    known = F.col("keyed") & F.col("made_up_ns").isNotNull()
    late = F.when(known, F.greatest(raw, F.lit(0)))
    behind = F.when(known, F.col("values_behind"))
    return [
        F.lit(round_ms).alias("round_ms"),
        F.count(late).alias("updates"),
        F.count_if(late == 0).alias("same"),
        F.count_if(late <= _WITHIN).alias("within"),
        F.avg(late).alias("rounds_mean"),
        F.percentile_approx(late, list(SHARES.values()), ACCURACY).alias("rounds_shares"),
        F.max(late).alias("rounds_max"),
        F.avg(behind).alias("values_behind_mean"),
        F.max(behind).alias("values_behind_max"),
    ]


def rounds(sums: DataFrame) -> DataFrame:
    """From `rounds_sums`, one row for each member and view that had any; schema ROUNDS."""
    percentiles = {
        f"rounds_{name}": F.get(F.col("rounds_shares"), F.lit(at)) for at, name in enumerate(SHARES)
    }
    found = sums.where("updates > 0").withColumns(
        percentiles
        | {
            "same_round_share": share_of(F.col("same"), F.col("updates")),
            "within_10_rounds_share": share_of(F.col("within"), F.col("updates")),
        }
    )
    return declared(found, ROUNDS)
