"""Whether a guess holds: samples, a receiver and a first N in; the smallest N that holds, out.

Every question is a sweep of the two-buffer model (SRM §5.2) that replays the samples: one sender,
or as many as the trace has, the trace's own gaps, and a receiver that is busy for a fixed time with
each message. Buffers grow by powers of two, because memory is bought that way and a plan is not
more exact than its trace.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Row, SparkSession

from semcast.errors import PipelineError
from semcast.model.confidence import t_95
from semcast.pipeline.planning.resampled import Sample
from semcast.pipeline.sweeping.cells import cells_of
from semcast.pipeline.sweeping.grid import Point
from semcast.pipeline.sweeping.run import cores_of, run_cells
from semcast.pipeline.sweeping.simulate import OK
from semcast.sim.scenario import TwoBufferScenario
from semcast.sim.traffic import Replay
from semcast.sim.two_buffers import Buffers

BUFFER_MIN: Final = 64  # of the powers of two that are tried
BUFFER_MAX: Final = 1 << 18
# A buffer that holds much of the trace would carry anything, and show nothing.
TRACE_PER_BUFFER: Final = 4
MEASURED: Final = (
    "sender_rate_msg_s",
    "slow_receiver_rate_msg_s",
    "purged_share",
    "semantic_latency_mean_ms",
    "semantic_latency_max_ms",
    "occupancy_mean_messages",
    "blocked_share",
)


@dataclass(frozen=True)
class Interval:
    """A mean over samples and half of its 95% confidence interval; None with one sample."""

    mean: float
    ci95: float | None

    @property
    def high(self) -> float:
        return self.mean + (self.ci95 or 0.0)


@dataclass(frozen=True)
class Trial:
    """One buffer, tried on some samples; without k, messages replace by key."""

    buffer_messages: int
    k: int | None
    trace: dict[str, float] | None  # of sample 0
    drawn: dict[str, Interval] | None  # over all others

    def holds(self, blocked_share_max: float) -> bool:
        """Whether the sender was blocked no longer than this, as far as was tried."""
        on_trace = self.trace is None or self.trace["blocked_share"] <= blocked_share_max
        on_drawn = self.drawn is None or self.drawn["blocked_share"].high <= blocked_share_max
        return on_trace and on_drawn

    @property
    def blocked_share(self) -> float:
        """How much of the time the sender was blocked: on the trace, else in the mean of others."""
        if self.trace is not None:
            return self.trace["blocked_share"]
        assert self.drawn is not None
        return self.drawn["blocked_share"].mean


@dataclass(frozen=True)
class Confirmed:
    """What the sweep found: the trial of the closed form's N, and of the N that holds, if any."""

    first: Trial
    final: Trial | None
    buffer_tried_max_messages: int


def confirm(
    spark: SparkSession,
    samples: Sequence[Sample],
    receiver_rate_msg_s: float,
    buffer_messages: int,
    k: int | None,
    blocked_share_max: float,
    senders: int = 1,
) -> Confirmed:
    """Try the closed form's buffer and larger ones: on the first sample, and the best on all."""
    sizes = ladder(buffer_messages, samples[0].messages)
    bench = Bench(spark, receiver_rate_msg_s, k, senders)
    for size in sizes[_first_to_hold(bench, samples[0], sizes, blocked_share_max) :]:
        found = bench.trial(samples, size)
        if found.holds(blocked_share_max):
            return Confirmed(bench.trial(samples[:1], sizes[0]), found, sizes[-1])
    return Confirmed(bench.trial(samples[:1], sizes[0]), None, sizes[-1])


def _first_to_hold(
    bench: "Bench", sample: Sample, sizes: Sequence[int], blocked_share_max: float
) -> int:
    """Where in the ladder the smallest buffer is that holds on one sample; the end if none does.

    A larger buffer never blocks more. So each step tries as many sizes as there are cores, evenly
    apart, and goes on between the last that failed and the first that held.
    """
    cores = max(2, cores_of(bench.spark))
    low, high = -1, len(sizes)
    bench.run([(sample, sizes[0])])
    while high - low > 1:
        step = max(1, (high - low) // (cores + 1))
        tried = list(range(low + step, high, step))[:cores]
        bench.run([(sample, sizes[at]) for at in tried])
        held = [bench.trial([sample], sizes[at]).holds(blocked_share_max) for at in tried]
        high = next((at for at, holds in zip(tried, held, strict=True) if holds), high)
        low = max((at for at in tried if at < high), default=low)
    return high


def ladder(buffer_messages: int, messages: int) -> list[int]:
    """The first guess, and powers of two above it while they are small beside the sample."""
    most = min(BUFFER_MAX, messages // TRACE_PER_BUFFER)
    begin = max(buffer_messages + 1, BUFFER_MIN)
    powers = range(math.ceil(math.log2(begin)), BUFFER_MAX.bit_length())
    return [buffer_messages, *(1 << power for power in powers if 1 << power <= most)]


class Bench:
    """Tries buffers; what was tried once is not run again."""

    def __init__(
        self, spark: SparkSession, receiver_rate_msg_s: float, k: int | None, senders: int = 1
    ) -> None:
        self.spark = spark
        self._senders = senders
        self._delay_ms = 1000 / receiver_rate_msg_s
        self._k = k
        self._marks = {"replacement": "key"} if k is None else {"k": k}
        self._known: dict[tuple[int, int], Row] = {}

    def run(self, pairs: Sequence[tuple[Sample, int]]) -> None:
        """Simulate each sample with its buffer size, all in one sweep."""
        new = [(sample, size) for sample, size in pairs if (sample.number, size) not in self._known]
        cells = cells_of([self._point(sample, size) for sample, size in new], [1])
        rows: dict[str, Row] = {}

        def store(results: Any) -> None:
            rows.update({row["cell"]: Row(**row) for row in results.to_pylist()})

        run_cells(self.spark, cells, store)
        for (sample, size), cell in zip(new, cells, strict=True):
            row = rows[cell.cell]
            if row.status != OK:
                raise PipelineError(f"the confirming sweep failed: {row.detail}")
            self._known[sample.number, size] = row

    def trial(self, samples: Sequence[Sample], size: int) -> Trial:
        """Try one size on these samples."""
        self.run([(sample, size) for sample in samples])
        rows = {sample.number: self._known[sample.number, size] for sample in samples}
        whole = rows.pop(0, None)
        drawn = {name: interval([row[name] for row in rows.values()]) for name in MEASURED if rows}
        return Trial(
            size,
            self._k,
            None if whole is None else {name: whole[name] for name in MEASURED},
            drawn or None,
        )

    def _point(self, sample: Sample, size: int) -> Point:
        scenario = TwoBufferScenario(
            traffic=Replay(file=str(sample.path)),
            buffers=Buffers(messages=size, **self._marks),
            senders=self._senders,
            slow_delay_ms=self._delay_ms,
            duration_s=sample.duration_s,
            warm_up_s=0.0,
        )
        settings = (("traffic.file", str(sample.path)), ("buffers.messages", str(size)))
        return Point(settings, scenario)


def interval(values: Sequence[float]) -> Interval:
    """The mean of these values, and half of its 95% confidence interval."""
    mean = statistics.fmean(values)
    if len(values) < 2:
        return Interval(mean, None)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, t_95(len(values) - 1) * error)
