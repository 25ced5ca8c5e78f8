"""Every question, on a story of five messages whose answers are worked out by hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from semcast.journal import Header, Journal, write_journal
from semcast.pipeline.analysis.questions import QUESTIONS, Analysis, Options
from semcast.pipeline.analysis.runs import with_views
from semcast.pipeline.journals import read_journals

MS = 1_000_000
ROUND_MS = 15.0
WINDOW_S = 0.05
A, B = "p0.1", "p1.1"


class Teller:
    """Writes events at milliseconds."""

    def __init__(self, run: str) -> None:
        self.journal = Journal(Header(run=run, members=(A, B)))
        self.sent: dict[int, dict[str, Any]] = {}

    def multicast(self, at_ms: int, seq: int, key: str | None, size: int, *distances: int) -> None:
        """A's message, which A takes at once."""
        self.sent[seq] = {"key": key, "sent_ns": at_ms * MS, "size": size}
        self.about(at_ms, A, "multicast", seq, obsoletes=distances)
        self.about(at_ms, A, "receive", seq)
        self.about(at_ms, A, "deliver", seq)

    def about(self, at_ms: int, node: str, event: str, seq: int, **more: Any) -> None:
        """Something happened to a message of A."""
        self.journal.record(at_ms * MS, node, event, A, seq, **(self.sent[seq] | more))

    def purge(self, at_ms: int, node: str, seq: int, where: str, by: int | None) -> None:
        by_sender = None if by is None else A
        self.about(at_ms, node, "purge", seq, where=where, by_sender=by_sender, by_seq=by)

    def told(self, at_ms: int, node: str, event: str, seq: int, **more: Any) -> None:
        """Something is known of A's messages up to, or at, a number."""
        self.journal.record(at_ms * MS, node, event, A, seq, **more)


def story() -> Journal:
    """A sends 1, 3, 4, 5 about one key and 2 about none; B reads slowly and takes 2 and 5."""
    teller = Teller("story")
    teller.multicast(0, 1, "k", 10)
    teller.about(1, B, "receive", 1)
    teller.multicast(10, 2, None, 20)
    teller.about(11, B, "receive", 2)
    teller.multicast(20, 3, "k", 10, 2)
    teller.about(21, B, "receive", 3)
    teller.purge(21, B, 1, "delivery", 3)
    teller.told(25, A, "safe", 3)
    teller.purge(25, A, 1, "retransmit", 3)
    teller.told(30, A, "block", 3)
    teller.about(40, B, "deliver", 2)
    teller.told(50, A, "unblock", 4)
    teller.multicast(50, 4, "k", 10, 1, 3)
    teller.told(52, B, "nak", 4)
    teller.about(53, A, "retransmit", 4)
    teller.multicast(60, 5, "k", 10, 1, 2, 4)
    teller.told(61, B, "skip", 4, by_sender=A, by_seq=5)
    teller.about(62, B, "receive", 5)
    teller.purge(62, B, 3, "delivery", 5)
    teller.about(70, B, "deliver", 5)
    teller.told(80, A, "stable", 5)
    teller.told(82, B, "stable", 5)
    teller.told(90, A, "block", 5)
    teller.journal.record(100 * MS, A, "crash")
    teller.told(110, B, "safe", 5)
    return teller.journal


def unkeyed() -> Journal:
    """Messages without keys that replace others; B drops one, and forgets what covers another."""
    teller = Teller("unkeyed")
    for seq, distances in ((1, ()), (2, (1,)), (3, (1, 2)), (4, ()), (5, (1,))):
        teller.multicast(10 * seq, seq, None, 10, *distances)
    for seq in (1, 2, 3):
        teller.about(10 * seq + 1, B, "receive", seq)
        if seq > 1:
            teller.purge(10 * seq + 1, B, seq - 1, "delivery", seq)
    teller.told(41, B, "skip", 4, by_sender=A, by_seq=4)
    teller.about(51, B, "receive", 5)
    teller.purge(52, B, 5, "delivery", None)
    teller.about(60, B, "deliver", 3)
    return teller.journal


@pytest.fixture(scope="module")
def tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, list[dict[str, Any]]]]:
    folder = tmp_path_factory.mktemp("journals")
    for journal in (story(), unkeyed()):
        write_journal(journal, folder)
    options = Options(window_s=WINDOW_S, round_ms=ROUND_MS)
    with Analysis(read_journals(spark, folder), list(QUESTIONS), options) as analysis:
        yield {name: [row.asDict() for row in analysis.table(name).collect()] for name in QUESTIONS}


def rows(
    tables: dict[str, list[dict[str, Any]]], question: str, *by: str, run: str = "story"
) -> dict[Any, dict[str, Any]]:
    """The rows of a run by what names them."""
    found = {
        tuple(row[name] for name in by) if len(by) > 1 else row[by[0]]: row
        for row in tables[question]
        if row["run"] == run
    }
    assert len(found) == sum(row["run"] == run for row in tables[question])
    return found


def part(row: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return tuple(row[name] for name in names)


Tables = dict[str, list[dict[str, Any]]]


def test_throughput_is_set_against_how_long_a_member_was_there(tables: Tables) -> None:
    """A crashed after 100 ms; the run ended after 110."""
    found = rows(tables, "throughput", "node")
    counts = ("multicast", "multicast_bytes", "received", "received_bytes", "delivered")
    assert part(found[A], *counts) == (5, 60, 5, 60, 5)
    assert part(found[B], *counts) == (0, 0, 4, 50, 2)
    assert found[A]["measured_s"] == pytest.approx(0.1)
    assert found[B]["measured_s"] == pytest.approx(0.11)
    assert found[A]["multicast_msg_s"] == pytest.approx(50)
    assert found[B]["delivered_msg_s"] == pytest.approx(2 / 0.11)
    assert found[B]["delivered_bytes_s"] == pytest.approx(30 / 0.11)


def test_purging_tells_place_and_reason_apart(tables: Tables) -> None:
    found = rows(tables, "purging", "node", "place", "reason")
    assert {
        name: part(row, "messages", "bytes", "share_of_sent") for name, row in found.items()
    } == {
        (A, "retransmit", "replaced"): (1, 10, 0.2),
        (B, "delivery", "replaced"): (2, 20, 0.4),
        (B, "network", "covered"): (1, 0, 0.2),
    }
    other = rows(tables, "purging", "place", "reason", run="unkeyed")
    assert {name: row["messages"] for name, row in other.items()} == {
        ("delivery", "replaced"): 2,
        ("delivery", "dropped"): 1,
        ("network", "cover forgotten"): 1,
    }


def test_latency_is_of_what_was_taken(tables: Tables) -> None:
    """B took 2 after 30 ms and 5 after 10; the smaller one is that of half of them."""
    found = rows(tables, "latency", "node")
    names = [f"latency_{name}_ms" for name in ("p50", "p90", "p99", "max", "mean")]
    assert part(found[B], *names) == (10.0, 30.0, 30.0, 30.0, 20.0)
    assert part(found[A], *names) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert found[A]["one_clock"]


def test_semantic_latency_lasts_until_something_newer_was_taken(tables: Tables) -> None:
    """At B: 1 until 5 came, 70 ms; 2 itself, 30; 3 until 5, 50; 4 until 5, 20; 5 itself, 10."""
    found = rows(tables, "semantic", "node")
    assert part(found[B], "messages", "replaced", "waiting") == (5, 3, 0)
    names = [f"semantic_latency_{name}_ms" for name in ("p50", "p90", "p99", "max", "mean")]
    assert part(found[B], *names) == (30.0, 70.0, 70.0, 70.0, 36.0)
    names = [f"replaced_latency_{name}_ms" for name in ("p50", "p90", "p99", "max")]
    assert part(found[B], *names) == (50.0, 70.0, 70.0, 70.0)
    assert part(found[A], *names) == (None,) * 4


def test_covers_are_followed_where_there_are_no_keys(tables: Tables) -> None:
    """1 was purged for 2, 2 for 3, and 3 was taken at 60: after 50, 40 and 30 ms. 4 and 5 wait."""
    found = rows(tables, "semantic", "node", run="unkeyed")[B]
    assert part(found, "messages", "replaced", "waiting") == (5, 4, 2)
    names = [f"semantic_latency_{name}_ms" for name in ("p50", "max", "mean")]
    assert part(found, *names) == (40.0, 50.0, 40.0)
    assert found["replaced_latency_p50_ms"] == 40.0


def test_rounds_outdated_are_told_by_the_senders_clock(tables: Tables) -> None:
    """Rounds of 15 ms: values of rounds 0, 1, 3 and 4, replaced by the last (SRM §7.2)."""
    found = rows(tables, "rounds", "node")
    names = ("updates", "same_round_share", "within_10_rounds_share", "rounds_mean")
    assert part(found[B], *names) == (4, 0.25, 1.0, 2.0)
    assert part(found[B], "rounds_p50", "rounds_p90", "rounds_max") == (1, 4, 4)
    assert part(found[B], "values_behind_mean", "values_behind_max") == (1.5, 3)
    assert part(found[A], *names) == (4, 1.0, 1.0, 0.0)
    # Without keys there are no values.
    assert rows(tables, "rounds", "node", run="unkeyed") == {}


def test_occupancy_is_weighted_by_time_and_sees_no_arrival_before_its_purge(tables: Tables) -> None:
    """B's delivery buffer held 1 message for 40 ms and 2 for 29; never 3, for 3 replaced 1."""
    found = rows(tables, "occupancy", "node", "buffer")
    names = ("messages_mean", "messages_max", "bytes_mean", "bytes_max")
    assert part(found[B, "delivery"], *names) == pytest.approx((98 / 110, 2, 1270 / 110, 30))
    assert part(found[A, "delivery"], *names) == (0.0, 1, 0.0, 20)
    assert part(found[B, "retransmit"], *names[:2]) == pytest.approx((233 / 110, 4))
    assert part(found[A, "retransmit"], *names[:2]) == pytest.approx((205 / 100, 4))
    # 1 is purged for safety at 25: 10, 30, 40, 30, 40, 50 bytes until 10, 20, 25, 50, 60, 80 ms.
    mean = (100 + 300 + 200 + 30 * 25 + 400 + 1000) / 100
    assert part(found[A, "retransmit"], *names[2:]) == pytest.approx((mean, 50))


def test_the_series_of_occupancy_cuts_what_is_held_at_the_windows(tables: Tables) -> None:
    found = rows(tables, "series", "node", "buffer", "window")
    mine = {
        window: row
        for (node, buffer, window), row in found.items()
        if (node, buffer) == (B, "delivery")
    }
    assert {window: row["messages_mean"] for window, row in mine.items()} == pytest.approx(
        {0: 78 / 50, 1: 20 / 50, 2: 0.0}
    )
    assert {window: row["messages_max"] for window, row in mine.items()} == {0: 2, 1: 1, 2: 0}
    assert [row["covered_s"] for _, row in sorted(mine.items())] == pytest.approx(
        [0.05, 0.05, 0.01]
    )
    assert [row["start_s"] for _, row in sorted(mine.items())] == pytest.approx([0.0, 0.05, 0.1])


def test_blocked_time_ends_with_the_member(tables: Tables) -> None:
    """Blocked from 30 to 50 ms, and from 90 until it crashed at 100."""
    found = rows(tables, "blocked", "node")
    names = ("blocks", "blocked_s", "blocked_share", "longest_ms")
    assert part(found[A], *names) == pytest.approx((2, 0.03, 0.3, 20.0))
    assert part(found[B], *names) == (0, 0.0, 0.0, 0.0)


def test_receivers_are_counted_by_message_and_whether_anything_replaced_it(tables: Tables) -> None:
    found = rows(tables, "receivers", "never_replaced", "recipients", "receivers")
    assert {name: row["messages"] for name, row in found.items()} == {
        (False, 2, 1): 3,
        (True, 2, 2): 2,
    }
    other = rows(tables, "receivers", "never_replaced", "recipients", "receivers", run="unkeyed")
    # Replaced: 1, 2, 4. B took 3 alone; 5, which nothing replaces, was dropped.
    assert {name: row["messages"] for name, row in other.items()} == {
        (False, 2, 1): 3,
        (True, 2, 2): 1,
        (True, 2, 1): 1,
    }


def test_atomicity_and_its_variation(tables: Tables) -> None:
    """Of five messages two got to both: 1.4 receivers, deviation √0.24 (PSRM §4.2)."""
    found = rows(tables, "atomicity", "of")
    names = (
        "messages",
        "receivers_mean",
        "receivers_stddev",
        "receivers_variation",
        "to_all_share",
    )
    deviation = 0.24**0.5
    assert part(found["all"], *names) == pytest.approx((5, 1.4, deviation, deviation / 1.4, 0.4))
    assert part(found["never replaced"], *names) == (2, 2.0, 0.0, 0.0, 1.0)
    assert found["all"]["to_over_95_percent_share"] == pytest.approx(0.4)
    assert found["all"]["to_none_share"] == 0.0


def test_stability_and_safety_lag_are_from_the_multicast(tables: Tables) -> None:
    found = rows(tables, "stability", "node", "own")
    stable = [f"stable_lag_{name}_ms" for name in ("p50", "p90", "max")]
    safe = [f"safe_lag_{name}_ms" for name in ("p50", "p90", "max")]
    assert part(found[A, True], "messages", "stable", *stable) == (5, 5, 60.0, 80.0, 80.0)
    assert part(found[A, True], "safe", *safe) == (3, 15.0, 25.0, 25.0)
    assert part(found[B, False], "messages", "stable", *stable) == (4, 4, 62.0, 82.0, 82.0)
    assert part(found[B, False], "safe", *safe) == (4, 90.0, 110.0, 110.0)
    assert (A, False) not in found


def test_repair_is_set_against_what_the_group_sent(tables: Tables) -> None:
    found = rows(tables, "repair", "node")
    assert part(found[B], "naks", "naks_per_message", "retransmitted") == (1, 0.2, 0)
    assert part(found[A], "retransmitted", "retransmitted_per_message") == (1, 0.2)
    assert found[A]["retransmitted_bytes_share"] == pytest.approx(10 / 60)


def test_every_event_is_of_the_view_told_last_at_its_node(spark: SparkSession) -> None:
    told = [
        ("r", A, 1, "deliver", None), ("r", A, 2, "view", 7), ("r", A, 3, "deliver", None),
        ("r", A, 4, "view", 8), ("r", A, 5, "deliver", None), ("r", B, 9, "deliver", None),
    ]  # fmt: skip
    events = spark.createDataFrame(
        told, "run string, node string, lsn long, event string, view long"
    )
    found = {(row["node"], row["lsn"]): row["view"] for row in with_views(events).collect()}
    assert found == {(A, 1): None, (A, 2): 7, (A, 3): 7, (A, 4): 8, (A, 5): 8, (B, 9): None}


def test_a_run_is_told_view_by_view(spark: SparkSession, tmp_path: Path) -> None:
    """One message in each view; the second view begins after 30 of 50 ms."""
    teller = Teller("views")
    for node in (A, B):
        teller.journal.record(0, node, "view", view=1)
    teller.multicast(10, 1, None, 10)
    teller.about(20, B, "receive", 1)
    for node in (A, B):
        teller.journal.record(30 * MS, node, "view", view=2)
    teller.multicast(40, 2, None, 10)
    teller.about(50, B, "deliver", 1)
    write_journal(teller.journal, tmp_path)
    asked = ["throughput", "occupancy"]
    with Analysis(read_journals(spark, tmp_path), asked) as analysis:
        found = {(r["node"], r["view"]): r for r in analysis.table("throughput").collect()}
        held = {
            (r["node"], r["view"]): r
            for r in analysis.table("occupancy").where("buffer = 'delivery'").collect()
        }
    assert {name: row["measured_s"] for name, row in found.items()} == pytest.approx(
        {(A, 1): 0.03, (A, 2): 0.02, (B, 1): 0.03, (B, 2): 0.02}
    )
    assert {name: row["delivered"] for name, row in found.items()} == {
        (A, 1): 1, (A, 2): 1, (B, 1): 0, (B, 2): 1,
    }  # fmt: skip
    assert held[B, 1]["messages_mean"] == pytest.approx(10 / 30)
    assert held[B, 2]["messages_mean"] == pytest.approx(1.0)
