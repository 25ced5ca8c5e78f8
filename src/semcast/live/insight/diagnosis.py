"""Diagnosis: an interface and a group go in; one line per check comes out, with what to do.

`fail` means that a member on this machine would not work, `warn` that it would work worse than it
could. How the lines are shown is decided elsewhere.
"""

import os
import socket
import time
from dataclasses import dataclass
from typing import Final

from semcast.errors import TransportError
from semcast.live.insight import machine_facts
from semcast.live.insight.reach import Reached, ask
from semcast.live.sockets import probe, sockbuf
from semcast.live.sockets.address import group_host
from semcast.live.sockets.interfaces import Interface, find_interface
from semcast.live.sockets.options import TransportSettings
from semcast.wire.limits import PATH_MTU_BYTES_MIN

OK: Final = "ok"
WARN: Final = "warn"
FAIL: Final = "fail"
IPV6_MTU_BYTES_MIN: Final = 1_280
MONOTONIC_S_MAX: Final = 0.001
CLOCKS_MS_MAX: Final = 100.0
DESCRIPTORS_WANTED: Final = 64
DESCRIPTORS_NEEDED: Final = 7  # three sockets, and what their host waits with


@dataclass(frozen=True)
class Check:
    check: str  # a stable name
    status: str  # OK, WARN or FAIL
    found: str
    advice: str = ""


def choose_interface(wanted: str) -> Interface:
    """The interface that is looked at: the one named, else the one multicasts take, else loopback.

    Raises TransportError if the one named is not there or not up.
    """
    error: TransportError | None = None
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            return find_interface(wanted, family, group_host(0, family == socket.AF_INET6))
        except TransportError as refusal:
            error = error or refusal
    if wanted == "":
        return find_interface("lo", socket.AF_INET, "127.0.0.1")
    assert error is not None
    raise error


def diagnose(interface: Interface, group_id: int) -> list[Check]:
    unicast = probe.unicast_comes_back(interface.host, os.urandom(16))
    return [
        check_interface(interface),
        check_multicast(interface, group_id, ipv6=False),
        check_multicast(interface, group_id, ipv6=True),
        *check_reach(interface, group_id),
        check_unicast(unicast),
        check_mtu("mtu", interface),
        check_loopback_mtu(),
        check_offload(interface),
        *check_buffers(TransportSettings()),
        check_monotonic_clock(),
        check_wall_clock(machine_facts.wall_clock()),
        check_firewall(machine_facts.firewall_listing(), unicast),
        check_descriptors(machine_facts.free_descriptors()),
        check_build(),
    ]


def check_interface(interface: Interface) -> Check:
    return Check("interface", OK, f"{interface.name} at {interface.host}")


def check_multicast(interface: Interface, group_id: int, ipv6: bool) -> Check:
    name = "multicast-ipv6" if ipv6 else "multicast-ipv4"
    settings = TransportSettings(interface=interface.name, group_id=group_id, ipv6=ipv6)
    found = probe.multicast_comes_back(settings, os.urandom(16))
    if found.ok:
        return Check(name, OK, found.told)
    advice = (
        "where peers are named, each datagram will be sent to each of them by itself (unicast); "
        "to have multicast, mend what is said here, or name another interface with --interface"
    )
    return Check(name, WARN, found.told, advice)


def check_reach(interface: Interface, group_id: int) -> list[Check]:
    """Other machines, as far as they answer: who, how large a datagram gets there, their clocks."""
    ipv6 = ":" in interface.host
    settings = TransportSettings(interface=interface.name, group_id=group_id, ipv6=ipv6)
    try:
        found = ask(settings)
    except TransportError as error:
        return [Check("reach", WARN, str(error), "see multicast above")]
    others = [one for host, one in sorted(found.machines.items()) if host != interface.host]
    if not others:
        told = "no other machine answered; one on which `semcast doctor --answer` runs would"
        return [Check("reach", OK, told)]
    told = ", ".join(f"{one.host} after {one.took_us:.0f} µs" for one in others)
    narrow = [one for one in others if one.carries_bytes < found.asked_bytes]
    off = max(others, key=lambda one: abs(one.ahead_ms))
    return [
        Check("reach", OK, f"multicasts come to {told}"),
        _check_path(narrow, found.asked_bytes),
        _check_clocks(off),
    ]


def _check_path(narrow: list[Reached], asked_bytes: int) -> Check:
    if not narrow:
        return Check("mtu-path", OK, f"{asked_bytes} bytes get to all of them")
    told = f"{asked_bytes} bytes do not get to {', '.join(one.host for one in narrow)}"
    advice = f"set path_mtu_bytes lower at all members, down to {PATH_MTU_BYTES_MIN}"
    return Check("mtu-path", WARN, told, advice)


def _check_clocks(off: Reached) -> Check:
    told = f"that of {off.host} is furthest off, by {off.ahead_ms:.1f} ms"
    if abs(off.ahead_ms) <= CLOCKS_MS_MAX:
        return Check("clocks", OK, told)
    return Check("clocks", WARN, told, "only send times depend on it; run an NTP service on both")


def check_unicast(unicast: probe.Found) -> Check:
    advice = "" if unicast.ok else "let UDP in on this interface: no member works without it"
    return Check("unicast", OK if unicast.ok else FAIL, unicast.told, advice)


def check_mtu(name: str, interface: Interface) -> Check:
    told = f"{interface.name} carries {interface.mtu_bytes} bytes, {interface.carries_bytes} used"
    mend = f"run: ip link set {interface.name} mtu 1500"
    if interface.mtu_bytes < PATH_MTU_BYTES_MIN:
        return Check(name, FAIL, told, f"{PATH_MTU_BYTES_MIN} are needed; {mend}")
    if interface.mtu_bytes < IPV6_MTU_BYTES_MIN:
        return Check(name, WARN, told, f"IPv6 needs {IPV6_MTU_BYTES_MIN}; {mend}")
    return Check(name, OK, told)


def check_loopback_mtu() -> Check:
    try:
        return check_mtu("mtu-loopback", find_interface("127.0.0.1", socket.AF_INET, "127.0.0.1"))
    except TransportError as error:
        return Check("mtu-loopback", WARN, str(error), "run: ip link set lo up")


def check_offload(interface: Interface) -> Check:
    segments, batches = probe.offload_works(interface.host)
    told = f"GSO {'works' if segments else 'missing'}, GRO {'works' if batches else 'missing'}"
    if segments and batches:
        return Check("offload", OK, told)
    return Check("offload", WARN, told, "plain calls are used; Linux 5.0 and later has both")


def check_buffers(settings: TransportSettings) -> list[Check]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        receive_bytes = sockbuf.grow_receive_buffer(sock, settings.receive_buffer_bytes)
        send_bytes = sockbuf.grow_send_buffer(sock, settings.send_buffer_bytes)
    return [
        check_buffer("receive", settings.receive_buffer_bytes, receive_bytes),
        check_buffer("send", settings.send_buffer_bytes, send_bytes),
    ]


def check_buffer(which: str, asked_bytes: int, granted_bytes: int) -> Check:
    told = f"{asked_bytes} bytes asked, {granted_bytes} granted"
    if granted_bytes >= asked_bytes:
        return Check(f"{which}-buffer", OK, told)
    mend = f"run: {sockbuf.limit_command(which, asked_bytes)}"
    return Check(f"{which}-buffer", WARN, told, mend)


def check_monotonic_clock() -> Check:
    resolution_s = time.get_clock_info("monotonic").resolution
    told = f"resolution {resolution_s * 1e9:.0f} ns"
    if resolution_s <= MONOTONIC_S_MAX:
        return Check("clock-monotonic", OK, told)
    return Check("clock-monotonic", WARN, told, "timers will be late by as much")


def check_wall_clock(clock: machine_facts.WallClock | None) -> Check:
    if clock is None:
        return Check(
            "clock-wall", WARN, "unknown whether it is synchronized",
            "only send times depend on it; see that an NTP service runs",
        )  # fmt: skip
    if not clock.synchronized:
        return Check(
            "clock-wall", WARN, "not synchronized, says the kernel",
            "only send times depend on it; run an NTP service (timedatectl set-ntp true)",
        )  # fmt: skip
    return Check("clock-wall", OK, f"synchronized, error at most {clock.error_us_max / 1000:g} ms")


def check_firewall(listing: str | None, unicast: probe.Found) -> Check:
    """The rules, if they can be read; and what a datagram to this machine itself met with."""
    arrives = "a datagram to this machine " + ("arrives" if unicast.ok else "does not arrive")
    if listing is None:
        told, rules = f"rules cannot be read from here; {arrives}", []
    else:
        rules = machine_facts.rules_against_udp(listing)
        told = f"{'; '.join(rules) or 'no rule against UDP'}; {arrives}"
    if not unicast.ok:
        return Check("firewall", FAIL, told, "let UDP in on this interface")
    if rules:
        return Check("firewall", WARN, told, "see that the group's port is let in from all members")
    return Check("firewall", OK, told)


def check_descriptors(free: int | None) -> Check:
    if free is None:
        return Check("descriptors", WARN, "unknown how many are free", "see `ulimit -n`")
    told = f"{free} free"
    if free >= DESCRIPTORS_WANTED:
        return Check("descriptors", OK, told)
    status = WARN if free >= DESCRIPTORS_NEEDED else FAIL
    return Check("descriptors", status, told, "raise the limit: ulimit -n 1024")


def check_build() -> Check:
    if machine_facts.is_compiled():
        return Check("build", OK, "compiled")
    return Check("build", WARN, "interpreted", "about a third as fast; install a compiled build")
