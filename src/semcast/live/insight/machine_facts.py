"""What this machine says of itself: clocks, firewall rules, file descriptors, the build.

Nothing goes in and small facts come out, or None where the machine does not say. Nothing changes.
"""

import ctypes
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_STA_UNSYNC: Final = 0x40
_TIME_ERROR: Final = 5
_COMMAND_S_MAX: Final = 2
_RULES_SHOWN_MAX: Final = 3
_LISTINGS: Final = (("nft", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",))
# nft: a chain at the input hook whose policy is drop. iptables-save: the same for chain INPUT.
_CLOSED_BY_DEFAULT: Final = re.compile(r"hook input .*policy drop|^:INPUT DROP", re.IGNORECASE)
_DROPS_UDP: Final = re.compile(r"udp.*\b(drop|reject)\b", re.IGNORECASE)


class _Timex(ctypes.Structure):
    """The first fields of Linux's struct timex, and room for the rest."""

    _fields_ = (
        ("modes", ctypes.c_uint), ("offset", ctypes.c_long), ("frequency", ctypes.c_long),
        ("error_us_max", ctypes.c_long), ("error_us", ctypes.c_long),
        ("status", ctypes.c_int), ("rest", ctypes.c_byte * 256),
    )  # fmt: skip


@dataclass(frozen=True)
class WallClock:
    synchronized: bool
    error_us_max: int


def wall_clock() -> WallClock | None:
    """What the kernel thinks of its wall clock."""
    if sys.platform != "linux":
        return None
    state = _Timex()
    try:
        outcome = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(state))
    except (OSError, AttributeError):
        return None
    if outcome < 0:
        return None
    synchronized = outcome != _TIME_ERROR and not state.status & _STA_UNSYNC
    return WallClock(synchronized, int(state.error_us_max))


def firewall_listing() -> str | None:
    """The rules as text; None if no tool is there that may read them."""
    texts = [text for command in _LISTINGS if (text := _output_of(command)) is not None]
    return "\n".join(texts) if texts else None


def rules_against_udp(listing: str) -> list[str]:
    """The first few rules that keep datagrams out, as they stand."""
    lines = [line.strip() for line in listing.splitlines()]
    found = [line for line in lines if _CLOSED_BY_DEFAULT.search(line) or _DROPS_UDP.search(line)]
    return found[:_RULES_SHOWN_MAX]


def free_descriptors() -> int | None:
    """How many more files and sockets this process may open."""
    try:
        import resource

        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = sum(1 for _ in Path("/dev/fd").iterdir())
    except (ImportError, OSError):
        return None
    return sys.maxsize if most == resource.RLIM_INFINITY else max(0, most - used)


def is_compiled() -> bool:
    from semcast import ids

    return not (ids.__file__ or "").endswith(".py")


def _output_of(command: tuple[str, ...]) -> str | None:
    path = shutil.which(command[0]) or shutil.which(command[0], path="/usr/sbin:/sbin")
    if path is None:
        return None
    try:
        run = subprocess.run(
            (path, *command[1:]), capture_output=True, text=True, timeout=_COMMAND_S_MAX, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    return run.stdout
