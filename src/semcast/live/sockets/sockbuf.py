"""Socket buffers: the size to ask for goes in; what the kernel granted, and a warning, come out.

Sizes are in the unit that they are asked in. Linux reports twice that, because it counts its own
bookkeeping against the buffer too; the half that it adds is taken off here.
"""

import socket
import sys
from contextlib import suppress
from typing import Final

_LINUX: Final = sys.platform == "linux"
SO_SNDBUFFORCE: Final = 32  # Linux; needs CAP_NET_ADMIN, and goes beyond the system's limit
SO_RCVBUFFORCE: Final = 33


def grow_receive_buffer(sock: socket.socket, asked_bytes: int) -> int:
    return _grow(sock, socket.SO_RCVBUF, SO_RCVBUFFORCE, asked_bytes)


def grow_send_buffer(sock: socket.socket, asked_bytes: int) -> int:
    return _grow(sock, socket.SO_SNDBUF, SO_SNDBUFFORCE, asked_bytes)


def shortage(which: str, asked_bytes: int, granted_bytes: int) -> tuple[str, ...]:
    """A warning with the command that mends it, if less was granted than asked for."""
    if granted_bytes >= asked_bytes:
        return ()
    return (
        f"the {which} buffer of the socket is {granted_bytes} bytes, {asked_bytes} were asked for: "
        f"bursts will be lost and sent again; run: {limit_command(which, asked_bytes)}",
    )


def limit_command(which: str, wanted_bytes: int) -> str:
    name = "rmem_max" if which == "receive" else "wmem_max"
    return f"sysctl -w net.core.{name}={wanted_bytes}"


def _grow(sock: socket.socket, option: int, force_option: int, asked_bytes: int) -> int:
    if _LINUX:
        try:
            sock.setsockopt(socket.SOL_SOCKET, force_option, asked_bytes)
        except OSError:
            pass
        else:
            return _granted_bytes(sock, option)
    with suppress(OSError):  # some systems refuse instead of giving what they can
        sock.setsockopt(socket.SOL_SOCKET, option, asked_bytes)
    return _granted_bytes(sock, option)


def _granted_bytes(sock: socket.socket, option: int) -> int:
    reported = sock.getsockopt(socket.SOL_SOCKET, option)
    return reported // 2 if _LINUX else reported
