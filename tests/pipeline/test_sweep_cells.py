"""Grids and cells of a sweep: their names, their values, and what runs one again. No Spark."""

import json
import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.check import Report, Violation
from semcast.cli import main
from semcast.errors import InputError
from semcast.model.confidence import t_95
from semcast.pipeline.sweeping import simulate as room
from semcast.pipeline.sweeping.cells import CELLS_MAX, Cell, cells_of, written
from semcast.pipeline.sweeping.grid import parse_grid, points_of
from semcast.pipeline.sweeping.plot import Dot, plot
from semcast.pipeline.sweeping.simulate import (
    ERROR,
    MEASURES,
    OK,
    PROTOCOL_MEASURES,
    TWO_BUFFER_MEASURES,
    VIOLATION,
    simulate,
)
from semcast.sim.propagation.grids import GRAPH_MEASURES
from semcast.sim.scenario import load, parse

EXAMPLES = Path(__file__).parents[2] / "examples/scenarios"
TWO_BUFFERS = EXAMPLES / "fig5-purging.toml"
GROUP = EXAMPLES / "fig5-protocol.toml"
BRIEFLY = "duration_s=3 warm_up_s=1"


def cells(path: Path, grid: str, seeds: range = range(1, 2)) -> list[Cell]:
    return cells_of(points_of(path, grid)[1], seeds)


# -- values ----------------------------------------------------------------------------------------


@given(st.integers(-50, 50), st.integers(1, 40), st.integers(0, 30), st.integers(0, 3))
def test_a_range_has_both_ends_and_every_step_exactly(
    low: int, step: int, count: int, digits: int
) -> None:
    unit = Decimal(1).scaleb(-digits)
    first, width = low * unit, step * unit
    last = first + count * width
    [axis] = parse_grid(f"r={first:f}..{last:f}..{width:f}", load(TWO_BUFFERS), {})
    assert [Decimal(value) for value in axis.values] == [
        first + at * width for at in range(count + 1)
    ]


def test_lists_ranges_words_and_lists_in_brackets_are_values() -> None:
    axes, points = points_of(GROUP, 'r=0,0.5..1..0.25 senders=[0],[0, 1] order="key",fifo')
    assert [axis.values for axis in axes] == [
        ("0", "0.5", "0.75", "1"),
        ("[0]", "[0, 1]"),
        ('"key"', "fifo"),
    ]
    assert len(points) == 4 * 2 * 2
    assert points[-1].changes == ("traffic.r=1", "senders=[0, 1]", "protocol.order=fifo")


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ("r", "write name=values"),
        ("r=", "write name=values"),
        ("r=,", "no values"),
        ("r=0.5,0.5", "the value 0.5 twice"),
        ("r=0.5,0.50", "are the same"),
        ("r=0 traffic.r=1", "names traffic.r twice"),
        ("r=5..1", "is no range"),
        ("r=0..1..0", "is no range"),
        ("d=1..1000000", "more than 10000 values"),
        ("r=2", "r is 2; it goes from 0 to 1"),
        ("d=x", "d is 'x'; it must be a whole number"),
        ("nonsense=1", "no setting nonsense; it has traffic.kind, "),
        ("seed=1,2", "by --seeds"),
    ],
)
def test_a_bad_grid_is_one_line_that_says_what_is_wrong(grid: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        cells(TWO_BUFFERS, grid)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_too_many_cells_are_refused_before_anything_runs() -> None:
    points = points_of(TWO_BUFFERS, "r=0,1")[1]
    with pytest.raises(InputError, match=f"the most is {CELLS_MAX}"):
        cells_of(points, range(CELLS_MAX))


# -- names -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "name", "setting"),
    [
        (TWO_BUFFERS, "r", "traffic.r"),
        (TWO_BUFFERS, "traffic.r", "traffic.r"),
        (TWO_BUFFERS, "k", "buffers.k"),
        (TWO_BUFFERS, "messages", "buffers.messages"),
        (TWO_BUFFERS, "slow_delay_ms", "slow_delay_ms"),
        (TWO_BUFFERS, "delay_ms", "slow_delay_ms"),
        # There is faults.delay_ms too, but the file says only this one.
        (GROUP, "delay_ms", "consumers.0.delay_ms"),
        (GROUP, "faults.delay_ms", "faults.delay_ms"),
        (GROUP, "f", "protocol.f"),
    ],
)
def test_the_end_of_a_name_is_enough_where_it_is_clear(path: Path, name: str, setting: str) -> None:
    axes, _ = points_of(path, f"{name}=1")
    assert [(axis.name, axis.setting) for axis in axes] == [(name, setting)]


def test_a_name_that_may_be_several_settings_names_them_all() -> None:
    with pytest.raises(InputError, match=r"delivery_messages or protocol\.window_messages"):
        points_of(GROUP, "messages=1")


# -- cells -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.stem)
def test_a_cell_carries_its_whole_scenario(path: Path) -> None:
    scenario = load(path)
    assert parse(json.loads(written(scenario)), "the cell") == scenario


def test_a_cell_is_named_by_what_it_computes_and_by_nothing_else(tmp_path: Path) -> None:
    text = TWO_BUFFERS.read_text()
    other = tmp_path / "other.toml"
    other.write_text("# another comment\n" + text.replace('title = "', 'title = "Another: '))
    names = {cell.cell for cell in cells(TWO_BUFFERS, "r=0,0.5", range(1, 4))}
    assert len(names) == 6
    assert {cell.cell for cell in cells(other, "traffic.r=0.5,0", range(1, 4))} == names
    other.write_text(text.replace("messages = 20", "messages = 21"))
    assert names.isdisjoint(cell.cell for cell in cells(other, "r=0,0.5", range(1, 4)))
    unchecked = cells_of(points_of(TWO_BUFFERS, "r=0,0.5")[1], range(1, 4), check=False)
    assert names.isdisjoint(cell.cell for cell in unchecked)


def replaying(folder: Path, trace: str) -> Path:
    """A scenario that replays a trace beside it."""
    (folder / "trace.csv").write_text(trace)
    path = folder / "replay.toml"
    path.write_text(
        'model = "two-buffers"\nduration_s = 5\nwarm_up_s = 0\n'
        '[traffic]\nkind = "replay"\nfile = "trace.csv"\n'
    )
    return path


def test_a_replayed_trace_counts_by_its_content(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("a", "b", "c")]
    for folder in folders:
        folder.mkdir()
    traces = ["time_s,key\n0,a\n1,a\n", "time_s,key\n0,a\n1,a\n", "time_s,key\n0,a\n1,b\n"]
    first, same, other = [
        cells(replaying(folder, trace), "")[0].cell
        for folder, trace in zip(folders, traces, strict=True)
    ]
    assert first == same
    assert first != other


@pytest.mark.parametrize("path", [TWO_BUFFERS, GROUP], ids=lambda path: path.stem)
def test_the_replay_command_runs_the_very_same_cell(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [cell] = cells(path, f"r=0.25 {BRIEFLY}", range(7, 8))
    row = simulate(cell)
    assert (row["status"], row["seed"]) == (OK, 7)
    program, *arguments = shlex.split(cell.replay(str(path)))
    assert program == "semcast"
    assert main([*arguments, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rate = "sender_rate_msg_s" if path == TWO_BUFFERS else "sent_rate_msg_s"
    assert row[rate] == found[rate]
    expected = TWO_BUFFER_MEASURES if path == TWO_BUFFERS else PROTOCOL_MEASURES
    assert {name for name in MEASURES if row[name] is not None} == set(expected)


# -- what goes wrong -------------------------------------------------------------------------------


def test_a_violation_is_part_of_the_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> Report:
        violation = Violation("Integrity", "delivered\ntwice", "p1.1", (), 0)
        return Report("run", {"Integrity": 1}, [violation])

    monkeypatch.setattr(room, "check_all", broken)
    [cell] = cells(GROUP, BRIEFLY)
    row = simulate(cell)
    assert row["status"] == VIOLATION
    assert "twice" in str(row["detail"])
    assert "\n" not in str(row["detail"])
    assert row["sent_rate_msg_s"] is not None
    assert simulate(replace(cell, check=False))["status"] == OK


def test_a_trace_that_is_not_there_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = replaying(tmp_path, "time_s,key\n0,a\n1,a\n")
    [cell] = cells(path, "")
    (tmp_path / "trace.csv").unlink()
    row = simulate(cell)
    assert row["status"] == ERROR
    assert "put it on a path that all machines share" in str(row["detail"])
    assert row["sender_rate_msg_s"] is None


# -- confidence and pictures -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("freedom", "t"), [(1, 12.706), (4, 2.776), (11, 2.201), (30, 2.0423), (999, 1.9623)]
)
def test_student_t_is_that_of_the_tables(freedom: int, t: float) -> None:
    assert t_95(freedom) == pytest.approx(t, abs=5e-4)


def test_a_picture_has_every_line_and_point_of_words_and_numbers_alike() -> None:
    from xml.etree import ElementTree

    for values in (("5", "10", "50"), ("eager", "lazy", "off")):
        dots = [Dot(value, float(at), 0.5) for at, value in enumerate(values)]
        drawn = plot("a < b", "x", "y", {"r=0": dots, "r=1": dots[:2]})
        root = ElementTree.fromstring(drawn)
        assert len(root.findall(".//{*}circle")) == 5
        texts = [one.text for one in root.findall(".//{*}text")]
        assert {"a < b", "r=0", "r=1", *values} <= set(texts)


def test_propagation_graphs_are_swept_as_any_scenario() -> None:
    """A cell is one point with one seed; its measures are means over the sets it drew. PROP §4.1"""
    path = EXAMPLES / "prop-graphs.toml"
    few = "runs_min=4 runs_max=4"
    found = [simulate(cell) for cell in cells(path, f"sites=20,60 groups=6 {few}", range(1, 3))]
    assert [row["status"] for row in found] == [OK] * 4
    for row in found:
        assert row["model"] == "propagation-graph"
        assert row["runs"] == 4
        assert row["sender_rate_msg_s"] is None
        assert all(row[name] is not None for name in GRAPH_MEASURES)
    [refused] = [simulate(cell) for cell in cells(EXAMPLES / "prop-map.toml", "")]
    assert refused["status"] == ERROR
    assert "a map cannot be swept" in str(refused["detail"])
