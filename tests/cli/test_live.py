"""Commands about live groups: what they print, their keys, their exit codes, and mistakes."""

import gzip
import io
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.live.company import joined, wait_until
from tests.live.processes import DEADLINE_S, SECRET, new_group

from semcast.cli import main
from semcast.live.blocking import Group
from semcast.live.meeting import asker

NAMES = ["a", "b"]
NEW = "the secret that comes after it 12"


@pytest.fixture
def secrets(tmp_path: Path) -> tuple[str, str]:
    """Files with the group's secret, and with the next one."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text(f"{SECRET}\n")
    new.write_text(f"{NEW}\n")
    for path in (old, new):
        path.chmod(0o600)
    return str(old), str(new)


@pytest.fixture
def group() -> Iterator[dict[str, Group]]:
    with joined(NAMES, slow_after_ms=1000 * DEADLINE_S) as found:
        yield found


def reach(group: dict[str, Group] | str, secret: str) -> list[str]:
    """To join a group of that name; or to ask one that is there, however busy this machine is."""
    name = group if isinstance(group, str) else group["a"].config.group
    where = [name, "--secret-file", secret, "--interface", "lo", "--transport", "multicast"]
    return where if isinstance(group, str) else [*where, "--timeout", str(DEADLINE_S)]


def of_the_command(err: str) -> str:
    """What a command itself wrote to stderr. The group that it asks is in this process, too, and on
    a busy machine its members say there of each other that they are slow or silent.
    """
    lines = err.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("semcast: test-"))


def told(capsys: pytest.CaptureFixture[str], *line: str, code: int = 0) -> Any:
    """What a command prints as JSON."""
    assert main([*line, "--json"]) == code
    out, err = capsys.readouterr()
    assert of_the_command(err) == ""
    return json.loads(out)


def complaint(capsys: pytest.CaptureFixture[str], *line: str) -> str:
    assert main(line) == 2
    out, err = capsys.readouterr()
    err = of_the_command(err)
    assert out == ""
    assert err.startswith("semcast: ")
    assert err.count("\n") == 1
    return err


# -- asking ----------------------------------------------------------------------------------------


def test_members_are_told_with_stable_keys(
    group: dict[str, Group], secrets: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    group["a"].send(b"x")
    group["a"].drain(60)
    where = reach(group, secrets[0])

    def sent() -> bool:
        return bool(told(capsys, "members", *where)["members"][0]["sent_messages"] == 1)

    wait_until(sent)  # they tell what they knew a moment ago
    found = told(capsys, "members", *where)
    assert list(found) == ["group", "members", "not_answering", "sample", "federation"]
    assert [row["name"] for row in found["members"]] == NAMES
    assert set(found["members"][0]) == {
        "name", "answers", "state", "slow", "since_ns", "address", "held_messages", "behind_ms",
        "delivered_messages", "purge_ratio", "sent_messages",
    }  # fmt: skip
    assert main(["members", *where]) == 0
    assert "2 members" in capsys.readouterr().out


def test_a_member_that_does_not_answer_changes_the_exit_code(
    secrets: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with joined(["a", "b"]) as group:
        group["b"]._engine.session.handlers.pop("ask")
        where = [*reach(group, secrets[0]), "--timeout", "2"]
        found = told(capsys, "members", *where, code=1)
        assert found["not_answering"] == ["b"]
        assert [row["answers"] for row in found["members"]] == [True, False]
        assert main(["members", *where]) == 1
        assert "No answer from b." in capsys.readouterr().out
        assert told(capsys, "top", *where, "--interval", "0.1", code=1)["not_answering"] == ["b"]
        assert told(capsys, "keys", "list", *where, code=1)["not_answering"] == ["b"]
        group["a"].install_key(2, NEW)
        use = ["keys", "use", where[0], "2", *where[1:], "--new-secret-file", secrets[1]]
        assert "no answer from b; nothing was changed" in complaint(capsys, *use)


def test_top_tells_rates_and_levels(
    group: dict[str, Group], secrets: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    stop = threading.Event()

    def traffic() -> None:
        while not stop.wait(0.005):
            group["a"].send(b"x", replaces="k", timeout=60)

    sending = threading.Thread(target=traffic)
    sending.start()
    looks: list[dict[str, Any]] = []

    def something_went_on() -> bool:
        """Not in every interval, on a busy machine."""
        looks.append(told(capsys, "top", *reach(group, secrets[0]), "--interval", "0.3"))
        a, b = looks[-1]["members"]
        return bool(a["sent_messages_s"] > 10 and b["purged_messages_s"] > 10)

    try:
        wait_until(something_went_on)
    finally:
        stop.set()
        sending.join()
    found = looks[-1]
    assert list(found) == ["group", "interval_s", "members", "not_answering"]
    a, b = found["members"]
    assert b["sent_messages_s"] == 0
    assert list(a) == [
        "name", "sent_messages_s", "delivered_messages_s", "purged_messages_s",
        "received_bytes_s", "sent_bytes_s", "waiting_messages", "retained_messages",
        "early_messages", "behind_ms", "refused_datagrams",
    ]  # fmt: skip
    assert main(["top", *reach(group, secrets[0]), "--once", "--interval", "0.05"]) == 0
    assert "taken/s" in capsys.readouterr().out


def test_top_goes_on_until_it_is_interrupted(
    group: dict[str, Group],
    secrets: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks: list[float] = []

    def look_again(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 3:
            raise KeyboardInterrupt

    # Not time.sleep itself: other threads sleep too.
    monkeypatch.setattr(
        "semcast.cli.top.time", SimpleNamespace(sleep=look_again, monotonic=time.monotonic)
    )
    assert main(["top", *reach(group, secrets[0])]) == 130
    assert looks == [1.0] * 3
    assert "Traceback" not in capsys.readouterr().err


# -- keys ------------------------------------------------------------------------------------------


def test_a_new_secret_is_long_and_never_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    found = [told(capsys, "keys", "new") for _ in range(2)]
    assert found[0]["secret"] != found[1]["secret"]
    assert len(found[0]["secret"]) >= 43
    assert main(["keys", "new"]) == 0
    assert len(capsys.readouterr().out.strip()) >= 43


def test_keys_are_rotated_in_three_steps_each_of_which_may_be_repeated(
    group: dict[str, Group],
    secrets: tuple[str, str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A question that is repeated is answered again, and the second time nothing was changed.
    monkeypatch.setattr(asker, "_REPEAT_S", DEADLINE_S)
    name, *with_old = reach(group, secrets[0])
    new = ["--new-secret-file", secrets[1]]
    early = complaint(capsys, "keys", "use", name, "2", *with_old, *new)
    assert "has not installed key 2; nothing was changed" in early
    for step in ("install", "use"):
        for changed in (NAMES, []):
            found = told(capsys, "keys", step, name, "2", *with_old, *new)
            assert list(found) == [
                "group", "command", "key_id", "done", "changed", "refused", "not_answering",
            ]  # fmt: skip
            assert (found["done"], found["changed"]) == (NAMES, changed)
    _, *with_new = reach(group, secrets[1])
    with_new += ["--key-id", "2"]
    assert "still uses key 2" in complaint(capsys, "keys", "remove", name, "2", *with_new)
    assert told(capsys, "keys", "remove", name, "1", *with_new)["changed"] == NAMES
    assert told(capsys, "keys", "remove", name, "1", *with_new)["changed"] == []
    found = told(capsys, "keys", "list", name, *with_new)
    assert found["alike"]
    assert [[key["key_id"] for key in keys] for keys in found["members"].values()] == [[2], [2]]
    assert main(["keys", "list", name, *with_new]) == 0
    assert "in use" in capsys.readouterr().out
    group["a"].send(b"still here")
    assert group["b"].receive(timeout=60).payload == b"still here"


def test_members_with_other_keys_are_not_alike(
    group: dict[str, Group], secrets: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    group["a"].install_key(5, NEW)
    name, *rest = reach(group, secrets[0])
    assert not told(capsys, "keys", "list", name, *rest, code=1)["alike"]
    new = ["--new-secret-file", secrets[1]]
    assert "b has not installed key 5" in complaint(capsys, "keys", "use", name, "5", *rest, *new)
    forced = told(capsys, "keys", "use", name, "5", *rest, *new, "--force", code=1)
    assert forced["done"] == ["a"]
    assert list(forced["refused"]) == ["b"]


def test_a_group_in_the_clear_has_members_and_no_keys(capsys: pytest.CaptureFixture[str]) -> None:
    with joined(NAMES, secret=None) as group:
        where = [group["a"].config.group, "--insecure", "--interface", "lo"]
        where += ["--timeout", str(DEADLINE_S)]
        assert len(told(capsys, "members", *where)["members"]) == 2
        assert "not sealed" in complaint(capsys, "keys", "list", *where)


# -- joining ---------------------------------------------------------------------------------------


class Command:
    """A command in a process of its own, which joins a group of which this test is a member too."""

    def __init__(self, *line: str, stdin: bytes = b"") -> None:
        program = "import sys; from semcast.cli import main; sys.exit(main(sys.argv[1:]))"
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            self.process = subprocess.Popen(
                [sys.executable, "-c", program, *line],
                stdin=file, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip

    def end(self, code: int = 0) -> str:
        """What it printed."""
        out, err = self.process.communicate(timeout=DEADLINE_S)
        assert self.process.returncode == code, err.decode()
        return out.decode()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=DEADLINE_S)


@contextmanager
def beside(
    secret: str, command: str, *line: str, stdin: bytes = b""
) -> Iterator[tuple[dict[str, Group], Command]]:
    """A group of two: the command is "cli", and "a" is joined here."""
    name = new_group()
    where = [*reach(name, secret), "--name", "cli", "--members", "a,cli"]
    ordered = [*line, *where] if command == "replay" else [*where, *line]
    started = Command(command, *ordered, stdin=stdin)
    try:
        with joined(["a"], group=name, members=["a", "cli"]) as group:
            yield group, started
    finally:
        started.close()


def test_text_is_sent_to_everybody_and_may_replace(secrets: tuple[str, str]) -> None:
    with beside(secrets[0], "send", "101.25", "--key", "AAPL", "--json") as (group, command):
        message = group["a"].receive(timeout=60)
        assert (message.sender, message.key, message.payload) == ("cli", b"AAPL", b"101.25")
        found = json.loads(command.end())
    assert found["sent_messages"] == 1
    assert sorted(found["members"]) == ["a", "cli"]


def test_every_line_of_stdin_is_a_message(secrets: tuple[str, str]) -> None:
    with beside(secrets[0], "send", stdin=b"one\ntwo\r\n\nlast") as (group, command):
        got = [group["a"].receive(timeout=60).payload for _ in range(4)]
        assert got == [b"one", b"two", b"", b"last"]
        assert "4 messages sent to" in command.end()


def test_tail_prints_what_comes_as_json_lines_and_leaves(secrets: tuple[str, str]) -> None:
    with beside(secrets[0], "tail", "--count", "3", "--json") as (group, command):
        group["a"].send(b"text")
        group["a"].send(b"\xff\x00", replaces=b"\xfe")
        group["a"].send(b"third")
        rows = [json.loads(line) for line in command.end().splitlines()]
        wait_until(lambda: [v.state for v in group["a"].view if v.name == "cli"] == ["left"])
    assert [list(row) for row in rows] == [
        ["sender", "seq", "key", "payload", "payload_base64", "sent_ns", "skipped", "state"]
    ] * 3
    assert [(row["payload"], row["payload_base64"]) for row in rows] == [
        ("text", None), (None, "/wA="), ("third", None),
    ]  # fmt: skip
    assert [row["key"] for row in rows] == [None, "0x:fe", None]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_tail_leaves_cleanly_when_it_is_told_to_end(
    secrets: tuple[str, str], number: int, code: int
) -> None:
    with beside(secrets[0], "tail") as (group, command):
        group["a"].send(b"hello")
        assert command.process.stdout is not None
        assert command.process.stdout.readline() == b"a 1: hello\n"
        command.process.send_signal(number)
        assert command.end(code) == ""
        wait_until(lambda: [v.state for v in group["a"].view if v.name == "cli"] == ["left"])


def test_record_writes_a_journal_of_what_it_saw(secrets: tuple[str, str], tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    from semcast.check import check_all
    from semcast.journal import read_journal

    out = tmp_path / "journal"
    with beside(secrets[0], "record", "--out", str(out), "--run", "tuesday", "--json") as (
        group,
        command,
    ):
        for number in range(20):
            group["a"].send(b"%d" % number)
        group["a"].drain(60)
        wait_until(lambda: _delivered_by(group["a"], "cli") == 20)
        command.process.send_signal(signal.SIGINT)
        found = json.loads(command.end())
    assert found["delivered_messages"] == 20
    assert found["left_out_events"] == 0
    journal = read_journal(out, "tuesday")
    assert len(list(journal.select(event="deliver"))) == 20
    assert check_all(journal).ok


def _delivered_by(group: Group, name: str) -> int:
    return next(view.delivered_messages for view in group.view if view.name == name)


def trace(tmp_path: Path) -> str:
    path = tmp_path / "trace.csv.gz"
    rows = ["time_s,sender,key,kind,size"]
    rows += [
        f"{at / 100},s{at % 2},{'' if at % 5 == 0 else f'k{at % 3}'},q,{at}" for at in range(40)
    ]
    with gzip.open(path, "wt") as file:
        file.write("\n".join(rows) + "\n")
    return str(path)


@pytest.mark.parametrize("pace", [["--speed", "4"], ["--max"]])
def test_replay_keeps_keys_sizes_and_order(
    secrets: tuple[str, str], tmp_path: Path, pace: list[str]
) -> None:
    with beside(secrets[0], "replay", trace(tmp_path), *pace, "--json") as (group, command):
        got, seqs = [], list[int]()
        while not seqs or seqs[-1] < 40:
            message = group["a"].receive(timeout=60)
            seqs += [*message.skipped, message.seq]
            got.append((message.seq - 1, message.key.decode(), len(message.payload)))
        found = json.loads(command.end())
    assert seqs == list(range(1, 41))
    assert all(size == at for at, _, size in got)
    assert all(key == ("" if at % 5 == 0 else f"k{at % 3}") for at, key, _ in got)
    assert {at for at, key, _ in got if not key} == set(range(0, 40, 5))
    assert found["sent_messages"] == 40
    assert pace == ["--max"] or found["seconds"] >= 0.39 / 4


def test_replay_may_stop_early(secrets: tuple[str, str], tmp_path: Path) -> None:
    with beside(secrets[0], "replay", trace(tmp_path), "--max", "--count", "7") as (group, command):
        while group["a"].receive(timeout=60).seq < 7:
            pass
        assert command.end().startswith("7 messages in ")


def test_replay_per_sender_makes_each_sender_of_the_trace_a_member(
    secrets: tuple[str, str], tmp_path: Path
) -> None:
    """Each has numbers of its own, and its keys replace its own messages only."""
    name = new_group()
    line = [trace(tmp_path), *reach(name, secrets[0]), "--members", "a,s0,s1"]
    command = Command("replay", *line, "--max", "--per-sender", "--json")
    try:
        with joined(["a"], group=name, members=["a", "s0", "s1"]) as group:
            newest = {"s0": 0, "s1": 0}
            while newest != {"s0": 20, "s1": 20}:
                message = group["a"].receive(timeout=60)
                assert len(message.payload) % 2 == int(message.sender[1])
                newest[message.sender] = message.seq
            found = json.loads(command.end())
    finally:
        command.close()
    assert (found["sent_messages"], found["members"]) == (40, 2)
    assert found["sense"] == "per_sender"


def test_replay_per_sender_says_what_it_cannot_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "many.csv"
    path.write_text("sender,key,size\n" + "".join(f"s{at},k,1\n" for at in range(40)))
    where = ["quotes", "--insecure", "--size", "2", "--per-sender", "--max"]
    assert "more than 32 senders" in complaint(capsys, "replay", str(path), *where)
    assert "called as the trace's" in complaint(capsys, "replay", str(path), *where, "--name", "x")
    path.write_text("key,size\nk,1\n")
    assert "without a sender" in complaint(capsys, "replay", str(path), *where)


# -- settings and mistakes -------------------------------------------------------------------------


def test_a_file_and_the_environment_give_what_options_do_not(
    group: dict[str, Group],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = tmp_path / "group.toml"
    settings.write_text('interface = "lo"\nsecret = "of another group........."\n')
    settings.chmod(0o600)
    monkeypatch.setenv("SEMCAST_SECRET", SECRET)
    name = group["a"].config.group
    where = [name, "--config", str(settings), "--timeout", str(DEADLINE_S)]
    assert len(told(capsys, "members", *where)["members"]) == 2
    monkeypatch.delenv("SEMCAST_SECRET")
    monkeypatch.setenv("SEMCAST_SECRET_FILE", str(tmp_path / "secret"))
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    assert len(told(capsys, "members", *where)["members"]) == 2


MISTAKES = [
    "members",
    "members quotes",
    "members quotes --insecure --timeout 0",
    "members quotes --insecure --timeout 0.1 --interface lo",
    "members quotes --insecure --transport unicast",
    "members quotes --insecure --transport pigeon",
    "members quotes --insecure --peers nowhere --transport unicast",
    "members quotes --secret short",
    "members quotes --secret-file no-such-file",
    "members quotes --config no-such-file",
    "members quotes --insecure --log-format xml",
    "top quotes --insecure --interval 0",
    "keys list quotes",
    "keys install quotes",
    "keys install quotes two --insecure",
    "keys install quotes 2 --insecure",
    "keys install quotes 2 --insecure --new-secret-file no-such-file",
    "keys use quotes 0 --insecure",
    "keys nonsense",
    "send quotes hello --insecure --role nobody",
    "send quotes hello --insecure --role reader --size 2",
    "send quotes hello --size 2",
    "send quotes hello --insecure --size -1",
    "send quotes hello --insecure --members a,b --name c",
    "send quotes hello --insecure --size 2 --interface nosuch0",
    "send quotes hello --insecure --size 2 --interface lo --join-timeout 0.1",
    "tail quotes --insecure --count -1",
    "record quotes --insecure --interface lo --join-timeout 0.1",
    "record quotes --insecure --interface lo --out /dev/null",
    "tail quotes --insecure --interface lo --groups ,",
    "replay no-such-file quotes --insecure --size 2",
    "replay . quotes --insecure --size 2",
    "replay no-such-file quotes --insecure --size 2 --speed 0",
]


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_gets_one_line_and_exit_code_2(
    line: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)  # one that begins to record does so where it is
    for name in [name for name in os.environ if name.startswith("SEMCAST_")]:
        monkeypatch.delenv(name)
    complaint(capsys, *line.split())


@pytest.mark.parametrize("command", ["members quotes", "send quotes hello", "tail quotes"])
def test_a_config_that_cannot_be_read_is_not_blamed_on_a_variable(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = complaint(capsys, *command.split(), "--config", "no-such-file")
    assert said == "semcast: cannot read --config no-such-file: No such file or directory\n"


def test_an_empty_secret_file_is_said_to_be_empty(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").write_text("\n")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for name, why in (("empty", "is empty"), ("binary", "is not text")):
        assert why in complaint(capsys, "members", "g", "--secret-file", str(tmp_path / name))


def test_warnings_are_json_lines_if_that_is_wanted(
    secrets: tuple[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody comes; the buffers that were asked for are more than the machine gives."""
    monkeypatch.setenv("SEMCAST_RECEIVE_BUFFER_BYTES", str((1 << 30) - 1))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    where = [*reach(new_group(), secrets[0]), "--name", "a", "--size", "2", "--join-timeout", "0.2"]
    assert main(["send", *where, "hello", "--log-format", "json"]) == 2
    *lines, last = capsys.readouterr().err.splitlines()
    assert last.startswith("semcast: ")
    assert all(json.loads(line)["logger"] == "semcast" for line in lines)


COMMANDS = ["send", "tail", "members", "top", "record", "replay", "keys install", "keys use"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_explains_every_option_and_gives_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*name.split(), "--help"]) == 0
    out = capsys.readouterr().out
    assert f"  semcast {name} " in out
    for option in ("--secret-file", "--insecure", "--peers", "--interface", "--config", "--json"):
        assert f"  {option} " in out
    if name in ("send", "tail", "record", "replay"):
        assert "If the group is closed" in out
        assert "  --members " in out
    else:
        assert "  --timeout " in out


def test_a_line_that_is_too_long_is_one_line_on_stderr(secrets: tuple[str, str]) -> None:
    with beside(secrets[0], "send", stdin=b"first\n" + b"x" * (1 << 21)) as (group, command):
        assert group["a"].receive(timeout=60).payload == b"first"
        assert command.end(2) == ""
