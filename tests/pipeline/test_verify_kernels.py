"""Kernels find the same however rows come to them: all at once, in batches, or one by one.

Without Spark: the rows of a journal are sorted here as `frames` has them sorted.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from tests.check.log import Log
from tests.check.runs import Run

from semcast.check import check_all
from semcast.journal import Event, Journal
from semcast.pipeline.verify import frames, report
from semcast.pipeline.verify.books import BooksKernel
from semcast.pipeline.verify.facts import Facts, Seen, facts_of
from semcast.pipeline.verify.flow_bounds import FlowBoundsKernel
from semcast.pipeline.verify.frames import BY_LIVES, BY_NODE, BY_SENDER, IN_ORDER
from semcast.pipeline.verify.kernel import Kernel, feed_all
from semcast.pipeline.verify.stability import StabilityKernel
from semcast.sim.cases import case
from semcast.sim.world import run as simulate

LOGS = range(60)
CASES = (3, 5, 7)
KINDS = {
    "multicast": frames.MULTICAST, "receive": frames.RECEIVE, "deliver": frames.DELIVER,
    "skip": frames.SKIP, "stable": frames.STABLE, "join": frames.JOIN,
}  # fmt: skip
PURGES = {"delivery": frames.PURGE_DELIVERY, "retransmit": frames.PURGE_RETRANSMIT}
# Judged by a kernel alone; Accounting asks for covers besides, and ranks need a join.
ALONE = {
    name: [sorting for sorting, kernels in report.KERNELS.items() if name in kernels]
    for name in {name for kernels in report.KERNELS.values() for name in kernels}
    if name != "Accounting"
}
GROUPS = {BY_NODE: "nid", BY_SENDER: "sid", BY_LIVES: "lid", IN_ORDER: "gid"}
SCHEMA = pa.schema(
    [
        *((name, pa.int32()) for name in ("nid", "n", "kind", "sid", "bsid", "size", "gid", "lid")),
        *((name, pa.int64()) for name in ("seq", "bseq", "at", "time_ns", "rank", "chain_at")),
        ("obsoletes", pa.list_(pa.int32())),
        ("key", pa.string()),
    ]
)
Rows = list[dict[str, Any]]


def random_log(number: int) -> Journal:
    """A toy protocol with mischief in between, or none; without ranks."""
    rng = random.Random(f"kernels/{number}")
    journal = Run(rng.randrange).run(10 + rng.randrange(80))
    header = replace(journal.header, run=f"log {number}", order=rng.choice(("fifo", "key")))
    other = Journal(header)
    for event in journal:
        other.append(event._replace(rank=None))
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


def journals() -> Iterator[Journal]:
    for number in LOGS:
        yield random_log(number)
    yield reborn_log()
    for seed in CASES:
        outcome = simulate(case(seed), seed)
        assert outcome.journal is not None
        yield outcome.journal


def facts_and_rows(journal: Journal) -> tuple[Facts, Rows]:
    """What the survey would find, and every event with numbers for names."""
    header, events = journal.header, list(journal)
    by_kind: dict[tuple[str, str], list[tuple[int, Event]]] = {}
    for at, event in enumerate(events):
        by_kind.setdefault((event.node, event.event), []).append((at, event))
    seen = [
        Seen(
            header.run, node, kind, len(some), some[0][0], some[-1][0],
            some[-1][1].time_ns, max(event.time_ns for _, event in some),
        )
        for (node, kind), some in by_kind.items()
    ]  # fmt: skip
    names = {name for event in events for name in (event.sender, event.by_sender) if name}
    facts = facts_of({header.run: header}, seen, {(header.run, name) for name in names})
    nodes = {name: n for n, name in enumerate(facts.runs[0].nodes)}
    senders = {name: sid for sid, (_, name) in enumerate(facts.senders)}
    crossing = any(event.by_seq is not None and event.by_sender != event.sender for event in events)
    rows = []
    for at, event in enumerate(events):
        kind = PURGES.get(event.where or "", frames.PURGE_OTHER)
        kind = kind if event.event == "purge" else KINDS.get(event.event, -1)
        if kind >= 0 and event.sender is not None and event.seq is not None:
            n, sid = nodes[event.node], senders[event.sender]
            covered = event.by_seq is not None
            rows.append(
                {
                    "nid": n, "n": n, "kind": kind, "sid": sid, "seq": event.seq,
                    "bsid": senders[event.by_sender or ""] if covered else -1,
                    "bseq": event.by_seq if covered else -1,
                    "size": event.size or 0, "gid": 0 if crossing else sid,
                    "lid": facts.lives.get(sid, -1),
                    "at": at, "time_ns": event.time_ns, "rank": event.rank, "chain_at": None,
                    "obsoletes": list(event.obsoletes or ()), "key": event.key,
                }
            )  # fmt: skip
    return facts, rows


def in_sorting(rows: Rows, sorting: str) -> Rows:
    """As `Frames` sorts them."""
    sent, left = frames.MULTICAST, (frames.PURGE_RETRANSMIT, frames.SKIP, frames.STABLE)
    if sorting == BY_NODE:
        kept = [row for row in rows if row["kind"] != frames.JOIN]
        return sorted(kept, key=lambda row: (row["nid"], row["at"]))
    if sorting == BY_SENDER:
        kept = [row for row in rows if row["kind"] in (sent, frames.DELIVER, frames.JOIN)]
        return sorted(kept, key=lambda row: (row["sid"], row["kind"] != sent, row["at"]))
    if sorting == BY_LIVES:
        kept = [row for row in rows if row["lid"] >= 0]
        kept = [row for row in kept if row["kind"] in (sent, frames.RECEIVE, frames.DELIVER)]
        return sorted(kept, key=lambda row: (row["lid"], row["kind"] != sent, row["at"]))
    kept = [row for row in rows if row["kind"] in (sent, frames.RECEIVE, frames.JOIN, *left)]
    return sorted(kept, key=lambda row: (row["gid"], row["at"]))


def found_by(
    make: Callable[[Facts, int], Kernel | None], facts: Facts, rows: Rows, sorting: str, size: int
) -> Counter[str]:
    """What kernels find in batches of so many rows."""
    ordered = in_sorting(rows, sorting)
    batches = [
        pa.RecordBatch.from_pylist(ordered[at : at + size], schema=SCHEMA)
        for at in range(0, len(ordered), size)
    ]

    def kernels(number: int) -> list[Kernel]:
        kernel = make(facts, number)
        return [] if kernel is None else [kernel]

    found = [row for some in feed_all(iter(batches), GROUPS[sorting], kernels) for row in some]
    return Counter(str(row) for row in found)


@pytest.fixture(scope="module")
def material() -> list[tuple[Journal, Facts, Rows]]:
    return [(journal, *facts_and_rows(journal)) for journal in journals()]


def test_a_kernel_finds_what_the_checker_finds(
    material: list[tuple[Journal, Facts, Rows]],
) -> None:
    """Of every property that is judged by kernels alone, in batches of any size."""
    broken = set()
    for journal, facts, rows in material:
        report_of = check_all(journal)
        for name, sortings in ALONE.items():
            if name not in report_of.judged:
                continue
            if IN_ORDER in sortings and not journal.header.one_order:
                continue
            wanted = sum(one.property == name for one in report_of.violations)
            for size in (1, 7, 1_000_000):
                total = 0
                for sorting in sortings:
                    found = found_by(report.KERNELS[sorting][name], facts, rows, sorting, size)
                    told = sum(n for text, n in found.items() if repr(name) in text)
                    broken |= {(sorting, name)} if told else set()
                    total += told
                assert total == wanted, (journal.header.run, name, size)
    # The comparison says something of a kernel only if some run breaks what it judges.
    assert broken == {(sorting, name) for name, sortings in ALONE.items() for sorting in sortings}


@pytest.mark.parametrize(
    ("sorting", "kernel", "name"),
    [
        (BY_NODE, BooksKernel, "_feed_many"),
        (BY_NODE, FlowBoundsKernel, "_feed_many"),
        (IN_ORDER, StabilityKernel, "_follow"),
    ],
)
def test_all_rows_at_once_are_booked_as_one_by_one(
    material: list[tuple[Journal, Facts, Rows]],
    monkeypatch: pytest.MonkeyPatch,
    sorting: str,
    kernel: Any,
    name: str,
) -> None:
    at_once = 0
    plain = getattr(kernel, name)

    def counted(*arguments: Any) -> Any:
        nonlocal at_once
        result = plain(*arguments)
        at_once += bool(result)
        return result

    make = partial(_made, kernel)
    for _, facts, rows in material:
        with monkeypatch.context() as patch:
            patch.setattr(kernel, name, lambda *_: None)
            wanted = found_by(make, facts, rows, sorting, 1_000_000)
            patch.setattr(kernel, name, counted)
            for size in (1, 5, 40, 1_000_000):
                assert found_by(make, facts, rows, sorting, size) == wanted
    assert at_once > 100


def _made(kernel: Any, facts: Facts, number: int) -> Kernel:
    made: Kernel = kernel(facts, number)
    return made
