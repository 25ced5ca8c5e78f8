"""Journals on disk: what is written is read, and what cannot be read is said in one line."""

import importlib
import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.journal.material import journals

from semcast.errors import InputError
from semcast.journal import (
    COLUMNS,
    Event,
    Header,
    Journal,
    arrow_schema,
    read_journal,
    runs_in,
    write_journal,
)

pyarrow = pytest.importorskip("pyarrow")
parquet: Any = importlib.import_module("pyarrow.parquet")

HEADER = Header(run="a run", members=("p1.1", "p2.1"), group="quotes")
folders = itertools.count()
# tmp_path is one folder for all examples; each takes one of its own in it.
in_one_folder = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


def small() -> Journal:
    journal = Journal(HEADER)
    for seq in range(1, 40):
        journal.record(seq, "p1.1", "multicast", "p1.1", seq, (1, 2), "key", None, seq, 64)
    return journal


def refusal(directory: Path, run: str | None = None) -> str:
    with pytest.raises(InputError) as refused:
        read_journal(directory, run)
    text = str(refused.value)
    assert "\n" not in text
    return text


# -- round trips -----------------------------------------------------------------------------------


@in_one_folder
@given(journals())
def test_what_is_written_is_read(tmp_path: Path, journal: Journal) -> None:
    directory = tmp_path / str(next(folders))
    write_journal(journal, directory)
    again = read_journal(directory)
    assert again.header == journal.header
    assert again.events == journal.events
    assert runs_in(directory) == [journal.header.run]


def test_a_journal_longer_than_a_row_group_keeps_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("semcast.journal.parquet._ROWS_PER_GROUP", 7)
    path = write_journal(small(), tmp_path)
    assert parquet.ParquetFile(path).num_row_groups == 6
    assert read_journal(tmp_path).events == small().events


def test_others_can_read_it_too(tmp_path: Path) -> None:
    """The folder says the run, the columns are those of schema version 1."""
    write_journal(small(), tmp_path)
    table = parquet.read_table(tmp_path)
    assert set(table.column_names) == {name for name, _ in COLUMNS}
    rows = table.to_pylist()
    assert {row["run"] for row in rows} == {"a run"}
    assert {row["group"] for row in rows} == {"quotes"}
    assert rows[4]["obsoletes"] == [1, 2]
    assert rows[4]["view"] is None


def test_rows_of_a_federation_keep_their_groups_on_disk(tmp_path: Path) -> None:
    journal = Journal(replace(HEADER, reliability="federation", recovery="atomic"))
    for seq, group in enumerate(("alpha", None, "beta", "quotes"), 1):
        journal.record(seq, "p1.1", "multicast", "p1.1", seq, group=group)
    write_journal(journal, tmp_path)
    groups = [row["group"] for row in parquet.read_table(tmp_path).to_pylist()]
    assert groups == ["alpha", "quotes", "beta", "quotes"]
    assert [event.group for event in read_journal(tmp_path)] == ["alpha", None, "beta", None]


def test_the_schema_is_the_one_that_is_documented() -> None:
    types = {"string": "string", "long": "int64", "int": "int32", "array<int>": "list"}
    schema = arrow_schema()
    assert [field.name for field in schema] == [name for name, _ in COLUMNS]
    for field, (_, kind) in zip(schema, COLUMNS, strict=True):
        assert str(field.type).startswith(types[kind])


def test_every_column_is_in_every_event_or_in_the_header() -> None:
    assert {name for name, _ in COLUMNS} == {*Event._fields, "run"}


def test_one_of_several_runs_is_chosen_by_name(tmp_path: Path) -> None:
    for run in ("one/../of", "two"):
        journal = Journal(Header(run=run, members=("p1.1",)))
        journal.record(1, "p1.1", run)
        write_journal(journal, tmp_path)
    assert runs_in(tmp_path) == ["one/../of", "two"]
    assert [event.event for event in read_journal(tmp_path, "one/../of")] == ["one/../of"]
    assert "2 runs: one/../of, two" in refusal(tmp_path)
    assert "no journal of run 'three'" in refusal(tmp_path, "three")


def test_writing_again_replaces_and_leaves_nothing_behind(tmp_path: Path) -> None:
    write_journal(small(), tmp_path)
    path = write_journal(Journal(HEADER), tmp_path)
    assert len(read_journal(tmp_path)) == 0
    assert list(path.parent.iterdir()) == [path]


def test_logs_of_several_machines_are_merged_by_time_but_each_keeps_its_order(
    tmp_path: Path,
) -> None:
    """The clock of p2 goes back; its events do not change places."""
    clocks = {"p1.1": [10, 20, 30, 40], "p2.1": [15, 35, 12, 36]}
    for name, times in clocks.items():
        journal = Journal(HEADER)
        for time_ns in times:
            journal.record(time_ns, name, "safe")
        write_journal(journal, tmp_path, part=name)
    merged = [(event.node, event.time_ns) for event in read_journal(tmp_path)]
    assert merged == [
        ("p1.1", 10),
        ("p2.1", 15),
        ("p1.1", 20),
        ("p1.1", 30),
        ("p2.1", 35),
        ("p2.1", 12),
        ("p2.1", 36),
        ("p1.1", 40),
    ]


def test_parts_of_different_runs_are_not_mixed(tmp_path: Path) -> None:
    write_journal(Journal(HEADER), tmp_path, part="a")
    write_journal(Journal(Header(run="a run", members=("p1.1",))), tmp_path, part="b")
    assert "header differs from that of a.parquet" in refusal(tmp_path)


# -- what cannot be read ---------------------------------------------------------------------------


def test_without_pyarrow_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    for use in (lambda: write_journal(small(), tmp_path), arrow_schema):
        with pytest.raises(InputError, match=r"pip install 'semcast\[journal\]'"):
            use()


def test_a_folder_without_a_journal_says_so(tmp_path: Path) -> None:
    assert "no such folder" in refusal(tmp_path / "nowhere")
    assert "holds no journal" in refusal(tmp_path)
    (tmp_path / "run=x").mkdir()
    assert "run=<name>/*.parquet" in refusal(tmp_path)


def test_a_place_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot write the journal to"):
        write_journal(small(), tmp_path / "file")


def test_a_file_cut_short_is_damaged_wherever_it_ends(tmp_path: Path) -> None:
    path = write_journal(small(), tmp_path)
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        assert "damaged" in refusal(tmp_path)


@in_one_folder
@given(place=st.floats(0, 1), change=st.integers(1, 255))
def test_a_changed_byte_among_the_rows_is_found(tmp_path: Path, place: float, change: int) -> None:
    """Pages have checksums. The footer has none, but its bytes are few."""
    path = write_journal(small(), tmp_path / str(next(folders)))
    whole = bytearray(path.read_bytes())
    rows_end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    at = int(place * (rows_end - 1))
    whole[at] ^= change
    path.write_bytes(whole)
    try:
        again = read_journal(path.parent.parent)
    except InputError:
        return
    assert again.events == small().events


def rewritten(path: Path, change: Any) -> None:
    """The file with another table in it."""
    table = parquet.ParquetFile(path).read()
    parquet.write_table(change(table), path)


def metadata(table: Any, **changes: str) -> Any:
    names = {f"semcast.{name}".encode(): value.encode() for name, value in changes.items()}
    return table.replace_schema_metadata({**table.schema.metadata, **names})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda table: metadata(table, schema_version="2"), "schema version 2, .* version 1"),
        (lambda table: table.replace_schema_metadata({}), "some other Parquet file"),
        (lambda table: metadata(table, header="{}"), "header lacks members and run"),
        (lambda table: metadata(table, header=Header("b", ("p1.1",)).to_json()), "of run 'b'"),
        (lambda table: table.drop_columns(["lsn"]), "no column 'lsn'"),
        (
            lambda table: table.set_column(5, "sender", pyarrow.array([1] * len(table))),
            "column 'sender' is int64, and should be string",
        ),
        (
            lambda table: table.set_column(
                2, "node", pyarrow.array([None] * len(table), pyarrow.string())
            ),
            "39 of 39 events have no 'node'",
        ),
        (
            lambda table: table.set_column(4, "group", pyarrow.array(["other"] * len(table))),
            "an event of group 'other' in the journal of 'quotes'",
        ),
        (
            lambda table: table.set_column(1, "lsn", pyarrow.array([1] * len(table))),
            "event 1 .* comes after its event 1",
        ),
    ],
)
def test_a_file_of_another_kind_is_refused_with_the_reason(
    tmp_path: Path, change: Any, text: str
) -> None:
    rewritten(write_journal(small(), tmp_path), change)
    with pytest.raises(InputError, match=text) as refused:
        read_journal(tmp_path)
    assert "\n" not in str(refused.value)
