"""The door: sources and addresses go in; a challenge for each, and who has answered it, come out.

A datagram that opens was sealed by somebody who has the secret, but perhaps last year: a recording
opens too, and a process that has just begun remembers nothing by which it could recognise one. In a
group without a secret anybody can make one. So a member believes nothing that a life of another
says, and sends next to nothing to an address, until that life has answered a challenge from there:

    a ── {"kind": "prove", "token": a's token for b at its address, "proof": NOTHING} ─────► b
    a ◄─ {"kind": "prove", "token": b's token for a at its address, "proof": a's token} ──── b
    a ── {"kind": "prove", "token": NOTHING, "proof": b's token} ─────────────────────────► b

A token is a MAC, under a key that this process drew when it began, of the source and of the address
that the challenge goes to. So no recording has one, none of another source or address will do, and
nothing needs to be remembered of those who do not answer. All three notes have the same size: to an
address that has not shown that it is there, nothing goes that is larger than what came.

The door knows nothing of sockets and of the roster, and of time only what callers pass in.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeGuard

from semcast.errors import RemoteProtocolError
from semcast.ids import ID_MAX, Source
from semcast.live.sockets.address import Address

KEY_BYTES: Final = 32
TOKEN_CHARACTERS: Final = 16
# Stands in place of a token where there is nothing to prove, or nothing was proved.
NOTHING: Final = "0" * TOKEN_CHARACTERS
_TOKEN: Final = re.compile(f"[0-9a-f]{{{TOKEN_CHARACTERS}}}")
# One source at one address is challenged at most so often in this time. Once would not be enough,
# since challenges cross and overtake each other; but two members must not go on for ever.
CHALLENGE_NS: Final = 20_000_000
CHALLENGES_MAX: Final = 3
# Notes a second to those who have not proved that they are there, all together.
NOTES_PER_S_MAX: Final = 2_000
# What is remembered of those who have proved nothing: challenges, and their last hellos.
_CHALLENGED_MAX: Final = 1024
WAITING_BYTES_MAX: Final = 1 << 20
_SECOND_NS: Final = 1_000_000_000

# A life is a time in nanoseconds whose last bits, a millisecond, are drawn. So lives grow, and two
# processes that begin at once, or with a clock that was set back, do not share one.
_DRAWN_BITS: Final = 20
# A member that needs a larger life than one it heard of adds a random number of up to this size, a
# quarter of an hour, so that nobody who replays that note can make it take a life it had before.
_LATER_BITS: Final = 40


def new_life(time_ns: int, drawn: int) -> int:
    """The incarnation of a member that begins now; `drawn` is random."""
    return min(ID_MAX - 1, time_ns >> _DRAWN_BITS << _DRAWN_BITS | drawn % (1 << _DRAWN_BITS))


def later_life(former: int, drawn: int) -> int:
    """An incarnation that is larger than one which others know of; `drawn` is random.

    The largest of all is nobody's: then there is none, and this returns it.
    """
    room = min(1 << _LATER_BITS, ID_MAX - 1 - former)
    return former + 1 + drawn % room if room > 0 else ID_MAX


def next_life(former: int, time_ns: int, drawn: int) -> int:
    """The incarnation of a process that begins another life now; `former` is its own last one.

    It goes by the time, as that of a process that is started now: one that comes by this name later
    must have a larger one, and cannot know of this one if all others have forgotten it.
    """
    return max(new_life(time_ns, drawn), min(former + 1 + drawn % (1 << _DRAWN_BITS), ID_MAX))


@dataclass(frozen=True)
class Came:
    """A note's circumstances: who sealed it, where it came from, when, and how large it was."""

    source: Source
    address: Address
    packet: int
    datagram_bytes: int
    now_ns: int


class Door:
    """Who has proved to be there."""

    def __init__(self, key: bytes) -> None:
        """`key`: random bytes that nobody else knows and no other process ever had."""
        assert len(key) >= KEY_BYTES
        self._key: Final = key
        # INV-PROVED: by sender, the life that has answered a challenge of this process; only what
        # it says is believed. `_floors` has the packet of that answer: nothing older is believed,
        # since it may be from before this process began. `_places` is where it answered from.
        self.proved: Final[dict[int, int]] = {}
        self._floors: Final[dict[int, int]] = {}
        self._places: Final[dict[int, Address]] = {}
        # The same the other way round: who was the last to be found there.
        self._occupants: Final[dict[Address, int]] = {}
        # By source and address: how often it was challenged since when.
        self._challenged: Final[dict[tuple[Source, Address], tuple[int, int]]] = {}
        self._second = -1
        self._notes = 0
        # Hellos of those who have proved nothing yet, by sender, and their size.
        self._waiting: Final[dict[int, tuple[Mapping[str, Any], Came]]] = {}
        self._waiting_bytes = 0

    # -- who is there ------------------------------------------------------------------------------

    def believes(self, came: Came) -> bool:
        """Whether a note is of a life that is proved, and from after the proof."""
        sender, life = came.source.sender, came.source.incarnation
        return self.proved.get(sender) == life and came.packet > self._floors[sender]

    def is_there(self, came: Came) -> bool:
        """Whether that life has proved to be at the address that a note of it came from."""
        sender, life = came.source.sender, came.source.incarnation
        return self.proved.get(sender) == life and self._places.get(sender) == came.address

    def has_place(self, sender: int) -> bool:
        """Whether it is known where a sender is whose life is proved."""
        return sender in self._places

    def has_met(self, sender: int) -> bool:
        """Whether a sender proved its life to this process, before others vouched for it."""
        return self._floors.get(sender, 0) > 0 and sender in self._places

    def place_of(self, sender: int) -> Address:
        """Where a sender answered from whose life is proved."""
        return self._places[sender]

    def let_in(self, came: Came) -> None:
        """A life has proved, in this note, to be there and at that address."""
        sender, life = came.source.sender, came.source.incarnation
        if self.proved.get(sender) != life:
            self.proved[sender] = life
            self._floors[sender] = came.packet
        self._put(sender, came.address)

    def forget(self, sender: int) -> None:
        """Believe nothing of a sender any more until it has proved anew to be there."""
        self.proved.pop(sender, None)
        self._floors.pop(sender, None)
        self._take_away(sender)

    def vouch(self, source: Source) -> None:
        """Members that have proved to be there say that this life has, too: it is in their view.
        Where it is remains to be said.
        """
        if self.proved.get(source.sender) != source.incarnation:
            self.proved[source.sender] = source.incarnation
            self._floors[source.sender] = 0
            self._take_away(source.sender)

    def place(self, source: Source, address: Address) -> None:
        """They also say where it is. What it has proved itself counts more."""
        proved = self.proved.get(source.sender) == source.incarnation
        if proved and not self.has_place(source.sender):
            self._put(source.sender, address)

    def who_is_at(self, address: Address) -> int | None:
        """The sender whose life is proved and that was last found at this address."""
        return self._occupants.get(address)

    def _put(self, sender: int, address: Address) -> None:
        self._take_away(sender)
        self._places[sender] = address
        self._occupants[address] = sender

    def _take_away(self, sender: int) -> None:
        address = self._places.pop(sender, None)
        if address is not None and self._occupants.get(address) == sender:
            del self._occupants[address]

    # -- hellos that came too early ----------------------------------------------------------------

    def keep(self, said: Mapping[str, Any], came: Came) -> None:
        """A hello of somebody who has proved nothing yet: it may have overtaken the proof."""
        self._drop(came.source.sender)
        self._waiting[came.source.sender] = (said, came)
        self._waiting_bytes += came.datagram_bytes
        while self._waiting_bytes > WAITING_BYTES_MAX:
            self._drop(next(iter(self._waiting)))

    def kept(self, sender: int) -> tuple[Mapping[str, Any], Came] | None:
        """The hello of a sender that is let in, if it was sent after the proof."""
        waiting = self._drop(sender)
        return waiting if waiting is not None and self.believes(waiting[1]) else None

    def unproved(self) -> set[int]:
        """The senders whose hellos came, but whose lives did not answer a challenge."""
        return set(self._waiting)

    def _drop(self, sender: int) -> tuple[Mapping[str, Any], Came] | None:
        waiting = self._waiting.pop(sender, None)
        if waiting is not None:
            self._waiting_bytes -= waiting[1].datagram_bytes
        return waiting

    # -- challenges --------------------------------------------------------------------------------

    def token(self, *about: object) -> str:
        """A text that nobody can know to whom this process did not send it, for this purpose."""
        digest = hashlib.blake2b(repr(about).encode(), key=self._key, digest_size=8)
        return digest.hexdigest()

    def challenge(self, came: Came) -> dict[str, str] | None:
        """The note that asks a sender to prove that it is there, if it has not done so."""
        token = self._token_for(came)
        if token == NOTHING:
            return None
        return {"kind": "prove", "token": token, "proof": NOTHING}

    def on_prove(self, said: Mapping[str, Any], came: Came) -> tuple[bool, dict[str, str] | None]:
        """A challenge came, or an answer to one, or both. Returns whether it proves that this life
        is at that address, and what to answer.
        """
        token, proof = said.get("token"), said.get("proof")
        if not is_token(token) or not is_token(proof):
            raise RemoteProtocolError("challenge that makes no sense")
        proves = proof != NOTHING and hmac.compare_digest(proof, self._own(came))
        if token == NOTHING:
            return proves, None
        own = NOTHING if proves else self._token_for(came)
        return proves, {"kind": "prove", "token": own, "proof": token}

    def may_send(self, now_ns: int) -> bool:
        """Whether one more note may go, this second, to somebody who has proved nothing."""
        second = now_ns // _SECOND_NS
        if second != self._second:
            self._second, self._notes = second, 0
        self._notes += 1
        return self._notes <= NOTES_PER_S_MAX

    def _token_for(self, came: Came) -> str:
        """The token to send, unless there is nothing to prove or it was sent often enough."""
        if self.is_there(came):
            return NOTHING
        place = (came.source, came.address)
        times, since_ns = self._challenged.pop(place, (0, came.now_ns))
        if came.now_ns - since_ns >= CHALLENGE_NS:
            times, since_ns = 0, came.now_ns
        if len(self._challenged) >= _CHALLENGED_MAX:
            del self._challenged[next(iter(self._challenged))]
        self._challenged[place] = (times + 1, since_ns)
        return self._own(came) if times < CHALLENGES_MAX else NOTHING

    def _own(self, came: Came) -> str:
        source, (host, port) = came.source, came.address
        return self.token("prove", int(source.sender), int(source.incarnation), host, port)


def is_token(value: object) -> TypeGuard[str]:
    """Whether this may be a token."""
    return isinstance(value, str) and _TOKEN.fullmatch(value) is not None
