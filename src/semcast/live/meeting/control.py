"""Questions to a running group, a member's part: questions go in, answers come out.

A process that has the group's secret, and is no member, asks over the group's network with notes
under its seal (`asker`). Every member has a `Responder`, which answers to where the question came
from. Questions either ask for something (`members`, `stats`, `keys`) or change the keys (`install`,
`use`, `remove`, which may be repeated without harm).

A question may be a recording, and nobody may be at the address that it seems to come from. So each
member first answers with a token for that question and that address, in fewer bytes than it was
asked with. Whoever asks again with that token, within some seconds, gets an answer.

    asker ── {"kind": "ask", "what": …, "id": n, "token": NOTHING} ──────────► everybody
    asker ◄─ {"kind": "again", "id": n, "token": t} ────────────────────────── a
    asker ── {"kind": "ask", "what": …, "id": n, "token": t, …} ─────────────► a
    asker ◄─ {"kind": "answer", "id": n, "part": …, "parts": …, "text": …} ─── a
"""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final

from semcast.errors import ConfigError, RemoteProtocolError, SemcastError
from semcast.live.meeting.door import Came, is_token
from semcast.live.meeting.health import MemberView
from semcast.live.meeting.session import Session
from semcast.live.sockets.address import Address
from semcast.wire.keys import Keyring

INQUIRIES: Final = ("members", "stats", "keys")
CHANGES: Final = ("install", "use", "remove")
# Bounds of one answer, which askers know, too.
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
        """Answer a question; RemoteProtocolError if it makes no sense."""
        what, number, token = said.get("what"), said.get("id"), said.get("token")
        if what not in (*INQUIRIES, *CHANGES):
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
            # The asker may get a new token now, and the answer is remembered for as long as that.
            self._changes[number] = (came.now_ns, self._changes.pop(number)[1])
        if token not in good:
            self._session.answer({"kind": "again", "id": number, "token": good[0]}, came)
            return
        if what in INQUIRIES:
            answer = self._answer(what, said)
        else:
            answer = self._once(number, what, said, came.now_ns)
        answer = answer | {"name": self._session.config.name, "members": self._members()}
        answer |= {"reliability": self._session.config.reliability}
        self._send(json.dumps(answer, separators=(",", ":")), number, came.address)

    def _token(self, what: str, number: str, address: Address, period: int) -> str:
        """A token that only somebody at that address can know, who has just asked this."""
        return self._session.door.token("ask", what, number, *address, period)

    def _answer(self, what: str, said: Mapping[str, Any]) -> dict[str, Any]:
        try:
            body = self._inquire(what) if what in INQUIRIES else self._change(what, said)
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
        """Answers cost time, so a member gives no more than so many a second."""
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

    def _inquire(self, what: str) -> dict[str, Any]:
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
            # A member of a group that gossips knows its neighbours only.
            "sample": self._session.config.reliability == "gossip",
            **self._session.facts(),
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
