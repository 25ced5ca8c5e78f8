"""`semcast monitor`: a group in; what one member sees, profiled and verified as it goes on."""

import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from semcast.cli._group import Target, group_command
from semcast.cli._spark import ConfOption, MasterOption, spark_session
from semcast.errors import ConfigError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.console import Console, Group

    from semcast.live.config import GroupConfig
    from semcast.pipeline.streaming.book import Book
    from semcast.pipeline.streaming.tail import JournalTail

VIOLATED: Final = 1
_PATIENCE_S: Final = 0.1


@group_command()
def monitor(
    target: Target,
    interval: Annotated[
        float, typer.Option("--interval", min=0.5, max=3600, help="Seconds between two looks.")
    ] = 5.0,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Leave after this long; 0: on Ctrl-C.")
    ] = 0.0,
    journal: Annotated[
        Path | None,
        typer.Option("--journal", help="A folder that members record into: check that too."),
    ] = None,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object a line at each look.")
    ] = False,
) -> int:
    """Join a group as a member, and profile and verify what it delivers on Spark, until Ctrl-C.

    Members are counted from the start, so the others must count this one too. The exit code is 1
    if anything was found that a correct group does not do.

    \b
    Example:
      semcast monitor quotes --secret-file secret.txt --name watch --members feed,reader,watch
    """  # noqa: D301  (click reads \b: leave the lines of the example as they are)
    config = target.group_config()
    with tempfile.TemporaryDirectory(prefix="semcast-monitor-") as folder:
        tail = _tail(journal)
        with spark_session("monitor", master, conf) as spark:
            book = _new_book(config)
            query = _start(spark, config, book, Path(folder), interval)
            try:
                with _asked_to_end() as end, _shown(as_json) as show:
                    print(
                        f"semcast: watching {target.group}, {_how_long(seconds)}", file=sys.stderr
                    )
                    watch = _Watch(target.group, query, book, tail, end)
                    watch.run(interval, seconds, show)
            finally:
                query.stop()
    return VIOLATED if book.violations else 0


def _tail(journal: Path | None) -> "JournalTail | None":
    if journal is None:
        return None
    from semcast.pipeline.streaming.tail import JournalTail

    return JournalTail(journal)


def _new_book(config: "GroupConfig") -> "Book":
    from semcast.pipeline.streaming.book import Book

    return Book(config.order)


def _start(
    spark: "SparkSession", config: "GroupConfig", book: "Book", folder: Path, interval: float
) -> "StreamingQuery":
    from semcast.pipeline.streaming import FORMAT, register

    register(spark)
    rows = spark.readStream.format(FORMAT).options(**stream_options(config, folder)).load()
    return (
        rows.writeStream.foreachBatch(book.add_batch)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{round(interval * 500)} milliseconds")
        .start()
    )


def stream_options(config: "GroupConfig", folder: Path) -> dict[str, str]:
    """A configuration as options of a stream; the secret by a file that only we can read."""
    options = {"spool": str(folder / "spool")}
    for one in fields(config):
        value = getattr(config, one.name)
        if one.name == "secret" or (one.default is not MISSING and value == one.default):
            continue
        options[one.name] = ",".join(value) if isinstance(value, tuple) else str(value)
    if config.secret is not None:
        path = folder / "secret"
        path.touch(mode=0o600)
        try:
            text = config.secret if isinstance(config.secret, str) else config.secret.decode()
        except UnicodeDecodeError:
            raise ConfigError("the secret is not text; `semcast keys new` makes one") from None
        path.write_text(text)
        options["secret_file"] = str(path)
    return options


def _how_long(seconds: float) -> str:
    return f"for {seconds:g} s" if seconds else "until Ctrl-C"


@contextlib.contextmanager
def _asked_to_end() -> Iterator[threading.Event]:
    """Let Ctrl-C and SIGTERM end the command between two calls into Spark, never within one.

    A second Ctrl-C ends it at once.
    """
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def ask(*_: object) -> None:
        asked.set()
        for number, handler in before.items():
            signal.signal(number, handler)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    for number in before:
        signal.signal(number, ask)
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@dataclass
class _Watch:
    """A query that runs, and the function that shows what it finds."""

    group: str
    query: "StreamingQuery"
    book: "Book"
    tail: "JournalTail | None"
    end: threading.Event

    def run(self, interval: float, seconds: float, show: Callable[[dict[str, Any]], None]) -> None:
        """Look every interval, until the time is up or somebody says so."""
        until_s = time.monotonic() + seconds if seconds else float("inf")
        while not self.end.is_set():
            next_s = min(time.monotonic() + interval, until_s)
            while time.monotonic() < next_s and not self.end.wait(_PATIENCE_S):
                _raise_failure(self.query)
            over = time.monotonic() >= until_s
            if over:
                # What came since is to be in the last look.
                self.query.processAllAvailable()
            show(self._look())
            if over:
                return

    def _look(self) -> dict[str, Any]:
        found: dict[str, Any] = {"group": self.group}
        if self.tail is not None:
            self.book.complain([f"journal: {text}" for text in self.tail.look()])
            found |= {"journal_events": self.tail.events, "journal_note": self.tail.note}
        return found | self.book.look()


def _raise_failure(query: "StreamingQuery") -> None:
    """Raise, in one line, what our own code said in Spark's processes; else Spark's first line."""
    error = query.exception()
    if error is not None:
        from semcast.pipeline.streaming.refusal import reason

        raise PipelineError(reason(error))


@contextlib.contextmanager
def _shown(as_json: bool) -> Iterator[Any]:
    if as_json:
        yield lambda found: print(json.dumps(found, allow_nan=False), flush=True)
        return
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False)
    if not console.is_terminal:
        yield lambda found: console.print(_page(console, found))
        return
    with Live(console=console, auto_refresh=False) as live:
        yield lambda found: live.update(_page(console, found), refresh=True)


def _page(console: "Console", found: dict[str, Any]) -> "Group":
    from rich.console import Group
    from rich.text import Text

    from semcast.cli._tables import fitted

    distance = found["distance_p90"]
    judged = "no violation" if not found["violations"] else f"{found['violations']} VIOLATIONS"
    summary = (
        f"{found['group']}: {found['messages_s']:,.0f} messages/s, "
        f"{found['bytes_s'] / 1000:,.0f} kB/s, {found['skipped_share']:.1%} skipped, "
        f"{found['keys']:,} keys, 90% of replacements within "
        f"{'–' if distance is None else distance}; {judged}"
    )
    columns = ("sender", "messages/s", "messages", "skipped", "last", "age p99 ms")
    rows = [
        (
            one["name"],
            f"{one['messages_s']:,.0f}",
            f"{one['messages']:,}",
            f"{one['skipped_messages']:,}",
            f"#{one['last_seq']}",
            f"{one['age_ms_p99']:,.1f}",
        )
        for one in found["senders"]
    ]
    table = fitted(console, "", columns, rows)
    wrong = [Text(text, style="bold red") for text in found["first_violations"]]
    note = found.get("journal_note")
    return Group(Text(summary), table, *wrong, *([Text(f"journal: {note}")] if note else []))
