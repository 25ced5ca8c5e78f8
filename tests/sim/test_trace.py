"""Trace files: what is read of good ones, and every way in which one can be bad."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import InputError
from semcast.sim.trace import SIZE_BYTES_MAX, TraceRow, read_trace

HEADING = "time_s,sender,key,kind,size\n"
ROWS = '5,x,a,q,10\n5.5,y,"b, or c",q,20\n7,x,,t,\n7,z,a,q,0\n'
READ = [
    TraceRow(5.0, "x", "a", 10),
    TraceRow(5.5, "y", "b, or c", 20),
    TraceRow(7.0, "x", "", 3),
    TraceRow(7.0, "z", "a", 0),
]


def written(folder: Path, content: str | bytes, name: str = "trace.csv") -> Path:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_rows_are_read_in_order_and_a_missing_size_is_the_one_given(tmp_path: Path) -> None:
    path = written(tmp_path, HEADING + ROWS)
    assert list(read_trace(path, 3)) == list(read_trace(path, 3, timed=True)) == READ


def test_a_packed_trace_reads_the_same(tmp_path: Path) -> None:
    packed = written(tmp_path, gzip.compress((HEADING + ROWS).encode()), "trace.csv.gz")
    assert list(read_trace(packed, 3)) == READ


def test_columns_may_stand_in_any_order_and_only_keys_are_needed(tmp_path: Path) -> None:
    assert list(read_trace(written(tmp_path, "key\na\nb\n"))) == [
        TraceRow(0.0, "", "a", 0),
        TraceRow(0.0, "", "b", 0),
    ]
    swapped = written(tmp_path, "size,key,more,time_s\n9,a,?,1\n")
    assert list(read_trace(swapped, timed=True)) == [TraceRow(1.0, "", "a", 9)]


def test_whoever_needs_times_is_told_that_there_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no column 'time_s' in its heading \(key, size\)"):
        list(read_trace(written(tmp_path, "key,size\na,1\n"), timed=True))


def test_a_trace_without_messages_is_empty(tmp_path: Path) -> None:
    assert list(read_trace(written(tmp_path, HEADING), timed=True)) == []


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (b"0,x\n", "line 2 has too few columns"),
        (b"zero,x,a,q,1\n", "line 2: time_s 'zero'"),
        (b",x,a,q,1\n", "line 2: time_s ''"),
        (b"nan,x,a,q,1\n", "line 2: time_s 'nan'"),
        (b"inf,x,a,q,1\n", "line 2: time_s 'inf'"),
        (b"0,x,a,q,-1\n", "size '-1'"),
        (b"0,x,a,q,1.5\n", "size '1.5'"),
        (b"0,x,a,q,%d\n" % (SIZE_BYTES_MAX + 1), "size '1048577'"),
        (b"0,x,a,q," + b"9" * 5000 + b"\n", "line 2: time_s '0'"),
        (b"1,x,a,q,1\n0,x,a,q,1\n", "line 3: time_s 0 after 1; sort"),
        (b"0,x,\xff\xfe,q,1\n", "not a text file after line 1"),
        (b'0,x,"a\n', "after line 1: "),
        (b"0,x," + b"a" * 200_000 + b",q,1\n", "after line 1: field larger"),
    ],
)
def test_a_bad_row_is_named_with_its_line_whoever_reads(
    rows: bytes, words: str, timed: bool, tmp_path: Path
) -> None:
    path = written(tmp_path, HEADING.encode() + rows)
    with pytest.raises(InputError, match=words) as caught:
        list(read_trace(path, timed=timed))
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [("", r"no column 'key' in its heading \(it is empty\)"), ("time_s\n0\n", "no column 'key'")],
)
def test_a_heading_without_keys_is_refused(content: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=words):
        list(read_trace(written(tmp_path, content)))


@pytest.mark.parametrize(
    "content", [b"not gzip", gzip.compress((HEADING + ROWS).encode())[:-9], b"\x1f\x8b\x08" * 9]
)
def test_a_damaged_gzip_is_named(content: bytes, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="damaged gzip"):
        list(read_trace(written(tmp_path, content, "bad.csv.gz")))


@given(content=st.binary(max_size=200), headed=st.booleans(), packed=st.booleans())
def test_any_bytes_are_read_or_refused_as_bad_input(
    content: bytes, headed: bool, packed: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A gzip that only looks like one, half a character, a quote that never ends."""
    name = "any.csv.gz" if packed else "any.csv"
    whole = (HEADING.encode() if headed else b"") + content
    path = written(tmp_path_factory.mktemp("any"), whole, name)
    try:
        rows = list(read_trace(path, timed=True))
    except InputError:
        return
    assert [row.time_s for row in rows] == sorted(row.time_s for row in rows)
    assert all(0 <= row.size_bytes <= SIZE_BYTES_MAX for row in rows)
