"""The tables of the page on sizing: all that was measured, between marks, nothing else touched."""

from pathlib import Path

from bench.spark.duck import Answer
from bench.spark.meter import Line, Peak
from bench.spark.page import BEGIN, END, markdown, write_page
from bench.spark.queries import QUERIES
from bench.spark.run import Asked, Measured, Plan, Results
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
    assert "DuckDB" not in text
    (whole,) = (line for line in text.splitlines() if line.startswith("| **verify** | 48,869,320"))
    # Seconds by cores by millions of rows.
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


def test_the_page_has_the_marks() -> None:
    text = (ROOT / "docs" / "pipeline" / "sizing.md").read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == 1
    assert text.index(BEGIN) < text.index(END)
