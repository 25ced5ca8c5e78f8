"""Opening sockets for both kinds of transport: settings go in; bound sockets come out, or an error
of one clear line. If something is refused, every socket that was opened before is closed again.
"""

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from semcast.live.sockets.address import Address, socket_address
from semcast.live.sockets.offload import receive_batches
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.ports import Port, Ports
from semcast.live.sockets.refusal import refused
from semcast.live.sockets.sockbuf import grow_receive_buffer, grow_send_buffer, shortage

# Linux; not in Python's socket module.
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_DO = 10, 23, 2


class Sockets:
    """The sockets of one transport while it is being opened."""

    def __init__(
        self, settings: TransportSettings, family: socket.AddressFamily, ports: Ports
    ) -> None:
        self.family: Final = family
        self._ports: Final = ports
        self._port: Port | None = None
        self._twin: socket.socket | None = None
        self._settings: Final = settings
        self._open: Final[list[socket.socket]] = []
        self._granted: Final[list[int]] = []
        self._warnings: Final[list[str]] = []

    def bind(self, address: Address, shared: bool = False) -> socket.socket:
        host, port = address
        try:
            sock = socket.socket(self.family, socket.SOCK_DGRAM)
            self._open.append(sock)
            if self.family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            if shared:
                share(sock)
            sock.bind(socket_address(address, self.family))
        except OSError as error:
            raise refused(f"cannot bind {host} port {port}", error) from None
        keep_whole(sock, self.family)
        receive_batches(sock)
        self._fit_receive_buffer(sock)
        return sock

    def port(self, kind: str, address: Address, way: object = None) -> socket.socket:
        """A socket for what goes to single members, which may serve other groups, too. `way` says
        how multicasts leave by it.
        """
        settings = self._settings
        buffers = settings.receive_buffer_bytes, settings.send_buffer_bytes
        binding = kind, self.family, address, way, buffers

        def open_one() -> Port:
            sock = self.bind(address)
            self._open.remove(sock)  # from here on it is the port's
            self.fit_send_buffer(sock)
            return Port(sock, binding, self.receive_buffer_bytes, self.warnings)

        port = self._port = self._ports.take(binding, settings.group_id, open_one)
        self._granted.append(port.receive_buffer_bytes)
        self._warn(port.warnings)
        return port.sock

    def twin(self) -> socket.socket | None:
        """Another socket for sending, bound to the port's address; None where that cannot be."""
        assert self._port is not None
        if not hasattr(socket, "AF_NETLINK"):
            return None  # other systems might give the twin what is meant for the port
        twin = socket.socket(self.family, socket.SOCK_DGRAM)
        self._open.append(twin)
        if not self._ports.add_twin(self._port, twin):
            return None
        self._twin = twin
        keep_whole(twin, self.family)
        self.fit_send_buffer(twin)
        return twin

    def fit_send_buffer(self, sock: socket.socket) -> None:
        asked = self._settings.send_buffer_bytes
        self._warn(shortage("send", asked, grow_send_buffer(sock, asked)))

    def _fit_receive_buffer(self, sock: socket.socket) -> None:
        asked = self._settings.receive_buffer_bytes
        granted = grow_receive_buffer(sock, asked)
        self._granted.append(granted)
        self._warn(shortage("receive", asked, granted))

    def _warn(self, lines: tuple[str, ...]) -> None:
        self._warnings.extend(line for line in lines if line not in self._warnings)

    @property
    def receive_buffer_bytes(self) -> int:
        return min(self._granted)

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(self._warnings)

    def close(self) -> None:
        """Close what was opened, and leave the port to other groups. Harmless when repeated."""
        port, self._port = self._port, None
        if port is not None:
            if self._twin is not None:
                self._ports.remove_twin(port, self._twin)
            self._ports.leave(port, self._settings.group_id)
        for sock in self._open:
            sock.close()


@contextmanager
def opening(
    settings: TransportSettings, family: socket.AddressFamily, ports: Ports | None = None
) -> Iterator[Sockets]:
    """Without `ports` nothing is shared with anybody."""
    sockets = Sockets(settings, family, ports or Ports())
    try:
        yield sockets
    except BaseException:
        sockets.close()
        raise


def share(sock: socket.socket) -> None:
    """Let several members on one machine listen to one group, each getting every datagram.

    On Linux SO_REUSEADDR does it; the BSDs want SO_REUSEPORT for the same.
    """
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if not hasattr(socket, "AF_NETLINK") and hasattr(socket, "SO_REUSEPORT"):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)


def keep_whole(sock: socket.socket, family: socket.AddressFamily) -> None:
    """Ask the kernel not to fragment: one lost fragment would lose all of a datagram."""
    level, option = socket.IPPROTO_IP, _IP_MTU_DISCOVER
    if family == socket.AF_INET6:
        level, option = socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER
    if not hasattr(socket, "AF_NETLINK"):
        return  # these numbers mean something else on other systems
    with suppress(OSError):  # an old or odd kernel: we keep under the path MTU anyway
        sock.setsockopt(level, option, _PMTUDISC_DO)
