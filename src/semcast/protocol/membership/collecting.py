"""Collecting: parts of parcels in, in any order; whole parcels out, and what to ask for.

Only so many parcels are collected at a time. If there are more, the one of which nothing came for
longest is given up; whoever needs it asks for it again.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.parcels import Parcel, parcel_name
from semcast.wire.families.agreement import LACK_ROWS_MAX, Lack, PartOf

COLLECTED_MAX: Final = 4
# Parts that come in answer to one question, at the most.
ANSWER_PARTS_MAX: Final = 64
# When nothing came for so long, what is missing is asked for; each time it takes twice as long.
_QUIET_NS: Final = 8_000_000
_QUIET_MAX_NS: Final = 500_000_000
_TRIES_MAX: Final = 12


@final
class _Collection:
    """One parcel of which some parts are here."""

    def __init__(self, part: PartOf) -> None:
        self.what: Final[i64] = part.what
        self.number: Final[i64] = part.number
        self.count: Final[i64] = part.count
        self.parts: Final[dict[int, bytes]] = {}
        self.sender: i64 = 0
        self.tries: i64 = 0
        self.ask_ns: i64 = NEVER

    def missing(self) -> list[tuple[int, int]]:
        """The first of the parts that are not here, as ranges."""
        found: list[tuple[int, int]] = []
        wanted = 0
        for index in range(self.count):
            if index in self.parts:
                continue
            if found and found[-1][1] == index - 1:
                found[-1] = (found[-1][0], index)
            elif len(found) < LACK_ROWS_MAX:
                found.append((index, index))
            else:
                break
            wanted += 1
            if wanted == ANSWER_PARTS_MAX:
                break
        return found


@final
class Collecting:
    """Puts parcels together."""

    def __init__(self) -> None:
        # By the number of the parcel; whatever got a part last is last.
        self._held: Final[dict[int, _Collection]] = {}

    def take(self, part: PartOf, sender: i64, now_ns: i64) -> Parcel | None:
        """A part came from this member; the whole parcel, if it was the last one."""
        name = int(part.parcel)
        held = self._held.pop(name, None)
        if held is None or held.count != part.count:
            held = _Collection(part)
        if int(part.index) not in held.parts:
            held.parts[int(part.index)] = part.data
            held.sender = sender
            held.tries = 0
            held.ask_ns = now_ns + _QUIET_NS
        if len(held.parts) == held.count:
            data = b"".join([held.parts[index] for index in range(held.count)])
            # Parts that do not belong together came from somebody else than they said.
            return Parcel(held.what, held.number, data) if parcel_name(data) == name else None
        if len(self._held) >= COLLECTED_MAX:
            del self._held[next(iter(self._held))]
        self._held[name] = held
        return None

    def has(self, name: int) -> bool:
        """Whether some parts of this parcel are here."""
        return name in self._held

    def collects(self, what: i64, number: i64) -> bool:
        """Whether a parcel of this kind is being collected, for this view or a later one."""
        found = [held for held in self._held.values() if held.what == what]
        return any(held.number >= number for held in found)

    def forget(self, number: i64) -> None:
        """Give up what belongs to views before this one."""
        for name in [one for one, held in self._held.items() if held.number < number]:
            del self._held[name]

    def questions(self, now_ns: i64) -> list[tuple[int, Lack]]:
        """What to ask for by now, and whom."""
        found: list[tuple[int, Lack]] = []
        for name, held in list(self._held.items()):
            if now_ns < held.ask_ns:
                continue
            if held.tries >= _TRIES_MAX:
                del self._held[name]
                continue
            found.append((int(held.sender), Lack(name, held.number, held.missing())))
            held.tries += 1
            held.ask_ns = now_ns + backoff_ns(_QUIET_NS, held.tries, _QUIET_MAX_NS)
        return found

    def next_deadline_ns(self) -> i64:
        """When to ask."""
        soonest: i64 = NEVER
        for held in self._held.values():
            soonest = min(soonest, held.ask_ns)
        return soonest
