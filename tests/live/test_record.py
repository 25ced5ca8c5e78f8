"""The recorder: everything is written, or the journal says what is not."""

import logging
from pathlib import Path
from typing import Any

import pytest
from tests.live.company import joined, wait_until

from semcast.check import History, check_all
from semcast.errors import InputError
from semcast.ids import Source
from semcast.journal import read_journal, runs_in
from semcast.journal.growing_log import LogWriter
from semcast.live.blocking import Group
from semcast.live.config import GroupConfig
from semcast.live.insight import record
from semcast.live.insight.record import QueueObserver, Recorder
from semcast.wire.message import Message

pytest.importorskip("pyarrow")
NAMES = ["a", "b"]


def take_until(group: Group, payload: bytes) -> None:
    while group.receive(timeout=60).payload != payload:
        pass


def exchange(group: dict[str, Group], count: int = 100) -> None:
    """Quotes from a, a trade at the end that both take; all is stable, and all leave."""
    for number in range(count):
        group["a"].send(b"%d" % number, replaces=f"k{number % 5}")
    group["a"].send(b"last")
    group["a"].drain(60)
    for one in group.values():
        take_until(one, b"last")
    for one in group.values():
        one.leave()


def test_a_group_at_rest_is_one_journal_that_is_judged_in_full(tmp_path: Path) -> None:
    with joined(NAMES, record=str(tmp_path)) as group:
        exchange(group)
        recorded = sum(one.stats()["recorded_events"] for one in group.values())
    journal = read_journal(tmp_path)
    assert len(journal) == recorded
    history = History(journal)
    assert check_all(history).ok
    assert history.run.correct.bit_count() == 2
    assert journal.header.left_out == 0
    assert sorted(line.split()[1] for line in journal.header.names) == NAMES


def test_one_member_that_records_is_enough_for_a_journal_of_what_it_saw(tmp_path: Path) -> None:
    with joined(NAMES, b={"record": str(tmp_path)}) as group:
        exchange(group)
    report = check_all(read_journal(tmp_path))
    assert report.ok, str(report)
    assert report.judged["Integrity"] > 101


def test_the_run_is_named_by_the_group_and_its_beginning_or_by_the_user(tmp_path: Path) -> None:
    with joined(NAMES, record=str(tmp_path), group="the feed") as group:
        exchange(group, 1)
    (run,) = runs_in(tmp_path)
    assert run.startswith("the feed-20")
    with joined(NAMES, record=str(tmp_path), record_run="monday") as group:
        exchange(group, 1)
    assert sorted(runs_in(tmp_path)) == sorted([run, "monday"])
    assert check_all(read_journal(tmp_path, "monday")).ok


def test_a_gap_is_counted_said_once_and_marked(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue of 20 events, and a writer that comes only when the member leaves."""
    monkeypatch.setattr(record, "PERIOD_S", 1000.0)
    monkeypatch.setattr(record.Recorder.__init__, "__defaults__", (20,))
    with (
        caplog.at_level(logging.ERROR, "semcast"),
        joined(NAMES, record=str(tmp_path)) as group,
    ):
        exchange(group)
        left_out = {name: one.stats()["recorded_left_out"] for name, one in group.items()}
    assert all(count > 0 for count in left_out.values())
    complaints = [one.getMessage() for one in caplog.records if "gap" in one.getMessage()]
    assert len(complaints) == 2
    journal = read_journal(tmp_path)
    assert journal.header.left_out == sum(left_out.values())
    assert check_all(journal).ok


def test_a_disk_that_refuses_stops_the_journal_and_not_the_member(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []

    def full(_: LogWriter, rows: list[Any]) -> None:
        written.append(len(rows))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogWriter, "write", full)
    with (
        caplog.at_level(logging.ERROR, "semcast"),
        joined(NAMES, a={"record": str(tmp_path)}) as group,
    ):
        exchange(group)
        assert group["a"].stats()["recorded_left_out"] > 100
    assert len(written) == 1
    assert len([one for one in caplog.records if "No space left" in one.getMessage()]) == 1


def test_a_folder_that_cannot_be_written_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("no folder")
    with (
        caplog.at_level(logging.ERROR, "semcast"),
        joined(NAMES, a={"record": str(tmp_path / "file")}) as group,
    ):
        exchange(group, 5)
    assert len([one for one in caplog.records if "cannot be written" in one.getMessage()]) == 1


def test_without_pyarrow_joining_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise InputError("journals on disk need pyarrow")

    monkeypatch.setattr(record, "require_pyarrow", missing)
    with pytest.raises(InputError, match="pyarrow"):
        Recorder(GroupConfig("g", insecure=True, size=2, record="x"))


def test_a_member_whose_group_never_came_together_writes_nothing(tmp_path: Path) -> None:
    recorder = Recorder(GroupConfig("g", insecure=True, size=2, record=str(tmp_path)))
    recorder.close()
    assert list(tmp_path.iterdir()) == []


def test_the_observer_holds_no_payloads_and_no_more_than_its_bound() -> None:
    observer = QueueObserver(3)
    message = Message(Source(1, 1), 1, b"key" + bytes(1 << 20), 3)
    for _ in range(5):
        observer.message("receive", message, "", None)
    observer.progress("stable", Source(1, 1), 1, None, 0)
    assert len(observer.queue) == 3
    assert observer.left_out == 3
    assert not any(isinstance(part, bytes) and len(part) > 3 for part in observer.queue[0])


def events_in(folder: Path) -> int:
    """How many can be read by now; a run has its folder before it has its file."""
    try:
        return len(read_journal(folder))
    except InputError:
        return 0


def test_events_are_on_disk_while_the_member_goes_on(tmp_path: Path) -> None:
    with joined(NAMES, a={"record": str(tmp_path)}) as group:
        group["a"].send(b"one")
        wait_until(lambda: events_in(tmp_path) > 1)
        journal = read_journal(tmp_path)
        assert [event.seq for event in journal.select(event="multicast")] == [1]
        assert journal.events[-1].event == "crash"  # as far as anybody can tell by now
