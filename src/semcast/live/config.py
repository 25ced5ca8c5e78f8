"""How a group is joined: one frozen `GroupConfig`, from arguments, a TOML file or the environment.

Values that a user gave go in; a checked configuration comes out, or a ConfigError that names the
setting. What is not said has a default that works. Knows nothing of sockets or threads.
"""

import difflib
import os
import socket
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Unpack

from semcast.errors import ConfigError, InputError
from semcast.live.arguments import Overrides
from semcast.live.federation_settings import FEDERATION_KIND, as_sites, check_federation
from semcast.live.gossip_settings import GOSSIP_KIND, check_gossip
from semcast.live.secret_file import warn_if_others_read
from semcast.live.trees import as_tree, check_tree, numbered_ring, numbered_tree
from semcast.protocol.config import MemberConfig, source_window
from semcast.settings import Place, at, check, for_member, named
from semcast.settings.table import GROUP_SIZE_MAX
from semcast.wire.keys import UNSEALED, Keyring, Secret, Unsealed, group_id
from semcast.wire.limits import Limits

ENVIRONMENT_PREFIX: Final = "SEMCAST_"
NAME_BYTES_MAX: Final = 64
# A member gossips once a window's part of messages has come: windows are acknowledged in eighths.
_GOSSIPS_PER_WINDOW: Final = 8
# While messages keep coming, gossip is put off for so many periods: it is in their way.
_GOSSIP_STRETCH: Final = 4
# What somebody has to know of a group to ask it, beside the way there.
_ASKING: Final = ("group", "secret", "suite")
_ANYWHERE: Final = "the arguments and SEMCAST_* variables"


def own_name() -> str:
    """The name of a member that was given none: this machine and this process."""
    return f"{socket.gethostname()}-{os.getpid()}"[:NAME_BYTES_MAX]


@dataclass(frozen=True)
class GroupConfig:
    """Everything about one member of one group. Units are in the names.

    >>> config = GroupConfig("quotes", name="a", secret="sixteen bytes or more", members=("a", "b"))
    >>> config.group_size, config.reliability, config.order
    (2, 'group', 'fifo')
    """

    # settings: group (from semcast.settings.table, written by `make settings`)
    group: str
    name: str = field(default_factory=own_name)
    secret: bytes | str | None = field(default=None, repr=False)
    insecure: bool = False
    key_id: int = 1
    suite: str = "aes-256-gcm"
    role: str = "member"
    quorum: str = "majority"
    members: tuple[str, ...] = ()
    size: int = 0
    peers: tuple[str, ...] = ()
    join_timeout_s: float = 30.0
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
    bandwidth_bytes_s: int = 0
    spin_us: int = 200
    reliability: str = "group"
    order: str = "fifo"
    purging: bool = True
    purge_policy: str = "eager"
    replacement: str = "key"
    k: int = 256
    f: int = 1
    deliver_own: bool = True
    delivery_messages: int = 32_768
    delivery_bytes: int = 67_108_864
    window_messages: int = 32_768
    window_bytes: int = 67_108_864
    message_bytes_max: int = 1_048_576
    total_messages: int = 0
    state: str = "keys"
    standing_keys_max: int = 131_072
    standing_bytes_max: int = 67_108_864
    neighbours_max: int = 5
    relay_fanout: int = 5
    relay_rounds: int = 32
    relay_policy: str = "eager"
    relay_scope: str = "node"
    relay_messages: int = 64
    relay_bytes_s: int = 0
    relay_repair: bool = True
    relay_tree: bool = False
    groups: tuple[str, ...] = ()
    sites: Mapping[str, tuple[str, ...]] | tuple[tuple[str, tuple[str, ...]], ...] = ()
    recovery: str = "non-atomic"
    rule: str = "greedy"
    protocol: str = "propagation"
    history: str = ""
    null_ms: float = 100.0
    silence_ms: float = 1000.0
    gossip_period_ms: float = 30.0
    gossip_fanout: int = 3
    gossip_messages: int = 0
    stability: str = "gossip"
    stability_branching: int = 4
    stability_tree: str | Mapping[str, str] | tuple[tuple[str, str], ...] = "filled"
    stability_ring: tuple[str, ...] = ()
    stability_period_ms: float = 0.0
    stability_delta: bool = False
    stability_ride_ms: float = 0.0
    safety_rest_messages: int = 0
    nak_delay_ms: float = 2.0
    slow_after_ms: float = 1000.0
    evict_after_s: float = 0.0
    record: str = ""
    record_run: str = ""
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"
    # end of settings

    def __post_init__(self) -> None:
        """Check what no other part checks; raises ConfigError."""
        for one in at(Place.GROUP):
            object.__setattr__(self, one.name, one.typed(getattr(self, one.name)))
        tree = as_tree(self.stability_tree)
        object.__setattr__(self, "stability_tree", tree)
        object.__setattr__(self, "sites", as_sites(self.sites))
        check(self, Place.GROUP)
        group_id(self.group)
        check_name(self.name)
        check_gossip(self)
        check_federation(self)
        self._check_members()
        check_tree(tree, self.stability_ring, self.members, self.group_size)
        self.keys()
        self.member_config(self.group_size, 1400)

    def _check_members(self) -> None:
        if self.role == "reader" and not self.is_open:
            raise ConfigError(
                "role 'reader' with members or size; readers come and go, so leave these out"
            )
        for name in self.members:
            check_name(name)
        if len(set(self.members)) != len(self.members):
            raise ConfigError(f"members names somebody twice: {', '.join(self.members)}")
        if self.members and self.name not in self.members:
            raise ConfigError(
                f"this member is called {self.name!r}, which is not among members: "
                f"{', '.join(self.members)}"
            )
        if self.members and self.size not in (0, len(self.members)):
            raise ConfigError(f"size is {self.size}, but members has {len(self.members)} names")
        if self.group_size > GROUP_SIZE_MAX:
            raise ConfigError(f"{self.group_size} members; the most is {GROUP_SIZE_MAX}")

    @property
    def is_open(self) -> bool:
        """Whether processes come and go."""
        return not self.members and self.size == 0

    @property
    def group_size(self) -> int:
        """How many members the group has; 0 if it is open."""
        return len(self.members) or self.size

    def keys(self) -> Keyring | Unsealed:
        """A fresh keyring with the secret, or UNSEALED if that was asked for."""
        if self.secret is None:
            if not self.insecure:
                raise ConfigError(
                    "no secret: make one with `semcast keys new` and give it to every member "
                    "(secret, --secret-file or SEMCAST_SECRET), or say insecure to run in the "
                    "clear on a network you trust"
                )
            return UNSEALED
        if self.insecure:
            raise ConfigError("both a secret and insecure=True; choose one")
        material = self.secret.encode() if isinstance(self.secret, str) else self.secret
        return Keyring(Secret(material), self.key_id)

    def member_config(
        self,
        members: int,
        path_mtu_bytes: int,
        flight_bytes_max: int = 1 << 62,
        order: Sequence[str] = (),
    ) -> MemberConfig:
        """What the protocol is told, for a group of so many.

        No more than `flight_bytes_max` are on their way at once: what receivers' sockets hold.
        `order`: the names of the members as the protocol numbers them, if that is known.
        """
        room_bytes = max(flight_bytes_max, self.message_bytes_max + 255)
        window = source_window(self.window_messages, self.total_messages, max(members, 1))
        news_messages = max(1, window // _GOSSIPS_PER_WINDOW)
        values = (
            for_member(self, Place.GROUP)
            | {
                # In an open group f follows the view, up to what was asked for.
                "f": self.f if self.is_open else min(self.f, max(members - 1, 0)),
                "window_bytes": min(self.window_bytes, room_bytes),
                "gossip_messages": self.gossip_messages or news_messages,
                "gossip_stretch": _GOSSIP_STRETCH,
                "stability_tree": numbered_tree(
                    as_tree(self.stability_tree), order or self.members
                ),
                "stability_ring": numbered_ring(self.stability_ring, order or self.members),
            }
            | GOSSIP_KIND.member_settings(self)
            | FEDERATION_KIND.member_settings(self)
        )
        return MemberConfig(limits=Limits(path_mtu_bytes, self.message_bytes_max), **values)

    @classmethod
    def load(cls, path: str | Path, **overrides: Unpack[Overrides]) -> "GroupConfig":
        """From a TOML file whose keys are the settings; what is given here goes first."""
        return configure(_read(path, str(path)) | dict(overrides), str(path))


def check_name(name: str) -> None:
    """Raises unless `name` can be the name of a member."""
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX or not name.isprintable():
        raise ConfigError(
            f"member name {name[:NAME_BYTES_MAX]!r}; it needs 1 to {NAME_BYTES_MAX} bytes of "
            "printable text"
        )


def configure(settings: Mapping[str, Any], where: str = "the arguments") -> GroupConfig:
    """A configuration from names and values; values of the wrong type are an error, not a crash."""
    known = sorted(one.name for one in at(Place.GROUP))
    unknown = sorted(set(settings) - set(known))
    if unknown:
        close = difflib.get_close_matches(unknown[0], known, 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(known)}"
        raise ConfigError(f"{where}: unknown setting {unknown[0]!r}; {hint}")
    if "group" not in settings:
        raise ConfigError(f"{where}: no group; say the name of the group to join")
    try:
        checked = {name: named(name).typed(value) for name, value in settings.items()}
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    return GroupConfig(**checked)


def from_environment(
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> GroupConfig:
    """The settings, with what they leave open taken from SEMCAST_* variables.

    SEMCAST_CONFIG names a TOML file, which comes last; `file`, what was given as --config, takes
    its place. Lists are separated by commas; a tree of names is JSON.
    """
    return configure(_collected(settings, environment, file), _ANYWHERE)


def for_asking(
    settings: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> GroupConfig:
    """The same for somebody who asks a group and does not join it: how to reach it, and its secret.

    What else is set is about members, and says nothing of who asks: the names of members or sites,
    or what only one kind of group has.
    """
    needed = {*_ASKING, *(one.name for one in at(Place.REACHING) + at(Place.TRANSPORT))}
    unneeded = {one.name for one in at(Place.GROUP)} - needed
    found = _collected(settings, environment, file)
    kept = {name: value for name, value in found.items() if name not in unneeded}
    return configure(kept | {"size": 1}, _ANYWHERE)


def _collected(
    settings: Mapping[str, Any], environment: Mapping[str, str] | None, file: Path | None
) -> dict[str, Any]:
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    path = environment.get(ENVIRONMENT_PREFIX + "CONFIG") if file is None else str(file)
    if path:
        named_by = f"{ENVIRONMENT_PREFIX}CONFIG=" if file is None else "--config "
        found = _read(path, f"{named_by}{path}")
        if "secret" in found:
            warn_if_others_read(Path(path))
    for one in at(Place.GROUP):
        variable = ENVIRONMENT_PREFIX + one.name.upper()
        if variable in environment:
            found[one.name] = one.parsed(environment[variable], variable)
    return found | dict(settings)


def changed(config: GroupConfig, **settings: Unpack[Overrides]) -> GroupConfig:
    """The same but for these settings."""
    return configure({one.name: getattr(config, one.name) for one in at(Place.GROUP)} | settings)


def _read(path: str | Path, called: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text())
    except OSError as error:
        raise InputError(f"cannot read {called}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{called} is not TOML: {error}") from None
