"""Which machines multicasts come to: those that answer, and no others."""

import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.live.groups import wait_until
from tests.live.namespace import Lan, lan

from semcast.live.insight.diagnosis import OK, WARN, check_reach
from semcast.live.insight.reach import Answerer, Reach, ask
from semcast.live.sockets.interfaces import Interface, find_interface
from semcast.live.sockets.options import TransportSettings
from semcast.wire.keys import group_id

ANSWERS_S = 60.0
TRIES = 10

Checks = dict[str, dict[str, str]]


@pytest.fixture
def settings() -> TransportSettings:
    """A group of this test's own, on loopback."""
    return TransportSettings(interface="lo", group_id=group_id(f"reach {os.urandom(8).hex()}"))


@contextmanager
def answering(settings: TransportSettings) -> Iterator[Answerer]:
    """Answers by the time this begins."""
    answerer = Answerer(settings)
    thread = threading.Thread(target=answerer.run, args=(ANSWERS_S,), daemon=True)
    thread.start()
    wait_until(lambda: bool(ask(settings).machines), "it answers")
    yield answerer


def test_where_nobody_answers_nobody_is_found(settings: TransportSettings) -> None:
    assert ask(settings).machines == {}


def test_who_answers_is_found_with_what_gets_there(settings: TransportSettings) -> None:
    with answering(settings) as answerer:
        found: list[Reach] = []

        def all_get_there() -> bool:
            """A large datagram needs longer than an asker waits, on a busy machine."""
            found.append(ask(settings))
            return any(one.carries_bytes == 65_535 for one in found[-1].machines.values())

        wait_until(all_get_there, "large datagrams get there")
    assert found[-1].asked_bytes == 65_535
    assert list(found[-1].machines) == ["127.0.0.1"]
    one = found[-1].machines["127.0.0.1"]
    assert abs(one.ahead_ms) < 1000 * ANSWERS_S, "it is the same clock"
    assert answerer.answered > 0


def test_another_group_is_not_answered(settings: TransportSettings) -> None:
    with answering(settings) as answerer:
        before = answerer.answered
        other = TransportSettings(interface="lo", group_id=settings.group_id + 1)
        assert ask(other).machines == {}
    assert answerer.answered == before


def test_garbage_is_answered_by_nobody_and_ends_nothing(settings: TransportSettings) -> None:
    with answering(settings) as answerer, socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
        for garbage in (b"", b"semcast reach? ", b"semcast reach? " + bytes(20), bytes(60_000)):
            sock.sendto(garbage, answerer.group)
        wait_until(lambda: list(ask(settings).machines) == ["127.0.0.1"], "it goes on")
        sock.settimeout(0.05)
        with pytest.raises(TimeoutError):
            sock.recv(1)


@pytest.mark.parametrize("answer", [b"", bytes(41), b"semcast reached" + bytes(26)])
def test_answers_that_nobody_asked_for_are_ignored(
    settings: TransportSettings, answer: bytes
) -> None:
    """Neither garbage nor somebody else's; 41 bytes is the size of an answer."""
    assert struct.calcsize("<15s16sHq") == 41
    answerer = Answerer(settings)
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(answerer.group)
        joined = socket.inet_aton(answerer.group[0]) + socket.inet_aton("127.0.0.1")
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, joined)
        sock.settimeout(ANSWERS_S)

        def answer_badly() -> None:
            _, asker = sock.recvfrom(1 << 16)
            sock.sendto(answer, asker)

        thread = threading.Thread(target=answer_badly, daemon=True)
        thread.start()
        assert ask(settings).machines == {}
        thread.join()


def test_this_machine_is_no_other_machine(settings: TransportSettings) -> None:
    loopback: Interface = find_interface("lo", socket.AF_INET, "127.0.0.1")
    with answering(settings):
        (check,) = check_reach(loopback, settings.group_id)
    assert check.status == OK
    assert "--answer" in check.found


# -- machines --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def network() -> Iterator[Lan]:
    with lan("abc") as made:
        yield made


def doctor(network: Lan, host: str, *arguments: str) -> "subprocess.Popen[str]":
    call = "import sys; from semcast.cli import main; sys.exit(main(sys.argv[1:]))"
    command = ["ip", "netns", "exec", network.netns(host), sys.executable, "-c", call, "doctor"]
    return subprocess.Popen(
        [*command, "--interface", "eth0", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=Path.cwd(),
    )  # fmt: skip


def examined(network: Lan, expected: Callable[[Checks], bool]) -> Checks:
    """What the doctor says on host a, by check, while b and c answer: the first time that it is as
    expected, or the last time. On a busy machine an answer may be late.
    """
    answering = [doctor(network, host, "--answer", "--seconds", "600") for host in "bc"]
    try:
        for one in answering:
            assert one.stderr is not None
            assert "Answering at" in one.stderr.readline()
        for _ in range(TRIES):
            out, err = doctor(network, "a", "--json").communicate(timeout=60)
            assert err == ""
            found: Checks = {check["check"]: check for check in json.loads(out)["checks"]}
            if expected(found):
                break
        return found
    finally:
        for one in answering:
            one.kill()
            one.communicate()


def test_the_doctor_says_which_machines_multicasts_come_to(network: Lan) -> None:
    hosts = [network.address(host, ipv6=False) for host in "bc"]
    found = examined(
        network,
        lambda found: (
            found["mtu-path"]["status"] == OK
            and all(host in found["reach"]["found"] for host in hosts)
        ),
    )
    assert found["reach"]["status"] == OK
    assert [host for host in hosts if host not in found["reach"]["found"]] == []
    assert found["mtu-path"] == {
        "check": "mtu-path", "status": OK, "found": "1500 bytes get to all of them", "advice": "",
    }  # fmt: skip
    assert found["clocks"]["status"] == OK, "they have one clock"


def test_the_doctor_says_where_large_datagrams_do_not_get(network: Lan) -> None:
    """The cable to c carries less than its ends believe."""
    network.run("", "ip link set to-c mtu 1000")
    b, c = (network.address(host, ipv6=False) for host in "bc")
    found = examined(
        network,
        lambda found: c in found["reach"]["found"] and b not in found["mtu-path"]["found"],
    )
    assert c in found["reach"]["found"]
    assert found["mtu-path"]["status"] == WARN
    assert c in found["mtu-path"]["found"]
    assert b not in found["mtu-path"]["found"]
