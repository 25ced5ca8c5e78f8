"""The closed roster: who is in a group whose members are counted beforehand, and when all agree.

When every member has been heard of and all name the same members, the group is complete. Members
are names from a list, or the first `size` that find each other. Hellos say three more things: who
left, who was put out, and how the sender is doing.
"""

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.live.meeting.roster import (
    HELLO_BYTES_MAX,
    Peer,
    Roster,
    as_json,
    is_address,
    is_life,
    is_name,
    is_status,
    member_id,
)
from semcast.live.sockets.address import Address
from semcast.protocol.membership.view import View
from semcast.settings.table import GROUP_SIZE_MAX

# As many as a group may have; a datagram has room for fewer of long names.
_NAMES_MAX: Final = GROUP_SIZE_MAX
# Hellos say the names of all members when there is news, and each so many times.
_NAMES_EACH: Final = 8


class ClosedRoster(Roster):
    """Finds out who is in the group."""

    def __init__(self, name: str, incarnation: int, members: tuple[str, ...], size: int) -> None:
        """With `members`, their names; else the first `size` members that meet."""
        # INV-ROSTER: once members are known they never change: others may have agreed to them.
        super().__init__(name, incarnation, tuple(sorted(member_id(one) for one in members)))
        self._names.update({member_id(one): one for one in members})
        if len(set(self.members)) != len(members):
            raise ConfigError("two members' names have the same id; rename one of them")
        self._size: Final = size
        # Who says that the group of this name is open.
        self.open_there = ""
        self.federation_there = False
        # How many rows that were said before are said again in each hello. Where all hear each
        # other, few will do: they only make up for hellos that were lost.
        self.rows_again = GROUP_SIZE_MAX
        self._rows_said = 0
        self._told: set[tuple[Any, ...]] = set()
        self._hellos = 0
        self._choose()

    # -- out ---------------------------------------------------------------------------------------

    def hello(self, status: Mapping[str, float], bytes_max: int = HELLO_BYTES_MAX) -> bytes:
        """What this member says to the others now and then, as much as fits a datagram: all that is
        new, and some of the rest. What is left out gets its turn in the next hello.
        """
        said: dict[str, Any] = {
            "kind": "hello", "name": self.name, "roster": self.digest, "known": self._known(),
            "members": [], "peers": [], "left": [], "evicted": [], "status": dict(status),
        }  # fmt: skip
        if self.news or self._hellos % _NAMES_EACH == 0:
            said["members"] = [self.name_of(one) for one in self.members]
        self.news = False
        self._hellos += 1
        rows = self._rows_now()
        for part, row in rows:
            said[part].append(row)
        hello = as_json(said)
        return hello if len(hello) <= bytes_max // 2 else self._shortened(said, rows, bytes_max)

    def _shortened(
        self, said: dict[str, Any], rows: list[tuple[str, list[Any]]], bytes_max: int
    ) -> bytes:
        """As many of these rows as fit."""
        said |= {"peers": [], "left": [], "evicted": []}
        if len(as_json(said)) > bytes_max // 2:
            # The names do not fit, so latecomers to so large a group need a list of them.
            said["members"] = []
        room = bytes_max - len(as_json(said))
        # The rows that do not fit this time come first the next time.
        start = self._rows_said % len(rows) if rows else 0
        for part, row in rows[start:] + rows[:start]:
            room -= len(as_json(row)) + 1
            if room < 0:
                break
            said[part].append(row)
            self._rows_said += 1
        return as_json(said)

    def _rows(self) -> list[tuple[str, list[Any]]]:
        """Everything that a hello says of others."""
        known = sorted(self.peers.values(), key=lambda peer: peer.id)
        rows: list[tuple[str, list[Any]]] = []
        rows += [("left", [*one]) for one in sorted(self.left.items())]
        rows += [("evicted", [*one]) for one in sorted(self.evicted.items())]
        for one in known:
            rows.append(("peers", [one.name, one.incarnation, one.first_incarnation, *one.address]))
        return rows

    def _rows_now(self) -> list[tuple[str, list[Any]]]:
        """The rows to say now: the new ones, and some that were said before."""
        rows = self._rows()
        new = [one for one in rows if (one[0], *one[1]) not in self._told]
        self._told = {(part, *row) for part, row in rows}
        old = [one for one in rows if one not in new]
        if len(old) > self.rows_again:
            start = self._rows_said % len(old)
            self._rows_said += self.rows_again
            old = (old[start:] + old[:start])[: self.rows_again]
        return new + old

    def _known(self) -> str:
        """A digest of the members that are there, in the lives that this one knows of. If another
        has the same, it knows this member too.
        """
        lives = [(one, self._life(one)) for one in self.members if not self.gone(one)]
        return _digest(tuple(lives)) if lives else ""

    def _life(self, member: int) -> int:
        if member == self.me:
            return self.incarnation
        peer = self.peers.get(member)
        return -1 if peer is None else peer.incarnation

    @property
    def digest(self) -> str:
        return _digest(self.members) if self.members else ""

    @property
    def complete(self) -> bool:
        """Whether all members know each other and name the same members."""
        known = self._known()
        return bool(self.members) and all(self._agrees(one, known) for one in self.members)

    def _agrees(self, member: int, known: str) -> bool:
        if member == self.me or self.gone(member):
            return True
        peer = self.peers.get(member)
        if peer is None or peer.roster != self.digest:
            return False
        return peer.knows_me == self.incarnation or peer.known == known

    def missing(self) -> str:
        """Who or what is not there yet, for people."""
        if not self.members:
            return f"{len(self.peers) + 1} of {self._size} members found"
        absent = [self.name_of(one) for one in self.members if one not in (*self.peers, self.me)]
        if absent:
            return f"not heard of: {', '.join(absent)}"
        known = self._known()
        others = [
            peer.name
            for peer in self.peers.values()
            if peer.id in self.members and not self._agrees(peer.id, known)
        ]
        return f"waiting for {', '.join(others)} to agree on who is in the group"

    def view(self, f: int) -> View:
        """The members as they are known now, each in its present life."""
        lives = {peer.id: peer.incarnation for peer in self.peers.values()}
        lives[self.me] = self.incarnation
        known = tuple(lives.get(one, self.left.get(one, 0)) for one in self.members)
        return View(1, self.members, known, f, tuple(self.name_of(one) for one in self.members))

    def addresses(self) -> list[Address]:
        """Where everybody else is who is in the group, or may come to be."""
        return [
            peer.address
            for peer in sorted(self.peers.values(), key=lambda peer: peer.id)
            if not self.gone(peer.id) and (not self.members or peer.id in self.members)
        ]

    # -- in ----------------------------------------------------------------------------------------

    def on_hello(
        self, said: Mapping[str, Any], sender: int, incarnation: int, address: Address, now_ns: int
    ) -> list[tuple[int, int, Address]]:
        """A hello of another member. Returns whom it names that is new here: id, life and place."""
        if said.get("open") is True and is_name(said.get("name")):
            self.open_there = said["name"]
            self.federation_there = said.get("federation") is True
            return []
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
        known = said.get("known")
        self.peers[sender].known = known if isinstance(known, str) else ""
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
        if not members:
            return  # it does not say them each time
        if self.name in members:
            self.elsewhere.pop(speaker, None)
        elif len(self.elsewhere) < GROUP_SIZE_MAX:
            self.elsewhere[speaker] = members

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
            is_name(name)
            and isinstance(digest, str)
            and len(digest) <= 16
            and is_status(status)
            and len(members) <= _NAMES_MAX
            and len({member_id(one) for one in members if is_name(one)}) == len(members)
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
def _digest(members: tuple[object, ...]) -> str:
    return hashlib.sha256(repr(members).encode()).hexdigest()[:16]


def _is_peer(name: object, life: object, first: object, address: tuple[object, object]) -> bool:
    return is_name(name) and is_life(life) and is_life(first) and is_address(*address)
