"""How a group is joined: one frozen `GroupConfig`, from arguments, a TOML file or the environment.

Values that a user gave go in; a checked configuration comes out, or a ConfigError that names the
setting. What is not said has a default that works. Knows nothing of sockets or threads.
"""

import difflib
import json
import math
import os
import socket
import tomllib
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Unpack

from semcast.errors import ConfigError, InputError
from semcast.live.arguments import Overrides
from semcast.live.secret_file import warn_if_others_read
from semcast.live.trees import Tree, as_tree, check_tree, numbered_ring, numbered_tree
from semcast.protocol.config import MS, MemberConfig
from semcast.wire.header import AES_256_GCM, CHACHA20_POLY1305
from semcast.wire.keys import UNSEALED, Keyring, Secret, Unsealed, group_id
from semcast.wire.limits import Limits

ENVIRONMENT_PREFIX: Final = "SEMCAST_"
NAME_BYTES_MAX: Final = 64
MEMBERS_MAX: Final = 1024
SPIN_US_MAX: Final = 1_000_000
SUITES: Final = {"aes-256-gcm": AES_256_GCM, "chacha20-poly1305": CHACHA20_POLY1305}
# How many messages may be under way before others are told: windows are acknowledged in eighths.
_GOSSIPS_PER_WINDOW: Final = 8
# While messages keep coming, gossip is put off for so many periods: it is in their way.
_GOSSIP_STRETCH: Final = 4


@dataclass(frozen=True)
class GroupConfig:
    """Everything about one member of one group. Units are in the names.

    >>> config = GroupConfig("quotes", name="a", secret="sixteen bytes or more", members=("a", "b"))
    >>> config.group_size, config.reliability, config.order
    (2, 'group', 'fifo')
    """

    # The name that all members share, and this member's own. Together with the secret the group's
    # name is its identity: groups of another name or secret never mix with it.
    group: str
    name: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}"[:64])
    # At least 16 bytes, the same everywhere: `semcast keys new`. Without one, say insecure=True.
    secret: bytes | str | None = field(default=None, repr=False)
    insecure: bool = False
    # The number of that secret among the group's keys; another one after a rotation.
    key_id: int = 1
    suite: str = "aes-256-gcm"

    # Who is in the group: the names of all members, or how many to wait for.
    members: tuple[str, ...] = ()
    size: int = 0
    # Addresses to find others at, host:port; a name that resolves to several addresses is all of
    # them. Not needed where multicast works.
    peers: tuple[str, ...] = ()
    join_timeout_s: float = 30.0

    # The network; see docs/design/transport.md.
    transport: str = "auto"
    interface: str = ""
    host: str = ""
    port: int = 0
    group_address: str = ""
    ttl: int = 1
    ipv6: bool = False
    path_mtu_bytes: int = 0
    receive_buffer_bytes: int = 8 << 20
    send_buffer_bytes: int = 1 << 20
    bandwidth_bytes_s: int = 0
    # A thread that waits where the next message is expected soon, or at a regular time, stays awake
    # for so long, unless somebody else wants its processor; 0: never. See docs/design/live.md.
    spin_us: int = 200

    # What is promised; see docs/design/member.md.
    reliability: str = "group"
    order: str = "fifo"
    purging: bool = True
    # How far back a message may replace others, in messages of its sender: best some times the
    # number of keys in use.
    k: int = 256
    # Crashes that "group" survives; never more than all members but one.
    f: int = 1
    deliver_own: bool = True
    delivery_messages: int = 32_768
    delivery_bytes: int = 64 << 20
    window_messages: int = 32_768
    window_bytes: int = 64 << 20
    message_bytes_max: int = 1 << 20
    gossip_period_ms: float = 30.0
    gossip_fanout: int = 3
    # 0: whenever an eighth of a window has come.
    gossip_messages: int = 0
    # How the group learns what it may forget, the same at all members: "gossip", "coordp",
    # "fulldist", "train", "s_coordp" or "s_train"; see docs/design/stability.md.
    stability: str = "gossip"
    stability_branching: int = 4
    # The tree of the last two: "filled", "measured", or on whom each member but one hangs; and the
    # ring of "train", all names; (): as the tree gives it.
    stability_tree: str | Mapping[str, str] | tuple[tuple[str, str], ...] = "filled"
    stability_ring: tuple[str, ...] = ()
    # 0: rounds begin when enough messages wait, or something has for a gossip period.
    stability_period_ms: float = 0.0
    stability_delta: bool = False
    stability_ride_ms: float = 0.0
    safety_rest_messages: int = 0
    nak_delay_ms: float = 2.0

    # Slow members: when they are reported, and after how long of standing in the way they are
    # put out of the group; 0 for never, which is the default: everybody waits.
    slow_after_ms: float = 1000.0
    evict_after_s: float = 0.0

    # A folder to write this member's journal to, and the run that it is part of; without a name,
    # the group's and when it began. A port for Prometheus (0: none).
    record: str = ""
    record_run: str = ""
    metrics_port: int = 0
    metrics_host: str = "127.0.0.1"

    def __post_init__(self) -> None:
        """Check what no other part checks; raises ConfigError."""
        group_id(self.group)
        check_name(self.name)
        object.__setattr__(self, "members", tuple(self.members))
        object.__setattr__(self, "peers", tuple(self.peers))
        object.__setattr__(self, "stability_tree", self._tree())
        object.__setattr__(self, "stability_ring", tuple(self.stability_ring))
        self._check_members()
        check_tree(self._tree(), self.stability_ring, self.members, self.group_size)
        if self.transport not in ("auto", "multicast", "unicast"):
            raise ConfigError(
                f"transport {self.transport!r}; choose 'auto', 'multicast' or 'unicast'"
            )
        if self.suite not in SUITES:
            raise ConfigError(f"suite {self.suite!r}; choose one of {', '.join(SUITES)}")
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{one.name} is {value}; it must be a number")
        for setting, low in _AT_LEAST.items():
            value = getattr(self, setting)
            if not value >= low:
                raise ConfigError(f"{setting} is {value}; it must be at least {low}")
        if self.metrics_port > 65_535:
            raise ConfigError(f"metrics_port is {self.metrics_port}; a port goes up to 65535")
        if self.spin_us > SPIN_US_MAX:
            raise ConfigError(f"spin_us is {self.spin_us}; it must be at most {SPIN_US_MAX}")
        self.keys()
        self.member_config(2, 1400)

    def _check_members(self) -> None:
        if not self.members and self.size == 0:
            raise ConfigError(
                "who is in the group? Give members (the names of all) or size (how many to wait "
                "for)"
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
        if self.group_size > MEMBERS_MAX:
            raise ConfigError(f"{self.group_size} members; the most is {MEMBERS_MAX}")

    def _tree(self) -> Tree:
        tree = as_tree(self.stability_tree)
        if tree is None:
            raise ConfigError(
                f"stability_tree is {self.stability_tree!r}; it must be 'filled', 'measured', or "
                "say for each member but one on whom it hangs"
            )
        return tree

    @property
    def group_size(self) -> int:
        """How many members the group has."""
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
        return MemberConfig(
            reliability=self.reliability,
            order=self.order,
            purging=self.purging,
            k=self.k,
            f=min(self.f, max(members - 1, 0)),
            deliver_own=self.deliver_own,
            delivery_messages=self.delivery_messages,
            delivery_bytes=self.delivery_bytes,
            window_messages=self.window_messages,
            window_bytes=min(
                self.window_bytes, max(flight_bytes_max, self.message_bytes_max + 255)
            ),
            gossip_period_ns=round(self.gossip_period_ms * MS),
            gossip_fanout=self.gossip_fanout,
            gossip_messages=self.gossip_messages
            or max(1, self.window_messages // _GOSSIPS_PER_WINDOW),
            gossip_stretch=_GOSSIP_STRETCH,
            stability=self.stability,
            stability_branching=self.stability_branching,
            stability_tree=numbered_tree(self._tree(), order or self.members),
            stability_ring=numbered_ring(self.stability_ring, order or self.members),
            stability_period_ns=round(self.stability_period_ms * MS),
            stability_delta=self.stability_delta,
            stability_ride_ns=round(self.stability_ride_ms * MS),
            safety_rest_messages=self.safety_rest_messages,
            nak_delay_ns=round(self.nak_delay_ms * MS),
            bandwidth_bytes_s=self.bandwidth_bytes_s,
            limits=Limits(path_mtu_bytes, self.message_bytes_max),
        )

    @classmethod
    def load(cls, path: str | Path, **overrides: Unpack[Overrides]) -> "GroupConfig":
        """From a TOML file whose keys are the settings; what is given here goes first."""
        try:
            found = tomllib.loads(Path(path).read_text())
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"{path} is not TOML: {error}") from None
        return configure(found | dict(overrides), str(path))


_AT_LEAST: Final = {
    "size": 0,
    "join_timeout_s": 0,
    "port": 0,
    "ttl": 0,
    "path_mtu_bytes": 0,
    "slow_after_ms": 0,
    "evict_after_s": 0,
    "metrics_port": 0,
    "receive_buffer_bytes": 0,
    "send_buffer_bytes": 0,
    "spin_us": 0,
}


def check_name(name: str) -> None:
    """Raises unless `name` can be the name of a member."""
    if not 1 <= len(name.encode(errors="replace")) <= NAME_BYTES_MAX or not name.isprintable():
        raise ConfigError(
            f"member name {name[:NAME_BYTES_MAX]!r}; it needs 1 to {NAME_BYTES_MAX} bytes of "
            "printable text"
        )


def configure(settings: Mapping[str, Any], where: str = "the arguments") -> GroupConfig:
    """A configuration from names and values; values of the wrong type are an error, not a crash."""
    known = {one.name for one in fields(GroupConfig)}
    unknown = sorted(set(settings) - known)
    if unknown:
        close = difflib.get_close_matches(unknown[0], sorted(known), 1)
        hint = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(known))}"
        raise ConfigError(f"{where}: unknown setting {unknown[0]!r}; {hint}")
    if "group" not in settings:
        raise ConfigError(f"{where}: no group; say the name of the group to join")
    checked = {name: _typed(name, value, where) for name, value in settings.items()}
    return GroupConfig(**checked)


def from_environment(
    settings: Mapping[str, Any], environment: Mapping[str, str] | None = None
) -> GroupConfig:
    """The settings, with what they leave open taken from SEMCAST_* variables.

    SEMCAST_CONFIG names a TOML file, which comes last. Lists are separated by commas; a tree of
    names is JSON.
    """
    environment = os.environ if environment is None else environment
    found: dict[str, Any] = {}
    path = environment.get(ENVIRONMENT_PREFIX + "CONFIG")
    if path:
        try:
            found |= tomllib.loads(Path(path).read_text())
        except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InputError(f"SEMCAST_CONFIG={path} cannot be read: {error}") from None
        if "secret" in found:
            warn_if_others_read(Path(path))
    for one in fields(GroupConfig):
        text = environment.get(ENVIRONMENT_PREFIX + one.name.upper())
        if text is not None:
            found[one.name] = _parsed(one.name, text)
    return configure(found | dict(settings), "the arguments and SEMCAST_* variables")


def changed(config: GroupConfig, **settings: Unpack[Overrides]) -> GroupConfig:
    """The same but for these settings."""
    return configure({one.name: getattr(config, one.name) for one in fields(config)} | settings)


_TYPES: Final = typing.get_type_hints(GroupConfig)


def _typed(name: str, value: Any, where: str) -> Any:
    wanted = _TYPES[name]
    if wanted == tuple[str, ...]:
        if isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value):
            return tuple(value)
    elif wanted is float:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
    elif name == "stability_tree":
        return value  # checked where it is understood
    elif isinstance(wanted, types.UnionType):
        if isinstance(value, typing.get_args(wanted)):
            return value
    elif isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
        return value
    if name == "secret":
        value = f"a {type(value).__name__}"
    shown = "a list of names" if wanted == tuple[str, ...] else getattr(wanted, "__name__", wanted)
    raise ConfigError(f"{where}: {name} is {value!r}; it must be {shown}")


def _parsed(name: str, text: str) -> Any:
    wanted = _TYPES[name]
    try:
        if wanted == tuple[str, ...]:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if name == "stability_tree" and text.startswith("{"):
            return json.loads(text)
        if wanted is bool:
            return {"1": True, "true": True, "0": False, "false": False}[text.lower()]
        if wanted in (int, float):
            return wanted(text)
    except (KeyError, ValueError):
        shown = getattr(wanted, "__name__", "a word or JSON")
        raise ConfigError(
            f"{ENVIRONMENT_PREFIX}{name.upper()} is {text!r}; it must be {shown}"
        ) from None
    return text
