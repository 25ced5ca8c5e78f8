"""Profiles by Spark against the in-process profiler, the notes of real traces, and a journal."""

import random
import re
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.obsolescence.naive_profiler import Profiler

from semcast.errors import InputError
from semcast.journal import Event, Header, Journal, write_journal
from semcast.pipeline.ingest.read import ROWS_SCHEMA
from semcast.pipeline.profiling import totals
from semcast.pipeline.profiling.find import find_traffic
from semcast.pipeline.profiling.kernel import Question
from semcast.pipeline.profiling.run import profile_rows, profile_trace
from semcast.pipeline.profiling.summary import TrafficProfile

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
FOUND = sorted(path.name.removesuffix(".csv.gz") for path in TRACES.glob("*.csv.gz"))


def stream(seed: int, length: int = 400) -> list[tuple[str, str]]:
    """Senders and keys; two senders share some keys, as nothing forbids."""
    draw = random.Random(f"stream/{seed}")
    keys = ["", "hot", *(f"k{n}" for n in range(20))]
    weights = [3, 12, *(1 for _ in range(20))]
    return [(f"s{draw.randrange(4)}", draw.choices(keys, weights)[0]) for _ in range(length)]


def expected(messages: list[tuple[str, str]], per_sender: bool) -> tuple[Counter[int], int]:
    """Messages by D, and how many are never replaced, by the in-process profiler."""
    profilers: dict[str, Profiler] = {}
    counts: Counter[int] = Counter()
    for sender, key in messages:
        profiler = profilers.setdefault(sender if per_sender else "", Profiler())
        counts[profiler.add(key or None)] += 1
    never = sum(profiler.profile().never_obsolete for profiler in profilers.values())
    return Counter({x: n for x, n in counts.items() if x}), never


@pytest.mark.parametrize(("seed", "per_sender"), [(1, False), (2, True)])
def test_spark_and_the_profiler_agree_however_rows_are_spread(
    spark: SparkSession, seed: int, per_sender: bool
) -> None:
    """Rows in any order, in blocks of a few: nearly all distances cross blocks. SRM §5.1"""
    messages = stream(seed)
    rows = [
        (at // 150, 0, at, at / 10, sender, key, "", at % 9, None, None)
        for at, (sender, key) in enumerate(messages)
    ]
    frame = spark.createDataFrame(rows, ROWS_SCHEMA).repartition(3)
    found = profile_rows(spark, frame, "made", Question(per_sender), block_rows=16)
    counts, never = expected(messages, per_sender)
    assert found.distances.counts == counts
    assert found.distances.largest == max(counts)
    assert (found.messages, found.never_replaced) == (len(messages), never)
    owners = Counter((sender if per_sender else "", key) for sender, key in messages if key)
    assert found.keys_with.counts == Counter(owners.values())
    assert found.top_keys[0].messages == max(owners.values())
    senders = Counter(sender for sender, _ in messages)
    assert [(one.name, one.messages) for one in found.top_senders] == sorted(
        senders.items(), key=lambda one: (-one[1], one[0])
    )
    assert found.windows_with.counts == {10: 40}
    assert found.mean_rate_msg_s == pytest.approx(len(messages) / 39.9)
    assert found.bytes_total == sum(at % 9 for at in range(len(messages)))


def test_far_distances_are_counted_by_class_and_the_largest_as_it_is(spark: SparkSession) -> None:
    length, far = 3, 200_001
    frame = spark.range(length).selectExpr(
        "0 AS file", "id AS start", f"id * {far} AS row", "CAST(NULL AS double) AS time_s",
        "'' AS sender", "'a' AS key", "'' AS kind", "CAST(NULL AS int) AS size",
        "CAST(NULL AS string) AS reason", "CAST(NULL AS string) AS text",
    )  # fmt: skip
    between = spark.range(length * far).where(f"id % {far} != 0").selectExpr(
        "0 AS file", f"id DIV {far} AS start", "id AS row", "CAST(NULL AS double) AS time_s",
        "'' AS sender", "'' AS key", "'' AS kind", "CAST(NULL AS int) AS size",
        "CAST(NULL AS string) AS reason", "CAST(NULL AS string) AS text",
    )  # fmt: skip
    found = profile_rows(spark, frame.union(between), "far", Question(per_sender=False))
    assert found.messages == length * far
    ((least, times),) = found.distances.counts.items()
    assert times == length - 1
    assert found.distances.largest == far
    assert least <= far < least * (1 + 1 / 512)
    assert least > totals.EXACT_MAX


# -- real traces, where they are -------------------------------------------------------------------


def figure(note: str, row: str) -> list[float]:
    """The numbers in the second column of a row of the note that stands beside a trace."""
    line = next(line for line in note.splitlines() if line.startswith(f"| {row}"))
    text = line.split("|")[2].replace(",", "").replace("*", "")
    return [float(number) for number in re.findall(r"\d+(?:\.\d+)?", text)]


def quantiles(found: TrafficProfile) -> list[int]:
    return [round(found.distances.quantile(share)) for share in (0.5, 0.9, 0.99)]


@pytest.mark.skipif(not FOUND, reason="the real traces are not beside this folder")
@pytest.mark.parametrize("name", FOUND)
def test_real_traces_have_the_figures_of_their_notes(spark: SparkSession, name: str) -> None:
    note = (TRACES / f"{name}.md").read_text()
    path = TRACES / f"{name}.csv.gz"
    found = profile_trace(spark, path, Question(per_sender=False))
    assert found.messages == figure(note, "rows")[0]
    never = figure(note, "**never superseded in all")[0]
    assert 100 * found.never_replaced_share == pytest.approx(never, abs=0.006)
    assert [*quantiles(found), found.distances.largest] == figure(note, "**obsolescence distance")
    assert [found.senders, found.keys_with.total] == figure(note, "senders / distinct keys")
    assert found.windows_with.largest == figure(note, "peak")[0]
    assert found.duration_s == pytest.approx(figure(note, "duration")[0], abs=0.006)
    mean, _, p99, total = figure(note, "size mean")[0:1] + figure(note, "size mean")[-3:]
    assert found.sizes.mean == pytest.approx(mean, abs=0.06)
    assert (round(found.sizes.quantile(0.99)), found.bytes_total) == (p99, total)
    if name != "quake_4on4":  # one of them shows the other sense: Spark takes seconds for each
        return
    own = profile_trace(spark, path, Question(per_sender=True))
    assert quantiles(own) == figure(note, "same, counted in the sender's own sequence")
    assert own.never_replaced == found.never_replaced  # every key belongs to one sender


# -- journals --------------------------------------------------------------------------------------


def test_a_journal_is_profiled_by_what_was_multicast(spark: SparkSession, tmp_path: Path) -> None:
    """Two senders, one of which has a clock that goes back: its own order holds."""
    messages = [("p1.1", "a"), ("p2.1", "b"), ("p1.1", "a"), ("p1.1", ""), ("p2.1", "b")]
    journal = Journal(Header(run="made", members=("p1.1", "p2.1")))
    seqs: Counter[str] = Counter()
    for at, (sender, key) in enumerate(messages):
        seqs[sender] += 1
        time_ns = 10 if at == 2 else 1000 * at
        marks = (1,) if at == 3 else None
        event = Event(
            time_ns, at + 1, sender, "multicast", sender, seqs[sender], marks, key or None, size=5
        )
        journal.append(event)
    journal.append(Event(9000, 100, "p1.1", "receive", "p2.1", 1, key="b", size=5))
    write_journal(journal, tmp_path)
    found = profile_trace(spark, tmp_path, Question(per_sender=True))
    assert (found.name, found.messages, found.senders) == ("made", 5, 2)
    assert found.distances.counts == {1: 2}
    assert found.by_number == 1
    assert (found.bytes_total, found.times_back) == (25, 0)


# -- what cannot be profiled -----------------------------------------------------------------------


def test_no_rows_are_said_so_with_what_was_bad(spark: SparkSession, tmp_path: Path) -> None:
    empty, bad = tmp_path / "empty.csv", tmp_path / "bad.csv"
    empty.write_text("time_s,key\n")
    bad.write_text("time_s,key\nnever,a\n-1,b\n")
    with pytest.raises(InputError, match=r"no messages in it$"):
        profile_trace(spark, empty)
    with pytest.raises(InputError, match=r"only bad rows .*1: time missing.*1: time below 0"):
        profile_trace(spark, bad)
    with pytest.raises(InputError, match="a window of 0"):
        profile_trace(spark, bad, Question(window_s=0.0))


def test_one_of_several_runs_must_be_chosen(tmp_path: Path) -> None:
    for run in ("one", "two"):
        write_journal(Journal(Header(run=run, members=("p1.1",))), tmp_path)
    with pytest.raises(InputError, match="it has 2 runs; choose one by --only: one, two"):
        find_traffic(tmp_path)
    with pytest.raises(InputError, match="no run 'three' in it"):
        find_traffic(tmp_path, choice="three")
    assert find_traffic(tmp_path, choice="two").name == "two"
    assert find_traffic(tmp_path / "run=one").name == "one"
