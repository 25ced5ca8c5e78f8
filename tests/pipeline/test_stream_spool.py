"""The spool of a stream: nothing lost or doubled, wherever its writer was killed. No Spark here."""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.errors import InputError
from semcast.ids import Source
from semcast.pipeline.streaming.seen import STREAMS_MAX, Seen
from semcast.pipeline.streaming.segment import batches
from semcast.pipeline.streaming.spool import Spool
from semcast.wire.message import Message

WHOSE = {"group": "quotes", "name": "spark", "order": "fifo"}


def message(seq: int, life: int = 1, key: bytes = b"", size: int = 0) -> Message:
    source = Source(7, life)
    source.name = "feed"
    payload = f"{life}.{seq}".encode().ljust(size, b".")
    made = Message(source, seq, key + payload, len(key), sent_ns=seq)
    made.skipped = [seq - 1] if seq % 5 == 0 else ()
    return made


def opened(folder: Path, bytes_max: int = 1 << 20, **whose: str) -> Spool:
    return Spool(folder, WHOSE | whose, bytes_max, lock_wait_s=0.0)


def rows(spool: Spool, start: int, end: int) -> list[dict[str, Any]]:
    return [
        row
        for path, first, last in spool.pieces(start, end)
        for batch in batches(Path(path), first, last)
        for row in batch.to_pylist()
    ]


def seqs(spool: Spool) -> list[int]:
    return [row["seq"] for row in rows(spool, spool.first, spool.sync())]


def tokens(folder: Path) -> Iterator[Path]:
    yield from sorted(folder.glob("*.spool"))


def test_rows_come_back_as_the_messages_were(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert spool.append([message(1), message(2, key=b"AAPL"), message(5)], 99) == 3
    found = rows(spool, 0, spool.sync())
    spool.close()
    about = [(row["sender"], row["life"], row["seq"], row["key"], row["payload"]) for row in found]
    assert about == [
        ("feed", 1, 1, None, b"1.1"),
        ("feed", 1, 2, "AAPL", b"1.2"),
        ("feed", 1, 5, None, b"1.5"),
    ]
    assert [row["skipped"] for row in found] == [[], [], [4]]
    assert [row["offset"] for row in found] == [0, 1, 2]
    assert {row["received_ns"] for row in found} == {99}


@settings(max_examples=40)
@given(
    takes=st.lists(st.integers(1, 5), min_size=1, max_size=12),
    cut=st.integers(0, 400),
    again=st.integers(0, 20),
)
def test_a_writer_killed_anywhere_leaves_whole_takes_and_its_next_life_doubles_none(
    tmp_path_factory: pytest.TempPathFactory, takes: list[int], cut: int, again: int
) -> None:
    """The next life is sent again what the former had not acknowledged, and goes on from there."""
    folder = tmp_path_factory.mktemp("spool")
    spool = opened(folder, bytes_max=8 * 1500)
    ends = [0]
    for count in takes:
        first = ends[-1] + 1
        spool.append([message(seq) for seq in range(first, first + count)], 1)
        ends.append(ends[-1] + count)
    spool.close()
    last = list(tokens(folder))[-1]
    whole_bytes = last.stat().st_size
    spool = opened(folder, bytes_max=8 * 1500)
    seen_bytes = spool.size_bytes - sum(one.stat().st_size for one in list(tokens(folder))[:-1])
    assert seen_bytes == whole_bytes, "nothing is cut that is whole"
    spool.close()
    torn = last.read_bytes()
    begin = next(iter_ends(torn))
    last.write_bytes(torn[: max(begin, whole_bytes - cut)])
    spool = opened(folder, bytes_max=8 * 1500)
    kept = spool.sync()
    assert kept in ends
    assert seqs(spool) == list(range(1, kept + 1))
    back = max(1, kept - again)
    spool.append([message(seq) for seq in range(back, ends[-1] + 3)], 2)
    assert seqs(spool) == list(range(1, ends[-1] + 3))
    spool.close()
    shutil.rmtree(folder)


def test_what_a_former_life_took_is_not_called_skipped_by_the_next(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    spool.append([message(1), message(2), message(3)], 1)
    spool.close()
    spool = opened(tmp_path)
    again = message(7)
    again.skipped = [2, 3, 4, 5, 6]
    spool.append([again], 2)
    assert rows(spool, 3, 4)[0]["skipped"] == [4, 5, 6]
    spool.close()


def iter_ends(data: bytes) -> Iterator[int]:
    from semcast.pipeline.streaming.segment import frames

    for one in frames(data):
        yield one.end


def test_what_is_dealt_with_is_deleted_and_what_was_seen_in_it_is_remembered(
    tmp_path: Path,
) -> None:
    spool = opened(tmp_path, bytes_max=64 << 10)
    for seq in range(1, 101):
        spool.append([message(seq, size=2000)], 1)
    assert len(list(tokens(tmp_path))) > 5
    spool.forget(spool.sync())
    assert len(list(tokens(tmp_path))) <= 2
    spool.close()
    spool = opened(tmp_path, bytes_max=64 << 10)
    assert spool.append([message(seq) for seq in range(50, 103)], 2) == 2
    assert spool.sync() == 102
    assert spool.pieces(100, 102)
    spool.close()


def test_a_full_spool_has_no_room_until_rows_are_dealt_with(tmp_path: Path) -> None:
    spool = opened(tmp_path, bytes_max=64 << 10)
    seq = 0
    while spool.wait_room(0.0):
        seq += 1
        assert seq < 1000, "it never gets full"
        spool.append([message(seq, size=5000)], 1)
    assert spool.size_bytes < (64 << 10) + 10_000
    waiting = threading.Thread(target=spool.wait_room, args=(30.0,))
    waiting.start()
    spool.forget(spool.sync())
    waiting.join(10.0)
    assert not waiting.is_alive()
    assert spool.wait_room(0.0)
    spool.close()


def test_one_message_larger_than_the_spool_does_not_stop_it_for_ever(tmp_path: Path) -> None:
    spool = opened(tmp_path, bytes_max=64 << 10)
    spool.append([message(1, size=100_000)], 1)
    assert not spool.wait_room(0.0)
    spool.forget(spool.sync())
    assert spool.wait_room(0.0)
    spool.close()


def test_damage_before_the_end_is_said_and_not_read_over(tmp_path: Path) -> None:
    spool = opened(tmp_path, bytes_max=64 << 10)
    for seq in range(1, 31):
        spool.append([message(seq, size=2000)], 1)
    end = spool.sync()
    spool.close()
    first = next(tokens(tmp_path))
    damaged = bytearray(first.read_bytes())
    damaged[-10] ^= 1
    first.write_bytes(damaged)
    with pytest.raises(InputError, match="are missing; the spool is damaged"):
        opened(tmp_path, bytes_max=64 << 10)
    with pytest.raises(InputError, match="damaged"):
        list(batches(first, 0, end))


def test_the_folder_of_another_group_is_refused(tmp_path: Path) -> None:
    opened(tmp_path).close()
    with pytest.raises(InputError, match=r"spool of group 'quotes', not of 'trades'"):
        opened(tmp_path, group="trades")
    with pytest.raises(InputError, match=r"spool of name 'spark', not of 'other'"):
        opened(tmp_path, name="other")


def test_two_cannot_have_one_folder(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    with pytest.raises(InputError, match="in use by process"):
        opened(tmp_path)
    spool.close()
    opened(tmp_path).close()


def test_another_life_of_a_sender_counts_anew(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    assert spool.append([message(1), message(2)], 1) == 2
    assert spool.append([message(1, life=2), message(2)], 1) == 1
    assert [(row["life"], row["seq"]) for row in rows(spool, 0, 3)] == [(1, 1), (1, 2), (2, 1)]
    spool.close()


def test_by_key_a_message_may_overtake_but_none_comes_twice() -> None:
    seen = Seen(by_key=True)
    assert seen.is_new("feed", 1, 5, "A")
    assert seen.is_new("feed", 1, 3, None), "it has no key, and may come later"
    assert seen.is_new("feed", 1, 4, "B")
    copy = Seen(by_key=True)
    copy.load(seen.dump())
    for again in (seen, copy):
        assert not again.is_new("feed", 1, 5, "A")
        assert not again.is_new("feed", 1, 3, None)
        assert not again.is_new("feed", 1, 2, "A"), "a newer one of its key was taken"
        assert again.is_new("feed", 1, 2, None)


def test_what_is_remembered_is_bounded() -> None:
    seen = Seen(by_key=True)
    seen.add(("feed", 1, seq, None) for seq in range(1, STREAMS_MAX + 100))
    assert not seen.is_new("feed", 1, STREAMS_MAX + 99, None)
    assert seen.is_new("feed", 1, 1, None), "forgotten"
