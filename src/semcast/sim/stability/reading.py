"""Where STAB §5.1 leaves a choice: one object that says how its network model is read."""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError


@final
class Reading:
    """How the model is read where the paper leaves a choice; the defaults are the literal one."""

    def __init__(
        self,
        router_ns: i64 = 1_000_000,
        router_serial: bool = False,  # a router handles one message at a time
        router_at_ends: bool = False,  # its time is paid at source and destination too
        processors: i64 = 1,  # 2: one for sends, one for receptions
        host_routes: bool = False,  # what passes through uses the host's processor as well
        loopback: bool = True,  # the sender of a multicast receives it too
        multicast: bool = True,  # False: a point-to-point message to each member
    ) -> None:
        if router_ns < 0 or not 1 <= processors <= 2:
            raise ConfigError(
                f"a router of {router_ns} ns and {processors} processors a host; "
                "it must be 0 or more, and 1 or 2"
            )
        self.router_ns: Final[i64] = router_ns
        self.router_serial: Final = router_serial
        self.router_at_ends: Final = router_at_ends
        self.processors: Final[i64] = processors
        self.host_routes: Final = host_routes
        self.loopback: Final = loopback
        self.multicast: Final = multicast
