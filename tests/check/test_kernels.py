"""Kernels find the same however rows come to them: as tuples, or in Arrow's batches of any size."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from bench.spark_journal import write as write_synthetic
from tests.check.federations import Run as FederationRun
from tests.check.log import Log
from tests.check.runs import Run

from semcast.check import PROPERTIES, History, Violation, check_all, flow_bounds, kernel
from semcast.check import safe_purging as safe
from semcast.check.accounting import BooksKernel, CoversKernel
from semcast.check.fifo_order import FifoOrderKernel
from semcast.check.files import judge_file
from semcast.check.flow_bounds import FlowBoundsKernel
from semcast.check.integrity import IntegrityKernel
from semcast.check.kernel import (
    BY_LIVES,
    BY_NODE,
    BY_SENDER,
    BY_STREAM,
    IN_ORDER,
    OF_RUN,
    Finding,
    feed_all,
    standing,
)
from semcast.check.owed import OwedKernel
from semcast.check.report import makers_of
from semcast.check.rows import COLUMNS, Rows
from semcast.check.stability import StabilityKernel
from semcast.check.tally import summed
from semcast.journal import Journal, read_journal, write_journal
from semcast.sim.exploring.cases import case
from semcast.sim.world import run as simulate

LOGS = range(60)
FEDERATIONS = range(25)
SORTINGS = (BY_NODE, BY_SENDER, BY_LIVES, IN_ORDER, BY_STREAM, OF_RUN)
CASES = (3, 5, 7)
_KINDS = {"obsoletes": pa.list_(pa.int32()), "key": pa.string(), "event": pa.string()}
SCHEMA = pa.schema(
    [("group", pa.int32()), *((name, _KINDS.get(name, pa.int64())) for name in COLUMNS)]
)


def random_log(number: int) -> Journal:
    """A toy protocol with mischief in between, or none."""
    rng = random.Random(f"kernels/{number}")
    journal = Run(rng.randrange).run(10 + rng.randrange(80))
    other = Journal(replace(journal.header, run=f"log {number}", order=rng.choice(("fifo", "key"))))
    other.events.extend(journal.events)
    return other


def reborn_log() -> Journal:
    """Values of a former life come last: one that was there, and one that was not."""
    log = Log(run="reborn", order="key")
    log.multicast("p1#1", key="a")
    log.multicast("p1#2", key='keys:["b", "c"]')
    log.multicast("p1#3", key="a")
    log.crash("p1")
    log.join("p1.2")
    log.multicast("p1.2#1", key='keys:["a", "c"]')
    log.receive("p2", "p1#1", "p1#2", "p1.2#1")
    log.deliver("p2", "p1.2#1", "p1#1", "p1#2")
    log.take("p2", "p1#3")
    return log.journal


def gossip_log(ranked: bool) -> Journal:
    """Messages of two senders miss somebody now and then; one passes on what it lacks."""
    log = Log(run=f"gossip {ranked}", reliability="gossip")
    for seq in range(1, 31):
        rank = seq if ranked and seq < 4 else None
        log.multicast(f"p1#{seq}", key="a" if rank else None, rank=rank)
        log.multicast(f"p2#{seq}", *([1] if seq == 2 else []))
        for node in ("p1", "p2", "p3"):
            if node != "p3" or seq % 3:
                log.take(node, f"p1#{seq}", f"p2#{seq}")
    log.event("p3", "relay", "p1#3")
    return log.journal


def federation_log(number: int) -> Journal:
    """Sites in three groups, with mischief in between, or none."""
    rng = random.Random(f"kernels/{number}")
    journal = FederationRun(rng.randrange).run(10 + rng.randrange(60))
    other = Journal(replace(journal.header, run=f"federation {number}"))
    other.events.extend(journal.events)
    return other


def journals() -> Iterator[Journal]:
    for number in FEDERATIONS:
        yield federation_log(number)
    for number in LOGS:
        yield random_log(number)
    yield reborn_log()
    yield gossip_log(False)
    yield gossip_log(True)
    for seed in CASES:
        outcome = simulate(case(seed), seed)
        assert outcome.journal is not None
        yield outcome.journal


def batches_of(history: History, sorting: str, size: int) -> Iterator[pa.RecordBatch]:
    """All groups of a sorting, as a task of Spark gets them."""
    rows = [
        (number, *row)
        for number, parts in history.groups(sorting)
        for part in parts
        for row in part
    ]
    for at in range(0, len(rows), size):
        columns = zip(*rows[at : at + size], strict=True)
        # Spark gives empty lists for those that are null.
        arrays = [
            pa.array(
                [one or [] for one in column] if field.name == "obsoletes" else column, field.type
            )
            for column, field in zip(columns, SCHEMA, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def _empty(lists: tuple[Any, ...]) -> list[Any]:
    """Empty lists for those that are null, as Spark gives them."""
    return [one or [] for one in lists]


def found_in_batches(history: History, size: int) -> Counter[Violation]:
    found = []
    for sorting in SORTINGS:
        makers = [makers_of(PROPERTIES, history.header, sorting)]
        batches = batches_of(history, sorting, size)
        for some in feed_all(batches, "group", history.facts, sorting, makers):
            found += some
    return told_of(history, found)


def told_of(history: History, found: list[Finding]) -> Counter[Violation]:
    promised = {one.name for one in PROPERTIES if one.applies(history.header)}
    found = summed(found)
    return Counter(
        one.violation(history.facts)
        for one, stands in zip(found, standing(found), strict=True)
        if stands and one.property in promised
    )


@pytest.mark.parametrize("many_rows", [1, kernel.MANY_ROWS], ids=["at-once", "one-by-one"])
def test_batches_of_any_size_are_judged_as_the_whole(
    many_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every property, whether kernels look at rows one by one or by NumPy at many."""
    broken = set()
    for journal in journals():
        history = History(journal)
        wanted = Counter(check_all(history).violations)
        broken |= {one.property for one in wanted}
        with monkeypatch.context() as patch:
            for module in (kernel, flow_bounds, safe):
                patch.setattr(module, "MANY_ROWS", many_rows)
            for size in (1, 7, 1_000_000):
                assert found_in_batches(history, size) == wanted, (journal.header.run, size)
    # The comparison says something of a property only if some run breaks it.
    assert broken == {one.name for one in PROPERTIES}


def found_in_file(history: History, path: Path) -> Counter[Violation]:
    facts = history.facts
    found = []
    for sorting in SORTINGS:
        makers = [makers_of(PROPERTIES, history.header, sorting)]
        groups = [number for number, _ in history.groups(sorting)]
        # As tasks do that share them out.
        for some in (groups[::2], groups[1::2]):
            for piece in judge_file(path, facts, 0, sorting, some, makers):
                found += piece
    return told_of(history, found)


def test_a_file_is_judged_as_the_journal_in_it(tmp_path: Path) -> None:
    """Whoever reads it for some groups finds what is wrong with those; all together, everything."""
    broken = set()
    for journal in journals():
        history = History(journal)
        if history.facts.ranked:
            continue  # what replaces across senders is nothing that one reader knows
        wanted = Counter(check_all(history).violations)
        broken |= {one.property for one in wanted}
        path = write_journal(journal, tmp_path)
        assert found_in_file(history, path) == wanted, journal.header.run
    assert broken == {one.name for one in PROPERTIES}


@pytest.mark.parametrize(
    "judging",
    [
        BooksKernel,
        CoversKernel,
        FlowBoundsKernel,
        IntegrityKernel,
        FifoOrderKernel,
        OwedKernel,
        StabilityKernel,
    ],
)
def test_rows_that_are_as_they_should_be_are_told_at_once(
    judging: type[kernel.Kernel], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a run that keeps its promises no kernel has to look at rows one by one."""
    write_synthetic(tmp_path, 20_000)
    history = History(read_journal(tmp_path))
    plain = judging.feed_many
    told = []

    def counted(self: kernel.Kernel, rows: Rows) -> bool:
        told.append(plain(self, rows))
        return told[-1]

    monkeypatch.setattr(judging, "feed_many", counted)
    assert not found_in_batches(history, 1_000_000)
    assert told
    assert all(told)
