"""Networks of a test's own: loopback with a route for IPv6 multicast, or several hosts on a bridge.

Linux gives no such route to loopback by itself, and tests do not change the machine's. A network
namespace belongs to a thread, and a socket stays in the one that it was opened in.

Where tools or rights are missing, a test skips and says what; with NAMESPACE_TESTS=required, as in
CI, it fails instead, so that nobody takes tests that never run for tests that pass.
"""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import pytest

CLONE_NEWNET = 0x40000000
# For own_loopback: no packet fits through a bucket of ten bytes, and nobody is told.
LOSES_EVERYTHING = "tc qdisc add dev lo root tbf rate 8kbit burst 10 limit 10"


def unavailable(reason: str) -> NoReturn:
    """Skip the test; or fail it, where it is meant to run."""
    if os.environ.get("NAMESPACE_TESTS") == "required":
        pytest.fail(f"NAMESPACE_TESTS=required, but {reason}", pytrace=False)
    pytest.skip(reason)


@contextmanager
def own_loopback(*commands: str) -> Iterator[None]:
    """Where namespaces are not allowed, the test is `unavailable`."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    except OSError as error:
        unavailable(f"no network namespaces here: {error}")
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            unavailable(f"network namespaces are not allowed here: {reason}")
        try:
            for command in (
                "ip link set lo up",
                "ip -6 route add local ff00::/8 dev lo",
                *commands,
            ):
                _run(command)
            yield
        finally:
            assert libc.setns(before, CLONE_NEWNET) == 0
    finally:
        os.close(before)


def _run(command: str) -> None:
    try:
        subprocess.run(command.split(), check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        _missing(error.filename)
    except subprocess.CalledProcessError as error:
        unavailable(f"`{command}` is not allowed here: {error.stderr.strip()}")
    except OSError as error:
        unavailable(f"a network namespace cannot be furnished here: {error}")


def _missing(tool: str) -> NoReturn:
    unavailable(f"no {tool} here: install {'nftables' if tool == 'nft' else 'iproute2'}")


# -- several hosts ---------------------------------------------------------------------------------


class Lan:
    """Hosts in network namespaces of their own, joined by a bridge in one more."""

    def __init__(self, hosts: Sequence[str]) -> None:
        self.hosts = hosts
        self._prefix = f"semcast{os.getpid()}"
        self._switch = f"{self._prefix}-switch"

    def netns(self, host: str) -> str:
        """What the namespace of a host is called."""
        return f"{self._prefix}-{host}"

    def address(self, host: str, ipv6: bool) -> str:
        number = self.hosts.index(host) + 1
        return f"fd77::{number}" if ipv6 else f"10.77.0.{number}"

    def run(self, host: str, command: str) -> None:
        """Run a command in the namespace of a host, or of the switch ("")."""
        tool = command.partition(" ")[0]
        if shutil.which(tool) is None:
            _missing(tool)
        _run(f"ip netns exec {self.netns(host) if host else self._switch} {command}")

    def build(self) -> None:
        _run(f"ip netns add {self._switch}")
        self.run("", "ip link add br0 type bridge mcast_snooping 0")
        self.run("", "ip link set br0 up")
        for host in self.hosts:
            _run(f"ip netns add {self.netns(host)}")
            self.run(host, "ip link set lo up")
            self.connect(host)

    def connect(self, host: str) -> None:
        """Give a host an interface, with its addresses and a cable to the bridge."""
        ends = f"eth0 netns {self.netns(host)} type veth peer name to-{host} netns {self._switch}"
        _run(f"ip link add {ends}")
        self._furnish(host)

    def _furnish(self, host: str) -> None:
        self.run("", f"ip link set to-{host} master br0 up")
        # Others remember it for a while, so an interface that is made anew has the same.
        hardware = f"02:00:00:00:00:{self.hosts.index(host):02x}"
        self.run(host, f"ip link set eth0 address {hardware} up")
        self.run(host, f"ip address add {self.address(host, False)}/24 dev eth0")
        self.give_ipv6(host)

    def give_ipv6(self, host: str) -> None:
        """Linux takes IPv6 addresses, unlike IPv4 ones, from an interface that goes down."""
        self.run(host, f"ip -6 address add {self.address(host, True)}/64 dev eth0 nodad")

    def disconnect(self, host: str) -> None:
        """Take the interface of a host away; the next one has another number."""
        self.run(host, "ip link delete eth0")

    @contextmanager
    def delay(self, host: str, ms: float) -> Iterator[None]:
        """For so long as this lasts, all that comes to a host or from it takes so much longer."""
        if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
            unavailable("no /dev/net/tun here, which a link that takes long is made with")
        self.disconnect(host)
        command = [sys.executable, "-m", "tests.live.slow_link", str(ms)]
        command += [self.netns(host), "eth0", self._switch, f"to-{host}"]
        try:
            with subprocess.Popen(command, stdout=subprocess.PIPE) as link:
                try:
                    assert link.stdout is not None
                    assert link.stdout.readline() == b"ready\n"
                    self._furnish(host)
                    yield
                finally:
                    link.kill()
        finally:
            self.connect(host)

    def destroy(self) -> None:
        for netns in [self._switch, *map(self.netns, self.hosts)]:
            subprocess.run(["ip", "netns", "del", netns], check=False, capture_output=True)

    def lose(self, host: str, percent: int) -> None:
        """Drop that share of what comes to a host, at random."""
        self.run(host, "nft add table inet loss")
        self.run(host, "nft add chain inet loss in { type filter hook input priority 0 ; }")
        drop = f"meta l4proto udp numgen random mod 100 < {percent} drop"
        self.run(host, f"nft add rule inet loss in {drop}")

    def heal(self, host: str) -> None:
        """Lose nothing any more."""
        self.run(host, "nft delete table inet loss")

    @contextmanager
    def narrow(self, host: str, kbit: int) -> Iterator[None]:
        """For so long as this lasts, a host's link carries no more than that, and what waits for it
        is at the bridge: eight full packets, and the rest is lost.
        """
        self.run("", f"tc qdisc add dev to-{host} root tbf rate {kbit}kbit burst 4kb limit 12kb")
        try:
            yield
        finally:
            self.run("", f"tc qdisc del dev to-{host} root")

    def limit(self, host: str, kbit: int) -> None:
        """Let a host send no more than that; what waits is held in its sockets' buffers."""
        self.run(host, f"tc qdisc replace dev eth0 root tbf rate {kbit}kbit burst 4kb limit 4mb")

    def cable(self, host: str, plugged: bool) -> None:
        """Take the interface of a host down, or up again."""
        self.run(host, f"ip link set eth0 {'up' if plugged else 'down'}")
        if plugged:
            self.give_ipv6(host)


@contextmanager
def lan(hosts: Sequence[str]) -> Iterator[Lan]:
    """Where namespaces are not allowed, the test is `unavailable`."""
    built = Lan(hosts)
    try:
        built.build()
        yield built
    finally:
        built.destroy()
