"""Questions to a running group, the asker's part: a question goes in, everybody's answers come out.

An `Asker` has the group's secret and is no member. Datagrams get lost, so it repeats its question
until everybody whom the answers name has answered, or its time is up; then it says who has not.
How members answer, and what travels, is in `control`.
"""

import json
import random
import secrets
import select
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from semcast.errors import ConfigError, NoAnswerError, RemoteProtocolError, TransportError
from semcast.ids import ID_MAX, Source
from semcast.live.config import GroupConfig
from semcast.live.meeting.asker_ids import ASKERS, asker_id
from semcast.live.meeting.control import ANSWER_CHARACTERS_MAX, PARTS_MAX
from semcast.live.meeting.door import NOTHING, is_token
from semcast.live.meeting.joining import resolve, transport_settings
from semcast.live.sockets.address import family_of
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

# The kinds of notes that an asker listens to.
ANSWERING: Final = ("again", "answer")
_REPEAT_S: Final = 0.25
# So many answers are enough: of a group that gossips, which may be larger, they are a sample.
ANSWERS_MAX: Final = GROUP_SIZE_MAX
_SAY_WHOM: Final = "say whom to ask: --peers host:port of some members"
# What reading JSON of somebody else's making may raise.
_NONSENSE: Final = (
    KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError,
)  # fmt: skip


@dataclass
class Answer:
    """What one member said."""

    name: str
    ok: bool
    why: str
    body: dict[str, Any]
    members: list[tuple[str, str, int]]
    # What the group promises; empty if the member is of an older version.
    reliability: str = ""


@dataclass
class Answers:
    """What the members said, by name; and who should have said something and did not."""

    by_name: dict[str, Answer] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    # Whether nobody knows who else there is, since the group gossips.
    sample: bool = False

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
        """Everybody's answers, up to a bound; NoAnswerError if there is none at all."""
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
                answers.sample = answers.sample or answer.reliability == "gossip"
                for name, host, port in answer.members:
                    expected.add(name)
                    if host and len(self._seeds) < GROUP_SIZE_MAX:
                        self._seeds[host, port] = None
                if expected <= answers.by_name.keys() or len(answers.by_name) >= ANSWERS_MAX:
                    return answers
        if not answers.by_name:
            raise NoAnswerError(self._nobody(timeout_s))
        answers.missing = tuple(sorted(expected - answers.by_name.keys()))
        return answers

    def _sealed(self, question: Mapping[str, object]) -> bytes:
        note = encode_note(json.dumps(question, separators=(",", ":")).encode())
        return self._sealer().seal(note)

    def _sealer(self) -> Sealer:
        """Every datagram is sealed as a life of its own, whose number is drawn, not counted."""
        me = Source(asker_id(self._draw.randrange(ASKERS)), secrets.randbelow(ID_MAX))
        return Sealer(self._group, me, self._keys, SUITES[self._config.suite])

    def _send(self, datagram: bytes) -> None:
        if self._transport.multicast:
            self._transport.send_all([datagram])
        # With multicast, members are asked by themselves only if a user named some.
        if self._config.peers or not self._transport.multicast:
            for seed in self._seeds:
                self._transport.send(seed, [datagram])

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

    def __exit__(self, *_: object) -> None:
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
        promised = str(found.get("reliability", ""))
        answer = Answer(str(found["name"]), ok, why, dict(found["body"]), members, promised)
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
