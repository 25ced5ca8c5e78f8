"""A whole plan: a trace and a receiver in; forecast, confirmation and settings out."""

import math
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from semcast.errors import InputError
from semcast.obsolescence import K_MAX
from semcast.pipeline.planning.confirm import Confirmed, Trial, confirm
from semcast.pipeline.planning.forecast import (
    Demand,
    Expected,
    Forecast,
    expected,
    expected_per_sender,
    forecast,
    forecast_per_sender,
    smallest_k,
    within_reach,
)
from semcast.pipeline.planning.paste import group_config
from semcast.pipeline.planning.resampled import Cut, write_samples
from semcast.pipeline.profiling.find import Files, Found
from semcast.pipeline.profiling.kernel import Question
from semcast.pipeline.profiling.run import profile_rows
from semcast.pipeline.profiling.source import open_traffic
from semcast.pipeline.profiling.summary import TrafficProfile
from semcast.pipeline.spark.progress import run_job
from semcast.settings import named

# Between a sender's name and a key: ASCII's unit separator, which neither has.
_UNIT: Final = chr(31)


@dataclass(frozen=True)
class Receiver:
    """The slow receiver: messages a second, or a share of the trace's mean rate."""

    rate_msg_s: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.rate_msg_s is None) == (self.share is None):
            raise InputError(
                "say how fast the receiver is by --receiver-rate or --receiver-share "
                "(in Python: receiver_rate_msg_s or receiver_share)"
            )
        value = self.share if self.rate_msg_s is None else self.rate_msg_s
        if value is None or not (math.isfinite(value) and value > 0):
            raise InputError(f"a receiver of {value}; its rate or share must be above 0")

    def rate_of(self, mean_rate_msg_s: float) -> float:
        """The receiver's rate, if so much is sent in the mean."""
        if self.rate_msg_s is not None:
            return self.rate_msg_s
        assert self.share is not None
        return self.share * mean_rate_msg_s


@dataclass(frozen=True)
class Wish:
    """What a plan must keep to, and on how many samples it is tried."""

    receiver: Receiver
    seeds: int = 10
    blocked_share_max: float = 0.01
    # Each sender of the trace is a member of its own; else one member sends all of it.
    per_sender: bool = False
    # By key at any distance, or by a bitmap, as in the papers.
    replacement: str = "key"

    @property
    def by_key(self) -> bool:
        return self.replacement == "key"

    def __post_init__(self) -> None:
        if self.replacement not in (choices := named("replacement").choices):
            raise InputError(
                f"replacement {self.replacement!r}; it is {' or '.join(map(repr, choices))}"
            )
        if not 0 < self.blocked_share_max < 1:
            raise InputError(
                f"--blocked-max (in Python: blocked_share_max) is {self.blocked_share_max:g}; "
                "it must be between 0 and 1"
            )


@dataclass(frozen=True)
class Plan:
    """What was found out. Without a `final` trial no buffer carries the receiver."""

    wish: Wish
    profile: TrafficProfile
    forecast: Forecast
    confirmed: Confirmed | None
    # With bitmaps: the k that would do if every sender of the trace were a member of its own.
    k_per_sender: int | None
    # If each sender is planned for as a member: the distances in the messages of all of them.
    whole_pmf: Mapping[int, float] | None = None

    @property
    def final(self) -> Trial | None:
        return None if self.confirmed is None else self.confirmed.final

    @property
    def per_sender(self) -> bool:
        """Whether each sender of the trace is planned for as a member of its own."""
        return self.whole_pmf is not None

    @property
    def group_config(self) -> str | None:
        """The settings of the final trial as Python text to paste."""
        if self.final is None:
            return None
        largest = self.profile.sizes.largest
        return group_config(self.profile.name, self.final.buffer_messages, self.final.k, largest)

    def expected(self, trial: Trial) -> Expected:
        """What the closed form says of this buffer, and bitmap if there is one."""
        pmf, demand = self.profile.pmf, self.forecast.demand
        if trial.k is None or self.whole_pmf is None:
            whole = pmf if self.whole_pmf is None else self.whole_pmf
            return expected(whole, demand, trial.buffer_messages, trial.k)
        return expected_per_sender(pmf, self.whole_pmf, demand, trial.buffer_messages, trial.k)


def plan_found(spark: SparkSession, found: Found, wish: Wish, work: Path | None = None) -> Plan:
    """Plan for what `find_traffic` found: files, a trace in a lake, or a journal."""
    traffic = open_traffic(spark, found)
    name = found.files[0].stem if isinstance(found, Files) else found.name
    plan = plan_rows(spark, traffic.rows, name, wish, work)
    if traffic.by_number is None:
        return plan
    by_number = run_job(spark, "count", traffic.by_number.count)
    return replace(plan, profile=replace(plan.profile, by_number=by_number))


def plan_rows(
    spark: SparkSession, rows: DataFrame, name: str, wish: Wish, work: Path | None = None
) -> Plan:
    """Plan for one trace; `rows` as `ingest.read.ROWS_SCHEMA`.

    `work` is a folder for the samples that are replayed; on a cluster all machines must see it.
    """
    profile = profile_rows(spark, rows, name, Question(wish.per_sender))
    rate = profile.mean_rate_msg_s
    if rate is None or profile.first_s is None or profile.last_s is None:
        raise InputError(f"{name}: no times in it, or all the same; a plan needs rates")
    demand = Demand(rate, wish.receiver.rate_of(rate))
    whole = _whole_pmf(spark, rows, name) if wish.per_sender else None
    if whole is None or wish.by_key:
        hoped = forecast(profile.pmf if whole is None else whole, demand, wish.by_key)
    else:
        hoped = forecast_per_sender(profile.pmf, whole, demand)
    if hoped.buffer_messages is None:
        return Plan(wish, profile, hoped, None, None, whole)
    with _folder(work) as folder:
        confirmed = _confirmed(spark, rows, profile, hoped, wish, folder)
    k_per_sender = None if confirmed.final is None else confirmed.final.k
    if k_per_sender is not None and not wish.per_sender:
        several = profile.senders > 1
        k_per_sender = _k_per_sender(spark, rows, profile, k_per_sender) if several else None
    return Plan(wish, profile, hoped, confirmed, k_per_sender, whole)


def _whole_pmf(spark: SparkSession, rows: DataFrame, name: str) -> Mapping[int, float]:
    """Distances in the whole traffic, where a key is its sender's own."""
    key = F.coalesce(F.col("key"), F.lit(""))
    own = F.when(key == "", F.lit("")).otherwise(F.concat_ws(_UNIT, "sender", "key"))
    return profile_rows(spark, rows.withColumn("key", own), name, Question(per_sender=False)).pmf


def _confirmed(
    spark: SparkSession,
    rows: DataFrame,
    profile: TrafficProfile,
    hoped: Forecast,
    wish: Wish,
    folder: Path,
) -> Confirmed:
    """Try the closed form's N and larger ones; with bitmaps first with its k, which names just
    enough pairs, and if that fails with the longest.
    """
    assert profile.first_s is not None
    assert profile.last_s is not None
    assert hoped.buffer_messages is not None
    cut = Cut.of(profile.messages, profile.first_s, profile.last_s)
    samples = write_samples(spark, rows, cut, profile.messages, wish.seeds, folder)
    first: Confirmed | None = None
    for k in [None] if hoped.k is None else dict.fromkeys((hoped.k, K_MAX)):
        rate, size = hoped.demand.receiver_rate_msg_s, hoped.buffer_messages
        senders = max(1, profile.senders) if wish.per_sender else 1
        found = confirm(spark, samples, rate, size, k, wish.blocked_share_max, senders)
        if found.final is not None:
            return found
        first = first or found
    assert first is not None
    return first


def _k_per_sender(spark: SparkSession, rows: DataFrame, profile: TrafficProfile, k: int) -> int:
    """The k with which senders' own bitmaps name as many pairs as one of k bits does over all."""
    known = 1 - within_reach(profile.pmf, k)[0]
    own = profile_rows(spark, rows, profile.name, Question(per_sender=True))
    return smallest_k(own.pmf, known)


@contextmanager
def _folder(work: Path | None) -> Iterator[Path]:
    if work is None:
        with tempfile.TemporaryDirectory(prefix="semcast-plan-") as folder:
            yield Path(folder)
        return
    try:
        work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot write to {work}: {error.strerror}") from error
    yield work


# -- for programs ----------------------------------------------------------------------------------


def as_json(plan: Plan) -> dict[str, object]:
    """One object with stable keys."""
    confirmed, final, hoped = plan.confirmed, plan.final, plan.forecast
    return {
        "trace": plan.profile.name,
        "sense": "per_sender" if plan.per_sender else "one_stream",
        "messages": plan.profile.messages,
        "senders": plan.profile.senders,
        "mean_rate_msg_s": hoped.demand.sender_rate_msg_s,
        "never_replaced_share": plan.profile.never_replaced_share,
        "by_number": plan.profile.by_number,
        "receiver_rate_msg_s": hoped.demand.receiver_rate_msg_s,
        "receiver_rate_min_msg_s": hoped.receiver_rate_min_msg_s,
        "purge_ratio_needed": hoped.ratio_needed,
        "purge_ratio_limit": hoped.ratio_limit,
        "carried": final is not None,
        "replacement": plan.wish.replacement,
        "buffer_messages": None if final is None else final.buffer_messages,
        "k": None if final is None else final.k,
        "k_per_sender": plan.k_per_sender,
        "closed_form": {"buffer_messages": hoped.buffer_messages, "k": hoped.k},
        "expected": None if final is None else asdict(plan.expected(final)),
        "blocked_share_max": plan.wish.blocked_share_max,
        "seeds": plan.wish.seeds,
        "first_trial": None if confirmed is None else asdict(confirmed.first),
        "final_trial": None if final is None else asdict(final),
        "group_config": plan.group_config,
    }
