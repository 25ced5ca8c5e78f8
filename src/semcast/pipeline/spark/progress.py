"""An action of Spark in, its result out; meanwhile a bar on stderr, and Ctrl-C cancels the job.

Where stderr is no terminal there is a plain line now and then instead of a bar.

The action runs in a thread of its own, so that the main thread only waits and Ctrl-C reaches it
between two waits, never in the middle of a conversation with the JVM.
"""

import threading
import time
import uuid
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from pyspark import InheritableThread
from pyspark.sql import SparkSession
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from semcast.pipeline.spark.counting import Counts, JobWatch, job_watch
from semcast.pipeline.spark.failures import explained, is_sparks

T = TypeVar("T")

_SHOWN_AFTER_S: Final = 2.0
# How often a line is written where there is no terminal.
_LINE_S: Final = 10.0
_POLL_S: Final = 0.2
_CANCEL_S_MAX: Final = 30.0

_inside = threading.local()


def run_job(
    spark: SparkSession,
    label: str,
    action: Callable[[], T],
    console: Console | None = None,
    tasks_to_come: Callable[[], int] = lambda: 0,
) -> T:
    """Run the action and show how far it is: on a terminal after two seconds, else every ten.

    An action that asks Spark for one thing after the other may know how many tasks are to come that
    Spark has not heard of yet.

    On Ctrl-C the job is cancelled and KeyboardInterrupt raised. What Spark raises becomes a
    `PipelineError` of one line, with Spark's own as its cause; other exceptions pass unchanged.
    """
    if getattr(_inside, "job", False):  # a job within a job: the outer one watches and cancels
        return action()
    watch = job_watch(spark, f"semcast-{uuid.uuid4().hex}", label)
    work = _Work(action, watch)
    thread = InheritableThread(target=work.run, session=spark, daemon=True)
    thread.start()

    def counts() -> Counts:
        return watch.counts() + Counts(tasks=tasks_to_come())

    drawer = _start_drawer(label, work.done, counts, console or Console(stderr=True))
    try:
        while not work.done.wait(_POLL_S):
            pass
    except KeyboardInterrupt:
        _cancel(work.done, watch)
        raise
    finally:
        drawer.join(_POLL_S * 10)
        watch.close()
    thread.join()
    return work.outcome(label)


class _Work(Generic[T]):
    """An action, and how it ended."""

    def __init__(self, action: Callable[[], T], watch: JobWatch) -> None:
        self.done = threading.Event()
        self._action = action
        self._watch = watch
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        _inside.job = True
        try:
            self._watch.enter()
            self._results.append(self._action())
        except BaseException as error:  # it is raised again where the job was asked for
            self._error = error
        finally:
            self.done.set()

    def outcome(self, label: str) -> T:
        error = self._error
        if error is None:
            return self._results[0]
        if is_sparks(error):
            raise explained(label, error) from error
        raise error


def _cancel(done: threading.Event, watch: JobWatch) -> None:
    """Cancel until the action gives up, since it may have been between two jobs at first."""
    deadline = time.monotonic() + _CANCEL_S_MAX
    while not done.is_set() and time.monotonic() < deadline:
        watch.cancel()
        done.wait(_POLL_S)


# -- how far it is ---------------------------------------------------------------------------------


def _start_drawer(
    label: str, done: threading.Event, count: Callable[[], Counts], console: Console
) -> threading.Thread:
    show = _draw if console.is_terminal else _write
    drawer = threading.Thread(target=show, args=(label, done, count, console), daemon=True)
    drawer.start()
    return drawer


def _draw(label: str, done: threading.Event, count: Callable[[], Counts], console: Console) -> None:
    if done.wait(_SHOWN_AFTER_S):
        return
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task(label, total=None, counts="")
        while not done.wait(_POLL_S):
            counts = count()
            progress.update(
                task,
                completed=counts.tasks_done,
                total=counts.tasks or None,
                counts=words(counts),
            )


def _write(
    label: str, done: threading.Event, count: Callable[[], Counts], console: Console
) -> None:
    """Write plain lines, for a pipe or a log."""
    began_s = time.monotonic()
    while not done.wait(_LINE_S):
        elapsed_s = time.monotonic() - began_s
        print(
            f"semcast: {label}: {elapsed_s:.0f} s, {words(count())}", file=console.file, flush=True
        )


def words(counts: Counts) -> str:
    """For instance: stage 3/5, task 120/400."""
    if not counts.stages:
        return "planning"
    at = min(counts.stages_done + 1, counts.stages)
    return f"stage {at}/{counts.stages}, task {counts.tasks_done:,}/{counts.tasks:,}"
