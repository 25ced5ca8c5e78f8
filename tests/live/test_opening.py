"""Opening a transport: what is chosen, what is warned of, and one clear line for each refusal."""

import errno
import itertools
import os
import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.live.groups import new_group
from tests.live.material import DEADLINE_S, Way, collect, new_group_id, payloads, quiet
from tests.live.namespace import LOSES_EVERYTHING, own_loopback

import semcast.blocking
from semcast.errors import ConfigError, NoAnswerError, SemcastError, TransportError
from semcast.live.config import configure
from semcast.live.meeting.asker import Asker
from semcast.live.sockets import sockbuf, transport
from semcast.live.sockets.address import Address, SocketAddress
from semcast.live.sockets.probe import (
    PROBES,
    Found,
    _there_and_back,
    bound,
    multicast_comes_back,
    offload_works,
    unicast_comes_back,
)
from semcast.live.sockets.refusal import refused
from semcast.live.sockets.transport import Transport, TransportSettings, open_transport

NONCE = b"sixteen bytes ok"


def settings(**given: object) -> TransportSettings:
    """On loopback, with buffers that every system grants: no warning but those that are tested."""
    usual: dict[str, object] = {
        "interface": "lo",
        "group_id": new_group_id(),
        "receive_buffer_bytes": 65_536,
        "send_buffer_bytes": 65_536,
    }
    return TransportSettings(**{**usual, **given})  # type: ignore[arg-type]


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


@contextmanager
def opened(has_peers: object = False, **given: object) -> Iterator[Transport]:
    member = open_transport(settings(**given), bool(has_peers))
    try:
        yield member
    finally:
        member.close()


@contextmanager
def port_held(host: str) -> Iterator[int]:
    """A port that some other program holds and does not share."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((host, 0))
        yield sock.getsockname()[1]


# -- what is chosen --------------------------------------------------------------------------------


def test_auto_takes_multicast_where_it_comes_back() -> None:
    with opened(transport="auto") as member:
        assert member.multicast is True
        assert member.warnings == ()


LOST = "the probe was lost"


@pytest.fixture
def nothing_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "multicast_comes_back", lambda *_: Found(False, LOST))


@pytest.mark.usefixtures("nothing_comes_back")
def test_auto_takes_unicast_to_peers_where_multicast_does_not_come_back_and_says_so() -> None:
    with opened(has_peers=True, transport="auto") as member:
        assert member.multicast is False
        (warning,) = member.warnings
        assert LOST in warning
        assert "semcast doctor" in warning
        assert "\n" not in warning


@pytest.mark.usefixtures("nothing_comes_back")
def test_auto_stays_with_multicast_where_unicast_would_reach_nobody_and_says_so() -> None:
    with opened(transport="auto") as member:
        assert member.multicast is True
        (warning,) = member.warnings
        assert LOST in warning
        assert "peers" in warning
        assert "transport='unicast'" in warning
        assert "\n" not in warning


@pytest.mark.usefixtures("nothing_comes_back")
@pytest.mark.parametrize(
    ("given", "multicast"),
    [({}, True), ({"peers": ("127.0.0.1:9",)}, False), ({"size": 1}, False)],
    ids=["without peers", "with peers", "alone"],
)
def test_a_member_falls_back_to_unicast_only_if_it_has_peers_or_is_alone(
    given: dict[str, Any], multicast: bool
) -> None:
    where = {"interface": "lo", "transport": "auto", "insecure": True, "size": 2}
    group = semcast.blocking.Group(configure({"group": new_group(), **where, **given}))
    try:
        assert group._engine.session.transport.multicast is multicast
    finally:
        group.leave(0)


@pytest.mark.usefixtures("nothing_comes_back")
def test_who_asks_a_group_is_told_whom_it_could_not_reach_and_what_to_do() -> None:
    """It asks by multicast all the same: that nothing comes back need not mean that it is lost."""
    config = configure({"group": new_group(), "interface": "lo", "insecure": True, "size": 2})
    with Asker(config) as asker, pytest.raises(NoAnswerError, match=f"{LOST}.*--peers"):
        asker.ask("members", 0.1)


def test_a_loopback_without_a_route_for_ipv6_multicast_is_told_how_to_get_one() -> None:
    with own_loopback("ip -6 route del local ff00::/8 dev lo"):
        for kind in ("multicast", "auto"):
            with pytest.raises(TransportError, match="run: ip -6 route add local ff00::/8 dev lo"):
                open_transport(settings(transport=kind, ipv6=True))
        with pytest.raises(TransportError, match="peers"):
            open_transport(settings(transport="auto", ipv6=True))
        with opened(has_peers=True, transport="auto", ipv6=True) as member:
            assert member.multicast is False
            assert member.address[0] == "::1"


def test_without_an_interface_the_system_chooses_or_the_user_is_asked_to() -> None:
    address = "ip address add 192.0.2.1/24 dev lo"
    with own_loopback(address), pytest.raises(TransportError, match="name an interface"):
        open_transport(settings(transport="multicast", interface=""))
    with (
        own_loopback(address, "ip route add default dev lo"),
        opened(transport="multicast", interface="") as member,
    ):
        assert member.address[0] == "192.0.2.1"


@pytest.mark.parametrize("interface", ["lo", "127.0.0.1", "127.0.0.7"])
def test_an_interface_goes_by_its_name_or_any_address(interface: str) -> None:
    with opened(transport="multicast", interface=interface) as member:
        assert member.address[0] == ("127.0.0.1" if interface == "lo" else interface)
        assert member.path_mtu_bytes == 65_535


def test_an_address_decides_the_family() -> None:
    with opened(transport="unicast", interface="", host="::1") as member:
        assert member.address[0] == "::1"
    with opened(transport="unicast", interface="", host="127.0.0.1", ipv6=True) as member:
        assert member.address[0] == "127.0.0.1"


def test_unicast_binds_anywhere_unless_told_with_a_port_that_is_real() -> None:
    with opened(transport="unicast", interface="") as member:
        assert member.address[0] == "0.0.0.0"
        assert member.address[1] > 0
    with opened(transport="unicast") as member:
        assert member.address[0] == "127.0.0.1"


@pytest.mark.parametrize(("mtu", "used"), [(900, 900), (1400, 1400), (9000, 1500)])
def test_the_path_mtu_is_that_of_the_interface_and_no_jumbo_unless_asked(
    mtu: int, used: int
) -> None:
    """A pair of interfaces in a network of its own; loopback stays as it is."""
    with own_loopback(
        "ip link add here type veth peer name there",
        f"ip link set here mtu {mtu} up",
        "ip link set there up",
        "ip address add 192.0.2.1/24 dev here",
    ):
        for given in ({"interface": "here"}, {"interface": "", "host": "192.0.2.1"}):
            for kind in ("unicast", "multicast"):
                with opened(transport=kind, **given) as member:
                    assert member.path_mtu_bytes == used
        with opened(transport="unicast", interface="") as member:
            assert member.path_mtu_bytes == used
        with opened(transport="unicast", interface="here", path_mtu_bytes=8000) as member:
            assert member.path_mtu_bytes == 8000


def test_datagrams_above_the_interface_mtu_are_refused_not_fragmented() -> None:
    with (
        own_loopback(
            "ip link add here type veth peer name there",
            "ip link set here mtu 1400 up",
            "ip link set there up",
            "ip address add 192.0.2.1/24 dev here",
            "ip neighbour add 192.0.2.2 lladdr 02:00:00:00:00:01 dev here",
        ),
        opened(transport="unicast", interface="here") as member,
    ):
        peer = ("192.0.2.2", 9)
        assert member.send(peer, [bytes(1400 - 28)]) == 1
        assert member.counters["send_errors"] == 0
        assert member.send(peer, [bytes(1400 - 28 + 1)] * 3) == 3
        assert member.counters["send_too_large"] == 3
        assert member.counters["datagrams_out"] == 1


@pytest.mark.parametrize("ipv6", [False, True], ids=["ipv4", "ipv6"])
def test_one_group_on_two_interfaces_is_heard_on_the_chosen_one_only(ipv6: bool) -> None:
    """What other sockets of this machine joined elsewhere does not leak in."""
    group_id = new_group_id()
    with (
        own_loopback(
            "ip link add here type veth peer name there",
            "ip link set here up",
            "ip link set there up",
            "ip address add 192.0.2.1/24 dev here",
            "ip address add 2001:db8::1/64 dev here nodad",
        ),
        opened(transport="multicast", group_id=group_id, ipv6=ipv6) as on_loopback,
        opened(transport="multicast", group_id=group_id, ipv6=ipv6, interface="here") as on_here,
    ):
        on_here.send_all([b"on here"])
        on_loopback.send_all([b"on loopback"])
        assert payloads(collect(on_here, 1)) == [b"on here"]
        assert payloads(collect(on_loopback, 1)) == [b"on loopback"]
        assert quiet(on_here)
        assert quiet(on_loopback)


# -- probes ----------------------------------------------------------------------------------------


def test_a_probe_does_not_disturb_a_group_that_runs(multicast: Way) -> None:
    running = multicast.join()
    probed = TransportSettings(interface="lo", group_id=multicast.group_id, ipv6=multicast.ipv6)
    found = multicast_comes_back(probed, NONCE)
    assert found.ok, found.told
    assert found.took_ns > 0
    assert quiet(running)


def test_a_network_that_drops_without_a_word_is_found_by_the_probes() -> None:
    """Loopback loses everything here, as behind a firewall."""
    with own_loopback(LOSES_EVERYTHING):
        for found in (
            multicast_comes_back(settings(), NONCE),
            unicast_comes_back("127.0.0.1", NONCE),
        ):
            assert not found.ok
            assert "does not come back within 1000 ms (5 probes)" in found.told
        assert offload_works("127.0.0.1")[0] is False
        with opened(has_peers=True, transport="auto") as member:
            assert member.multicast is False


@contextmanager
def two_ends() -> Iterator[tuple[socket.socket, socket.socket, Address]]:
    """A socket that sends, one that hears, and where that is."""
    here = ("127.0.0.1", 0)
    with bound(here, socket.AF_INET) as sending, bound(here, socket.AF_INET) as listening:
        yield sending, listening, listening.getsockname()


class Losing:
    """A socket that loses the first datagrams that it sends."""

    def __init__(self, sending: socket.socket, lost: int) -> None:
        self.family = sending.family
        self._sending = sending
        self._lost = lost

    def sendto(self, datagram: bytes, to: SocketAddress) -> int:
        self._lost -= 1
        return len(datagram) if self._lost >= 0 else self._sending.sendto(datagram, to)


@pytest.mark.parametrize("lost", [1, PROBES - 1])
def test_one_lost_probe_decides_nothing(lost: int) -> None:
    with two_ends() as (probing, heard, to):
        losing: Any = Losing(probing, lost)
        assert _there_and_back(losing, heard, to, NONCE, "a probe").ok


def test_a_process_that_did_not_run_while_its_probe_came_back_still_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whenever it looks at the clock, the time for the probe is over."""
    hours = itertools.count(0, 3600 * 10**9)
    with two_ends() as (probing, heard, to):
        probing.sendto(b"semcast probe " + NONCE, to)
        assert select.select([heard], [], [], DEADLINE_S)[0]
        monkeypatch.setattr(time, "monotonic_ns", lambda: next(hours))
        assert _there_and_back(probing, heard, to, NONCE, "a probe").ok


def test_a_datagram_that_is_not_the_probe_is_not_taken_for_it() -> None:
    with opened(transport="unicast") as listening, opened(transport="unicast") as sending:
        sending.send(listening.address, [b"semcast probe of somebody else"])
        with (
            socket.socket(fileno=os.dup(sending.filenos()[0])) as probing,
            socket.socket(fileno=os.dup(listening.filenos()[0])) as heard,
        ):
            elsewhere = sending.address
            assert not _there_and_back(probing, heard, elsewhere, NONCE, "a probe").ok
            assert _there_and_back(probing, heard, listening.address, NONCE, "a probe").ok


def test_probes_of_addresses_that_are_not_here_find_that_out() -> None:
    assert unicast_comes_back("127.0.0.1", NONCE).ok
    assert not unicast_comes_back("192.0.2.99", NONCE).ok
    assert offload_works("192.0.2.99") == (False, False)


# -- warnings --------------------------------------------------------------------------------------


def test_small_buffers_are_told_once_each_with_the_command_that_mends_it(
    monkeypatch: pytest.MonkeyPatch, way: Way
) -> None:
    monkeypatch.setattr(sockbuf, "_granted_bytes", lambda *_: 106_496)
    member = way.join(receive_buffer_bytes=8 << 20, send_buffer_bytes=4 << 20)
    assert member.receive_buffer_bytes == 106_496
    assert len(member.warnings) == 2
    assert any("sysctl -w net.core.rmem_max=8388608" in line for line in member.warnings)
    assert any("sysctl -w net.core.wmem_max=4194304" in line for line in member.warnings)
    assert all("106496" in line and "\n" not in line for line in member.warnings)


def test_without_the_right_to_force_the_system_limit_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The options that need a right are made unknown ones; a gigabyte is beyond any limit."""
    monkeypatch.setattr(sockbuf, "SO_RCVBUFFORCE", 9_999)
    with opened(transport="unicast", receive_buffer_bytes=(1 << 30) - 1) as member:
        assert 0 < member.receive_buffer_bytes < 1 << 30
        assert "rmem_max=1073741823" in " ".join(member.warnings)


def test_buffers_as_large_as_asked_for_are_no_news(way: Way) -> None:
    member = way.join(receive_buffer_bytes=65_536, send_buffer_bytes=65_536)
    assert member.warnings == ()
    assert member.receive_buffer_bytes == 65_536


# -- refusals --------------------------------------------------------------------------------------

MISTAKES: list[tuple[dict[str, object], str]] = [
    ({"interface": "nosuch0"}, "no interface 'nosuch0'"),
    ({"interface": "a\0b"}, "no interface"),
    ({"interface": "192.0.2.99"}, "no interface of this machine has address 192.0.2.99"),
    ({"interface": "::1"}, "no interface '::1'"),
    ({"interface": "", "host": "192.0.2.99"}, "no interface of this machine has address"),
    ({"interface": "", "host": "localhost"}, "'localhost' is no IPv4 or IPv6 address"),
    ({"interface": "", "host": "fe80::1%nosuch0", "ipv6": True}, "fe80::1%nosuch0"),
]
GROUP_MISTAKES: list[tuple[dict[str, object], str]] = [
    ({"group_address": "192.0.2.1"}, "192.0.2.1 is no multicast address"),
    ({"group_address": "all-hosts"}, "'all-hosts' is no IPv4 or IPv6 address"),
]


@pytest.mark.parametrize("kind", ["auto", "multicast", "unicast"])
@pytest.mark.parametrize(("given", "told"), MISTAKES)
def test_an_interface_or_address_that_is_not_there_is_one_clear_line(
    kind: str, given: dict[str, object], told: str
) -> None:
    before = open_files()
    with pytest.raises(TransportError) as caught:
        open_transport(settings(transport=kind, **given))
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert open_files() == before


@pytest.mark.parametrize("kind", ["auto", "multicast"])
@pytest.mark.parametrize(("given", "told"), GROUP_MISTAKES)
def test_a_group_address_that_is_none_is_a_mistake_even_if_unicast_would_do(
    kind: str, given: dict[str, object], told: str
) -> None:
    with pytest.raises(TransportError) as caught:
        open_transport(settings(transport=kind, **given))
    assert told in str(caught.value)


@pytest.mark.parametrize(("given", "told"), MISTAKES)
def test_who_asks_a_group_is_told_of_an_interface_that_is_not_there(
    given: dict[str, Any], told: str
) -> None:
    config = configure({"group": "any", "insecure": True, "size": 2} | given)
    with pytest.raises(TransportError) as caught:
        Asker(config)
    assert told in str(caught.value)


def test_a_port_that_another_program_holds_is_told_and_leaves_no_socket_open() -> None:
    before = open_files()
    with port_held("127.0.0.1") as port, pytest.raises(TransportError, match="another port"):
        open_transport(settings(transport="unicast", port=port))
    with port_held("0.0.0.0") as port, pytest.raises(TransportError, match=f"port {port}"):
        open_transport(settings(transport="multicast", port=port))
    assert open_files() == before


def test_an_interface_that_is_down_or_has_no_address_is_told() -> None:
    with own_loopback("ip link add here type veth peer name there", "ip link set there up"):
        with pytest.raises(TransportError, match="ip link set here up"):
            open_transport(settings(transport="multicast", interface="here"))
        with pytest.raises(TransportError, match="there has no IPv4 address"):
            open_transport(settings(transport="multicast", interface="there"))


def test_an_interface_that_is_not_set_up_for_multicast_is_told() -> None:
    """As most tunnels are not. What is sent there comes back here, unless a filter drops it."""
    with own_loopback(
        "ip link add here type veth peer name there",
        "ip link set here multicast off up",
        "ip link set there up",
        "ip address add 192.0.2.1/24 dev here",
    ):
        for kind in ("auto", "multicast"):
            with opened(transport=kind, interface="here") as member:
                assert any("here is not set up for multicast" in one for one in member.warnings)
    drop = (
        "nft add table inet t",
        "nft add chain inet t in { type filter hook input priority 0 ; }",
        "nft add rule inet t in drop",
    )
    with own_loopback(
        "ip link add here type veth peer name there",
        "ip link set here multicast off up",
        "ip link set there up",
        "ip address add 192.0.2.1/24 dev here",
        *drop,
    ):
        found = multicast_comes_back(settings(interface="here"), NONCE)
        assert not found.ok
        assert "here is not set up for multicast" in found.told


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_error_of_the_system_becomes_one_line_with_advice(number: int) -> None:
    error = refused("cannot do it", OSError(number, os.strerror(number)))
    assert isinstance(error, SemcastError)
    assert str(error).startswith("the network of this machine refuses: cannot do it: ")
    assert ";" in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(
    "given",
    [
        {"transport": "pigeon"},
        {"port": -1},
        {"port": 65_536},
        {"ttl": 256},
        {"ttl": -1},
        {"path_mtu_bytes": 575},
        {"path_mtu_bytes": 65_536},
        {"group_id": -1},
        {"receive_buffer_bytes": 0},
        {"send_buffer_bytes": 1 << 30},
        {"host": "127.0.0.1", "group_address": "ff15::1"},
    ],
)
def test_settings_out_of_range_are_refused_before_anything_is_opened(
    given: dict[str, object],
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(**given)
    assert all(str(name) in str(caught.value) for name in given)
