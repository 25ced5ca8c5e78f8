"""Ports: sockets for what is sent to single members, shared by the groups of a process.

How a group wants to be bound goes in; a port that is bound so comes out, if possible one that is
open already and serves no member of that group yet. So the group in a datagram's header says whom
it is for, and two members of one group in one process have an address each.
"""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from semcast.live.sockets.sockbuf import grow_receive_buffer

# What two groups have to agree on to share a port: the kind of transport, the address, how
# multicasts leave by it, and the buffers.
Binding = tuple[object, ...]
# The most room that is asked for, for all groups of a port together.
_SHARED_BYTES_MAX: Final = 64 << 20


@dataclass(frozen=True, eq=False)
class Port:
    """One socket, the groups that use it, and the sockets that send in its name."""

    sock: socket.socket
    binding: Binding
    receive_buffer_bytes: int
    warnings: tuple[str, ...]
    groups: set[int] = field(default_factory=set)
    twins: list[socket.socket] = field(default_factory=list)


class Ports:
    """All ports of a host; may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: Final[list[Port]] = []

    def take(self, binding: Binding, group_id: int, open_one: Callable[[], Port]) -> Port:
        """A port for this group. It stays open as long as any group has it."""
        with self._lock:
            for port in self._open:
                if port.binding == binding and group_id not in port.groups:
                    port.groups.add(group_id)
                    # More datagrams come now; if no more room is granted, repair has more to do.
                    wanted = port.receive_buffer_bytes * len(port.groups)
                    if wanted <= _SHARED_BYTES_MAX:
                        grow_receive_buffer(port.sock, wanted)
                    return port
            port = open_one()
            port.groups.add(group_id)
            self._open.append(port)
            return port

    def leave(self, port: Port, group_id: int) -> None:
        """The group needs the port no longer."""
        with self._lock:
            port.groups.discard(group_id)
            if not port.groups and port in self._open:
                self._open.remove(port)
                port.sock.close()

    def add_twin(self, port: Port, twin: socket.socket) -> bool:
        """Bind another socket to the address of this port; False where that cannot be.

        Nobody else can share the address: for that, all sides would have to allow it, and they do
        so for this moment only.
        """
        with self._lock:
            every = (port.sock, *port.twins, twin)
            try:
                _allow_sharing(every, 1)
                twin.bind(port.sock.getsockname())
            except OSError:
                return False
            finally:
                with suppress(OSError):
                    _allow_sharing(every, 0)
            port.twins.append(twin)
            return True

    def remove_twin(self, port: Port, twin: socket.socket) -> None:
        """Forget this twin, which is about to be closed."""
        with self._lock, suppress(ValueError):
            port.twins.remove(twin)

    def renew(self) -> None:
        """In a forked child the thread that held the lock does not exist."""
        self._lock = threading.Lock()


def _allow_sharing(sockets: tuple[socket.socket, ...], allowed: int) -> None:
    for sock in sockets:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, allowed)
