"""Commands on a federation: the tree, sending to a group, and receiving from some."""

import json
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import wait_until

import semcast.blocking
from semcast.cli import main
from semcast.live.blocking_site import Site

SECRET = "a secret that only tests have"
GROUPS = {"a": ("alpha", "beta"), "b": ("alpha",), "c": ("beta",)}


@pytest.fixture
def sites() -> Iterator[list[Site]]:
    name = f"bank-{uuid.uuid4().hex[:8]}"
    # On a busy machine no site may be taken for one that failed, or begin a federation by itself.
    settings: dict[str, Any] = {"secret": SECRET, "interface": "lo", "silence_ms": 10_000.0}
    settings |= {"sites": GROUPS, "join_timeout_s": 90.0}
    with ExitStack() as stack, ThreadPoolExecutor(len(GROUPS)) as pool:
        joining = [
            pool.submit(semcast.blocking.federate, name, name=one, **settings) for one in GROUPS
        ]
        found = [stack.enter_context(one.result()) for one in joining]
        wait_until(lambda: same_graph(found), "all have the same graph")
        yield found


def same_graph(sites: list[Site]) -> bool:
    """Whether all of them are in one graph, and have it."""
    first = sites[0].graph
    return len(first.get("parent", ())) == len(sites) and all(one.graph == first for one in sites)


def where(site: Site) -> list[str]:
    return [site.config.group, "--secret", SECRET, "--interface", "lo"]


@contextmanager
def feeding(site: Site) -> Iterator[None]:
    """Bids go to a group again and again."""
    ended = threading.Event()

    def feed() -> None:
        while not ended.wait(0.05):
            site.send("alpha", b"bid", replaces="lamp")
            site.receive_many(timeout=60)

    thread = threading.Thread(target=feed)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def told(capsys: pytest.CaptureFixture[str], command: str, site: Site, *more: str) -> Any:
    """What a command prints as JSON."""
    assert main([command, *where(site), *more, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_members_shows_the_tree(sites: list[Site], capsys: pytest.CaptureFixture[str]) -> None:
    found = told(capsys, "members", sites[0])
    assert [row["name"] for row in found["members"]] == ["a", "b", "c"]
    federation, graph = found["federation"], sites[0].graph
    assert federation["graph"] == graph["number"]
    assert federation["manager"] == "a"
    assert federation["groups"] == ["alpha", "beta"]
    for name, groups in GROUPS.items():
        one = federation["sites"][name]
        assert one["groups"] == list(groups)
        assert one["parent"] == graph["parent"][name]
    assert federation["sites"]["a"]["primary_of"] == ["alpha", "beta"]
    assert main(["members", *where(sites[0])]) == 0
    printed = capsys.readouterr().out
    assert "3 sites, graph" in printed
    assert "The manager is a." in printed


def test_top_knows_the_graph(sites: list[Site], capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, "top", sites[0], "--interval", "0.1")["members"]
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    assert {row["graph"] for row in rows} == {sites[0].graph["number"]}


def test_whoever_asks_may_use_the_file_of_a_site(
    sites: list[Site], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """It says what is set for members, which who asks is not."""
    path = tmp_path / "bank.toml"
    path.write_text('reliability = "federation"\nsilence_ms = 10000\n[sites]\na = ["alpha"]\n')
    rows = told(capsys, "members", sites[0], "--config", str(path))["members"]
    assert [row["name"] for row in rows] == ["a", "b", "c"]
    path.write_text('reliability = "gossip"\nrelay_fanout = 4\n')
    assert told(capsys, "top", sites[0], "--interval", "0.1", "--config", str(path))["members"]
    path.write_text("relay_fanuot = 4\n")
    assert main(["members", *where(sites[0]), "--config", str(path)]) == 2
    assert "did you mean 'relay_fanout'" in capsys.readouterr().err


def test_tail_finds_its_groups_in_a_file_too(
    sites: list[Site], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "bank.toml"
    path.write_text('reliability = "federation"\ngroups = ["alpha"]\nstate = "none"\n')
    with feeding(sites[0]):
        message = told(capsys, "tail", sites[0], "--config", str(path), "--count", "1")
    assert (message["group"], message["payload"]) == ("alpha", "bid")


def test_who_comes_to_receive_where_nobody_is_hears_of_it(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    alone = [f"bank-{uuid.uuid4().hex[:8]}", "--secret", SECRET, "--interface", "lo"]
    folder = tmp_path / "journal"
    more = ["--groups", "alpha", "--seconds", "0.1", "--out", str(folder)]
    assert main(["record", *alone, *more]) == 0
    assert "nobody else is in 'bank-" in capsys.readouterr().err


def test_who_comes_to_receive_and_names_no_group_is_asked_for_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["tail", "bank", "--secret", SECRET, "--groups", ","]) == 2
    assert "say --groups, with commas" in capsys.readouterr().err


def test_what_a_command_sends_to_a_group_arrives(
    sites: list[Site], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "send", sites[0], "--name", "sender", "--to-group", "beta", "hello")
    assert found["sent_messages"] == 1
    assert sorted(found["members"]) == ["a", "c"], "b is not in that group"
    for site in (sites[0], sites[2]):
        message = site.receive(timeout=60)
        assert (message.group, message.payload) == ("beta", b"hello")


def test_tail_and_record_are_sites_in_the_groups_that_are_said(
    sites: list[Site], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with feeding(sites[0]):
        message = told(capsys, "tail", sites[0], "--groups", "alpha", "--count", "1")
        assert (message["group"], message["sender"], message["payload"]) == ("alpha", "a", "bid")
        folder = str(tmp_path / "journal")
        more = ["--groups", "alpha", "--out", folder, "--seconds", "3"]
        assert told(capsys, "record", sites[0], *more)["delivered_messages"] > 0


@pytest.mark.parametrize("command", ["tail", "send"])
def test_whoever_does_not_say_which_groups_is_told_to(
    sites: list[Site], capsys: pytest.CaptureFixture[str], command: str
) -> None:
    more = ["hello"] if command == "send" else []
    assert main([command, *where(sites[0]), *more]) != 0
    assert "is a federation: say --groups to receive, and --to-group" in capsys.readouterr().err


def test_a_group_that_there_is_not_is_one_line(
    sites: list[Site], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["send", *where(sites[0]), "--to-group", "gamma", "hello"]) == 2
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert line.startswith("semcast: no group 'gamma' in the federation")
    assert out == ""


@pytest.mark.parametrize("command", ["monitor", "send", "replay"])
def test_commands_for_groups_alone_say_so_before_they_begin(
    command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("time_s,sender,key,kind,size\n0.0,a,k,x,10\n")
    arguments = {"monitor": ["bank"], "send": ["bank", "hi"], "replay": [str(trace), "bank"]}
    asked = [command, *arguments[command], "--secret", SECRET, "--groups", "alpha"]
    assert main(asked) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("semcast: --groups is for federations")
