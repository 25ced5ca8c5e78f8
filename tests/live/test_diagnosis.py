"""Every check of the doctor can come out each way, and says what to do unless it is ok."""

import socket

import pytest
from tests.live.namespace import LOSES_EVERYTHING, own_loopback

from semcast.errors import TransportError
from semcast.live.insight import diagnosis, machine_facts
from semcast.live.insight.diagnosis import FAIL, OK, WARN, Check, choose_interface, diagnose
from semcast.live.insight.machine_facts import WallClock, rules_against_udp
from semcast.live.sockets.interfaces import Interface, find_interface
from semcast.live.sockets.probe import Found

ARRIVES = Found(True, "unicast comes back")
LOST = Found(False, "unicast does not come back")
NFT_OPEN = """table inet filter {
    chain input { type filter hook input priority filter; policy accept;
        tcp dport 22 drop
        udp dport 5353 accept
    }
}"""
NFT_CLOSED = """table inet filter {
	chain input {
		type filter hook input priority filter; policy drop;
		ct state established accept
	}
	chain forward {
		type filter hook forward priority filter; policy drop;
	}
}"""
IPTABLES = """*filter
:INPUT DROP [0:0]
:FORWARD DROP [0:0]
-A INPUT -p udp -m udp --dport 20000:39999 -j DROP
-A INPUT -p tcp -m tcp --dport 22 -j DROP
-A INPUT -p udp -j REJECT --reject-with icmp-port-unreachable
COMMIT"""


def interface(mtu_bytes: int) -> Interface:
    return Interface("eth7", 7, "192.0.2.7", mtu_bytes, loopback=False)


def judged(check: Check) -> tuple[str, str]:
    return check.check, check.status


def test_every_check_on_loopback_is_one_line_and_says_what_to_do() -> None:
    with own_loopback():
        checks = diagnose(find_interface("lo", socket.AF_INET, ""), 7)
    assert len({one.check for one in checks}) == len(checks) == 15
    for one in checks:
        assert one.status in (OK, WARN, FAIL)
        assert "\n" not in one.found + one.advice
        assert one.found
        assert bool(one.advice) == (one.status != OK)
    status = {one.check: one.status for one in checks}
    for name in ("multicast-ipv4", "multicast-ipv6", "unicast", "mtu-loopback", "interface"):
        assert status[name] == OK


def test_a_network_that_drops_everything_fails() -> None:
    with own_loopback(LOSES_EVERYTHING):
        checks = diagnose(find_interface("lo", socket.AF_INET, ""), 7)
    status = {one.check: one.status for one in checks}
    assert status["unicast"] == status["firewall"] == FAIL
    assert status["multicast-ipv4"] == status["multicast-ipv6"] == WARN
    assert status["offload"] == WARN


def test_without_a_route_loopback_is_looked_at_and_a_wrong_name_is_refused() -> None:
    with own_loopback():
        assert choose_interface("").name == "lo"
        with pytest.raises(TransportError, match="nosuch0"):
            choose_interface("nosuch0")


@pytest.mark.parametrize(
    ("mtu_bytes", "status"),
    [(575, FAIL), (576, WARN), (1279, WARN), (1280, OK), (1500, OK), (9000, OK)],
)
def test_an_mtu_too_small_for_a_datagram_fails(mtu_bytes: int, status: str) -> None:
    check = diagnosis.check_mtu("mtu", interface(mtu_bytes))
    assert check.status == status
    assert str(mtu_bytes) in check.found
    assert ("ip link set eth7 mtu 1500" in check.advice) == (status != OK)


def test_a_small_buffer_names_the_limit_to_raise() -> None:
    short = diagnosis.check_buffer("receive", 1000, 999)
    assert judged(short) == ("receive-buffer", WARN)
    assert short.advice == "run: sysctl -w net.core.rmem_max=1000"
    assert judged(diagnosis.check_buffer("send", 1000, 1000)) == ("send-buffer", OK)
    assert "wmem_max=1000" in diagnosis.check_buffer("send", 1000, 0).advice


def test_the_wall_clock_is_synchronized_or_not_or_unknown() -> None:
    assert diagnosis.check_wall_clock(WallClock(True, 1500)).status == OK
    assert "1.5 ms" in diagnosis.check_wall_clock(WallClock(True, 1500)).found
    assert diagnosis.check_wall_clock(WallClock(False, 0)).status == WARN
    assert "unknown" in diagnosis.check_wall_clock(None).found


def test_free_descriptors_are_enough_few_or_none_to_speak_of() -> None:
    wanted = [(64, OK), (63, WARN), (7, WARN), (6, FAIL), (0, FAIL), (None, WARN)]
    assert [(free, diagnosis.check_descriptors(free).status) for free, _ in wanted] == wanted


def test_the_machine_tells_its_own_state() -> None:
    free = machine_facts.free_descriptors()
    assert free is not None
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM):
        assert machine_facts.free_descriptors() == free - 1
    clock = machine_facts.wall_clock()
    assert clock is None or clock.error_us_max >= 0


def test_firewall_rules_that_keep_datagrams_out_are_found() -> None:
    assert rules_against_udp("") == rules_against_udp(NFT_OPEN) == []
    assert rules_against_udp(NFT_CLOSED) == [
        "type filter hook input priority filter; policy drop;",
    ]
    assert rules_against_udp(IPTABLES) == [
        ":INPUT DROP [0:0]",
        "-A INPUT -p udp -m udp --dport 20000:39999 -j DROP",
        "-A INPUT -p udp -j REJECT --reject-with icmp-port-unreachable",
    ]
    assert len(rules_against_udp(IPTABLES * 100)) == 3


@pytest.mark.parametrize(
    ("listing", "found", "status", "told"),
    [
        (None, ARRIVES, OK, "rules cannot be read"),
        (NFT_OPEN, ARRIVES, OK, "no rule against UDP"),
        (NFT_CLOSED, ARRIVES, WARN, "policy drop"),
        (IPTABLES, LOST, FAIL, "does not arrive"),
        (None, LOST, FAIL, "does not arrive"),
    ],
)
def test_the_firewall_is_judged_by_its_rules_and_by_what_arrives(
    listing: str | None, found: Found, status: str, told: str
) -> None:
    check = diagnosis.check_firewall(listing, found)
    assert check.status == status
    assert told in check.found


def test_a_tool_that_fails_or_is_not_there_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_facts, "_LISTINGS", (("no-such-tool",), ("false",)))
    assert machine_facts.firewall_listing() is None
    monkeypatch.setattr(machine_facts, "_LISTINGS", (("false",), ("echo", "a rule")))
    assert machine_facts.firewall_listing() == "a rule\n"
