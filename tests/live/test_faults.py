"""Faults of processes, on loopback: killed, stopped, started again, deaf, with a wrong clock."""

from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import Nodes, has_event, payloads, wait_until
from tests.live.journals import check_journals, leave_all
from tests.live.material import Way

WAYS = [Way("multicast", ipv6=False), Way("unicast", ipv6=False)]
both_ways = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.kind)


def numbered(count: int, prefix: str = "") -> list[str]:
    return [f"{prefix}{number}:" for number in range(count)]


def collected(nodes: Nodes, name: str, sender: str) -> list[str]:
    return payloads(nodes[name].call("collected"), sender)


def count(nodes: Nodes, name: str, sender: str, text: str = "") -> int:
    got: int = nodes[name].call("count", sender=sender, text=text)
    return got


@both_ways
@pytest.mark.parametrize("ahead_s", [0.0, -3600.0], ids=["right-clock", "clock-set-back"])
def test_who_is_killed_comes_back_and_gets_what_follows(
    way: Way, ahead_s: float, tmp_path: Path
) -> None:
    """In a later life, also if its clock says that this one is earlier: the others remember."""
    with Nodes(way, record=str(tmp_path)) as nodes:
        for node in nodes:
            node.call("collect")
        nodes["a"].call("traffic", count=100, prefix="early ")
        wait_until(lambda: count(nodes, "b", "a") == 100, "b has all of the first")
        nodes["a"].call("drain")
        port = nodes["c"].address.rpartition(":")[2]
        nodes["c"].kill()
        same_place: dict[str, Any] = {} if way.kind == "multicast" else {"port": int(port)}
        back = nodes.restart("c", ahead_s, **same_place)
        wait_until(lambda: has_event(nodes["a"], "restarted", "c"), "a sees that c is back")
        back.call("collect")
        back.call("traffic", count=50, prefix="back ")
        nodes["a"].call("traffic", count=100, prefix="late ")
        wait_until(lambda: count(nodes, "b", "c") == 50, "b hears the new c")
        wait_until(lambda: count(nodes, "c", "a", "late 99:") == 1, "the new c has what follows")
        late = [one for one in collected(nodes, "c", "a") if one.startswith("late ")]
        assert late == numbered(100, "late ")[-len(late) :]
        assert collected(nodes, "b", "a") == numbered(100, "early ") + numbered(100, "late ")
        assert collected(nodes, "b", "c") == numbered(50, "back ")
        leave_all(nodes)
    # Its clock says that the new c ended before anything was stable: then it owes nothing.
    check_journals(tmp_path, rested=3 if ahead_s == 0 else 2)


@both_ways
def test_a_restart_in_the_middle_of_traffic_loses_nothing_for_the_others(
    way: Way, tmp_path: Path
) -> None:
    with Nodes(way, record=str(tmp_path), window_messages=256) as nodes:
        for node in nodes:
            node.call("collect")
        nodes["a"].call("traffic", count=1000, gap_s=0.001)
        wait_until(lambda: count(nodes, "c", "a") > 50, "c has some")
        nodes["c"].kill()
        nodes.restart("c").call("collect")
        wait_until(lambda: count(nodes, "b", "a") == 1000, "b has all", 60)
        wait_until(lambda: count(nodes, "c", "a", "999:") == 1, "c has the last")
        assert collected(nodes, "b", "a") == numbered(1000)
        got = collected(nodes, "c", "a")
        assert got == numbered(1000)[-len(got) :]
        leave_all(nodes)
    check_journals(tmp_path, rested=3)


@both_ways
def test_who_is_stopped_for_three_seconds_loses_nothing(way: Way, tmp_path: Path) -> None:
    with Nodes(way, record=str(tmp_path)) as nodes:
        for node in nodes:
            node.call("collect")
        nodes["c"].pause()
        nodes["a"].call("traffic", count=1500, gap_s=0.002, keys=10)
        wait_until(lambda: not nodes["a"].call("sending"), "a has sent all, in 3 s", 60)
        wait_until(lambda: has_event(nodes["b"], "suspected", "c"), "b finds c silent")
        nodes["c"].resume()
        sent: list[list[str]] = nodes["a"].call("sent")
        unmarked = [text for key, text in sent if not key]
        newest = {key: text for key, text in sent if key}

        def complete(name: str) -> bool:
            got = [one for one in nodes[name].call("collected") if one[0] == "a"]
            plain = [one[4] for one in got if not one[3]]
            return plain == unmarked and {one[3]: one[4] for one in got if one[3]} == newest

        for name in "bc":
            wait_until(lambda name=name: complete(name), f"{name} has all")  # type: ignore[misc]
        leave_all(nodes)
    check_journals(tmp_path, rested=3)


@both_ways
def test_a_socket_with_hardly_any_room_loses_nothing(way: Way, tmp_path: Path) -> None:
    """The kernel drops what does not fit in 4 KB; repair brings it."""
    with Nodes(way, record=str(tmp_path), receive_buffer_bytes=4096, path_mtu_bytes=1500) as nodes:
        for node in nodes:
            node.call("collect")
        for name in "ab":
            nodes[name].call("traffic", count=400, size=300)
        for name in "abc":
            for sender in "ab":
                wait_until(
                    lambda n=name, s=sender: count(nodes, n, s) == 400,  # type: ignore[misc]
                    f"{name} has all of {sender}", 60,
                )  # fmt: skip
                got = [text.rstrip(".") for text in collected(nodes, name, sender)]
                assert got == numbered(400)
        leave_all(nodes)
    check_journals(tmp_path, rested=3)


def test_a_name_that_is_taken_is_told() -> None:
    """Two living processes of one name: the older one is told, and nobody gets anything twice."""
    with Nodes(Way("multicast", ipv6=False)) as nodes:
        first = nodes["c"]
        nodes.restart("c")
        nodes["a"].call("send", payloads=["x"])
        wait_until(lambda: bool(first.call("ended")), "the first is told that it was replaced")
