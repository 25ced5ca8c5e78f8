"""A network namespace of one's own, whose loopback loses packets; for benchmarks. Needs root."""

import ctypes
import os
import shutil
import subprocess
import sys

_CLONE_NEWNET = 0x40000000
_RANDOM_MAX = 100_000


def cannot_lose() -> str:
    """Why there can be no such network here; empty if there can."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are Linux's"
    if os.geteuid() != 0:
        return "it needs root, to make a network namespace that loses packets"
    for tool, package in (("nft", "nftables"), ("ip", "iproute2")):
        if shutil.which(tool) is None:
            return f"it needs {tool}: apt-get install {package}"
    return ""


def own_loopback() -> None:
    """From here on this process, and all that it starts, have a network of their own."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        reason = os.strerror(ctypes.get_errno())
        sys.exit(f"bench: no network namespace to be had: {reason}")
    _command("ip", "link", "set", "lo", "up")


def lose(percent: float) -> None:
    """Drop that share of all packets, whatever they carry."""
    if shutil.which("nft") is None:
        return
    subprocess.run(["nft", "delete", "table", "inet", "loss"], check=False, capture_output=True)
    if percent:
        share = round(percent * _RANDOM_MAX / 100)
        rule = f"numgen random mod {_RANDOM_MAX} < {share} drop"
        _command("nft", "add table inet loss")
        _command("nft", "add chain inet loss in { type filter hook input priority 0 ; }")
        _command("nft", f"add rule inet loss in {rule}")


def _command(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"bench: `{' '.join(words)}` failed: {done.stderr.strip()}")
