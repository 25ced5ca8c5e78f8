"""Questions to a running group: asked over its network by a process that is no member.

An `Asker` has the group's secret and sends notes under its seal; every member has a `Responder`
that answers to where the question came from. Questions tell (`members`, `stats`, `keys`) or change
the keys (`install`, `use`, `remove`, which may be repeated without harm). Datagrams get lost, so
the asker repeats its question until everybody whom the answers name has answered, or its time is
up; then it says who has not.

A question may be a recording, and where it seems to come from there may be nobody who asked. So
each member first answers with a token of its own for that question and that address, in fewer bytes
than it was asked with; whoever asks again with that token, within some seconds, gets an answer.

    asker ── {"kind": "ask", "what": …, "id": n, "token": NOTHING} ──────────► everybody
    asker ◄─ {"kind": "again", "id": n, "token": t} ────────────────────────── a
    asker ── {"kind": "ask", "what": …, "id": n, "token": t, …} ─────────────► a
    asker ◄─ {"kind": "answer", "id": n, "part": …, "parts": …, "text": …} ─── a
"""

import json
import random
import secrets
import select
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, Final

from semcast.errors import (
    ConfigError,
    NoAnswerError,
    RemoteProtocolError,
    SemcastError,
    TransportError,
)
from semcast.ids import ID_MAX, Source
from semcast.live.config import GroupConfig
from semcast.live.meeting.askers import ASKERS, asker_id
from semcast.live.meeting.door import NOTHING, Came, is_token
from semcast.live.meeting.health import MemberView
from semcast.live.meeting.joining import resolve, transport_settings
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address, family_of
from semcast.live.sockets.datagrams import Opened, Transport
from semcast.live.sockets.multicast import MulticastTransport, group_of, interface_of, send_through
from semcast.live.sockets.opening import opening
from semcast.live.sockets.options import TransportSettings
from semcast.live.sockets.transport import Choice, choose
from semcast.live.sockets.unicast import open_unicast
from semcast.settings.table import GROUP_SIZE_MAX, SUITES
from semcast.wire.keys import Keyring, group_id
from semcast.wire.note import decode_note, encode_note, is_note
from semcast.wire.opener import Opener
from semcast.wire.seal import Sealer

TELLING: Final = ("members", "stats", "keys")
CHANGING: Final = ("install", "use", "remove")
# The kinds of notes that an asker listens to.
ANSWERING: Final = ("again", "answer")
ANSWER_CHARACTERS_MAX: Final = 1 << 18
PARTS_MAX: Final = 1 << 10
ANSWERS_PER_S_MAX: Final = 200
VIEWS_MAX: Final = 256
# Changes whose answers a member remembers, to give them again.
CHANGES_MAX: Final = 64
# A token is good in the period in which it was made, and in the next.
TOKEN_PERIOD_NS: Final = 10_000_000_000
_ID_CHARACTERS_MAX: Final = 32
# What surrounds a part of an answer in its datagram: IPv6 and UDP, seal, frame, names in JSON.
_AROUND_BYTES: Final = 48 + 64 + 4 + 128
_REPEAT_S: Final = 0.25
_SAY_WHOM: Final = "say whom to ask: --peers host:port of some members"
# What reading JSON of somebody else's making may raise.
_NONSENSE: Final = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


# -- a member's part -------------------------------------------------------------------------------


class Responder:
    """Answers for one member; called with its engine's lock held."""

    def __init__(
        self,
        session: Session,
        stats: Callable[[], Mapping[str, float]],
        views: Callable[[], list[MemberView]],
    ) -> None:
        self._session: Final = session
        self._stats: Final = stats
        self._views: Final = views
        self._second = 0
        self._answers = 0
        # INV-ONCE: by a question's number, when it first came and what was answered, for at least
        # as long as a token for it is good. So a change is made once, also if an answer was lost
        # and the question is repeated, and also if somebody else repeats it.
        self._changes: Final[dict[str, tuple[int, dict[str, Any]]]] = {}
        session.handlers["ask"] = self.on_ask

    def on_ask(self, said: Mapping[str, Any], came: Came) -> None:
        """Somebody asks; RemoteProtocolError if it makes no sense."""
        what, number, token = said.get("what"), said.get("id"), said.get("token")
        if what not in (*TELLING, *CHANGING):
            raise RemoteProtocolError(f"asked for {str(what)[:32]!r}, which nobody can tell")
        if not isinstance(number, str) or not 0 < len(number) <= _ID_CHARACTERS_MAX:
            raise RemoteProtocolError("asked without a number for the answer")
        if not is_token(token):
            raise RemoteProtocolError("asked without a token")
        if not self._may_answer():
            return
        period = came.now_ns // TOKEN_PERIOD_NS
        good = [self._token(what, number, came.address, one) for one in (period, period - 1)]
        if number in self._changes:
            # From now on it has to be remembered for as long as the token that it may get.
            self._changes[number] = (came.now_ns, self._changes.pop(number)[1])
        if token not in good:
            self._session.answer({"kind": "again", "id": number, "token": good[0]}, came)
            return
        if what in TELLING:
            answer = self._answer(what, said)
        else:
            answer = self._once(number, what, said, came.now_ns)
        answer = answer | {"name": self._session.config.name, "members": self._members()}
        self._send(json.dumps(answer, separators=(",", ":")), number, came.address)

    def _token(self, what: str, number: str, address: Address, period: int) -> str:
        """What only somebody at that address can know who has just asked this."""
        return self._session.door.token("ask", what, number, *address, period)

    def _answer(self, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
        try:
            body = self._tell(what) if what in TELLING else self._change(what, said)
        except SemcastError as error:
            return {"ok": False, "why": str(error), "body": {}}
        return {"ok": True, "why": "", "body": body}

    def _once(self, number: str, what: str, said: Mapping[str, Any], now_ns: int) -> dict[str, Any]:
        if number in self._changes:
            return self._changes[number][1]
        if len(self._changes) >= CHANGES_MAX:
            oldest = next(iter(self._changes))
            if now_ns - self._changes[oldest][0] < 2 * TOKEN_PERIOD_NS:
                limit_s = 2 * TOKEN_PERIOD_NS // 1_000_000_000
                why = f"more than {CHANGES_MAX} changes in {limit_s} s; ask again later"
                return {"ok": False, "why": why, "body": {}}
            del self._changes[oldest]
        answer = self._answer(what, said)
        self._changes[number] = (now_ns, answer)
        return answer

    def _may_answer(self) -> bool:
        """No more than so many a second: they cost time."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._answers = second, 0
        self._answers += 1
        return self._answers <= ANSWERS_PER_S_MAX

    def _members(self) -> list[tuple[str, str, int]]:
        """Everybody who should answer, and where they are."""
        roster = self._session.roster
        found = []
        for member in (one for one in roster.members if not roster.gone(one)):
            host, port = ("", 0) if member == roster.me else roster.address_of(member) or ("", 0)
            found.append((roster.name_of(member), host, port))
        return found or [(roster.name, "", 0)]

    def _tell(self, what: str) -> dict[str, Any]:
        if what == "keys":
            return {"keys": [one._asdict() for one in self._ring().list()]}
        if what == "stats":
            return {"stats": dict(self._stats())}
        views = self._views()
        return {
            "members": [asdict(view) for view in views[:VIEWS_MAX]],
            "left_out": max(0, len(views) - VIEWS_MAX),
            "incarnation": int(self._session.me.incarnation),
            "group_size": len(self._session.roster.members),
        }

    def _change(self, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
        key_id = said.get("key_id")
        if not isinstance(key_id, int) or isinstance(key_id, bool):
            raise RemoteProtocolError("asked to change a key without its number")
        ring = self._ring()
        if what == "install":
            return {"changed": ring.install(key_id, _material(said.get("secret")))}
        if what == "use":
            changed = ring.in_use != key_id
            ring.use(key_id)
            return {"changed": changed}
        return {"changed": ring.remove(key_id)}

    def _ring(self) -> Keyring:
        keys = self._session.keys
        if not isinstance(keys, Keyring):
            raise ConfigError("this group is not sealed, so there are no keys")
        return keys

    def _send(self, text: str, number: str, address: Address) -> None:
        if len(text) > ANSWER_CHARACTERS_MAX:
            short = {"ok": False, "why": f"an answer of {len(text)} characters is too long"}
            short |= {"name": self._session.config.name, "members": [], "body": {}}
            text = json.dumps(short)
        # Quotes and backslashes take two characters in the note.
        size = max(128, (self._session.transport.path_mtu_bytes - _AROUND_BYTES) // 2)
        size = min(size, 1 << 14)
        parts = [text[at : at + size] for at in range(0, len(text), size)]
        for at, part in enumerate(parts):
            note = {"kind": "answer", "id": number, "part": at, "parts": len(parts), "text": part}
            self._session.send_note(note, address)


def _material(secret: object) -> bytes:
    try:
        return bytes.fromhex(secret if isinstance(secret, str) else "")
    except ValueError:
        raise RemoteProtocolError("asked to install a secret that is not in hexadecimal") from None


# -- the asker's part ------------------------------------------------------------------------------


@dataclass
class Answer:
    """What one member said."""

    name: str
    ok: bool
    why: str
    body: dict[str, Any]
    members: list[tuple[str, str, int]]


@dataclass
class Answers:
    """What the members said, by name; and who should have said something and did not."""

    by_name: dict[str, Answer] = field(default_factory=dict)
    missing: tuple[str, ...] = ()

    @property
    def refused(self) -> dict[str, str]:
        """Who said no, and why."""
        return {name: one.why for name, one in sorted(self.by_name.items()) if not one.ok}


class Asker:
    """Asks a group; never a member of it."""

    def __init__(self, config: GroupConfig, others: Mapping[int, bytes] | None = None) -> None:
        """`others`: further secrets, by key id, that answers may be sealed with."""
        self._config: Final = config
        self._group: Final = group_id(config.group)
        self._keys: Final = config.keys()
        if isinstance(self._keys, Keyring):
            for key_id, material in (others or {}).items():
                self._keys.install(key_id, material)
        self._opener: Final = Opener(self._group, self._keys)
        self._seeds: Final = dict.fromkeys(resolve(config.peers, config.ipv6))
        settings = transport_settings(config)
        self._choice: Final = choose(settings, bool(self._seeds))
        try:
            self._transport: Final = _open(settings, self._choice, bool(self._seeds))
        except TransportError as error:
            if not self._choice.doubt:
                raise
            raise TransportError(f"{error}; {_SAY_WHOM}") from None
        self._draw: Final = random.Random(secrets.randbits(64))

    def ask(self, what: str, timeout_s: float = 3.0, **more: object) -> Answers:
        """Everybody's answers; NoAnswerError if there is none at all."""
        number = secrets.token_hex(8)
        first = {"kind": "ask", "what": what, "id": number, "token": NOTHING}
        until_s = time.monotonic() + timeout_s
        answers, expected = Answers(), set[str]()
        hearing = _Hearing(number, lambda token: self._sealed(first | more | {"token": token}))
        while time.monotonic() < until_s:
            self._send(self._sealed(first))
            round_ends_s = min(until_s, time.monotonic() + _REPEAT_S)
            for answer in self._listen(hearing, round_ends_s):
                answers.by_name[answer.name] = answer
                for name, host, port in answer.members:
                    expected.add(name)
                    if host and len(self._seeds) < GROUP_SIZE_MAX:
                        self._seeds[host, port] = None
                if expected <= answers.by_name.keys():
                    return answers
        if not answers.by_name:
            raise NoAnswerError(self._nobody(timeout_s))
        answers.missing = tuple(sorted(expected - answers.by_name.keys()))
        return answers

    def _sealed(self, question: Mapping[str, object]) -> bytes:
        note = encode_note(json.dumps(question, separators=(",", ":")).encode())
        return self._sealer().seal(note)

    def _sealer(self) -> Sealer:
        """Of a life of its own for every datagram: a number that is drawn, not counted."""
        me = Source(asker_id(self._draw.randrange(ASKERS)), secrets.randbelow(ID_MAX))
        return Sealer(self._group, me, self._keys, SUITES[self._config.suite])

    def _send(self, datagram: bytes) -> None:
        if self._transport.multicast:
            self._transport.send_all([datagram])
        for seed in self._seeds if not self._transport.multicast else self._configured():
            self._transport.send(seed, [datagram])

    def _configured(self) -> list[Address]:
        """With multicast, only those whom a user named are asked by themselves as well."""
        return list(self._seeds) if self._config.peers else []

    def _listen(self, hearing: "_Hearing", until_s: float) -> Iterator[Answer]:
        while (left_s := until_s - time.monotonic()) > 0:
            select.select(self._transport.filenos(), [], [], left_s)
            for datagram, address in self._transport.receive():
                try:
                    opened = self._opener.open(datagram)
                    if not is_note(opened.frames):
                        continue
                    heard = hearing.on_note(decode_note(opened.frames), opened.header.source)
                except RemoteProtocolError:
                    continue  # somebody else's, or altered: as if it had been lost
                if isinstance(heard, Answer):
                    yield heard
                elif heard is not None:
                    self._transport.send(address, [heard])

    def _nobody(self, timeout_s: float) -> str:
        refusals = self._opener.refused
        if refusals["key"] or refusals["tag"] or refusals["suite"]:
            hint = "answers came that do not open: is this the group's secret, and its key id?"
        elif self._choice.multicast and self._choice.doubt:
            hint = f"{self._choice.doubt}; {_SAY_WHOM}"
        elif self._transport.multicast:
            hint = (
                "are its members running, with this secret under this key id? "
                "`semcast doctor` looks at the network"
            )
        else:
            hint = "are the addresses in --peers right, and is this the group's secret?"
        return f"nobody in group {self._config.group!r} answered in {timeout_s:g} s; {hint}"

    def close(self) -> None:
        """Let go of the sockets."""
        self._transport.close()

    def __enter__(self) -> "Asker":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class _Hearing:
    """What is heard of one question: tokens to ask again with, and answers in parts."""

    def __init__(self, number: str, ask_again: Callable[[str], bytes]) -> None:
        """`ask_again`: the question with a token, as a datagram."""
        self._number: Final = number
        self._ask_again: Final = ask_again
        self._answered: Final[set[Source]] = set()
        # Answers to two repetitions of a question may differ in length: they are kept apart.
        self._parts: Final[dict[tuple[Source, int], dict[int, str]]] = {}

    def on_note(self, note: bytes, source: Source) -> Answer | bytes | None:
        """An answer, once all its parts are there, or a datagram to send back."""
        try:
            said = json.loads(note)
            if said["kind"] not in ANSWERING or said["id"] != self._number:
                return None
            if said["kind"] == "again":
                return self._on_again(said["token"], source)
            return self._on_part(said["part"], said["parts"], said["text"], source)
        except _NONSENSE as error:
            raise RemoteProtocolError(f"answer that makes no sense: {error!r}") from None

    def _on_again(self, token: object, source: Source) -> bytes | None:
        if not is_token(token):
            raise RemoteProtocolError("token that makes no sense")
        return None if source in self._answered else self._ask_again(token)

    def _on_part(self, at: Any, count: Any, text: Any, source: Source) -> Answer | None:
        if not (type(at) is type(count) is int and 0 <= at < count <= PARTS_MAX):
            raise RemoteProtocolError("part of an answer out of range")
        if (source, count) not in self._parts and len(self._parts) >= 4 * GROUP_SIZE_MAX:
            return None
        mine = self._parts.setdefault((source, count), {})
        mine[at] = str(text)
        if len(mine) < count or sum(map(len, mine.values())) > 2 * ANSWER_CHARACTERS_MAX:
            return None
        del self._parts[source, count]
        found = json.loads("".join(mine[part] for part in range(count)))
        members = [(str(n), str(h), int(p)) for n, h, p in found["members"][:GROUP_SIZE_MAX]]
        ok, why = found["ok"] is True, str(found["why"])
        answer = Answer(str(found["name"]), ok, why, dict(found["body"]), members)
        if len(self._answered) < GROUP_SIZE_MAX:
            self._answered.add(source)
        return answer


def _open(settings: TransportSettings, choice: Choice, has_seeds: bool) -> Transport:
    """A socket that asks and hears answers; the group's own traffic stays out."""
    if choice.multicast:
        group = group_of(settings)
        interface = interface_of(settings, group[0])
        family = family_of(group[0])
        with opening(settings, family) as sockets:
            sock = sockets.bind((interface.host, 0))
            send_through(sock, interface, group, settings.ttl)
            opened = Opened(
                sock, (), family, settings.path_mtu_bytes or interface.carries_bytes,
                sockets.receive_buffer_bytes, (),
            )  # fmt: skip
            return MulticastTransport(opened, group)
    if not has_seeds:
        raise ConfigError(f"without multicast, {_SAY_WHOM}")
    return open_unicast(settings)
