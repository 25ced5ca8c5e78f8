"""Which files are meant, and what is wrong with them, told before Spark starts."""

import gzip
from pathlib import Path

import pytest

from semcast.errors import InputError
from semcast.pipeline.ingest.inputs import (
    TraceOptions,
    find_files,
    parse_columns,
    parse_format,
    parse_time_unit,
)
from semcast.pipeline.ingest.lake import Lake, identity_of

HEADING = b"time_s,sender,key,kind,size\n"


def test_a_folder_and_a_pattern_mean_their_files_by_name(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "_SUCCESS", ".hidden.csv", "notes.md"):
        (tmp_path / name).write_bytes(HEADING)
    by_folder = [file.path.name for file in find_files([tmp_path], TraceOptions())]
    by_pattern = [file.path.name for file in find_files([f"{tmp_path}/*.csv"], TraceOptions())]
    assert by_folder == by_pattern == ["a.csv", "b.csv"]
    # A file that is named twice is read once.
    assert len(find_files([tmp_path, tmp_path / "a.csv"], TraceOptions())) == 2


def test_columns_go_by_the_names_that_the_user_gives(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfts,symbol,x\n1,a,2\n"))
    options = TraceOptions(parse_columns(["time_s=ts, key=symbol"]))
    (file,) = find_files([path], options)
    assert file.columns == {"time_s": "ts", "key": "symbol"}
    assert (file.heading, file.stem) == (("ts", "symbol", "x"), "a")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "no column 'key' in its heading (it is empty)"),
        ("a.csv", b"time_s,size\n", "no column 'key' in its heading (time_s, size)"),
        ("a.csv", b"key,key\n", "column key is in its heading twice"),
        ("a.csv", bytes(range(255, 128, -1)), "not a text file (byte 0 is not UTF-8)"),
        ("a.csv", b"\x1f\x8b\x08 packed", "not a text file"),
        ("a.csv.gz", b"not packed", "damaged gzip"),
        ("a.csv.gz", gzip.compress(HEADING * 99)[:-9], "damaged gzip"),
        ("a.jsonl", b"1\n[2]\n", "no JSON object in its first lines"),
        ("a.jsonl", b'{"time_s": 1}\n', "no column 'key'"),
        ("a.parquet", b"PAR1 or so", "cannot be read as Parquet"),
        ("a.txt", HEADING, "not known by its name"),
    ],
)
def test_a_file_that_is_none_is_one_clear_line(
    name: str, content: bytes, words: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError) as raised:
        find_files([path], TraceOptions())
    assert words in str(raised.value)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_nothing_there_and_options_that_make_no_sense(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        find_files([tmp_path / "none.csv"], TraceOptions())
    with pytest.raises(InputError, match="no trace file in it"):
        find_files([tmp_path], TraceOptions())
    with pytest.raises(InputError, match="--column 'price=p'"):
        parse_columns(["price=p"])
    with pytest.raises(InputError, match="--time-unit 'h'"):
        parse_time_unit("h")
    with pytest.raises(InputError, match="--format 'xml'"):
        parse_format("xml")
    (tmp_path / "a.csv").write_bytes(HEADING)
    with pytest.raises(InputError, match=r"no column 'when' .* --column time_s=symbol"):
        find_files([tmp_path], TraceOptions({"time_s": "when"}))


def test_an_identity_is_of_name_and_content_wherever_the_file_is(tmp_path: Path) -> None:
    def made(folder: str, name: str, content: bytes) -> str:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        return identity_of(path)

    same = {made("x", "a.csv", b"1"), made("y", "a.csv", b"1")}
    others = {made("x", "b.csv", b"1"), made("z", "a.csv", b"2"), made("z", "c.csv", b"")}
    assert len(same) == 1
    assert len(same | others) == 4


def test_two_at_once_and_what_a_killed_one_left(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "lake")
    left = lake.temp / "rows"
    left.mkdir(parents=True)
    with lake.writing():
        assert not left.exists()
        with pytest.raises(InputError, match="another ingest writes"), Lake(lake.root).writing():
            pass
    with Lake(lake.root).writing():  # and then it is free again
        pass


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to"), Lake(tmp_path / "file").writing():
        pass
