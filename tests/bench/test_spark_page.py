"""The tables of the page on sizing: all that was measured, between marks, nothing else touched."""

import json
from pathlib import Path

import pytest
from bench.page import END
from bench.spark.before import read_before, with_before
from bench.spark.duck import Answer
from bench.spark.meter import Line, Peak
from bench.spark.page import BEGIN, markdown, write_page
from bench.spark.queries import QUERIES
from bench.spark.run import Asked, Measured, Plan, Results
from bench.spark.show import as_object
from bench.spark.worker import START

ROOT = Path(__file__).parents[2]
ABOUT: dict[str, dict[str, object]] = {
    "machine": {"load_before": 0.1, "niceness": 0, "python": "3.11.2"},
    "versions": {"pyspark": "4.3.0"},
}
JOBS = ((START, True, 5.0), ("survey", True, 2.0), ("rest", False, 1.0))
PLAN = Plan([10, 50], {}, Path(), 2, 12)


def results() -> Results:
    found = Results()
    for rows in (9_773_200, 48_869_320):
        for job, shared, seconds in JOBS:
            line = Line(job, shared, seconds * rows / 1e7, Peak(3_000_000_000, 4_000_000), "")
            line.processor_s = 2 * line.seconds
            found.spark.append(Measured("verify", rows, line))
    return found


def test_every_job_is_a_row_with_the_seconds_of_each_size() -> None:
    text = markdown(PLAN, results(), ABOUT)
    (survey,) = (line for line in text.splitlines() if "shared: survey |" in line)
    assert survey.split("|")[3:6] == [" 2.0 ", " 9.8 ", " 20 "]
    assert "10 million, s | 50 million, s" in text
    assert START not in text
    assert "The machine had nothing else to do." in text
    assert "### Time against rows" in text
    assert "| verify | **all of it** | 1.00 | 1.00 |" in text
    assert "Left out" not in text
    assert "DuckDB" not in text
    (whole,) = (line for line in text.splitlines() if line.startswith("| **verify** | 48,869,320"))
    # Processor seconds by millions of rows.
    assert float(whole.split("|")[5]) == round((9.774 + 4.887) * 2 / 48.869, 1)


def test_a_busy_machine_and_what_was_left_out_are_said() -> None:
    found = results()
    found.left_out.append("sweep: the time is up")
    query = next(one for one in QUERIES if one.job == "FIFO Order")
    found.duckdb.append(Asked(query, 9_773_200, Answer(0.5)))
    busy = {**ABOUT, "machine": {**ABOUT["machine"], "load_before": 7.5}}
    text = markdown(PLAN, found, busy)
    assert "**The machine was busy with other work** (load 7.5" in text
    assert "Left out: sweep: the time is up." in text
    assert "| FIFO Order | 9,773,200 |  | 0.50 |  |" in text


def test_growth_has_time_and_processor_time_and_gaps_are_told() -> None:
    found = results()
    for one in found.spark:
        if one.rows > 40e6 and one.line.job == "rest":
            one.line.processor_s *= 3
    for one in list(found.spark):
        if one.line.job == "rest":  # too short to say anything of how it grows
            line = Line("Key Order", seconds=1.0, processor_s=4.9)
            found.spark.append(Measured("verify", one.rows, line))
    found.spark.append(Measured("verify", 9_773_200, Line("Integrity", seconds=1.0)))
    text = markdown(PLAN, found, ABOUT)
    assert "| command | job | 50 million, time | 50 million, processor time |" in text
    assert "| verify | rest | 1.00 | 3.00 |" in text
    assert text.count("Key Order") == 2  # among the jobs, and in what the sum is of
    # Sums of different jobs would say nothing, or must say what they are of.
    assert "all of it" not in text
    assert "| **verify** | 9,773,200 |" in text
    assert "| **verify**, only survey, rest, Key Order | 48,869,320 |" in text
    assert "Left out: Integrity at 50 million." in text


def test_a_measurement_in_parts_is_put_together(tmp_path: Path) -> None:
    found = results()
    query = next(one for one in QUERIES if one.job == "FIFO Order")
    found.duckdb.append(Asked(query, 9_773_200, Answer(0.5, 7)))
    found.sweep = {"cells": 4}
    saved = tmp_path / "before.json"
    saved.write_text(json.dumps(as_object(PLAN, found, ABOUT)))
    again = Results([Measured("verify", 9_773_200, Line("rest", seconds=9.0))])
    again.spark.append(Measured("analyse", 9_773_200, Line("latency", seconds=1.0)))
    both = with_before(again, read_before(saved))
    assert [(one.group, one.rows, one.line.job) for one in both.spark] == [
        ("verify", 9_773_200, START),
        ("verify", 9_773_200, "survey"),
        ("verify", 9_773_200, "rest"),
        ("verify", 48_869_320, START),
        ("verify", 48_869_320, "survey"),
        ("verify", 48_869_320, "rest"),
        ("analyse", 9_773_200, "latency"),
    ]
    assert both.spark[2].line.seconds == 9.0
    assert both.spark[1] == found.spark[1]
    assert both.duckdb == found.duckdb
    assert both.sweep == {"cells": 4}


@pytest.mark.parametrize("text", ["", "[]", "{}"])
def test_what_is_no_earlier_measurement_is_one_line(text: str, tmp_path: Path) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^--add .*other\.json: "):
        read_before(path)


def test_only_what_is_between_the_marks_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    write_page(page, "new")
    assert page.read_text() == f"before\n{BEGIN}\n\nnew\n\n{END}\nafter\n"
    write_page(page, "newer")
    assert page.read_text() == f"before\n{BEGIN}\n\nnewer\n\n{END}\nafter\n"
    other = tmp_path / "other.md"
    write_page(other, "new")
    assert other.read_text() == f"{BEGIN}\n\nnew\n\n{END}\n"
    other.write_text("what people wrote")
    with pytest.raises(ValueError, match="has no marks"):
        write_page(other, "new")
    assert other.read_text() == "what people wrote"


def test_the_page_has_the_marks() -> None:
    text = (ROOT / "docs" / "pipeline" / "sizing.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
