"""`semcast analyse`: a live group's journal, the command's faces, and what it refuses."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import typer
from pyspark.sql import SparkSession
from tests.live.company import joined, wait_until
from typer.testing import CliRunner

from semcast.cli._errors import exit_code_of
from semcast.cli.analyse import analyse
from semcast.journal import Header, Journal, write_journal
from semcast.pipeline.analysis.covers import by_cover
from semcast.pipeline.analysis.questions import QUESTIONS

NAMES = ["fast", "slow"]
SENT = 300


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A group over loopback: one member sends, and takes at once; the other takes at the end."""
    folder = tmp_path_factory.mktemp("live")
    with joined(NAMES, record=str(folder)) as group:
        for number in range(SENT):
            group["fast"].send(b"%d" % number, replaces=f"k{number % 5}")
        group["fast"].send(b"last")
        group["fast"].drain(20)
        for one in group.values():
            while one.receive(timeout=120).payload != b"last":
                pass
        wait_until(lambda: all(one.stats()["retained_held"] == 0 for one in group.values()))
        for one in group.values():
            one.leave()
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One message in ten seconds, of a group whose members have clocks of their own."""
    folder = tmp_path_factory.mktemp("small")
    names = ("p0.1 fast", "p1.1 slow")
    header = Header("small", ("p0.1", "p1.1"), one_order=False, names=names, left_out=3)
    journal = Journal(header)
    for node, event in (("p0.1", "multicast"), ("p1.1", "receive")):
        journal.record(0, node, event, "p0.1", 1, sent_ns=0, size=10)
    journal.record(10_000_000_000, "p1.1", "deliver", "p0.1", 1, sent_ns=0, size=10)
    write_journal(journal, folder)
    return folder


def command(*arguments: object) -> Callable[[], object]:
    app = typer.Typer()
    app.command()(analyse)
    return lambda: typer.main.get_command(app).main(
        [str(argument) for argument in arguments], standalone_mode=False
    )


def ran(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = exit_code_of(command(*arguments))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_live_groups_journal_is_told_in_json(
    spark: SparkSession, live: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Everything, and the same as Parquet: what both took and skipped adds up to what was sent."""
    code, out, _ = ran(capsys, live, "--json", "--out", tmp_path)
    assert code == 0
    found = json.loads(out)
    (summary,) = found["runs"]
    assert (summary["members"], summary["sent"], summary["one_clock"]) == (2, SENT + 1, False)
    assert {name for name in found if name in QUESTIONS} == set(QUESTIONS)
    by_name = {row["name"]: row for row in found["throughput"]}
    assert sorted(by_name) == NAMES
    assert by_name["fast"]["multicast"] == SENT + 1
    slow = by_name["slow"]["node"]
    missed = sum(
        row["messages"]
        for row in found["purging"]
        if row["node"] == slow and row["place"] != "retransmit"
    )
    assert by_name["slow"]["delivered"] + missed == SENT + 1
    assert missed > 0
    (semantic,) = (row for row in found["semantic"] if row["node"] == slow)
    assert (semantic["messages"], semantic["replaced"], semantic["waiting"]) == (
        SENT + 1,
        missed,
        0,
    )
    assert semantic["semantic_latency_max_ms"] > 0
    (never,) = (row for row in found["atomicity"] if row["of"] == "never replaced")
    # The last of each key, and the one without.
    assert (never["messages"], never["to_all_share"]) == (6, 1.0)
    assert all(row["stable"] == row["messages"] for row in found["stability"])
    assert all(0 <= row["blocked_share"] <= 1 for row in found["blocked"])
    assert max(row["messages_max"] for row in found["occupancy"]) > 0
    # This group does not gossip, so there is nothing to say of that.
    assert {name for name in QUESTIONS if not found[name]} <= {"gossip", "losses"}
    for name in QUESTIONS:
        written = spark.read.parquet(str(tmp_path / name))
        assert not found[name] or sorted(written.columns) == sorted(found[name][0])
    assert spark.read.parquet(str(tmp_path / "throughput")).count() == 2


def test_people_get_a_line_for_each_run_and_each_member(
    small: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    assert spark is not None
    code, out, _ = ran(capsys, small, "--run", "small", "--show", "purging,repair")
    assert code == 0
    assert "Members of small" in out
    assert "fast" in out
    assert "slow" in out
    assert "clocks of several members" in " ".join(out.split())
    assert "3 events were never written down" in out
    assert "purging: what left unread" in out
    # Every table calls members as people do.
    repair = out[out.index("repair: what was asked") :]
    assert "fast" in repair
    assert "slow" in repair
    assert "p0.1" not in out
    assert "semantic" not in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no such folder"),
        (["{small}", "--run", "other"], "no journal of run 'other'"),
        (["{small}", "--show", "latency,nonsense"], "'nonsense' is no table"),
        (["{small}", "--since-s", "3", "--until-s", "2"], "measured from 3 s until 2 s is nothing"),
        (["{small}", "--window-s", "0"], "window_s is 0"),
        (["{small}", "--round-ms", "-1"], "round_ms is -1"),
        (["{small}", "--show", "series", "--window-s", "0.000001"], "take longer windows"),
    ],
)
def test_what_cannot_be_analysed_is_said_in_one_line(
    small: Path,
    capsys: pytest.CaptureFixture[str],
    spark: SparkSession,
    arguments: list[str],
    says: str,
) -> None:
    assert spark is not None
    code, out, err = ran(capsys, *[text.format(small=small) for text in arguments])
    assert code == 2
    assert out == ""
    (line,) = [line for line in err.splitlines() if "Spark" not in line]
    assert line.startswith("semcast: ")
    assert says in line


def test_a_journal_in_which_nothing_happened_has_members_and_no_rates(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark is not None
    write_journal(Journal(Header(run="empty", members=("p0.1", "p1.1"))), tmp_path)
    code, out, _ = ran(capsys, tmp_path, "--json", "--show", "throughput")
    found = json.loads(out)
    assert code == 0
    assert [row["node"] for row in found["throughput"]] == ["p0.1", "p1.1"]
    assert found["runs"][0]["sent_rate_msg_s"] is None


def test_help_has_an_example() -> None:
    app = typer.Typer()
    app.command()(analyse)
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"})
    assert "semcast analyse journals" in shown.output


# -- covers ----------------------------------------------------------------------------------------


def chased(rows: list[dict[str, Any]]) -> list[int | None]:
    """The earliest delivery on the way along the covers, one step after the other."""
    places = {(row["sender"], row["seq"]): row for row in rows}
    found = []
    for row in rows:
        times = []
        at: dict[str, Any] | None = row
        seen = set()
        while at is not None and (at["sender"], at["seq"]) not in seen:
            seen.add((at["sender"], at["seq"]))
            if at["made_up_ns"] is not None:
                times.append(at["made_up_ns"])
            at = places.get((at["by_sender"], at["by_seq"]))
        found.append(min(times, default=None))
    return found


@pytest.mark.parametrize("seed", range(30))
def test_covers_are_followed_as_far_as_they_lead(seed: int) -> None:
    """Chains of any length, covers that are not there, messages that cover themselves."""
    stream = random.Random(seed)
    rows: list[dict[str, Any]] = []
    names = ("p0.1", "p1.1")[: stream.randint(1, 2)]
    for sender in names:
        for seq in range(1, stream.randint(2, 60)):
            by = stream.choice([None, seq, seq + 1, seq + stream.randint(1, 9)])
            cover = None if by is None else sender if by == seq else stream.choice(names)
            delivered = by is None and stream.random() < 0.7
            time_ns = stream.randrange(1000) if delivered else None
            rows.append(
                {
                    "sender": sender, "seq": seq, "by_seq": by,
                    "by_sender": cover,
                    "made_up_ns": time_ns, "made_up_sent_ns": time_ns, "values_behind": 0,
                }
            )  # fmt: skip
    stream.shuffle(rows)
    schema = pa.schema(
        [("sender", pa.string()), ("seq", pa.int64()), ("by_seq", pa.int64()),
         ("by_sender", pa.string()), ("made_up_ns", pa.int64()),
         ("made_up_sent_ns", pa.int64()), ("values_behind", pa.int64())]
    )  # fmt: skip
    found = by_cover(pa.Table.from_pylist(rows, schema=schema))
    wanted = chased(rows)
    assert found["made_up_ns"].to_pylist() == wanted
    assert found["made_up_sent_ns"].to_pylist() == wanted
