"""What a user may say about the transport, checked. Knows nothing of sockets."""

from dataclasses import dataclass

from semcast.errors import ConfigError
from semcast.ids import ID_MAX
from semcast.settings import Place, check
from semcast.settings.setting import require_between


@dataclass(frozen=True)
class TransportSettings:
    """How datagrams travel; everything has a default that works on one network."""

    # settings: transport (from semcast.settings.table, written by `make settings`)
    transport: str = "auto"
    interface: str = ""
    host: str = ""
    port: int = 0
    group_address: str = ""
    ttl: int = 1
    ipv6: bool = False
    path_mtu_bytes: int = 0
    receive_buffer_bytes: int = 8_388_608
    send_buffer_bytes: int = 1_048_576
    # end of settings
    # Members of one group share it; addresses and ports are derived from it.
    group_id: int = 0

    def __post_init__(self) -> None:
        check(self, Place.TRANSPORT)
        require_between("group_id", self.group_id, 0, ID_MAX)
        if self.host and self.group_address and (":" in self.host) != (":" in self.group_address):
            raise ConfigError(
                f"host {self.host} and group_address {self.group_address} are of two families; "
                "members of one group use one of IPv4 and IPv6"
            )

    @property
    def uses_ipv6(self) -> bool:
        """An address that is given decides; without one, the switch does."""
        given = self.host or self.group_address
        return ":" in given if given else self.ipv6
