"""The roster: who is in the group, where they are, and when all of them agree on it.

Hellos of others go in, with the address they came from; this member's own hello comes out. When
every member has been heard of and all name the same members, the group is complete. Membership is
static here: names from a list, or the first `size` that find each other. Hellos say three more
things: who left, who was put out, and how the teller is doing. Knows nothing of sockets or time
but what it is told.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import ID_MAX
from semcast.live.address import Address
from semcast.live.config import MEMBERS_MAX, NAME_BYTES_MAX

_LABEL: Final = b"semcast member\0"
# Peers named in one hello: what a datagram has room for. Others get their turn in the next.
_TOLD_MAX: Final = 12
_HOST_CHARACTERS_MAX: Final = 64
_STATUS_KEYS_MAX: Final = 32


def member_id(name: str) -> int:
    """The 62-bit id of the member with this name, the same everywhere and for ever."""
    return (
        int.from_bytes(
            hashlib.sha256(_LABEL + name.encode(errors="replace")).digest()[:8], "little"
        )
        & ID_MAX
    )


@dataclass
class Peer:
    """Another member, as far as it is known."""

    id: int
    name: str
    incarnation: int
    address: Address
    heard_ns: int
    # What it said last: the members it names, the life of this member it knows, how it is doing.
    roster: str = ""
    knows_me: int = -1
    status: Mapping[str, float] = field(default_factory=dict)
    # The life before this one, if there was one that is known here.
    former: int = -1


class Roster:
    """Finds out who is in the group."""

    def __init__(self, name: str, incarnation: int, members: tuple[str, ...], size: int) -> None:
        """With `members`, their names; else the first `size` members that meet."""
        self.name: Final = name
        self.me: Final = member_id(name)
        self.incarnation = incarnation
        # INV-ROSTER: once these are set they never change: others may have agreed to them.
        self.members: tuple[int, ...] = tuple(sorted(member_id(one) for one in members))
        self._names: Final = {member_id(one): one for one in members} | {self.me: name}
        if len(set(self.members)) != len(members):
            raise ConfigError("two members' names have the same id; rename one of them")
        self._size: Final = size
        self.peers: Final[dict[int, Peer]] = {}
        # Who left or was put out, by id, with the incarnation that did.
        self.left: Final[dict[int, int]] = {}
        self.evicted: Final[dict[int, int]] = {}
        # A life of this member before this one that others know of.
        self.former_incarnation = -1
        # Members that came when the group was full.
        self.strangers: Final[dict[int, str]] = {}
        self._told = 0
        self._choose()

    # -- out ---------------------------------------------------------------------------------------

    def hello(self, status: Mapping[str, float]) -> bytes:
        """What this member tells the others now and then."""
        known = sorted(self.peers.values(), key=lambda peer: peer.id)
        if len(known) > _TOLD_MAX:
            start = self._told % len(known)
            self._told += _TOLD_MAX
            known = (known + known)[start : start + _TOLD_MAX]
        said = {
            "kind": "hello",
            "name": self.name,
            "roster": self.digest,
            "members": self._told_members(),
            "peers": [[p.name, p.incarnation, p.address[0], p.address[1]] for p in known],
            # In the same hello as the life that follows: who comes back must know that it does.
            "former": [[p.id, p.former] for p in known if p.former >= 0],
            "left": list(self.left.items())[:_TOLD_MAX],
            "evicted": list(self.evicted.items())[:_TOLD_MAX],
            "status": dict(status),
        }
        return json.dumps(said, separators=(",", ":")).encode()

    def _told_members(self) -> list[str]:
        """The names of all members, for those who come late; a large group says it by a list."""
        return [self.name_of(one) for one in self.members] if len(self.members) <= _TOLD_MAX else []

    @property
    def digest(self) -> str:
        """Which members this one names; empty while it has not found enough."""
        if not self.members:
            return ""
        return hashlib.sha256(repr(self.members).encode()).hexdigest()[:16]

    @property
    def complete(self) -> bool:
        """Whether all members know each other and name the same members."""
        return bool(self.members) and all(self._agrees(one) for one in self.members)

    def _agrees(self, member: int) -> bool:
        if member == self.me or self.gone(member):
            return True
        peer = self.peers.get(member)
        return peer is not None and peer.roster == self.digest and peer.knows_me == self.incarnation

    def missing(self) -> str:
        """Who or what is not there yet, for people."""
        if not self.members:
            return f"{len(self.peers) + 1} of {self._size} members found"
        absent = [self.name_of(one) for one in self.members if one not in (*self.peers, self.me)]
        if absent:
            return f"not heard of: {', '.join(absent)}"
        others = [
            peer.name
            for peer in self.peers.values()
            if peer.id in self.members and not self._agrees(peer.id)
        ]
        return f"waiting for {', '.join(others)} to agree on who is in the group"

    def name_of(self, member: int) -> str:
        """What people call a member."""
        if member in self.peers:
            return self.peers[member].name
        return self._names.get(member, f"{member:x}")

    def address_of(self, member: int) -> Address | None:
        """Where a member is, if that is known."""
        peer = self.peers.get(member)
        return None if peer is None else peer.address

    def addresses(self) -> list[Address]:
        """Where everybody else is who is in the group, or may come to be."""
        return [
            peer.address
            for peer in sorted(self.peers.values(), key=lambda peer: peer.id)
            if not self.gone(peer.id) and (not self.members or peer.id in self.members)
        ]

    def gone(self, member: int) -> bool:
        """Whether a member left or was put out, and did not come back."""
        peer = self.peers.get(member)
        last = max(self.left.get(member, -1), self.evicted.get(member, -1))
        return last >= 0 and (peer is None or peer.incarnation <= last)

    # -- in ----------------------------------------------------------------------------------------

    def on_hello(
        self, said: Mapping[str, Any], sender: int, incarnation: int, address: Address, now_ns: int
    ) -> list[Address]:
        """A hello of another member. Returns addresses that it names and that are new here."""
        name, digest, members, peers, left, evicted, status = _checked(said, sender)
        if sender == self.me:
            # A former life of this member, or another process of the same name.
            self.former_incarnation = max(self.former_incarnation, incarnation)
            return []
        if self.members and sender not in self.members:
            if len(self.strangers) < MEMBERS_MAX:
                self.strangers[sender] = name
            return []
        peer = self.peers.get(sender)
        if peer is not None and incarnation < peer.incarnation:
            return []
        if peer is None and len(self.peers) >= MEMBERS_MAX:
            return []
        self._learn_former(said)
        former = _life_before(peer, incarnation)
        knows_me = -1 if peer is None else peer.knows_me
        for other, life, _ in peers:
            if member_id(other) == self.me:
                knows_me = life
        self.peers[sender] = Peer(
            sender, name, incarnation, address, now_ns, digest, knows_me, status, former
        )
        for member, life in left:
            self._mark(self.left, member, life)
        for member, life in evicted:
            self._mark(self.evicted, member, life)
        if not self.members and len(members) == self._size and self.name in members:
            # A group that is complete already, and this member is one of it: it comes back.
            self._names.update({member_id(one): one for one in members})
            self.members = tuple(sorted(member_id(one) for one in members))
        self._choose()
        return self._learn(peers)

    def _learn_former(self, said: Mapping[str, Any]) -> None:
        for member, life in _former(said):
            if member == self.me and life != self.incarnation:
                self.former_incarnation = max(self.former_incarnation, life)

    def _learn(self, peers: list[tuple[str, int, Address]]) -> list[Address]:
        new = []
        for name, incarnation, address in peers:
            member = member_id(name)
            if member == self.me:
                if incarnation != self.incarnation:
                    self.former_incarnation = max(self.former_incarnation, incarnation)
            elif member not in self.peers and (not self.members or member in self.members):
                new.append(address)
        return new

    def _mark(self, gone: dict[int, int], member: int, life: int) -> None:
        if len(gone) < MEMBERS_MAX or member in gone:
            gone[member] = max(gone.get(member, -1), life)

    def _choose(self) -> None:
        """With as many known as wanted, these are the group."""
        if not self.members and len(self.peers) + 1 >= self._size:
            # Those whose members are chosen already come first: they cannot change their minds.
            known = sorted(self.peers.values(), key=lambda peer: (peer.roster == "", peer.id))
            chosen = [peer.id for peer in known[: self._size - 1]]
            self.members = tuple(sorted([*chosen, self.me]))
            self._names.update({peer.id: peer.name for peer in known})


def _checked(
    said: Mapping[str, Any], sender: int
) -> tuple[
    str,
    str,
    list[str],
    list[tuple[str, int, Address]],
    list[tuple[int, int]],
    list[tuple[int, int]],
    dict[str, float],
]:
    """The parts of a hello, or RemoteProtocolError; the bytes may come from anybody with a key."""
    try:
        name, digest, status = said["name"], said["roster"], said["status"]
        members = list(said["members"])
        peers = [(n, i, (host, port)) for n, i, host, port in said["peers"]]
        left = [(member, life) for member, life in said["left"]]
        evicted = [(member, life) for member, life in said["evicted"]]
        fine = (
            _is_name(name)
            and isinstance(digest, str)
            and len(digest) <= 16
            and isinstance(status, dict)
            and len(status) <= _STATUS_KEYS_MAX
            and all(isinstance(value, (int, float)) for value in status.values())
            and len(members) <= _TOLD_MAX
            and len({member_id(one) for one in members if _is_name(one)}) == len(members)
            and all(_is_peer(*peer) for peer in peers)
            and all(_is_id(a) and _is_id(b) for a, b in [*left, *evicted])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"hello that makes no sense: {error!r}") from None
    if not fine:
        raise RemoteProtocolError("hello with values out of range")
    if member_id(name) != sender:
        raise RemoteProtocolError(f"hello of {sender:x} says it is {name!r}, which has another id")
    return name, digest, members, peers, left, evicted, status


def _life_before(peer: Peer | None, incarnation: int) -> int:
    if peer is None:
        return -1
    return peer.incarnation if incarnation > peer.incarnation else peer.former


def _former(said: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The lives before those that a hello names, by member."""
    try:
        found = [(member, life) for member, life in said.get("former", ())]
    except (TypeError, ValueError):
        found = [(-1, -1)]
    if not all(_is_id(member) and _is_id(life) for member, life in found):
        raise RemoteProtocolError("hello with former lives that make no sense")
    return found


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value.encode(errors="replace")) <= NAME_BYTES_MAX


def _is_peer(name: object, incarnation: object, address: tuple[object, object]) -> bool:
    host, port = address
    return (
        _is_name(name)
        and _is_id(incarnation)
        and isinstance(host, str)
        and len(host) <= _HOST_CHARACTERS_MAX
        and isinstance(port, int)
        and 0 < port <= 65_535
    )


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= ID_MAX
