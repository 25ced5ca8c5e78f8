"""Hosting: the one host of this process. It is made when the first group is joined, ended when the
last one is left, and made anew in a forked process.
"""

import threading
from typing import Final

from semcast.live.host.host import Host

# The host, if there is one, after broken ones that still have groups; and the lock that guards it.
_hosts: Final[list[Host]] = []
_changing: list[threading.Lock] = [threading.Lock()]


def claim() -> Host:
    """Count one more group at the host of this process, and return that host."""
    with _changing[0]:
        if not _hosts or _hosts[-1].broken:
            _hosts.append(Host())
        host = _hosts[-1]
        host.claims += 1
        return host


def release(host: Host) -> None:
    """Count one group less; the last one ends the host."""
    with _changing[0]:
        host.claims -= 1
        if host.claims > 0:
            return
        if host in _hosts:
            _hosts.remove(host)
    host.end()


def leave_all() -> None:
    """Leave all groups when the interpreter ends, so that other members do not wait for us."""
    for host in _hosts:
        host.leave_all()


def after_fork() -> None:
    """In a forked child the host is the parent's, so it is closed here and forgotten."""
    _changing[0] = threading.Lock()
    for host in _hosts:
        host.after_fork()
    _hosts.clear()
