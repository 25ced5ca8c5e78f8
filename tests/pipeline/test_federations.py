"""Journals of federations, on Spark: the same verdicts as in one process, however they are read."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.check.federations import Federation, Run
from tests.check.log import Log

from semcast.check import PROPERTIES, check_all
from semcast.cli import main
from semcast.journal import Journal, read_journal, write_journal
from semcast.journal.growing_log import LogWriter
from semcast.pipeline.journals import read_journals
from semcast.pipeline.verification import judge_journals

LOGS = range(7)


def renamed(journal: Journal, run: str) -> Journal:
    other = Journal(replace(journal.header, run=run))
    other.events.extend(journal.events)
    return other


def drawn(number: int) -> Journal:
    rng = random.Random(f"kernels/{number}")
    return renamed(Run(rng.randrange).run(10 + rng.randrange(60)), f"drawn {number}")


def a_cycle() -> Journal:
    """No two sites disagree about a pair, and yet there is no one order."""
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p2", "p3"], "gamma": ["p1", "p3"]})
    a, b, c = fed.send("p1", "alpha"), fed.send("p2", "beta"), fed.send("p3", "gamma")
    fed.take("p2", a, b)
    fed.take("p3", b, c)
    fed.take("p1", c, a)
    return renamed(fed.journal, "a cycle")


def an_ordinary_group() -> Journal:
    log = Log(run="ordinary")
    log.multicast("p1#1")
    for site in ("p1", "p2"):
        log.take(site, "p1#1")
    return log.journal


def write_in_parts(journal: Journal, folder: Path) -> None:
    """As machines do that write a log each."""
    for part in (0, 1):
        some = Journal(journal.header)
        for event in journal:
            if int(event.node[1]) % 2 == part:
                some.append(event)
        write_journal(some, folder, f"part-{part}")


@pytest.mark.parametrize("write", [write_journal, write_in_parts], ids=["in files", "sorted"])
def test_spark_says_of_federations_what_the_checkers_say(
    spark: SparkSession, tmp_path: Path, write: object
) -> None:
    """Runs of federations and of an ordinary group are judged side by side."""
    assert callable(write)
    for journal in (a_cycle(), an_ordinary_group(), *map(drawn, LOGS)):
        write(journal, tmp_path)
    verdicts = judge_journals(
        spark, read_journals(spark, tmp_path), assume_rest=True, shown_max=1000, whole_events_max=-1
    )
    assert len(verdicts) == len(LOGS) + 2
    broken = set()
    for verdict in verdicts:
        report = check_all(read_journal(tmp_path, verdict.run))
        assert verdict.judged == report.judged, verdict.run
        assert Counter(verdict.shown) == Counter(report.violations), verdict.run
        assert verdict.missing == report.missing, verdict.run
        broken |= {name for name, count in verdict.broken.items() if count}
    assert broken >= {one.name for one in PROPERTIES if one.reliability == ("federation",)}


def test_logs_of_single_sites_are_put_together_with_their_groups(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A site that was killed had multicast what others received for its group."""
    fed = Federation({"alpha": ["p1", "p2"], "beta": ["p1", "p2"]}, one_order=False)
    a, b = fed.send("p1", "alpha"), fed.send("p1", "beta")
    fed.take("p1", a, b)
    fed.take("p2", a, b)
    fed.world("end", "p2")
    for node in ("p1.1", "p2.1"):
        header = replace(fed.journal.header, node=node, name=node)
        writer = LogWriter(tmp_path, header)
        events = [event for event in fed.journal.select(node) if event.event != "multicast"]
        writer.write(events)
        if node == "p2.1":
            writer.finish(0)
        else:
            writer.close()
    journal = read_journal(tmp_path)
    assert [event.group for event in journal.select("p1.1", "multicast")] == ["alpha", "beta"]
    report = check_all(journal)
    (verdict,) = judge_journals(spark, read_journals(spark, tmp_path), whole_events_max=-1)
    assert verdict.judged == report.judged
    assert verdict.ok
    assert report.ok, str(report)


def test_verify_tells_of_a_cycle(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    write_journal(a_cycle(), tmp_path)
    assert main(["verify", str(tmp_path)]) == 1
    assert "p2.1 delivers p1.1#1 before p2.1#1" in capsys.readouterr().out
