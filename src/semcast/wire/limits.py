"""The sizes that bound everything on the wire, in one place and checked."""

from dataclasses import dataclass

from semcast.errors import ConfigError
from semcast.wire.header import HEADER_BYTES, TAG_BYTES

# The larger of the two IP headers, IPv6 (40) rather than IPv4 (20), and UDP (8).
IP_UDP_BYTES = 48
PATH_MTU_BYTES_MIN = 576
PATH_MTU_BYTES_MAX = 65_535
# A fragment count is 16 bits, and the smallest datagram carries this much of a message.
MESSAGE_BYTES_LIMIT = 16 << 20


@dataclass(frozen=True)
class Limits:
    """What one datagram and one message may be at most."""

    path_mtu_bytes: int = 1400
    message_bytes_max: int = 1 << 20

    def __post_init__(self) -> None:
        if not PATH_MTU_BYTES_MIN <= self.path_mtu_bytes <= PATH_MTU_BYTES_MAX:
            raise ConfigError(
                f"path_mtu_bytes is {self.path_mtu_bytes}; "
                f"it goes from {PATH_MTU_BYTES_MIN} to {PATH_MTU_BYTES_MAX}"
            )
        if not 1 <= self.message_bytes_max <= MESSAGE_BYTES_LIMIT:
            raise ConfigError(
                f"message_bytes_max is {self.message_bytes_max}; "
                f"it goes from 1 to {MESSAGE_BYTES_LIMIT}"
            )

    @property
    def datagram_bytes_max(self) -> int:
        """The largest UDP payload that is never fragmented on the path."""
        return self.path_mtu_bytes - IP_UDP_BYTES

    @property
    def frames_bytes_max(self) -> int:
        """What is left of a datagram for frames, sealed or not."""
        return self.datagram_bytes_max - HEADER_BYTES - TAG_BYTES
