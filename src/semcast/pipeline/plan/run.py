"""A whole plan: rows of a trace and a receiver in; forecast, confirmation and settings out."""

import math
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from semcast.errors import InputError
from semcast.obsolescence import K_MAX
from semcast.pipeline.plan.confirm import Confirmed, Trial, confirm
from semcast.pipeline.plan.forecast import Demand, Forecast, forecast, smallest_k, within_reach
from semcast.pipeline.plan.streams import Cut, write_streams
from semcast.pipeline.profile.kernel import Question
from semcast.pipeline.profile.run import profile_rows
from semcast.pipeline.profile.summary import TrafficProfile


@dataclass(frozen=True)
class Receiver:
    """The slow receiver: messages a second, or a share of the trace's mean rate."""

    rate_msg_s: float | None = None
    share: float | None = None

    def __post_init__(self) -> None:
        if (self.rate_msg_s is None) == (self.share is None):
            raise InputError("say how fast the receiver is by --receiver-rate or --receiver-share")
        value = self.share if self.rate_msg_s is None else self.rate_msg_s
        if value is None or not (math.isfinite(value) and value > 0):
            raise InputError(f"a receiver of {value}; its rate or share must be above 0")

    def rate_of(self, mean_rate_msg_s: float) -> float:
        """Its rate, where so much is sent."""
        if self.rate_msg_s is not None:
            return self.rate_msg_s
        assert self.share is not None
        return self.share * mean_rate_msg_s


@dataclass(frozen=True)
class Plan:
    """What was found out. Without a `final` trial no buffer carries the receiver."""

    profile: TrafficProfile
    forecast: Forecast
    confirmed: Confirmed | None
    # If every sender of the trace is a member of its own: the bitmap then counts its messages only.
    k_per_sender: int | None

    @property
    def final(self) -> Trial | None:
        return None if self.confirmed is None else self.confirmed.final


@dataclass(frozen=True)
class Wish:
    """What a plan must keep to, and how closely it is looked at."""

    receiver: Receiver
    seeds: int = 10
    blocked_share_max: float = 0.01


def plan_rows(
    spark: SparkSession, rows: DataFrame, name: str, wish: Wish, work: Path | None = None
) -> Plan:
    """Plan for one trace; `rows` as `ingest.read.ROWS_SCHEMA`.

    `work` is a folder for the streams that are replayed; on a cluster all machines must see it.
    """
    profile = profile_rows(spark, rows, name, Question(per_sender=False))
    rate = profile.mean_rate_msg_s
    if rate is None or profile.first_s is None or profile.last_s is None:
        raise InputError(f"{name}: no times in it, or all the same; a plan needs rates")
    demand = Demand(rate, wish.receiver.rate_of(rate))
    hoped = forecast(profile.pmf, demand)
    if hoped.buffer_messages is None or hoped.k is None:
        return Plan(profile, hoped, None, None)
    with _folder(work) as folder:
        confirmed = _confirmed(spark, rows, profile, hoped, wish, folder)
    k_per_sender = None
    if profile.senders > 1 and confirmed.final is not None:
        k_per_sender = _k_per_sender(spark, rows, profile, confirmed.final.k)
    return Plan(profile, hoped, confirmed, k_per_sender)


def _confirmed(
    spark: SparkSession,
    rows: DataFrame,
    profile: TrafficProfile,
    hoped: Forecast,
    wish: Wish,
    folder: Path,
) -> Confirmed:
    """With the closed form's k, which tells just enough pairs; else with the longest."""
    assert profile.first_s is not None
    assert profile.last_s is not None
    assert hoped.buffer_messages is not None
    assert hoped.k is not None
    cut = Cut.of(profile.messages, profile.first_s, profile.last_s)
    streams = write_streams(spark, rows, cut, profile.messages, wish.seeds, folder)
    first: Confirmed | None = None
    for k in dict.fromkeys((hoped.k, K_MAX)):
        rate, size = hoped.demand.receiver_rate_msg_s, hoped.buffer_messages
        found = confirm(spark, streams, rate, size, k, wish.blocked_share_max)
        if found.final is not None:
            return found
        first = first or found
    assert first is not None
    return first


def _k_per_sender(spark: SparkSession, rows: DataFrame, profile: TrafficProfile, k: int) -> int:
    """The bitmap that tells as many pairs in senders' own sequences as k bits do in the stream."""
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
