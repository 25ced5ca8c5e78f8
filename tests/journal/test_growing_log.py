"""Streams of a life: readable as far as they go, whatever becomes of the writer."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import InputError
from semcast.journal import Event, Header, parquet, read_journal, runs_in
from semcast.journal.growing_log import LogWriter
from semcast.journal.lives import END

pyarrow = pytest.importorskip("pyarrow")

HEADER = Header(run="a/run", members=("p1.1",), group="quotes", node="p1.1", name="feed")


def sent(first: int, count: int) -> list[Event]:
    return [
        Event(seq, seq, "p1.1", "multicast", "p1.1", seq, (), "key", sent_ns=seq, size=3)
        for seq in range(first, first + count)
    ]


def end(lsn: int) -> Event:
    return Event(lsn, lsn, "p1.1", END, seq=0)


def test_a_finished_life_is_one_parquet_file(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write(sent(1, 3))
    writer.write([])
    writer.write([*sent(4, 2), end(6)])
    path = writer.finish(0)
    assert [one.name for one in path.parent.iterdir()] == ["p1.1.parquet"]
    assert runs_in(tmp_path) == ["a/run"]
    journal = read_journal(tmp_path)
    assert [event.seq for event in journal.select(event="multicast")] == [1, 2, 3, 4, 5]
    assert journal.header.names == ("p1.1 feed",)


def test_a_finished_life_says_what_was_left_out(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write([*sent(1, 1), end(2)])
    writer.finish(5)
    assert read_journal(tmp_path).header.left_out == 5


def test_an_unfinished_life_is_read_and_ends_with_a_crash(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write(sent(1, 3))
    journal = read_journal(tmp_path)
    assert [event.event for event in journal] == ["multicast"] * 3 + ["crash"]
    writer.close()


def test_the_finished_file_is_read_if_the_stream_is_still_there(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write([*sent(1, 3), end(4)])
    stream = writer.path.read_bytes()
    writer.finish(0)
    writer.path.write_bytes(stream)
    assert len(read_journal(tmp_path)) == 4


@pytest.mark.parametrize("moment", ["has_begun", "read_growing_log"])
def test_a_stream_that_is_finished_while_it_is_read_is_read_as_its_final_file(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write([*sent(1, 3), end(4)])
    then = getattr(parquet, moment)

    def finished_before(path: Path) -> object:
        if path.exists():
            writer.finish(2)
        return then(path)

    monkeypatch.setattr(parquet, moment, finished_before)
    journal = read_journal(tmp_path)
    assert len(journal) == 4
    assert journal.header.left_out == 2


def test_a_life_that_was_killed_before_it_wrote_anything_is_no_part(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write([*sent(1, 3), end(4)])
    stream = writer.path.read_bytes()
    schema_bytes = int.from_bytes(stream[4:8], "little")
    other = writer.finish(0).with_name("p2.1.arrows")
    for written in (0, 3, 8, 100, 8 + schema_bytes - 1):
        other.write_bytes(stream[:written])
        assert len(read_journal(tmp_path)) == 4


def test_a_file_that_is_no_stream_is_not_passed_over(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, HEADER)
    writer.write([*sent(1, 3), end(4)])
    other = writer.finish(0).with_name("p2.1.arrows")
    for content in (b"no stream at all", b"\xff\xff\xff\xff\xff\xff\xff\x7f and more"):
        other.write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as a journal"):
            read_journal(tmp_path)


def says_what_it_is(stream: bytes) -> bool:
    try:
        importlib.import_module("pyarrow.ipc").open_stream(stream)
    except pyarrow.ArrowException:
        return False
    return True


@given(st.integers(0, 5000))
def test_a_stream_cut_anywhere_gives_whole_batches_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    directory = tmp_path_factory.mktemp("cut")
    writer = LogWriter(directory, HEADER)
    for first in (1, 4, 7):
        writer.write(sent(first, 3))
    writer.close()
    whole = writer.path.read_bytes()
    writer.path.write_bytes(whole[: min(cut, len(whole))])
    if not says_what_it_is(whole[:cut]):
        with pytest.raises(InputError) as refused:
            read_journal(directory)
        assert "\n" not in str(refused.value)
        return
    journal = read_journal(directory)
    seqs = [event.seq for event in journal.select(event="multicast")]
    assert seqs == list(range(1, len(seqs) + 1))
    assert len(seqs) % 3 == 0
    assert cut < len(whole) or len(seqs) == 9


def test_a_folder_that_cannot_be_written_is_an_os_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        LogWriter(tmp_path / "file", replace(HEADER))
