"""Closed ports: what the kernel reports on a socket in; where nobody listens out (Linux).

The system of a machine answers a datagram for a port that nobody has open (ICMP, port unreachable).
A kernel that was asked to keeps these answers in the socket's error queue, with the address that
the datagram was for. As long as one of them is there, the socket counts as ready, so whoever asks
for them has to read them. Anybody can forge them who knows the two ports, so they are evidence and
no proof. On other systems nothing is reported.
"""

import errno
import socket
import struct
import sys
from contextlib import suppress
from typing import Final

from semcast.live.sockets.address import Address, address_of
from semcast.live.sockets.offload import Ancillary

# Linux; not in Python's socket module. Where the report stands: its level and its type.
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_MSG_ERRQUEUE: Final = 0x2000
_REPORTS: Final[dict[int, tuple[int, int]]] = {
    socket.AF_INET: (socket.IPPROTO_IP, _IP_RECVERR),
    socket.AF_INET6: (socket.IPPROTO_IPV6, _IPV6_RECVERR),
}
# A report (`sock_extended_err`): the error; who found it, with the type and the code that it gave,
# and a byte that means nothing. More follows, which is of no use here.
_REPORT: Final = struct.Struct("=IBBBx")
# A closed port, as each version of ICMP says it: origin, type, code.
_CLOSED: Final[dict[int, tuple[int, int, int]]] = {
    socket.AF_INET: (2, 3, 3),
    socket.AF_INET6: (3, 1, 4),
}
# Room for the report, with the address of whoever sent it; the datagram itself is not wanted.
_ANCILLARY_BYTES: Final = 256
# So many reports are read in one call; the socket stays ready while there are more.
REPORTS_MAX: Final = 64

SUPPORTED: Final = sys.platform == "linux"


def report_closed(sock: socket.socket) -> bool:
    """Ask for reports on this socket; whether the kernel will give them."""
    if not SUPPORTED or sock.family not in _REPORTS:
        return False
    with suppress(OSError):
        sock.setsockopt(*_REPORTS[sock.family], 1)
        return True
    return False


def read_closed(sock: socket.socket) -> list[Address]:
    """The addresses, each of them once, at which nobody listens, by the reports that wait."""
    found: dict[Address, None] = {}
    for _ in range(REPORTS_MAX if SUPPORTED else 0):
        try:
            _, ancillary, _, to = sock.recvmsg(0, _ANCILLARY_BYTES, _MSG_ERRQUEUE)
        except OSError:  # there is none left, or the socket is closed
            break
        if to and is_closed(ancillary, sock.family):
            found[address_of(to)] = None
    return list(found)


def is_closed(ancillary: Ancillary, family: int) -> bool:
    """Whether a report says that a port is closed; there are others, of routes and of sizes."""
    for level, kind, value in ancillary:
        if (level, kind) == _REPORTS.get(family) and len(value) >= _REPORT.size:
            number, *cause = _REPORT.unpack_from(value)
            return number == errno.ECONNREFUSED and tuple(cause) == _CLOSED[family]
    return False
