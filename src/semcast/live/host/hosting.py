"""Hosting: the one host of this process. Made when the first group is joined, ended when the last
is left, and made anew in a process that was forked.
"""

import threading
from typing import Final

from semcast.live.host.host import Host

# The host, if there is one, and those that are broken until they are left; and the lock of whoever
# makes, claims or ends one.
_hosts: Final[list[Host]] = []
_changing: list[threading.Lock] = [threading.Lock()]


def claim() -> Host:
    """The host of this process, for one more group."""
    with _changing[0]:
        if not _hosts or _hosts[-1].broken:
            _hosts.append(Host())
        host = _hosts[-1]
        host.claims += 1
        return host


def release(host: Host) -> None:
    """That group is done with it; the last one ends it."""
    with _changing[0]:
        host.claims -= 1
        if host.claims > 0:
            return
        if host in _hosts:
            _hosts.remove(host)
    host.end()


def leave_all() -> None:
    """When the interpreter ends: so that others do not wait for members of this process."""
    for host in _hosts:
        host.leave_all()


def after_fork() -> None:
    """In a forked child: the host is its parent's."""
    _changing[0] = threading.Lock()
    for host in _hosts:
        host.after_fork()
    _hosts.clear()
