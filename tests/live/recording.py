"""Everything that a group ever says, recorded by somebody who has no key, and sorted by its kind.

The kinds are derived from the code: a note, a question or a frame that is new there and that no
recording has fails `test_replays.py`.
"""

import json
from dataclasses import dataclass
from typing import Any

from tests.live.fake_world import SECRET, World

from semcast.ids import Source
from semcast.live.meeting import asker, control
from semcast.live.meeting.asker import Answer, _Hearing
from semcast.live.meeting.control import Responder
from semcast.live.meeting.door import NOTHING
from semcast.live.meeting.roster import member_id
from semcast.live.sockets.address import Address
from semcast.testing import FakeMember
from semcast.wire.encode import FrameWriter
from semcast.wire.families import (
    agreement,
    epidemic,
    overlay,
    pasts,
    probes,
    pull,
    readers,
    state,
)
from semcast.wire.families.measures import Tree
from semcast.wire.frames import DATA, FRAME_HEAD_BYTES
from semcast.wire.keys import Keyring, Unsealed, group_id
from semcast.wire.note import decode_note, encode_note, is_note
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer
from semcast.wire.table import TABLE

NEW_SECRET = b"the second secret of these tests"
FRAME_NAMES = {DATA: "DATA"} | {kind: line.name for kind, line in TABLE.items()}
ROUNDS = {"stability": "s_train", "stability_tree": "measured", "stability_branching": 1}


@dataclass(frozen=True)
class Seen:
    """One datagram on the network."""

    source: Address
    to: Address | None
    datagram: bytes


# Frames that only open groups send, and those of state: `test_open_groups.py` replays these.
_OPEN_FAMILIES = (agreement.FAMILY, pasts.FAMILY, probes.FAMILY, readers.FAMILY)
ONLY_OPEN = {line.name for family in _OPEN_FAMILIES for line in family}
# Frames that only groups that gossip send: `test_gossip_groups.py` replays these.
_GOSSIP_FAMILIES = (epidemic.FAMILY, overlay.FAMILY, pull.FAMILY)
ONLY_GOSSIP = {line.name for family in _GOSSIP_FAMILIES for line in family}
OPEN_FRAMES = ONLY_OPEN | {line.name for line in state.FAMILY}


# What sites of a federation say to each other.
ONLY_FEDERATED = {"PIECE", "LINK", "OUT"}
ONLY_OTHERS = ONLY_OPEN | ONLY_GOSSIP | ONLY_FEDERATED


def frame_kinds() -> list[str]:
    """As the wire's own table has them."""
    return [name for name in FRAME_NAMES.values() if name not in ONLY_OTHERS]


def note_kinds() -> list[str]:
    """What members do something about, what askers do; and what a hello may say besides."""
    world = Watched(names="a")
    handled = world.join("a").session.handlers
    asked = [f"ask {what}" for what in (*control.INQUIRIES, *control.CHANGES)]
    said = ["goodbye", "left", "evicted", "peers"]
    return [*(kind for kind in handled if kind != "ask"), *asker.ANSWERING, *asked, *said]


KEYS = Keyring(SECRET)
KEYS.install(2, NEW_SECRET)


def kinds_of(datagram: bytes, keys: Keyring | Unsealed = KEYS) -> set[str]:
    """What is in a datagram."""
    opened = Opener(group_id("quotes"), keys).open(datagram)
    if is_note(opened.frames):
        said = json.loads(decode_note(opened.frames))
        if said["kind"] == "ask":
            return {f"ask {said['what']}"}
        more = {part for part in ("left", "evicted", "peers") if said.get(part)}
        if opened.header.source.sender in dict(said.get("left", [])):
            more.add("goodbye")
        return {said["kind"]} | more
    found, at = set(), 0
    while at < len(opened.frames):
        found.add(FRAME_NAMES[opened.frames[at]])
        size = int.from_bytes(opened.frames[at + 2 : at + 4], "little")
        at += FRAME_HEAD_BYTES + size
    return found


class Watched(World):
    """A world whose members answer questions, and in which somebody writes everything down."""

    def __init__(self, seed: int = 1, names: str = "abc", **network: Any) -> None:
        super().__init__(seed, names, **network)
        self.recorded: list[Seen] = []
        carry = self.network.carry

        def record(source: Address, to: Address | None, datagram: bytes) -> None:
            self.recorded.append(Seen(source, to, datagram))
            carry(source, to, datagram)

        self.network.carry = record  # type: ignore[method-assign]

    def join(self, name: str, **changed: Any) -> FakeMember:
        member = super().join(name, **changed)
        Responder(member.session, dict, list)
        return member

    def ask(
        self, member: FakeMember, what: str, keys: Keyring | Unsealed = KEYS, **more: object
    ) -> Answer:
        """As an asker does, in the time of this world."""
        transport = self.network.transport()
        me = Source(member_id(f"asker at {transport.address}"), 1)
        sealer = Sealer(group_id("quotes"), me, keys)
        opener = Opener(group_id("quotes"), keys)
        number = f"{transport.address[0]} {what}"

        def sealed(token: str, **more: object) -> bytes:
            said = {"kind": "ask", "what": what, "id": number, "token": token, **more}
            return sealer.seal(encode_note(json.dumps(said, separators=(",", ":")).encode()))

        hearing = _Hearing(number, lambda token: sealed(token, **more))
        transport.send(member.session.transport.address, [sealed(NOTHING)])
        for _ in range(100):
            self.network.run(seconds=0.01)
            for datagram, address in transport.receive():
                opened = opener.open(datagram)
                if not is_note(opened.frames):
                    continue  # members speak to each other meanwhile
                note, source = decode_note(opened.frames), opened.header.source
                heard = hearing.on_note(note, source)
                if isinstance(heard, Answer):
                    return heard
                if heard is not None:
                    transport.send(address, [heard])
        raise AssertionError(f"{member.session.config.name} never answered {what}")

    def replay(self, recorded: list[Seen], to: FakeMember) -> None:
        """All of it arrives there, from where it came; the member does what it does about it."""
        transport: Any = to.session.transport
        for seen in recorded:
            transport.arrive(seen.datagram, seen.source)
            to.turn()


def a_whole_life(**settings: Any) -> Watched:
    """A group of three that does everything that groups do, and ends."""
    world = Watched(loss=0.15)
    world.settings |= {"window_messages": 32, "f": 1} | settings
    a, b, c = world.gather()
    traffic(world, [a, b, c])
    tell_a_tree(a)
    # A member whose clock was set back.
    world.end(c, "crash")
    c = world.join("c", incarnation=world.network.now_ns - 10**10)
    assert world.network.run(lambda: c.complete)
    traffic(world, [a, b, c])
    # Its keys change, and change back.
    world.network.loss = 0.0
    for what in control.INQUIRIES:
        assert world.ask(a, what).ok
    for what, key_id in [("install", 2), ("use", 2), ("use", 1), ("remove", 2)]:
        for member in (a, b, c):
            secret: dict[str, Any] = {"secret": NEW_SECRET.hex()} if what == "install" else {}
            assert world.ask(member, what, key_id=key_id, **secret).ok
    # One is put out, and comes back; then all leave.
    a.session.evict(b.session.roster.me, world.network.now_ns)
    assert world.network.run(lambda: b.session.ended is not None)
    world.end(b, "leave")
    b = world.join("b")
    assert world.network.run(lambda: b.complete)
    traffic(world, [a, b, c])
    for member in (a, b, c):
        world.end(member, "leave")
        world.network.run(seconds=0.1)
    return world


def tell_a_tree(member: FakeMember) -> None:
    """Which members do only if it is much better than the one they have."""
    writer = FrameWriter(member.session.me, 1000)
    told = member.session.member
    assert told is not None
    assert writer.add(Tree(told.view.digest, 9, 0, bytes([0, 0, 0]), bytes([0, 1, 2])))
    member.session.transport.send_all([member.session._sealer.seal(writer.take())])


def traffic(world: World, members: list[FakeMember]) -> None:
    """Messages that are replaced and messages that are not, small ones and one in fragments."""
    for number in range(20):
        for member in members:
            member.send(b"%d" % number, replaces="x" if number % 2 else None)
        world.network.run(seconds=0.003)
    members[0].send(bytes(5_000))
    assert world.network.run(lambda: all(one.stable for one in members))
    for member in members:
        member.receive_many()
    world.network.run(seconds=2.0)


def by_kind(recorded: list[Seen], keys: Keyring | Unsealed = KEYS) -> dict[str, list[Seen]]:
    """A recording, sorted."""
    found: dict[str, list[Seen]] = {}
    for seen in recorded:
        for kind in kinds_of(seen.datagram, keys):
            found.setdefault(kind, []).append(seen)
    return found


def believed(member: FakeMember) -> object:
    """All that a member takes for true of others, and what it would do because of it."""
    session = member.session
    roster = session.roster
    peers = {
        one.id: (one.name, one.incarnation, one.address, one.roster, one.knows_me)
        for one in roster.peers.values()
    }
    keys = session.keys
    return (
        roster.members, peers, dict(roster.left), dict(roster.evicted), roster.former_incarnation,
        dict(roster.strangers), session.me.incarnation, session.ended, member.complete,
        dict(session.door.proved), list(session.transport.peers), list(session._seeds),
        keys.list() if isinstance(keys, Keyring) else None,
        None if session.member is None else (session.member.stats(), session.member.deliverable()),
    )  # fmt: skip
