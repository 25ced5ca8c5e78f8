"""Commands on a group that gossips: nobody has to say that it does."""

import json
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import semcast.blocking
from semcast.cli import main
from semcast.live.blocking import Group

SECRET = "a secret that only tests have"


@pytest.fixture
def group() -> Iterator[list[Group]]:
    name = f"gossip-{uuid.uuid4().hex[:8]}"
    settings: dict[str, Any] = {"secret": SECRET, "interface": "lo", "reliability": "gossip"}
    with ExitStack() as stack:
        yield [
            stack.enter_context(semcast.blocking.join(name, name=f"m{number}", **settings))
            for number in range(3)
        ]


def told(capsys: pytest.CaptureFixture[str], command: str, group: Group, *more: str) -> Any:
    """What a command prints as JSON."""
    where = [group.config.group, "--secret", SECRET, "--interface", "lo"]
    assert main([command, *where, *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_members_and_top_show_a_sample(
    group: list[Group], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "members", group[0])
    assert found["sample"]
    assert [row["name"] for row in found["members"]] == ["m0", "m1", "m2"]
    rows = told(capsys, "top", group[0], "--interval", "0.1")["members"]
    assert [row["name"] for row in rows] == ["m0", "m1", "m2"]


def test_what_a_command_sends_arrives(
    group: list[Group], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "send", group[0], "--name", "sender", "hello")
    assert found["sent_messages"] == 1
    for member in group:
        assert member.receive(timeout=30).payload == b"hello"


def test_tail_and_record_join_as_members(
    group: list[Group], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(0.05):
            group[0].send(b"bid", replaces="lamp")

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        message = told(capsys, "tail", group[0], "--name", "tail", "--count", "1")
        assert (message["sender"], message["payload"]) == ("m0", "bid")
        folder = str(tmp_path / "journal")
        found = told(capsys, "record", group[0], "--name", "r", "--out", folder, "--seconds", "1")
        assert found["delivered_messages"] > 0
    finally:
        ended.set()
        feeding.join()
