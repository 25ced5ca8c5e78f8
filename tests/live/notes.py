"""Notes as a fuzzer wants them: genuine ones, changed in one or many places, and who takes them.

Both fuzzers use this: `test_fuzz_notes.py`, where Hypothesis draws, and `fuzz_notes.py`, where the
bytes of libFuzzer do. A victim is a session in a group that is complete, or about to be, with all
that answers questions; whatever goes in, nothing may come out of it but datagrams, and what it
remembers is bounded.
"""

import json
import random
import sys
from typing import Any, Protocol

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.live.config import configure
from semcast.live.meeting import control
from semcast.live.meeting.asker import Answer, _Hearing
from semcast.live.meeting.asker_ids import asker_id
from semcast.live.meeting.control import Responder
from semcast.live.meeting.door import NOTHING, Came
from semcast.live.meeting.notes import _SEEDS_MAX
from semcast.live.meeting.roster import member_id
from semcast.live.meeting.session import Session
from semcast.settings.table import GROUP_SIZE_MAX
from semcast.testing.network import START_NS, FakeMember, FakeNetwork
from semcast.wire.keys import KEYS_MAX, Keyring, group_id
from semcast.wire.note import NOTE_BYTES_MAX, encode_note
from semcast.wire.seal import Sealer

GROUP, SECRET = "quotes", "a secret for notes of any kind"
HERE = ("10.9.9.9", 1)
LIFE = START_NS
NUMBER = "0123456789abcdef"
TOKEN = "@token@"  # replaced by the one that would be right
# What a note makes a victim send is at most an answer, each character of which takes some bytes.
LARGEST_BYTES = NOTE_BYTES_MAX - 200  # and what is around a note in a datagram
ANSWER_BYTES_MAX = 4 * control.ANSWER_CHARACTERS_MAX


class Draw(Protocol):
    """What decides: anything that draws whole numbers."""

    def randrange(self, stop: int, /) -> int:
        """One of 0 to stop - 1."""


class FromBytes:
    """Draws from the bytes that a fuzzer gives, and 0 when they are used up."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def randrange(self, stop: int, /) -> int:
        size = (max(stop - 1, 1).bit_length() + 7) // 8
        part = self._data[self._at : self._at + size]
        self._at += size
        return int.from_bytes(part, "little") % stop


# -- genuine notes ---------------------------------------------------------------------------------


def hello(name: str, life: int = LIFE) -> dict[str, Any]:
    """As b says it to a, that it knows in this life."""
    return {
        "kind": "hello",
        "name": name,
        "roster": "",
        "members": ["a", "b"],
        "peers": [["a", life, life, "10.0.0.1", 7400], ["c", 5, 3, "fe80::1%eth0", 7400]],
        "left": [[member_id("c"), 5]],
        "evicted": [[member_id("d"), 7]],
        "status": {"waiting_messages": 3, "behind_ms": 0.5},
    }


def genuine() -> list[dict[str, Any]]:
    """One of every kind there is."""
    asked: list[dict[str, Any]] = [
        {"kind": "ask", "what": what, "id": NUMBER, "token": TOKEN}
        for what in (*control.INQUIRIES, *control.CHANGES)
    ]
    for one in asked:
        if one["what"] in control.CHANGES:
            one |= {"key_id": 2, "secret": bytes(range(32)).hex()}
    asked.append(asked[0] | {"token": NOTHING})
    proofs: list[dict[str, Any]] = [
        {"kind": "prove", "token": NOTHING, "proof": TOKEN},
        {"kind": "prove", "token": "0123456789abcdef", "proof": NOTHING},
        {"kind": "old", "you": LIFE, "knows": LIFE + 1},
    ]
    hellos = [hello("b"), hello("b", LIFE - 1), hello("a")]
    return [*hellos, *proofs, *asked, part_of_answer()]


def answer() -> dict[str, Any]:
    """What a member answers, before it is cut into parts."""
    return {
        "ok": True,
        "why": "",
        "body": {"keys": [{"key_id": 1, "fingerprint": "0" * 16, "in_use": True}]},
        "name": "b",
        "members": [["a", "10.0.0.1", 7400], ["b", "", 0]],
    }


def part_of_answer(text: str | None = None, at: int = 0, parts: int = 1) -> dict[str, Any]:
    text = json.dumps(answer()) if text is None else text
    return {"kind": "answer", "id": "n", "part": at, "parts": parts, "text": text}


# -- what may be wrong with them -------------------------------------------------------------------

# As Python has it: fuzzers change it while they run.
RECURSION = sys.getrecursionlimit()
DEEP = "@deep@"  # replaced by many brackets when the note is written
# None of these is changed: whoever changes a tree copies what it changes.
ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    ID_MAX - 1,
    ID_MAX,
    ID_MAX + 1,
    1 << 63,
    10**4000,
    -(10**300),
    0.5,
    1e308,
    float("inf"),
    float("nan"),
    "",
    "a",
    "b",
    "z" * 5000,
    "\ud800",
    "\x00\x1b[2J",
    "\u202e",
    "hello",
    "127.0.0.1",
    [],
    {},
    [[]] * 2000,
    {"": {}},
    ["a", "a"],
    ["a", LIFE + 1, 0, "10.0.0.1", 7400],
    [member_id("a"), LIFE],
    [member_id("b"), ID_MAX - 1],
    "éü" * 40,
    DEEP,
]
INCARNATIONS = (LIFE, 0, 1, LIFE - 1, LIFE + 1, ID_MAX - 1, ID_MAX)


def mutated(value: Any, draw: Draw) -> Any:
    """A copy of a tree with one place of it changed."""
    if not isinstance(value, (dict, list)) or not value or draw.randrange(6) == 0:
        return ODD[draw.randrange(len(ODD))]
    places = list(value) if isinstance(value, dict) else range(len(value))
    at = places[draw.randrange(len(places))]
    changed: Any = dict(value) if isinstance(value, dict) else list(value)
    what = draw.randrange(8)
    if what == 0:
        del changed[at]
    elif what == 1:
        other = ODD[draw.randrange(len(ODD))]
        if isinstance(changed, list):
            changed.insert(at, other)
        else:
            changed[str(other)[:50]] = value[at]
    elif what == 2 and isinstance(changed, list):
        changed *= 1 + draw.randrange(300)
    else:
        changed[at] = mutated(value[at], draw)
    return changed


def written(note: Any, draw: Draw) -> bytes:
    """As JSON, or nearly; no longer than a note can be."""
    try:
        text = json.dumps(note, ensure_ascii=draw.randrange(2) == 0)
    except ValueError:
        text = "{}"  # an integer that is too long even for Python
    if f'"{DEEP}"' in text:
        # Around the depth where Python gives up, and far beyond it.
        depth = (10, RECURSION - draw.randrange(120), 9_000)[draw.randrange(3)]
        brackets = ("[" * depth + "]" * depth, '{"a":' * depth + "1" + "}" * depth)
        text = text.replace(f'"{DEEP}"', brackets[draw.randrange(2)])
    if draw.randrange(6) == 0 and text.startswith("{"):
        # A name twice: what comes last counts, or what comes first.
        text = '{"kind":"hello","name":"b",' + text[1:-1] + ',"name":"a"}'
    data = bytearray(text.encode(errors="surrogatepass"))
    if draw.randrange(8) == 0:
        for _ in range(1 + draw.randrange(4)):
            data[draw.randrange(len(data))] = draw.randrange(256)
    if draw.randrange(12) == 0:
        del data[draw.randrange(len(data)) :]
    return bytes(data[:LARGEST_BYTES])


def drawn(draw: Draw) -> tuple[bytes, Source]:
    """A note that is nearly right, and who is said to have sent it."""
    kinds = genuine()
    note: Any = kinds[draw.randrange(len(kinds))]
    for _ in range(draw.randrange(5)):
        note = mutated(note, draw)
    name = note.get("name") if isinstance(note, dict) else None
    senders = [member_id("b"), member_id("a"), member_id("c"), asker_id(0), 0, ID_MAX]
    if isinstance(name, str):
        senders += [member_id(name)] * len(senders)
    sender = senders[draw.randrange(len(senders))]
    return written(note, draw), Source(sender, INCARNATIONS[draw.randrange(len(INCARNATIONS))])


# -- who takes them --------------------------------------------------------------------------------


class Victim:
    """Member a of a group of two, sealed or not, whose b is complete or not even there."""

    def __init__(self, sealed: bool, complete: bool, named: bool = True) -> None:
        who: dict[str, Any] = {"members": ("a", "b")} if named else {"size": 2}
        who |= {"secret": SECRET} if sealed else {"insecure": True}
        config = configure({"group": GROUP, "name": "a"} | who)
        self.network = FakeNetwork(1)
        transport = self.network.transport()
        self.session = Session(config, transport, [], LIFE, random.Random(1))
        self.member = FakeMember(self.network, self.session)
        self.sent_bytes = 0
        self.responder = Responder(self.session, lambda: {"sent": 1.0}, list)
        if complete:
            said = hello("b") | {"members": [], "left": [], "evicted": []}
            for _ in range(2):
                said["roster"] = self.session.roster.digest
                self.take(json.dumps(said).encode(), Source(member_id("b"), 1), proved=True)
            assert self.session.member is not None

    def take(self, note: bytes, source: Source, proved: bool = True) -> None:
        """Let it have a note, as if from this source, in a datagram that opens; whether that life
        has answered a challenge before.
        """
        self.network.now_ns += 1_000_000
        packet = self.network.now_ns - START_NS
        # Each has a number that is not taken yet: replays are not the question here.
        sealer = Sealer(group_id(GROUP), source, self.session.keys)
        sealer._packet = packet - 1
        came = Came(source, HERE, packet - 1, len(note), self.network.now_ns)
        if proved and source.sender != self.session.roster.me:
            self.session._let_in(came)
        datagram = sealer.seal(encode_note(self._with_token(note, came)[:LARGEST_BYTES]))
        self.session.transport.arrive(datagram, HERE)  # type: ignore[attr-defined]
        before = self.session.transport.counters["bytes_out"]
        self.member.turn()
        self.sent_bytes = self.session.transport.counters["bytes_out"] - before
        self.check()

    def _with_token(self, note: bytes, came: Came) -> bytes:
        """With the token that a question, or the answer to a challenge, needs."""
        if TOKEN.encode() not in note:
            return note
        token = self.session.door._own(came)
        for what in (*control.INQUIRIES, *control.CHANGES):
            if f'"{what}"'.encode() in note:
                period = came.now_ns // control.TOKEN_PERIOD_NS
                token = self.responder._token(what, NUMBER, HERE, period)
        return note.replace(TOKEN.encode(), token.encode())

    def check(self) -> None:
        """What it remembers is bounded, and so is what one note makes it send."""
        session, roster = self.session, self.session.roster
        assert self.sent_bytes <= ANSWER_BYTES_MAX
        for held in (roster.peers, roster.left, roster.evicted, roster.strangers):
            assert len(held) <= GROUP_SIZE_MAX
        assert len(roster.members) <= GROUP_SIZE_MAX
        assert len(session._seeds) <= _SEEDS_MAX
        assert len(session._notes) <= 64
        assert len(self.responder._changes) <= control.CHANGES_MAX
        if isinstance(session.keys, Keyring):
            assert len(session.keys.list()) <= KEYS_MAX


def hearing() -> _Hearing:
    """Somebody who has asked."""
    return _Hearing("n", str.encode)


def gather(note: bytes, heard: _Hearing) -> None:
    """Let an asker have a note as an answer."""
    try:
        found = heard.on_note(note, Source(member_id("b"), 1))
    except RemoteProtocolError:
        return
    finally:
        assert len(heard._parts) <= 4 * GROUP_SIZE_MAX
    if isinstance(found, Answer):
        assert isinstance(found.name, str)
        assert len(found.members) <= GROUP_SIZE_MAX


def drawn_answer(draw: Draw) -> list[bytes]:
    """The parts of an answer: changed before it was cut, or after."""
    whole: Any = answer()
    for _ in range(draw.randrange(4)):
        whole = mutated(whole, draw)
    text = written(whole, draw).decode(errors="surrogateescape")
    parts: list[Any] = [part_of_answer(text)]
    if draw.randrange(2):
        middle = len(text) // 2
        parts = [part_of_answer(text[:middle], 0, 2), part_of_answer(text[middle:], 1, 2)]
    if draw.randrange(4) == 0:
        parts.append({"kind": "again", "id": "n", "token": "0123456789abcdef"})
    if draw.randrange(3) == 0:
        at = draw.randrange(len(parts))
        parts[at] = mutated(parts[at], draw)
    return [
        json.dumps(part).encode() if draw.randrange(4) else written(part, draw) for part in parts
    ]
