"""The member behind a stream, killed again and again under traffic; without Spark, so quickly."""

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.groups import ROOT
from tests.pipeline.stream_groups import (
    DEADLINE_S,
    SPARK,
    has_come,
    party,
    spooled,
    traffic,
    wait_until,
)

KILLS = 2


@contextmanager
def member(options: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.pipeline.stream_member", json.dumps(options)],
        stdin=subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdin is not None
    try:
        yield process
    finally:
        process.stdin.close()
        process.kill()
        process.wait(DEADLINE_S)


def test_lives_that_are_killed_leave_one_stream_without_doubles(tmp_path: Path) -> None:
    """Others keep for a killed member what it has not acknowledged, and send it to its next life.

    So only what it had acknowledged and not yet written may be missing, at the end of a life.
    """
    folder = tmp_path / "spool"
    with party() as group:
        options = group.options | {"spool": str(folder)}
        with member(options) as process:
            group.wait_complete()
            with traffic(group):
                wait_until(lambda: len(spooled(folder)) > 50, "the first rows")
                process.kill()
                for _ in range(KILLS - 1):
                    _live_and_be_killed(options, folder)
                before = len(spooled(folder))
                with member(options) as last:
                    wait_until(lambda: len(spooled(folder)) > before + 50, "rows of the last life")
                    sent = {name: int(group[name].stats()["multicast"]) for name in "ab"}
                    wait_until(lambda: has_come(folder, sent), "what was sent meanwhile")
                    assert last.stdin is not None
                    last.stdin.close()
                    assert last.wait(DEADLINE_S) == 0
                wait_until(lambda: group.state_of(SPARK) == "left", "the member leaves")
    _check(spooled(folder))


def _live_and_be_killed(options: dict[str, str], folder: Path) -> None:
    before = len(spooled(folder))
    with member(options) as process:
        wait_until(lambda: len(spooled(folder)) > before + 50, "rows of another life")
        process.kill()


def _check(rows: list[dict[str, Any]]) -> None:
    assert [row["offset"] for row in rows] == list(range(len(rows)))
    unexplained: dict[str, list[int]] = defaultdict(list)
    last: dict[str, int] = defaultdict(int)
    for row in rows:
        sender, seq = row["sender"], row["seq"]
        assert seq > last[sender], "in order, and none twice"
        gap = seq - last[sender] - 1 - len(row["skipped"])
        assert gap >= 0
        if gap:
            unexplained[sender].append(gap)
        last[sender] = seq
    assert sorted(last) == ["a", "b"]
    assert all(len(gaps) <= KILLS for gaps in unexplained.values()), unexplained
