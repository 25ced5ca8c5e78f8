"""Verify by Spark says what the checkers say: of random logs, explored cases, broken variants."""

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.check.log import Log
from tests.check.runs import Run
from tests.pipeline.broken import write_journals

from semcast.check import PROPERTIES, RunVerdict, Violation, check_all, chosen
from semcast.errors import ConfigError, SemcastError
from semcast.journal import Journal, read_journal, write_journal
from semcast.pipeline.journals import read_journals
from semcast.pipeline.verification import judge_journals
from semcast.pipeline.verification.whole import judge_whole
from semcast.sim.exploring.cases import case
from semcast.sim.world import run as simulate

# Every run is judged in parts, however small it is.
IN_PARTS = -1
CASES = range(1, 9)
LOGS = range(40)


def renamed(journal: Journal, run: str, **changes: object) -> Journal:
    other = Journal(replace(journal.header, run=run, **changes))  # type: ignore[arg-type]
    for event in journal:
        other.append(event)
    return other


def random_log(number: int) -> Journal:
    """A toy protocol with mischief in between: all kinds of annotations, ranks, later lives."""
    rng = random.Random(f"verify/{number}")
    journal = Run(rng.randrange).run(10 + rng.randrange(60))
    return renamed(journal, f"log {number}", order=rng.choice(("fifo", "key")))


def crowded() -> Journal:
    """More nodes than a word has bits; the last of them lacks a message."""
    nodes = [f"p{number}" for number in range(1, 101)]
    log = Log(run="crowded", members=tuple(f"{node}.1" for node in nodes))
    for seq in (1, 2, 3):
        log.multicast(f"p1#{seq}", *([1] if seq == 3 else []))
        for node in nodes:
            if (node, seq) != ("p100", 1) and (node, seq) != ("p70", 2):
                log.take(node, f"p1#{seq}")
    return log.journal


def told(violations: list[Violation]) -> Counter[Violation]:
    return Counter(violations)


@pytest.fixture(scope="module")
def rested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bool]]:
    """A folder of many runs; of those that were simulated, whether they came to rest."""
    folder = tmp_path_factory.mktemp("journals")
    for number in LOGS:
        write_journal(random_log(number), folder)
    write_journal(crowded(), folder)
    came_to_rest = {}
    for seed in CASES:
        scenario = replace(case(seed), drain_s=60.0 if seed % 4 else 0.0)
        outcome = simulate(scenario, seed)
        assert outcome.journal is not None
        write_journal(renamed(outcome.journal, f"case {seed}"), folder)
        came_to_rest[f"case {seed}"] = outcome.quiescent
    write_journals(folder, tmp_path_factory.mktemp("mutants"))
    return folder, came_to_rest


def test_every_verdict_is_that_of_the_checkers(
    spark: SparkSession, rested: tuple[Path, dict[str, bool]]
) -> None:
    """Per run and property: how much was judged, what is broken, by whom, about what, and when."""
    folder, _ = rested
    verdicts = judge_journals(
        spark,
        read_journals(spark, folder),
        assume_rest=True,
        shown_max=1_000_000,
        whole_events_max=IN_PARTS,
    )
    broken = set()
    for verdict in verdicts:
        report = check_all(read_journal(folder, verdict.run))
        assert verdict.judged == report.judged, verdict.run
        assert verdict.broken == report.counts, verdict.run
        assert told(verdict.shown) == told(report.violations), verdict.run
        assert verdict.ok == report.ok
        assert verdict.missing == report.missing, verdict.run
        broken |= {name for name, count in verdict.broken.items() if count}
        if verdict.run.startswith("mutant"):
            assert not verdict.ok, f"nothing is wrong with {verdict.run}"
    # The comparison says something of a property only if some run breaks it. Atomicity needs a long
    # run, which test_gossip.py has; what only federations promise is in test_federations.py.
    here = {one.name for one in PROPERTIES if one.reliability != ("federation",)}
    assert broken == here - {"Atomicity"}


def test_a_run_is_at_rest_by_its_journal_if_it_was(
    spark: SparkSession, rested: tuple[Path, dict[str, bool]]
) -> None:
    """What must hold in the end is judged only of those; what holds always of all."""
    folder, came_to_rest = rested
    journals = read_journals(spark, folder, list(came_to_rest))
    names = ["agreement", "sender_reliability"]
    whole = {one.run: one for one in judge_journals(spark, journals, names)}
    found: dict[str, RunVerdict] = {
        one.run: one for one in judge_journals(spark, journals, names, whole_events_max=IN_PARTS)
    }
    assert found == whole
    assert found.keys() == came_to_rest.keys()
    # One that was cut short may happen to have nothing left to do, but not all of them.
    assert all(not found[run].not_at_rest for run, rests in came_to_rest.items() if rests)
    assert {bool(one.not_at_rest) for one in found.values()} == {True, False}
    for one in found.values():
        assert bool(one.judged) == (not one.not_at_rest)


def test_small_and_large_runs_of_one_folder_are_judged_alike(
    spark: SparkSession, rested: tuple[Path, dict[str, bool]]
) -> None:
    """Whole by one task, in parts, or some so and some so: the same verdicts, in the same order."""
    folder, _ = rested
    runs = ["crowded", *(f"log {number}" for number in (1, 2, 3))]
    journals = read_journals(spark, folder, runs)
    bounds = (IN_PARTS, sorted(journals.sizes.values())[1], max(journals.sizes.values()))
    verdicts = [judge_journals(spark, journals, whole_events_max=bound) for bound in bounds]
    assert verdicts[0] == verdicts[1] == verdicts[2]
    # However small they are, by tasks.
    by_tasks = judge_whole(spark, folder, journals.sizes, PROPERTIES, None, 20, here_events_max=0)
    assert sorted(by_tasks, key=lambda one: one.run) == verdicts[0]
    assert [one.run for one in verdicts[0]] == sorted(runs)
    assert not all(one.ok for one in verdicts[0])


def test_properties_are_chosen_by_name() -> None:
    assert [one.name for one in chosen(["fifo-order", "Agreement"])] == ["FIFO Order", "Agreement"]
    with pytest.raises(ConfigError, match="there is no property 'fairness'; there are: Integrity"):
        chosen(["fairness"])


def test_an_event_that_does_not_say_which_message_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    log = Log(run="nameless")
    log.world("p1", "deliver")
    write_journal(log.journal, tmp_path)
    told = r"event 1 \(deliver\) of p1.1 .*does not say which"
    for bound in (IN_PARTS, 100):
        with pytest.raises(SemcastError, match=told):
            judge_journals(spark, read_journals(spark, tmp_path), whole_events_max=bound)
