"""The roster: who is in the group and where they are, as far as this process knows.

Hellos of others go in, with the address they came from; this member's own hello comes out. All that
go in are believed: whether they are fresh, and of lives that are there now, is the door's to find
out. There are two kinds: `closed_roster` for groups whose members are counted beforehand, and
`open_roster` for groups that anybody with the secret may join. Knows nothing of sockets or time but
what it is told.
"""

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from semcast.ids import ID_MAX, Source
from semcast.live.config import NAME_BYTES_MAX
from semcast.live.sockets.address import Address

_LABEL: Final = b"semcast member\0"
# A datagram on most networks has room for a hello of this size.
HELLO_BYTES_MAX: Final = 1280
_STATUS_KEYS_MAX: Final = 32
_STATUS_MAX: Final = 1e19
# An address in numbers, with the interface that IPv6 may need.
_HOST: Final = re.compile(r"[0-9a-fA-F:.]{2,45}(%[A-Za-z][A-Za-z0-9_.-]{0,14})?")


def member_id(name: str) -> int:
    """The 62-bit id of the member with this name, the same everywhere and for ever."""
    digest = hashlib.sha256(_LABEL + name.encode(errors="replace")).digest()
    return int.from_bytes(digest[:8], "little") & ID_MAX


@dataclass
class Peer:
    """Another member, as far as it is known."""

    id: int
    name: str
    incarnation: int
    address: Address
    heard_ns: int
    # The first life of it that was heard of: with it the group is older than its present life.
    first_incarnation: int
    # What it said last: the members it names, the life of this member it knows, how it is doing.
    roster: str = ""
    knows_me: int = -1
    status: Mapping[str, float] = field(default_factory=dict)
    # Whether it only receives.
    reads: bool = False
    # A digest of all lives that it knows.
    known: str = ""

    @property
    def source(self) -> Source:
        """The life that is known of it."""
        return Source(self.id, self.incarnation)


class Roster(ABC):
    """Who is there, of one group."""

    def __init__(self, name: str, incarnation: int, members: tuple[int, ...]) -> None:
        self.name: Final = name
        self.me: Final = member_id(name)
        self.incarnation = incarnation
        self.members = members
        self._names: Final = {self.me: name}
        self.peers: Final[dict[int, Peer]] = {}
        # Who left or was put out, by id, with the incarnation that did.
        self.left: Final[dict[int, int]] = {}
        self.evicted: Final[dict[int, int]] = {}
        # A life of this member before this one that others know of.
        self.former_incarnation = -1
        # Whether this member has not yet said what others may wait for.
        self.news = False
        # Members that came when the group was full.
        self.strangers: Final[dict[int, str]] = {}
        # By who says so: the members of a group that was made up without this one. For people only:
        # whoever replays an old hello can make this say anything.
        self.elsewhere: Final[dict[str, tuple[str, ...]]] = {}

    @abstractmethod
    def hello(self, status: Mapping[str, float], bytes_max: int = HELLO_BYTES_MAX) -> bytes:
        """What this member says to the others now and then, as much as fits a datagram."""

    @abstractmethod
    def on_hello(
        self, said: Mapping[str, Any], sender: int, incarnation: int, address: Address, now_ns: int
    ) -> list[tuple[int, int, Address]]:
        """A hello of another member. Returns whom it names that is new here: id, life and place."""

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether all that this member waits for are there, so that it can begin."""

    @abstractmethod
    def missing(self) -> str:
        """Who or what is not there yet, for people."""

    @abstractmethod
    def addresses(self) -> list[Address]:
        """Where everybody else is who is in the group, or may come to be."""

    @property
    def digest(self) -> str:
        """Which members this one names; empty while it names none."""
        return ""

    @property
    def was_here(self) -> bool:
        """Whether others know a former life of this member, so that it joins a running group."""
        return self.former_incarnation >= 0

    def name_of(self, member: int) -> str:
        """What people call a member."""
        if member in self.peers and self.peers[member].name:
            return self.peers[member].name
        return self._names.get(member, f"{member:x}")

    def address_of(self, member: int) -> Address | None:
        """Where a member is, if that is known."""
        peer = self.peers.get(member)
        return None if peer is None else peer.address

    def gone(self, member: int) -> bool:
        """Whether a member left or was put out, and did not come back."""
        peer = self.peers.get(member)
        last = max(self.left.get(member, -1), self.evicted.get(member, -1))
        return last >= 0 and (peer is None or peer.incarnation <= last)

    def moved(self, sender: int, incarnation: int, address: Address) -> None:
        """A life of a member has proved to be at this address."""
        peer = self.peers.get(sender)
        if peer is not None and peer.incarnation == incarnation:
            peer.address = address


def purge_ratio(peer: Peer) -> float:
    """The share of what came to a member that was replaced before its application took it."""
    said = peer.status
    purged = said.get("purged", 0)
    came = purged + said.get("delivered", 0) + said.get("held", 0) + said.get("early", 0)
    return purged / came if came > 0 else 0.0


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def as_json(value: object) -> bytes:
    """As it stands in a note."""
    return _ENCODER.encode(value).encode(errors="replace")


def is_name(value: object) -> TypeGuard[str]:
    """Whether this may be the name of a member."""
    return (
        isinstance(value, str)
        and 0 < len(value.encode(errors="replace")) <= NAME_BYTES_MAX
        and value.isprintable()
    )


def is_status(value: object) -> TypeGuard[dict[str, float]]:
    """Whether this may be how a member says that it is doing."""
    return (
        isinstance(value, dict)
        and len(value) <= _STATUS_KEYS_MAX
        and all(_is_number(one) for one in value.values())
    )


def _is_number(value: object) -> bool:
    # Comparing is safe for integers of any size, and false for what is not a number.
    return isinstance(value, (int, float)) and 0 <= value <= _STATUS_MAX


def is_address(host: object, port: object) -> bool:
    """Whether this may be where somebody is."""
    return (
        isinstance(host, str)
        and _HOST.fullmatch(host) is not None
        and isinstance(port, int)
        and 0 < port <= 65_535
    )


def is_life(value: object) -> TypeGuard[int]:
    """Whether this may be the number of a life, or of a member."""
    # The largest is left free: whoever hears of a former life takes a larger number.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < ID_MAX
