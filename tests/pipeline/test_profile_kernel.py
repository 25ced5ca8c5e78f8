"""Counting one block: what the kernel says is what looking at every row says. No Spark here."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest
from tests.obsolescence.naive_profiler import Profiler

from semcast.pipeline.ingest.blocks import blocks, place_of
from semcast.pipeline.ingest.number import number_block
from semcast.pipeline.profiling import kernel
from semcast.pipeline.profiling.kernel import Question, count_block

Row = tuple[float | None, str, str, int | None, str | None]  # time_s, sender, key, size, reason


def table(rows: Sequence[Row], first: int = 0) -> Any:
    times, senders, keys, sizes, reasons = zip(*rows, strict=True)
    return pa.table(
        {
            "file": pa.array([0] * len(rows), pa.int32()),
            "start": pa.array([0] * len(rows), pa.int64()),
            "row": pa.array(range(first, first + len(rows)), pa.int64()),
            "time_s": pa.array(times, pa.float64()),
            "sender": pa.array(senders, pa.string()),
            "key": pa.array(keys, pa.string()),
            "kind": pa.array([""] * len(rows), pa.string()),
            "size": pa.array(sizes, pa.int32()),
            "reason": pa.array(reasons, pa.string()),
            "text": pa.array([""] * len(rows), pa.string()),
        }
    )


def random_rows(seed: int, length: int = 300, keys: int = 12) -> list[Row]:
    draw = random.Random(f"rows/{seed}")
    time_s = 0.0
    rows: list[Row] = []
    for _ in range(length):
        time_s += draw.expovariate(3)
        key = draw.choice(["", *(f"k{n}" for n in range(keys))])
        bad = "bad" if draw.random() < 0.1 else None
        rows.append((time_s, f"s{draw.randrange(3)}", key, draw.randrange(50), bad))
    return rows


def counted(rows: Sequence[Row], question: Question) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    # As it comes from Spark: in several chunks.
    block = (
        pa.concat_tables([table(rows[:2]), table(rows[2:], first=2)]) if rows[2:] else table(rows)
    )
    for batch in count_block(block, question):
        for one in batch.to_pylist():
            found.setdefault(one["what"], []).append(one)
    return found


@pytest.mark.parametrize("per_sender", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_a_block_has_the_distances_that_the_profiler_sees(seed: int, per_sender: bool) -> None:
    """SRM §5.1: D is the distance to the latest message that is replaced."""
    rows = random_rows(seed)
    good = [row for row in rows if row[4] is None]
    profilers: dict[str, Profiler] = {}
    expected: Counter[int] = Counter()
    for _, sender, key, _, _ in good:
        profiler = profilers.setdefault(sender if per_sender else "", Profiler())
        expected[profiler.add(key or None)] += 1
    found = counted(rows, Question(per_sender))
    assert {one["x"]: one["n"] for one in found[kernel.DISTANCE]} == {
        x: n for x, n in expected.items() if x
    }
    assert sum(one["n"] for one in found[kernel.BLOCK]) == len(good)
    assert [(one["key"], one["n"]) for one in found[kernel.REASON]] == [
        ("bad", len(rows) - len(good))
    ]


@pytest.mark.parametrize("per_sender", [False, True])
def test_keys_say_where_they_are_first_and_last(per_sender: bool) -> None:
    rows = [row for row in random_rows(9) if row[4] is None]
    places: dict[tuple[str, str], list[int]] = {}
    own: Counter[str] = Counter()
    for at, (_, sender, key, _, _) in enumerate(rows):
        position = own[sender] if per_sender else at
        own[sender] += 1
        if key:
            places.setdefault((sender if per_sender else "", key), []).append(position)
    found = {
        (one["sender"] or "", one["key"]): (one["first"], one["last"], one["n"])
        for one in counted(rows, Question(per_sender))[kernel.KEY]
    }
    assert found == {key: (some[0], some[-1], len(some)) for key, some in places.items()}


def test_windows_sizes_and_senders_count_every_row_once() -> None:
    rows = [row for row in random_rows(3) if row[4] is None]
    found = counted(rows, Question(window_s=2.5))
    times = [row[0] for row in rows if row[0] is not None]
    assert {one["x"]: one["n"] for one in found[kernel.WINDOW]} == Counter(
        int(time_s // 2.5) for time_s in times
    )
    assert {one["x"]: one["n"] for one in found[kernel.SIZE]} == Counter(row[3] for row in rows)
    weights: Counter[str] = Counter()
    for _, sender, _, size, _ in rows:
        weights[sender] += size or 0
    assert {one["sender"]: one["bytes"] for one in found[kernel.SENDER]} == weights


def test_far_apart_times_need_no_room_for_what_lies_between() -> None:
    """One row at either end of a year, in windows of a microsecond."""
    rows: list[Row] = [(0.0, "", "a", 1, None), (3.2e7, "", "a", 1, None)]
    found = counted(rows, Question(window_s=1e-6))
    assert [one["x"] for one in found[kernel.WINDOW]] == [0, 32_000_000_000_000]


def test_rows_without_times_sizes_and_keys_are_counted_all_the_same() -> None:
    found = counted([(None, "x", "", None, None)] * 3, Question())
    assert set(found) == {kernel.BLOCK, kernel.SENDER}
    assert (found[kernel.BLOCK][0]["n"], found[kernel.BLOCK][0]["first_s"]) == (3, None)


def test_only_bad_rows_leave_their_reasons_and_nothing_else() -> None:
    found = counted([(None, "", "", None, "bad")] * 2, Question())
    assert set(found) == {kernel.REASON}


# -- blocks and numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize("rows_max", [1, 4, 7, 1000])
def test_blocks_hold_consecutive_rows_in_order_and_lose_none(rows_max: int) -> None:
    draw = random.Random(f"blocks/{rows_max}")
    whole = table(random_rows(1, length=100))
    cuts = sorted(draw.sample(range(100), 5))
    # Five pieces, each followed by one that does not continue it.
    pieces = [whole.slice(a, b - a) for a, b in zip([0, *cuts], [*cuts, 100], strict=True) if b > a]
    draw.shuffle(pieces)
    batches = [one for piece in pieces for one in piece.to_batches(max_chunksize=3)]
    found = list(blocks(batches, rows_max))
    for block in found:
        row = block.column("row").to_pylist()
        assert row == list(range(row[0], row[0] + len(row)))
        assert len(row) <= max(rows_max, 3)  # a batch is not cut for its size
    found.sort(key=place_of)
    assert [row for block in found for row in block.column("row").to_pylist()] == list(range(100))


def test_a_block_numbers_good_rows_only() -> None:
    rows: list[Row] = [
        (1.0, "x", "a", 1, None),
        (2.0, "x", "a", 1, "bad"),
        (0.5, "y", "a", 1, None),
        (3.0, "x", "a", 1, None),
    ]
    found = number_block(table(rows, first=40)).to_pydict()
    assert found["row"] == [40] * 4
    assert found["record"] == [1, 2, 3, 4]
    assert [found["pos"][at] for at in (0, 2, 3)] == [1, 2, 3]
    assert [found["seq"][at] for at in (0, 2, 3)] == [1, 1, 2]
    assert found["back"] == [False, False, True, False]
