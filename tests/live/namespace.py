"""A network of one's own for a test: loopback only, with a route for IPv6 multicast.

Linux gives no such route to loopback by itself, and tests do not change the machine's. A network
namespace belongs to a thread, and a socket stays in the one that it was opened in.
"""

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

CLONE_NEWNET = 0x40000000
# For own_loopback: no packet fits through a bucket of ten bytes, and nobody is told.
LOSES_EVERYTHING = "tc qdisc add dev lo root tbf rate 8kbit burst 10 limit 10"


@contextmanager
def own_loopback(*commands: str) -> Iterator[None]:
    """Skips the test, with the reason, where namespaces are not allowed."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    except OSError as error:
        pytest.skip(f"no network namespaces here: {error}")
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            reason = os.strerror(ctypes.get_errno())
            pytest.skip(f"network namespaces are not allowed here: {reason}")
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
        subprocess.run(command.split(), check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a network namespace cannot be furnished here: {error}")
