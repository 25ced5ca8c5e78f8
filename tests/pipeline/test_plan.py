"""Plans: the closed form's guess, what the sweep makes of it, and what is printed to paste."""

import json
import math
import random
import statistics
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from semcast.cli import main
from semcast.errors import InputError
from semcast.journal import Event, Header, Journal, write_journal
from semcast.live.config import GroupConfig
from semcast.obsolescence import K_MAX
from semcast.pipeline.ingest.inputs import TraceOptions, find_files
from semcast.pipeline.ingest.read import read_rows
from semcast.pipeline.planning.confirm import BUFFER_MAX, Interval, Trial, interval, ladder
from semcast.pipeline.planning.forecast import (
    K_STEP,
    Demand,
    expected,
    expected_per_sender,
    forecast,
    forecast_per_sender,
    smallest_k,
    whole_words,
    within_reach,
)
from semcast.pipeline.planning.paste import WINDOW_MIN, group_config
from semcast.pipeline.planning.resampled import (
    BLOCKS_DRAWN,
    DRAWN_MESSAGES,
    DRAWS,
    ROWS_MAX,
    WHOLE_MESSAGES_MAX,
    Cut,
    drawn,
    draws,
)
from semcast.pipeline.planning.run import Receiver

TRACES = Path(__file__).parents[2].parent / "shared" / "traces"
KEYS = [
    "trace", "sense", "messages", "senders", "mean_rate_msg_s", "never_replaced_share", "by_number",
    "receiver_rate_msg_s", "receiver_rate_min_msg_s", "purge_ratio_needed", "purge_ratio_limit",
    "carried", "replacement", "buffer_messages", "k", "k_per_sender", "closed_form", "expected",
    "blocked_share_max", "seeds", "first_trial", "final_trial", "group_config",
]  # fmt: skip


@st.composite
def pmfs(draw: st.DrawFn) -> dict[int, float]:
    """A table of distances, some too far for any bitmap, and the share that replaces nothing."""
    weights = draw(
        st.dictionaries(st.integers(0, 3 * K_MAX), st.integers(1, 100), min_size=1, max_size=12)
    )
    total = sum(weights.values())
    return {x: weight / total for x, weight in weights.items()}


# -- the closed form -------------------------------------------------------------------------------


@given(pmfs(), st.floats(0.01, 2.0))
def test_the_buffer_is_the_smallest_that_leaves_what_the_receiver_takes(
    pmf: dict[int, float], share: float
) -> None:
    """SRM §6.5: N and k are the minimum that finds a sufficient share of pairs."""
    found = forecast(pmf, Demand(100.0, 100.0 * share))

    def left(n: int) -> float:
        return 1 - math.fsum(part for x, part in pmf.items() if 1 <= x <= n)

    enough = [n for n in range(K_MAX + 1) if left(n) <= share * (1 + 1e-9)]
    if not enough:
        assert found.buffer_messages is None
        assert found.k is None
    else:
        assert found.buffer_messages == max(1, enough[0])
        assert found.k is not None
        assert found.k % K_STEP == 0
        assert enough[0] <= found.k <= K_MAX
    assert found.receiver_rate_min_msg_s == pytest.approx(100.0 * left(K_MAX), abs=1e-6)


@given(pmfs(), st.integers(1, 5000), st.integers(0, K_MAX))
def test_what_is_expected_of_a_buffer_is_what_both_it_and_the_bitmap_reach(
    pmf: dict[int, float], buffer: int, k: int
) -> None:
    """SRM §6.2: whichever of N and k is smaller limits."""
    found = expected(pmf, Demand(100.0, 50.0), buffer, k)
    near = math.fsum(part for x, part in pmf.items() if 1 <= x <= min(buffer, k))
    assert found.purge_ratio == pytest.approx(near, abs=1e-9)
    if found.sender_rate_max_msg_s is not None:
        assert found.sender_rate_max_msg_s * (1 - found.purge_ratio) == pytest.approx(50.0)
    assert found.latency_full_ms == pytest.approx(buffer * 20.0)


@given(pmfs(), pmfs(), st.floats(0.01, 2.0))
def test_per_sender_the_bitmap_and_the_buffer_do_not_limit_each_other(
    own: dict[int, float], whole: dict[int, float], share: float
) -> None:
    """K is for distances in senders' own sequences, N for those in the sample of all."""
    demand = Demand(100.0, 100.0 * share)
    found = forecast_per_sender(own, whole, demand)
    alone = forecast(own, demand)
    assert found.k == alone.k
    if found.k is not None and found.buffer_messages is not None:
        near = math.fsum(part for x, part in whole.items() if 1 <= x <= found.buffer_messages)
        assert 1 - near <= share * (1 + 1e-9)
        assert expected_per_sender(
            own, whole, demand, found.buffer_messages, found.k
        ).purge_ratio == pytest.approx(min(near, 1 - within_reach(own, found.k)[0]))


@given(pmfs(), st.floats(0, 1))
def test_the_shortest_bitmap_tells_enough_pairs_or_is_the_longest(
    pmf: dict[int, float], ratio: float
) -> None:
    k = smallest_k(pmf, ratio)
    assert k % K_STEP == 0
    assert 1 - within_reach(pmf, k)[0] >= ratio - 1e-6 or k == K_MAX
    assert k == K_STEP or 1 - within_reach(pmf, k - K_STEP)[0] < ratio
    assert whole_words(k) == k == whole_words(k - 1)


@pytest.mark.parametrize("values", [{}, {"rate_msg_s": 1.0, "share": 1.0}, {"share": 0.0}])
def test_a_receiver_has_one_rate_above_zero(values: dict[str, float]) -> None:
    with pytest.raises(InputError):
        Receiver(**values)


# -- samples ---------------------------------------------------------------------------------------


@given(st.integers(1, 10**9), st.floats(1, 1e6))
def test_a_drawn_stream_has_no_more_than_about_its_messages(messages: int, length_s: float) -> None:
    cut = Cut.of(messages, 5.0, 5.0 + length_s)
    assert cut.block_s * cut.blocks == pytest.approx(length_s)
    assert messages / cut.blocks * BLOCKS_DRAWN <= max(DRAWN_MESSAGES * 1.1, messages / cut.blocks)
    chosen = draws(cut, messages, 2) if cut.blocks < 1000 else []
    assert chosen == draws(cut, messages, 2) or not chosen
    for sample, place, block in chosen:
        assert 0 <= block < cut.blocks
        assert place == block or sample > 0
    if chosen:
        assert (0 in {sample for sample, _, _ in chosen}) == (messages <= WHOLE_MESSAGES_MAX)


def write_trace(path: Path, rows: list[tuple[float, str]]) -> Path:
    lines = [f"{time_s:.6f},s,{key},m,10" for time_s, key in rows]
    path.write_text("\n".join(["time_s,sender,key,kind,size", *lines, ""]))
    return path


def test_streams_are_the_trace_and_whole_blocks_of_it(spark: SparkSession, tmp_path: Path) -> None:
    sample = random.Random(3)
    times = sorted(round(10 + sample.random() * 80, 6) for _ in range(400))
    rows = [(time_s, f"k{at}") for at, time_s in enumerate(times)]
    options = TraceOptions()
    files = find_files([write_trace(tmp_path / "t.csv", rows)], options)
    cut = Cut(times[0], (times[-1] - times[0]) / 20, 20)
    chosen = draws(cut, len(rows), 2)
    frame = drawn(
        read_rows(spark, files, options), spark.createDataFrame(chosen, DRAWS), cut
    ).toArrow()
    found: dict[int, list[str]] = {}
    before: dict[int, float] = {}
    for row in frame.to_pylist():
        found.setdefault(row["sample"], []).append(row["key"])
        assert row["time_s"] >= before.get(row["sample"], 0.0)
        before[row["sample"]] = row["time_s"]
    assert found[0] == [key for _, key in rows]
    assert before[0] == pytest.approx(times[-1] - times[0])
    for number in (1, 2):
        blocks = [block for one, _, block in chosen if one == number]
        assert found[number] == [
            key
            for block in blocks
            for time_s, key in rows
            if min(int((time_s - cut.first_s) / cut.block_s), 19) == block
        ]


def test_no_room_is_taken_for_rows_that_do_not_come(spark: SparkSession, tmp_path: Path) -> None:
    """The first of millions by an order would take hundreds of megabytes, and end a small JVM."""
    rows = [(at * 0.1, "a") for at in range(40)]
    options = TraceOptions()
    files = find_files([write_trace(tmp_path / "t.csv", rows)], options)
    choice = spark.createDataFrame([(1, 0, 0), (1, 1, 1)], DRAWS)
    frame = drawn(read_rows(spark, files, options), choice, Cut(0.0, 2.0, 2), 2 * ROWS_MAX)
    assert "TakeOrdered" not in frame._jdf.queryExecution().executedPlan().toString()
    assert frame.count() == len(rows)
    few = drawn(read_rows(spark, files, options), choice, Cut(0.0, 2.0, 2), 7)
    assert few.count() == 7


# -- the confirmation ------------------------------------------------------------------------------


@given(st.integers(1, 10**6), st.integers(1, 10**7))
def test_buffers_grow_by_powers_of_two_and_stay_small_beside_the_trace(
    first: int, messages: int
) -> None:
    sizes = ladder(first, messages)
    assert sizes[0] == first
    assert sizes == sorted(set(sizes))
    for size in sizes[1:]:
        assert size & (size - 1) == 0
        assert size <= min(BUFFER_MAX, messages / 4)


def test_a_trial_holds_only_with_its_whole_interval() -> None:
    assert interval([1.0]) == Interval(1.0, None)
    found = interval([0.0, 0.01, 0.02])
    assert found.mean == pytest.approx(0.01)
    assert found.ci95 == pytest.approx(4.3027 * statistics.stdev([0.0, 0.01, 0.02]) / math.sqrt(3))
    drawn_badly = Trial(1, 64, {"blocked_share": 0.0}, {"blocked_share": found})
    assert not drawn_badly.holds(0.02)
    assert drawn_badly.holds(0.05)
    assert not Trial(1, 64, {"blocked_share": 0.06}, {"blocked_share": found}).holds(0.05)


# -- what is pasted --------------------------------------------------------------------------------


@pytest.mark.parametrize(("buffer", "size_bytes"), [(1, 0), (4096, 200), (65_536, 100_000)])
def test_the_pasted_configuration_is_one(
    buffer: int, size_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    monkeypatch.setenv("SEMCAST_SECRET", "sixteen bytes or more")
    text = group_config('it\'s "quotes"', buffer, 128, size_bytes)
    config = eval(text, {"GroupConfig": GroupConfig, "os": os})
    assert isinstance(config, GroupConfig)
    assert (config.group, config.replacement, config.k) == ('it\'s "quotes"', "bitmap", 128)
    assert config.delivery_messages == buffer
    assert config.window_messages == max(buffer, WINDOW_MIN)
    assert config.delivery_bytes >= buffer * size_bytes
    assert config.window_bytes >= buffer * size_bytes


def test_by_key_nothing_is_pasted_of_bitmaps() -> None:
    text = group_config("quotes", 64, None, 10)
    assert "replacement" not in text
    assert "k=" not in text


# -- the command -----------------------------------------------------------------------------------


def bursty(seconds: int) -> list[tuple[float, str]]:
    """Every second 40 messages at once, then 40 over the rest; a quarter is never replaced."""
    sample = random.Random(7)
    rows = []
    for second in range(seconds):
        times = [second + at * 1e-6 for at in range(40)]
        times += [second + 0.2 + at * 0.02 for at in range(40)]
        rows += [(time_s, sample.choice(("", "a", "b", "c"))) for time_s in times]
    return rows


def test_bursts_enlarge_the_buffer_until_the_sweep_carries_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None  # the command finds it
    trace = write_trace(tmp_path / "bursts.csv", bursty(60))
    work = tmp_path / "work"
    command = ["plan", str(trace), "--receiver-share", "0.6", "--seeds", "3", "--work", str(work)]
    assert main([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == KEYS
    assert found["carried"] is True
    assert found["receiver_rate_msg_s"] == pytest.approx(0.6 * found["mean_rate_msg_s"])
    assert found["closed_form"]["buffer_messages"] < found["buffer_messages"] == 64
    assert found["first_trial"]["trace"]["blocked_share"] > 0.01
    final = found["final_trial"]
    assert final["trace"]["blocked_share"] <= 0.01
    blocked = final["drawn"]["blocked_share"]
    assert blocked["mean"] + blocked["ci95"] <= 0.01
    assert "delivery_messages=64," in found["group_config"]
    assert sorted(path.name for path in work.iterdir()) == [f"sample-{at}.csv" for at in range(4)]
    assert main(command) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Carried with N = 64 messages, replaced by key" in out
    assert "knows no bursts" in out
    assert "None" not in out
    assert "GroupConfig( group='bursts'," in out


def test_a_trace_is_planned_alike_as_a_file_as_ingested_and_as_a_journal(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    rows = bursty(20)
    trace = write_trace(tmp_path / "bursts.csv", rows)
    assert main(["ingest", str(trace), "--out", str(tmp_path / "lake")]) == 0
    write_journal(as_journal(rows), tmp_path / "journals")
    capsys.readouterr()
    found = []
    for path in (trace, tmp_path / "lake", tmp_path / "journals"):
        assert main(["plan", str(path), "--receiver-share", "0.6", "--seeds", "2", "--json"]) == 0
        plan = json.loads(capsys.readouterr().out)
        assert plan["by_number"] == 0
        found.append({name: plan[name] for name in ("messages", "closed_form", "final_trial")})
        assert "group='bursts'" in plan["group_config"]
    assert found[0]["messages"] == len(rows)
    assert found[0] == found[1]
    # A journal's clock counts nanoseconds: times differ in the last digit of a float.
    assert found[0]["closed_form"] == found[2]["closed_form"]
    assert found[0]["final_trial"]["buffer_messages"] == found[2]["final_trial"]["buffer_messages"]


def test_of_several_runs_one_is_planned_and_must_be_named(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    for run in ("one", "two"):
        write_journal(as_journal(bursty(2), run), tmp_path)
    assert main(["plan", str(tmp_path), "--receiver-rate", "1"]) == 2
    assert "choose one by --only: one, two" in capsys.readouterr().err


def as_journal(rows: list[tuple[float, str]], run: str = "bursts") -> Journal:
    """The journal of a sender that multicast these."""
    journal = Journal(Header(run=run, members=("p1.1",), group="g", k=64, f=1))
    for seq, (time_s, key) in enumerate(rows, 1):
        time_ns = round(time_s * 1e9)
        journal.append(
            Event(time_ns, seq, "p1.1", "multicast", "p1.1", seq, (), key or None,
                  sent_ns=time_ns, size=10)
        )  # fmt: skip
    return journal


def test_what_no_buffer_carries_is_said_with_the_rate_that_would_do(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Half of the messages is never replaced; no purging makes that less (SRM §5.1: R*)."""
    assert spark is not None
    rows = [(at * 0.01, "" if at % 2 else "a") for at in range(2000)]
    trace = write_trace(tmp_path / "trades.csv", rows)
    assert main(["plan", str(trace), "--receiver-rate", "40", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["carried"] is False
    assert found["group_config"] is None
    assert found["receiver_rate_min_msg_s"] == pytest.approx(50, rel=0.01)
    assert main(["plan", str(trace), "--receiver-rate", "40"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "No buffer can carry it: 50.0% of the messages are never replaced" in out
    assert "A receiver of at least 50.1 msg/s (50% of the mean rate) could be carried." in out


def test_many_senders_whose_own_messages_are_near_are_carried_per_sender(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ships that tell their positions: each replaces its last one, with all others between."""
    assert spark is not None
    ships = 1_500
    lines = [f"{at / 100:.6f},v{at % ships},p,m,10" for at in range(6 * ships)]
    trace = tmp_path / "ships.csv"
    trace.write_text("\n".join(["time_s,sender,key,kind,size", *lines, ""]))
    bitmap = ["--replacement", "bitmap", "--json"]
    asked = ["plan", str(trace), "--receiver-share", "0.5", "--seeds", "2", *bitmap]
    assert main([*asked, "--per-sender"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert list(own) == KEYS
    assert (own["sense"], own["carried"], own["k"]) == ("per_sender", True, K_STEP)
    # The buffer holds a message of each ship before one is replaced.
    assert own["closed_form"]["buffer_messages"] == ships
    assert own["buffer_messages"] >= ships
    assert own["final_trial"]["trace"]["purged_share"] > 0.1
    assert f"k={K_STEP}," in own["group_config"]

    keyed = [line.replace(",p,", f",{line.split(',')[1]},") for line in lines]
    trace.write_text("\n".join(["time_s,sender,key,kind,size", *keyed, ""]))
    assert main(asked) == 1
    one = json.loads(capsys.readouterr().out)
    assert (one["sense"], one["carried"], one["purge_ratio_limit"]) == ("one_stream", False, 0)
    assert main(asked[:-1]) == 1
    assert "plan with --per-sender" in " ".join(capsys.readouterr().out.split())
    # By key it makes no difference how far apart a ship's positions lie in what one member sends.
    assert main([*asked[:-3], "--json"]) == 0
    by_key = json.loads(capsys.readouterr().out)
    assert (by_key["carried"], by_key["k"], by_key["replacement"]) == (True, None, "key")
    assert by_key["closed_form"] == {"buffer_messages": ships, "k": None}


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        ("time_s,key\n0,a\n1,a\n", [], "--receiver-rate or --receiver-share"),
        ("time_s,key\n0,a\n1,a\n", ["--receiver-rate", "-1"], "must be above 0"),
        ("time_s,key\n0,a\n1,a\n", ["--receiver-rate", "1", "--blocked-max", "2"], "between 0 and"),
        ("time_s,key\n0,a\n1,a\n", ["--receiver-rate", "1", "--replacement", "x"], "'bitmap'"),
        ("key\na\na\n", ["--receiver-rate", "1"], "a plan needs rates"),
        ("time_s,key\n", ["--receiver-rate", "1"], "no messages in it"),
        ("time_s,name\n0,a\n", ["--receiver-rate", "1"], "no column 'key'"),
        (None, ["--receiver-rate", "1"], "No such file"),
    ],
)
def test_bad_input_is_one_line(
    spark: SparkSession,
    tmp_path: Path,
    content: str | None,
    arguments: list[str],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert spark is not None
    trace = tmp_path / "trace.csv"
    if content is not None:
        trace.write_text(content)
    assert main(["plan", str(trace), *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err.splitlines()[-1]


@pytest.mark.skipif(not TRACES.is_dir(), reason="the traces are not here")
def test_a_part_of_the_binance_trace_is_carried_at_60_percent(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The whole of it takes a minute: docs/pipeline/plan.md shows what came out."""
    import gzip

    assert spark is not None
    with gzip.open(TRACES / "binance_quotes.csv.gz", "rt") as file:
        head = "".join(file.readline() for _ in range(12_001))
    trace = tmp_path / "quotes.csv"
    trace.write_text(head)
    assert main(["plan", str(trace), "--receiver-share", "0.6", "--seeds", "2", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["senders"] == 3
    assert found["closed_form"]["buffer_messages"] <= 2
    assert found["first_trial"]["trace"]["blocked_share"] > 0.2
    assert found["carried"]
    assert 64 < found["buffer_messages"] <= 2048
    assert (found["k_per_sender"], found["k"]) == (None, None)
