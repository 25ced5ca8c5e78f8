"""The roster: who is in the group, where they are, and when all of them agree on it.

Hellos of others go in, with the address they came from; this member's own hello comes out. All that
go in are believed: whether they are fresh, and of lives that are there now, is the door's to find
out. When every member has been heard of and all name the same members, the group is complete.
Membership is static here: names from a list, or the first `size` that find each other. Hellos say
three more things: who left, who was put out, and how the sender is doing. Knows nothing of sockets
or time but what it is told.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeGuard

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import ID_MAX
from semcast.live.config import NAME_BYTES_MAX
from semcast.live.sockets.address import Address
from semcast.protocol.membership.view import View
from semcast.settings.table import GROUP_SIZE_MAX

_LABEL: Final = b"semcast member\0"
# A datagram on most networks has room for a hello of this size.
HELLO_BYTES_MAX: Final = 1280
_NAMES_MAX: Final = 64
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
        # Whether this member has not yet said what others may wait for: who is there, in which
        # life, who is gone, which members it names.
        self.news = False
        # Members that came when the group was full.
        self.strangers: Final[dict[int, str]] = {}
        # By who says so: the members of a group that was made up without this one. For people only:
        # whoever replays an old hello can make this say anything.
        self.elsewhere: Final[dict[str, tuple[str, ...]]] = {}
        self._rows_said = 0
        self._choose()

    # -- out ---------------------------------------------------------------------------------------

    def hello(self, status: Mapping[str, float], bytes_max: int = HELLO_BYTES_MAX) -> bytes:
        """What this member says to the others now and then, as much as fits a datagram.

        What does not fit gets its turn in the next hello.
        """
        self.news = False
        said: dict[str, Any] = {
            "kind": "hello", "name": self.name, "roster": self.digest,
            "members": [self.name_of(one) for one in self.members],
            "peers": [], "left": [], "evicted": [], "status": dict(status),
        }  # fmt: skip
        rows = self._rows()
        for part, row in rows:
            said[part].append(row)
        hello = _json(said)
        return hello if len(hello) <= bytes_max // 2 else self._shortened(said, rows, bytes_max)

    def _shortened(
        self, said: dict[str, Any], rows: list[tuple[str, list[Any]]], bytes_max: int
    ) -> bytes:
        """As many of these rows as fit."""
        said |= {"peers": [], "left": [], "evicted": []}
        if len(_json(said)) > bytes_max // 2:
            # The names do not fit, so latecomers to so large a group need a list of them.
            said["members"] = []
        room = bytes_max - len(_json(said))
        # The rows that do not fit this time come first the next time.
        start = self._rows_said % len(rows) if rows else 0
        for part, row in rows[start:] + rows[:start]:
            room -= len(_json(row)) + 1
            if room < 0:
                break
            said[part].append(row)
            self._rows_said += 1
        return _json(said)

    def _rows(self) -> list[tuple[str, list[Any]]]:
        """Everything that a hello says of others."""
        known = sorted(self.peers.values(), key=lambda peer: peer.id)
        rows: list[tuple[str, list[Any]]] = []
        rows += [("left", [*one]) for one in sorted(self.left.items())]
        rows += [("evicted", [*one]) for one in sorted(self.evicted.items())]
        for one in known:
            rows.append(("peers", [one.name, one.incarnation, one.first_incarnation, *one.address]))
        return rows

    @property
    def was_here(self) -> bool:
        """Whether others know a former life of this member, so that it joins a running group."""
        return self.former_incarnation >= 0

    @property
    def digest(self) -> str:
        """Which members this one names; empty while it has not found enough."""
        return _digest(self.members) if self.members else ""

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

    def view(self, f: int) -> View:
        """The members as they are known now, each in its present life."""
        lives = {peer.id: peer.incarnation for peer in self.peers.values()}
        lives[self.me] = self.incarnation
        known = tuple(lives.get(one, self.left.get(one, 0)) for one in self.members)
        return View(1, self.members, known, f, tuple(self.name_of(one) for one in self.members))

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
    ) -> list[tuple[int, int, Address]]:
        """A hello of another member. Returns whom it names that is new here: id, life and place."""
        name, digest, members, peers, left, evicted, status = _checked(said, sender)
        assert sender != self.me
        self._note_elsewhere(name, tuple(members))
        if self.members and sender not in self.members:
            if len(self.strangers) < GROUP_SIZE_MAX:
                self.strangers[sender] = name
            return []
        peer = self.peers.get(sender)
        if peer is not None and incarnation < peer.incarnation:
            return []
        if peer is None and len(self.peers) >= GROUP_SIZE_MAX:
            return []
        knows_me = -1 if peer is None else peer.knows_me
        for other, life, _, _ in peers:
            if member_id(other) == self.me:
                knows_me = life
        first = incarnation if peer is None else peer.first_incarnation
        if peer is None or incarnation > peer.incarnation:
            self.news = True
        self.peers[sender] = Peer(
            sender, name, incarnation, address, now_ns, first, digest, knows_me, status
        )
        for member, life in left:
            self._mark(self.left, member, life)
        for member, life in evicted:
            self._mark(self.evicted, member, life)
        if not self.members and len(members) == self._size and self.name in members:
            # The group is complete already and has this member in it, so this one comes back.
            self._names.update({member_id(one): one for one in members})
            self.members = tuple(sorted(member_id(one) for one in members))
        self._choose()
        return self._learn(peers)

    def _note_elsewhere(self, speaker: str, members: tuple[str, ...]) -> None:
        if not members or self.name in members:
            self.elsewhere.pop(speaker, None)
        elif len(self.elsewhere) < GROUP_SIZE_MAX:
            self.elsewhere[speaker] = members

    def moved(self, sender: int, incarnation: int, address: Address) -> None:
        """A life of a member has proved to be at this address."""
        peer = self.peers.get(sender)
        if peer is not None and peer.incarnation == incarnation:
            peer.address = address

    def _learn(self, peers: list[tuple[str, int, int, Address]]) -> list[tuple[int, int, Address]]:
        new = []
        for name, incarnation, first, address in peers:
            member = member_id(name)
            if member == self.me:
                for life in (incarnation, first):
                    if life != self.incarnation:
                        self.former_incarnation = max(self.former_incarnation, life)
            elif member not in self.peers and (not self.members or member in self.members):
                new.append((member, incarnation, address))
        return new

    def _mark(self, gone: dict[int, int], member: int, life: int) -> None:
        if life > gone.get(member, -1) and (len(gone) < GROUP_SIZE_MAX or member in gone):
            gone[member] = life
            self.news = True

    def _choose(self) -> None:
        """As soon as enough members are known, they are the group."""
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
    list[tuple[str, int, int, Address]],
    list[tuple[int, int]],
    list[tuple[int, int]],
    dict[str, float],
]:
    """The parts of a hello, or RemoteProtocolError; the bytes may come from anybody with a key."""
    try:
        name, digest, status = said["name"], said["roster"], said["status"]
        members = list(said["members"])
        peers = [(n, i, first, (host, port)) for n, i, first, host, port in said["peers"]]
        left = [(member, life) for member, life in said["left"]]
        evicted = [(member, life) for member, life in said["evicted"]]
        fine = (
            _is_name(name)
            and isinstance(digest, str)
            and len(digest) <= 16
            and isinstance(status, dict)
            and len(status) <= _STATUS_KEYS_MAX
            and all(_is_number(value) for value in status.values())
            and len(members) <= _NAMES_MAX
            and len({member_id(one) for one in members if _is_name(one)}) == len(members)
            and all(_is_peer(*peer) for peer in peers)
            and all(is_life(a) and is_life(b) for a, b in [*left, *evicted])
        )
    except (KeyError, TypeError, ValueError) as error:
        raise RemoteProtocolError(f"hello that makes no sense: {error!r}") from None
    if not fine:
        raise RemoteProtocolError("hello with values out of range")
    if member_id(name) != sender:
        raise RemoteProtocolError(f"hello of {sender:x} says it is {name!r}, which has another id")
    return name, digest, members, peers, left, evicted, status


@lru_cache(maxsize=16)
def _digest(members: tuple[int, ...]) -> str:
    return hashlib.sha256(repr(members).encode()).hexdigest()[:16]


_ENCODER: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def _json(value: object) -> bytes:
    return _ENCODER.encode(value).encode(errors="replace")


def _is_name(value: object) -> bool:
    return (
        isinstance(value, str)
        and 0 < len(value.encode(errors="replace")) <= NAME_BYTES_MAX
        and value.isprintable()
    )


def _is_number(value: object) -> bool:
    # Comparing is safe for integers of any size, and false for what is not a number.
    return isinstance(value, (int, float)) and 0 <= value <= _STATUS_MAX


def _is_peer(name: object, life: object, first: object, address: tuple[object, object]) -> bool:
    host, port = address
    return (
        _is_name(name)
        and is_life(life)
        and is_life(first)
        and isinstance(host, str)
        and _HOST.fullmatch(host) is not None
        and isinstance(port, int)
        and 0 < port <= 65_535
    )


def is_life(value: object) -> TypeGuard[int]:
    """Whether this may be the number of a life, or of a member."""
    # The largest is left free: whoever hears of a former life takes a larger number.
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < ID_MAX
