"""How far is a job? Spark's own counts in, stages and tasks out; and the way to cancel it.

Classic sessions are asked through the status tracker by job group, sessions of Spark Connect report
by a handler and are cancelled by a tag; everything else need not know which of them it has.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Counts:
    """Stages and tasks, done and known so far; Spark finds some of its stages on the way."""

    stages_done: int = 0
    stages: int = 0
    tasks_done: int = 0
    tasks: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(
            self.stages_done + other.stages_done,
            self.stages + other.stages,
            self.tasks_done + other.tasks_done,
            self.tasks + other.tasks,
        )


class JobWatch(Protocol):
    """Watches and cancels one job, on a session of either kind."""

    def enter(self) -> None:
        """Mark what the calling thread asks of Spark from here on as this job's."""

    def counts(self) -> Counts:
        """How far it is."""

    def cancel(self) -> None:
        """Stop what runs of it now; what is asked for later needs another call."""

    def close(self) -> None:
        """Leave the session as it was."""


def job_watch(spark: SparkSession, group: str, label: str) -> JobWatch:
    """The watch that fits the session."""
    if is_classic(spark):
        return _ClassicWatch(spark, group, label)
    return _ConnectWatch(spark, group)


def is_classic(spark: object) -> bool:
    """Whether the session has a `sparkContext`; the type alone does not say, to a type checker."""
    return isinstance(spark, SparkSession)


class _ClassicWatch:
    def __init__(self, spark: SparkSession, group: str, label: str) -> None:
        self._context = spark.sparkContext
        self._tracker = self._context.statusTracker()
        self._group = group
        self._label = label
        # Jobs that ended are asked about no more: a sweep has thousands of them.
        self._ended: dict[int, Counts] = {}

    def enter(self) -> None:
        self._context.setJobGroup(self._group, self._label, interruptOnCancel=True)

    def counts(self) -> Counts:
        total = Counts()
        for job in self._tracker.getJobIdsForGroup(self._group):
            total += self._ended.get(job) or self._job(job)
        return total

    def _job(self, job: int) -> Counts:
        info = self._tracker.getJobInfo(job)
        if info is None:
            return Counts()
        found = Counts()
        for stage in info.stageIds:
            found += self._stage(stage)
        if info.status not in ("RUNNING", "UNKNOWN"):
            # Stages that never ran were skipped: their output was there already.
            found = Counts(found.stages, found.stages, found.tasks, found.tasks)
            self._ended[job] = found
        return found

    def _stage(self, stage: int) -> Counts:
        info = self._tracker.getStageInfo(stage)
        if info is None:
            return Counts(stages=1)
        done = info.numTasks > 0 and info.numCompletedTasks == info.numTasks
        return Counts(int(done), 1, info.numCompletedTasks, info.numTasks)

    def cancel(self) -> None:
        self._context.cancelJobGroup(self._group)

    def close(self) -> None:
        pass  # the thread that entered is gone, and its job group with it


class _Stage(Protocol):
    """What Spark Connect reports of a stage."""

    num_tasks: int
    num_completed_tasks: int
    done: bool


class _ConnectWatch:
    def __init__(self, spark: SparkSession, tag: str) -> None:
        self._spark = spark
        self._tag = tag
        self._operations: dict[str | None, Counts] = {}
        # Any callable will do, though the interface asks for a class that cannot be imported
        # without Connect's packages.
        spark.registerProgressHandler(cast(Any, self._hear))

    def enter(self) -> None:
        self._spark.addTag(self._tag)

    def counts(self) -> Counts:
        return sum(list(self._operations.values()), Counts())

    def cancel(self) -> None:
        self._spark.interruptTag(self._tag)

    def close(self) -> None:
        self._spark.removeProgressHandler(cast(Any, self._hear))

    def _hear(
        self,
        stages: Iterable[_Stage] | None,
        inflight_tasks: int,  # noqa: ARG002  (Spark calls by these names)
        operation_id: str | None,
        done: bool,  # noqa: ARG002
    ) -> None:
        heard = list(stages or ())
        self._operations[operation_id] = Counts(
            sum(stage.done for stage in heard),
            len(heard),
            sum(stage.num_completed_tasks for stage in heard),
            sum(stage.num_tasks for stage in heard),
        )
