"""A query that is killed under traffic and goes on from its checkpoint: nothing lost or doubled."""

from collections import defaultdict
from pathlib import Path

from pyspark.sql import SparkSession
from tests.pipeline.stream_groups import SPARK, Query, has_come, party, traffic, wait_until

from semcast.journal import read_journal, runs_in
from semcast.pipeline.streaming.taker import MESSAGES_MAX

# By sender and its life: the numbers in Parquet.
Found = dict[tuple[str, int], list[int]]


def numbers(spark: SparkSession, out: Path) -> Found:
    """What is in Parquet by now, in the order in which it came."""
    found: Found = defaultdict(list)
    rows = spark.read.parquet(str(out)).orderBy("offset")
    for row in rows.select("sender", "life", "seq").collect():
        found[row.sender, row.life].append(row.seq)
    return found


def batches(checkpoint: Path) -> int:
    """How many batches the query has done."""
    return sum(path.name.isdigit() for path in checkpoint.glob("commits/*"))


def test_nothing_that_the_member_received_is_lost_or_doubled(
    spark: SparkSession, tmp_path: Path
) -> None:
    out, journal, spool = tmp_path / "out", tmp_path / "journal", tmp_path / "spool"
    checkpoint = tmp_path / "checkpoint"
    with party() as group:
        options = group.options | {"spool": str(spool)}
        options |= {"record": str(journal), "record_run": "killed"}
        told = {"options": options, "checkpoint": str(checkpoint), "out": str(out)}
        query = Query(**told)
        try:
            group.wait_complete()
            with traffic(group):
                wait_until(lambda: batches(checkpoint) > 2, "some batches are done")
                query.kill()
                before = batches(checkpoint)
                query = Query(**told)
                wait_until(lambda: batches(checkpoint) > before + 2, "and some more")
            last = {name: int(group[name].stats()["multicast"]) for name in "ab"}
            wait_until(lambda: has_come(spool, last), "the last messages")
            assert query.stop() == 0
            wait_until(lambda: group.state_of(SPARK) == "left", "the member leaves")
        finally:
            query.kill()
    found = numbers(spark, out)
    assert {sender: seqs[-1] for (sender, _), seqs in found.items()} == last
    for seqs in found.values():
        assert seqs == sorted(set(seqs)), "each once, and in order"
    _check_against_the_journal(found, journal)


def _check_against_the_journal(found: Found, folder: Path) -> None:
    """What each life of the member delivered is in Parquet, but for one take at its very end."""
    (run,) = runs_in(folder)
    delivered: dict[str, list[tuple[int, int]]] = defaultdict(list)
    by_life = {life: set(seqs) for (_, life), seqs in found.items()}
    for event in read_journal(folder, run):
        if event.event == "deliver" and event.sender is not None and event.seq is not None:
            delivered[event.node].append((int(event.sender.partition(".")[2]), event.seq))
    assert len(delivered) == 2, "two lives"
    first, second = (delivered[node] for node in sorted(delivered, key=lambda n: n.split(".")[1]))
    missing = [one for one in first if one[1] not in by_life[one[0]]]
    assert len(missing) <= MESSAGES_MAX
    assert missing == first[len(first) - len(missing) :]
    assert all(seq in by_life[life] for life, seq in second)
