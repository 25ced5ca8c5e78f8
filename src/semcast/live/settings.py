"""What a user may say about the transport, checked. Knows nothing of sockets."""

from dataclasses import dataclass
from typing import Final

from semcast.errors import ConfigError
from semcast.ids import ID_MAX
from semcast.wire.limits import PATH_MTU_BYTES_MAX, PATH_MTU_BYTES_MIN

KINDS: Final = ("auto", "multicast", "unicast")
TTL_MAX: Final = 255
PORT_MAX: Final = 65_535
# Socket options are signed 32-bit integers, and Linux doubles what it is given.
BUFFER_BYTES_MAX: Final = (1 << 30) - 1


@dataclass(frozen=True)
class TransportSettings:
    """How datagrams travel; everything has a default that works on one network."""

    # auto: multicast if a probe to the group comes back to this machine, else unicast where there
    # are peers to send to.
    kind: str = "auto"
    group_address: str = ""  # "": derived from group_id
    port: int = 0  # 0: derived from group_id for multicast, the system's choice for unicast
    host: str = ""  # where unicast binds ("": anywhere); its family decides IPv4 or IPv6
    interface: str = ""  # name or address ("": the system's choice)
    ttl: int = 1
    receive_buffer_bytes: int = 8 << 20
    send_buffer_bytes: int = 1 << 20  # what is in there can no longer be replaced
    path_mtu_bytes: int = 0  # 0: what the interface carries
    ipv6: bool = False
    group_id: int = 0

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"kind is {self.kind!r}; it is one of {', '.join(KINDS)}")
        if self.path_mtu_bytes != 0:
            _require("path_mtu_bytes", self.path_mtu_bytes, PATH_MTU_BYTES_MIN, PATH_MTU_BYTES_MAX)
        if self.host and self.group_address and (":" in self.host) != (":" in self.group_address):
            raise ConfigError(
                f"host {self.host} and group_address {self.group_address} are of two families; "
                "members of one group use one of IPv4 and IPv6"
            )
        _require("port", self.port, 0, PORT_MAX)
        _require("ttl", self.ttl, 0, TTL_MAX)
        _require("group_id", self.group_id, 0, ID_MAX)
        _require("receive_buffer_bytes", self.receive_buffer_bytes, 1, BUFFER_BYTES_MAX)
        _require("send_buffer_bytes", self.send_buffer_bytes, 1, BUFFER_BYTES_MAX)

    @property
    def uses_ipv6(self) -> bool:
        """An address that is given decides; without one, the switch does."""
        given = self.host or self.group_address
        return ":" in given if given else self.ipv6


def _require(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(f"{name} is {value}; it goes from {least} to {most}")
