"""UDP unicast fan-out: a datagram to everybody is one copy to each peer, through one socket.

For networks without multicast (most clouds). The owner keeps `peers` up to date.
"""

from semcast.live.sockets.address import Address, family_of
from semcast.live.sockets.datagrams import Opened, Transport
from semcast.live.sockets.interfaces import find_interface, smallest_mtu_bytes
from semcast.live.sockets.opening import opening
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.ports import Ports


class UnicastTransport(Transport):
    def __init__(self, opened: Opened) -> None:
        super().__init__(opened, multicast=False)
        # A run that found no room after some peers had it, and the peers that have not. When the
        # caller comes back with the same datagrams, only these get them: nobody gets them twice.
        self._stalled: tuple[list[bytes], list[Address]] | None = None

    def send_all(self, datagrams: list[bytes]) -> int:
        """Each run to every peer before the next run, so that nobody is far behind."""
        taken = 0
        while taken < len(datagrams):
            run, left = self._next_run(datagrams, taken)
            for at, peer in enumerate(left):
                if self._send_run(peer, run) < len(run):
                    self._stalled = run, left[at:]
                    return taken
            taken += len(run)
        return taken

    def _next_run(self, datagrams: list[bytes], start: int) -> tuple[list[bytes], list[Address]]:
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            run, left = stalled
            again = datagrams[start : start + len(run)]
            if len(again) == len(run) and all(a is b for a, b in zip(again, run, strict=True)):
                return run, [peer for peer in left if peer in self.peers]
        return datagrams[start : start + self._run_length(datagrams, start)], list(self.peers)


def open_unicast(settings: TransportSettings, ports: Ports | None = None) -> UnicastTransport:
    host = settings.host or ("::" if settings.uses_ipv6 else "0.0.0.0")
    family = family_of(host)
    if host not in ("0.0.0.0", "::"):
        carries_bytes = find_interface(host, family, host).carries_bytes
    elif settings.interface:
        interface = find_interface(settings.interface, family, host)
        host, carries_bytes = interface.host, interface.carries_bytes
    else:
        carries_bytes = smallest_mtu_bytes(family)
    with opening(settings, family, ports) as sockets:
        sock = sockets.port("unicast", (host, settings.port))
        mtu_bytes = settings.path_mtu_bytes or carries_bytes
        room_bytes, warnings = sockets.receive_buffer_bytes, sockets.warnings
        opened = Opened(sock, (), family, mtu_bytes, room_bytes, warnings, close=sockets.close)
        return UnicastTransport(opened)
