"""Watching a group: what a batch tells, what lies between two, what journals add, the command."""

import json
import random
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import typer
from pyspark.sql import Row, SparkSession
from tests.check.log import Log
from tests.live.groups import ROOT
from tests.pipeline.stream_groups import DEADLINE_S, SPARK, Party, party, traffic, wait_until

from semcast.cli._errors import exit_code_of
from semcast.cli.monitor import monitor
from semcast.errors import InputError
from semcast.journal import write_journal
from semcast.pipeline.streaming import SCHEMA
from semcast.pipeline.streaming import tail as tail_module
from semcast.pipeline.streaming.book import Book
from semcast.pipeline.streaming.tail import JournalTail
from semcast.pipeline.streaming.watch import by_key, by_sender

# Seq, key and how many were skipped before it.
Told = list[tuple[int, str | None, int]]


def look(spark: SparkSession, batches: list[dict[str, Told]], order: str = "fifo") -> Book:
    """What the book says after these batches, of messages by sender."""
    book = Book(order)
    offset = 0
    for batch in batches:
        rows = []
        for sender, told in batch.items():
            for seq, key, skipped in told:
                numbers = list(range(seq - skipped, seq))
                rows.append((sender, 1, seq, key, b"12345", 10**6, 3 * 10**6, numbers, offset))
                offset += 1
        random.Random("shuffled").shuffle(rows)  # Spark keeps no order
        frame = spark.createDataFrame(rows, SCHEMA)
        book.add(by_sender(frame, order).collect(), by_key(frame).collect())
    return book


def test_what_is_right_is_counted_and_not_complained_of(spark: SparkSession) -> None:
    first: Told = [(1, "A", 0), (2, None, 0), (5, "A", 2), (6, "B", 0)]
    second: Told = [(9, "B", 2), (10, None, 0)]
    found = look(spark, [{"a": first, "b": [(1, None, 0)]}, {"a": second}]).look()
    assert found["violations"] == 0
    assert found["messages"] == 7
    assert found["skipped_messages"] == 4
    assert found["skipped_share"] == round(4 / 11, 4)
    assert found["keys"] == 2
    assert found["top_keys"][0] == {"sender": "a", "key": "A", "messages": 2}
    assert (found["distance_p50"], found["distance_p90"]) == (3, 7), "3 and 4, by bits"
    assert found["age_ms_p99"] == 2.0
    assert [(one["name"], one["last_seq"]) for one in found["senders"]] == [("a", 10), ("b", 1)]


@pytest.mark.parametrize(
    ("batches", "text"),
    [
        ([[(1, None, 0), (2, None, 0), (2, None, 0)]], "a: #2 came after #2"),
        ([[(1, None, 0), (3, None, 1), (2, None, 0)]], "a: #2 came after #3"),
        ([[(1, None, 0), (4, None, 1)]], "1 of the numbers between #1 and #4 are missing"),
        ([[(1, None, 0), (2, None, 0)], [(2, None, 0)]], "a: #2 came after #2"),
        ([[(1, None, 0)], [(4, None, 1)]], "1 of the numbers between #1 and #4 are missing"),
    ],
)
def test_what_breaks_the_order_of_a_sender_is_found(
    spark: SparkSession, batches: list[Told], text: str
) -> None:
    """Within a batch, and between two of them."""
    book = look(spark, [{"a": batch, "b": [(at + 1, None, 0)]} for at, batch in enumerate(batches)])
    found = book.look()
    assert book.violations == 1
    assert text in found["first_violations"][0]


def test_by_key_messages_may_overtake_others_but_not_their_own_key(spark: SparkSession) -> None:
    fine: list[dict[str, Told]] = [
        {"a": [(2, "A", 0), (1, "B", 0), (9, "A", 0)]},
        {"a": [(3, None, 0), (10, "A", 1)]},
    ]
    assert look(spark, fine, "key").violations == 0
    within: list[dict[str, Told]] = [{"a": [(2, "A", 0), (1, "A", 0)]}]
    assert look(spark, within, "key").violations == 1
    across: list[dict[str, Told]] = [{"a": [(2, "A", 0)]}, {"a": [(2, "A", 0)]}]
    assert look(spark, across, "key").violations == 1
    twice: list[dict[str, Told]] = [{"a": [(2, None, 0), (2, None, 0)]}]
    assert look(spark, twice, "key").violations == 1


def test_a_book_is_bounded() -> None:
    book = Book("fifo")
    told = {"messages": 1, "first_seq": 1, "last_seq": 1}
    book.add([], [Row(sender="a", life=1, key=str(at), **told) for at in range(70_000)])
    assert book.look()["keys"] == 1 << 16
    book.complain(["wrong"] * 1000)
    assert book.violations == 1000
    assert len(book.look()["first_violations"]) == 5


def broken(folder: Path, run: str = "broken") -> None:
    log = Log(run=run)
    log.multicast("p1#1")
    log.take("p2", "p1#1")
    log.deliver("p2", "p1#1")
    write_journal(log.journal, folder)


def test_a_violation_in_a_journal_counts_when_it_is_still_there_at_the_next_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail = JournalTail(tmp_path)
    assert tail.look() == []
    assert tail.note == "nothing was recorded yet"
    broken(tmp_path)
    assert tail.look() == [], "the other journals may not be written yet"
    assert ["p2.1 delivers p1.1#1 again" in one for one in tail.look()] == [True]
    assert tail.look() == [], "once is enough"
    assert tail.events > 0
    monkeypatch.setattr(tail_module, "BYTES_MAX", 10)
    assert tail.look() == []
    assert "semcast verify" in tail.note
    with pytest.raises(InputError, match="is no folder"):
        JournalTail(tmp_path / "none")


# -- the command -----------------------------------------------------------------------------------


def arguments(group: Party, *more: str) -> list[str]:
    options = group.options
    found = [options["group"], *more]
    for name in ("secret", "name", "members", "transport", "peers"):
        found += [f"--{name}", options[name]]
    return found


def command(given: list[str]) -> int:
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(monitor)
    return exit_code_of(lambda: typer.main.get_command(app).main(given, standalone_mode=False))


def test_a_running_group_is_watched_until_ctrl_c(tmp_path: Path) -> None:
    code = (
        "import sys; from tests.pipeline.test_stream_monitor import command; "
        "sys.exit(command(sys.argv[1:]))"
    )
    with party(record=str(tmp_path), record_run="watched") as group:
        given = arguments(group, "--json", "--interval", "0.5", "--journal", str(tmp_path))
        given += ["--master", "local[2]", "--conf", "spark.driver.memory=1g"]
        given += ["--conf", "spark.sql.shuffle.partitions=2"]
        process = subprocess.Popen(
            [sys.executable, "-c", code, *given], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert process.stdout is not None
        ending = threading.Timer(DEADLINE_S, process.kill)
        ending.start()
        try:
            group.wait_complete()
            with traffic(group):
                for line in process.stdout:
                    found = json.loads(line)
                    if found["messages"] > 100 and found["journal_events"] > 100:
                        break
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE_S) == 0
            wait_until(lambda: group.state_of(SPARK) == "left", "the member leaves")
        finally:
            ending.cancel()
            process.kill()
            process.wait(DEADLINE_S)
            process.stdout.close()
    assert found["violations"] == 0
    assert {one["name"] for one in found["senders"]} == {"a", "b"}
    assert found["keys"] == 5
    assert found["journal_note"] == ""


def test_a_violation_is_exit_code_1(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken(tmp_path)
    assert spark.sparkContext.master == "local[2]", "the command uses the session that runs"
    given = ["alone", "--insecure", "--transport", "unicast", "--name", "x", "--members", "x"]
    given += ["--seconds", "2", "--interval", "0.5", "--journal", str(tmp_path)]
    assert command(given) == 1
    out = capsys.readouterr().out
    assert "1 VIOLATIONS" in out
    assert "delivers p1.1#1" in out


def test_a_group_that_is_not_there_is_one_clear_line(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.sparkContext.master == "local[2]"
    given = ["nobody", "--insecure", "--transport", "unicast", "--name", "x", "--members", "x,y"]
    assert command([*given, "--join-timeout", "0.5", "--seconds", "60"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "not complete after 0.5 s: not heard of: y" in lines[-1]
