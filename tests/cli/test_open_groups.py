"""Commands about groups and feeds that processes come to and go from: nobody waits for them."""

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_live import of_the_command
from tests.live.company import wait_until
from tests.live.processes import DEADLINE_S, SECRET, new_group

import semcast.blocking
from semcast.cli import main
from semcast.errors import GroupClosedError
from semcast.live.blocking import Group

SETTINGS = {"secret": SECRET, "interface": "lo", "transport": "multicast", "deliver_own": False}


@pytest.fixture(params=["group", "sender"])
def group(request: pytest.FixtureRequest) -> Iterator[dict[str, Group]]:
    """A group, and a feed: two members, of which b takes what comes."""
    name = new_group()
    with ExitStack() as stack:
        found: dict[str, Group] = {}
        for who in ("a", "b"):
            settings = SETTINGS | {"name": who, "reliability": request.param}
            found[who] = stack.enter_context(semcast.blocking.join(name, **settings))  # type: ignore[arg-type]
        wait_until(lambda: all(len(one.view) == 2 for one in found.values()))
        reading = threading.Thread(target=take_all, args=(found["b"],), daemon=True)
        reading.start()
        yield found


def take_all(group: Group) -> None:
    with suppress(GroupClosedError):
        while True:
            group.receive_many()


@pytest.fixture
def where(group: dict[str, Group], tmp_path: Path) -> list[str]:
    """How a command reaches the group. It does not say what the group promises."""
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    name = group["a"].config.group
    return [name, "--secret-file", str(secret), "--interface", "lo", "--transport", "multicast"]


def run(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(line) == 0, capsys.readouterr()
    out, err = capsys.readouterr()
    said = of_the_command(err)
    assert said == "" or said.startswith("semcast: recording ")
    return out


def as_before(group: dict[str, Group]) -> None:
    """The members are those who were there, and wait for nobody else."""
    for one in group.values():
        wait_until(lambda one=one: sorted(m.name for m in one.view) == ["a", "b"])  # type: ignore[misc]
    group["a"].send(b"after that", replaces="last")
    group["a"].drain(DEADLINE_S)


def test_asking_changes_nothing(
    group: dict[str, Group], where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    patient = ["--timeout", str(DEADLINE_S), "--json"]
    views = [one.stats()["members"] for one in group.values()]
    found = json.loads(run(capsys, "members", *where, *patient))
    assert [row["name"] for row in found["members"]] == ["a", "b"]
    top = json.loads(run(capsys, "top", *where, *patient, "--interval", "0.1"))
    assert [row["name"] for row in top["members"]] == ["a", "b"]
    assert [one.stats()["members"] for one in group.values()] == views
    as_before(group)


def test_tail_gets_what_stands_and_leaves_no_trace(
    group: dict[str, Group], where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(10):
        group["a"].send(b"%d" % number, replaces=f"k{number % 3}")
    group["a"].drain(DEADLINE_S)
    lines = run(capsys, "tail", *where, "--count", "3", "--json").splitlines()
    got: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert sorted(one["payload"] for one in got) == ["7", "8", "9"]
    assert all(one["state"] for one in got)
    as_before(group)


def test_send_reaches_the_members_and_leaves(
    group: dict[str, Group], where: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    sent = json.loads(run(capsys, "send", where[0], "hello", *where[1:], "--name", "c", "--json"))
    assert sorted(sent["members"]) == ["a", "b", "c"]
    assert group["a"].receive(timeout=DEADLINE_S).payload == b"hello"
    as_before(group)


def test_record_holds_nobody_up(
    group: dict[str, Group],
    where: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    stop = threading.Event()

    def traffic() -> None:
        while not stop.wait(0.01):
            group["a"].send(b"x", replaces="k", timeout=DEADLINE_S)

    sending = threading.Thread(target=traffic)
    sending.start()
    out = str(tmp_path / "journal")
    try:
        told = json.loads(run(capsys, "record", *where, "--out", out, "--seconds", "1", "--json"))
    finally:
        stop.set()
        sending.join(DEADLINE_S)
    assert told["recorded_events"] > 0
    as_before(group)


@pytest.mark.parametrize("more", [[], ["--per-sender"]])
def test_replay_reaches_the_members_and_leaves(
    group: dict[str, Group],
    where: list[str],
    more: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,sender,key,kind,size\n0.0,x,k1,q,10\n0.01,y,k2,q,10\n")
    run(capsys, "replay", str(trace), *where, *more)
    got = [group["a"].receive(timeout=DEADLINE_S) for _ in range(2)]
    assert sorted(one.key or b"" for one in got) == [b"k1", b"k2"]
    as_before(group)
