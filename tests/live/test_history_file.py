"""The history of a site on disk: what was remembered comes back, whatever the end was like."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import InputError
from semcast.live.history_file import FILE, HistoryFile

RECORDS = [b"first", b"", b"x" * 100_000, bytes(range(256))]


def opened(folder: Path, federation: str = "bank", site: str = "a") -> HistoryFile:
    return HistoryFile(folder, federation, site)


def written(folder: Path, records: list[bytes]) -> None:
    store = opened(folder)
    for record in records:
        store.append(record)
    store.close()


def remembered(folder: Path) -> list[bytes]:
    store = opened(folder)
    found = store.records()
    store.close()
    return found


def test_a_later_process_finds_all_records_in_order(tmp_path: Path) -> None:
    written(tmp_path, RECORDS)
    assert remembered(tmp_path) == RECORDS
    written(tmp_path, [b"more"])
    assert remembered(tmp_path) == [*RECORDS, b"more"]


def test_what_replaces_all_others_is_all_there_is(tmp_path: Path) -> None:
    written(tmp_path, RECORDS)
    store = opened(tmp_path)
    store.replace([b"short"])
    store.append(b"and more")
    store.close()
    assert remembered(tmp_path) == [b"short", b"and more"]
    assert not list(tmp_path.glob("*.new"))


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=5), st.data())
def test_wherever_a_file_ends_all_whole_records_before_it_are_found(
    tmp_path_factory: pytest.TempPathFactory, records: list[bytes], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("history")
    written(folder, [])
    begin = (folder / FILE).stat().st_size
    written(folder, records)
    whole = (folder / FILE).read_bytes()
    end = data.draw(st.integers(begin, len(whole)))
    (folder / FILE).write_bytes(whole[:end])
    found = remembered(folder)
    assert found == records[: len(found)]
    assert sum(8 + len(one) for one in found) <= end - begin
    if len(found) < len(records):
        assert begin + sum(8 + len(one) for one in records[: len(found) + 1]) > end
    written(folder, [b"next"])
    assert remembered(folder) == [*found, b"next"]


def test_what_was_half_written_is_cut_off_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(tmp_path, RECORDS)
    content = bytearray((tmp_path / FILE).read_bytes())
    content[-1] ^= 1
    (tmp_path / FILE).write_bytes(content)
    assert remembered(tmp_path) == RECORDS[:-1]
    assert "half written" in caplog.text


def test_the_history_of_another_site_is_refused(tmp_path: Path) -> None:
    written(tmp_path, RECORDS)
    with pytest.raises(InputError, match="is the history of site 'a' of 'bank', and this is site"):
        opened(tmp_path, site="b")
    with pytest.raises(InputError, match="give each site a folder of its own"):
        opened(tmp_path, federation="market")
    assert remembered(tmp_path) == RECORDS


@pytest.mark.parametrize("content", [b"", b"something else", b"semcast history 1\n"])
def test_a_file_that_is_no_history_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(InputError, match="choose another folder"):
        opened(tmp_path)
    assert (tmp_path / FILE).read_bytes() == content


def test_two_sites_at_once_do_not_share_a_folder(tmp_path: Path) -> None:
    store = opened(tmp_path)
    with pytest.raises(InputError, match="in use by another site"):
        opened(tmp_path)
    store.close()
    store.close()
    assert remembered(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"^cannot use history '.*': ") as refused:
        opened(tmp_path / "file" / "below")
    assert "\n" not in str(refused.value)


def test_a_process_that_is_killed_loses_no_record(tmp_path: Path) -> None:
    program = (
        "import os, sys; from semcast.live.history_file import HistoryFile\n"
        "store = HistoryFile(sys.argv[1], 'bank', 'a')\n"
        "for number in range(100): store.append(b'%d' % number)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert ended.returncode == -9
    assert remembered(tmp_path) == [b"%d" % number for number in range(100)]


def test_the_file_says_whose_it_is(tmp_path: Path) -> None:
    written(tmp_path, [])
    begin = (tmp_path / FILE).read_bytes().partition(b"\n")[2][8:]
    assert json.loads(begin) == {"federation": "bank", "site": "a"}
