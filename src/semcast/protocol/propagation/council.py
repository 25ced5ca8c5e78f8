"""Who the manager is, and which opening comes next: what every site promises and accepts.

PROP §5.1 has one manager, and elects another if it fails. Sites here may also be wrong about that,
so nobody acts alone: whoever wants to be the manager needs the promises of a majority of the sites,
and an opening counts once a majority has accepted it (as in Paxos, one decision per graph number).
Of an even number, half is enough if the site that has been there longest is among them. So there is
one sequence of openings, whatever fails, and the next manager finds those that are unfinished: a
manager may have had several accepted, one after the other, of which no other site knows that.
"""

from typing import Final, final

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import NO_TERM, Opening, Term

# A term beyond this was never asked for by a site: managers would have to fail all day long.
TERM_MAX: Final = 1 << 40
# Of how many graph numbers it is known what was accepted: of more than a manager may have opened
# before the first of them is open everywhere.
ACCEPTED_MAX: Final = 8


def is_quorum(seats: tuple[Seat, ...], sites: set[int]) -> bool:
    """Whether these are enough of the sites to decide for all."""
    present = [seat.sender for seat in seats if seat.sender in sites]
    if 2 * len(present) == len(seats):
        return seats[0].sender in sites
    return 2 * len(present) > len(seats)


@final
class Ballots:
    """What one site has promised and accepted."""

    def __init__(self, memory: Memory) -> None:
        self._memory: Final = memory
        # INV-TERM: nothing of an earlier term is accepted any more.
        self.promised: Term = NO_TERM
        # By number, the newest openings that were accepted: in which term, and the record.
        self._accepted: Final[dict[int, tuple[Term, bytes]]] = {}

    def promise(self, term: Term) -> bool:
        """Whether the site follows whoever has this term from now on."""
        if term < self.promised or term[0] > TERM_MAX:
            return False
        if term > self.promised:
            self.promised = term
            self._write_down()
        return True

    def _write_down(self) -> None:
        """Only the newest is written down: whoever remembers opens one graph after the other."""
        term, number, record = self.accepted() or (NO_TERM, 0, b"")
        self._memory.ballot(self.promised, term, number, record)

    def recall(self, promised: Term, accepted: tuple[Term, int, bytes] | None) -> None:
        """What a former life had promised and accepted."""
        self.promised = promised
        if accepted is not None:
            term, number, record = accepted
            self._accepted[number] = term, record

    def accepted(self) -> tuple[Term, int, bytes] | None:
        """The newest opening that was accepted."""
        if not self._accepted:
            return None
        number = max(self._accepted)
        term, record = self._accepted[number]
        return term, number, record

    def accept(self, term: Term, number: int, record: bytes) -> bool:
        """Whether the site accepts an opening."""
        if not self.promise(term):
            return False
        self._accepted[number] = term, record
        while len(self._accepted) > ACCEPTED_MAX:
            del self._accepted[min(self._accepted)]
        self._write_down()
        return True

    def accepted_after(self, number: int) -> list[tuple[Term, bytes]]:
        """The openings that were accepted and come after this number, in order."""
        return [self._accepted[one] for one in sorted(self._accepted) if one > number]


@final
class Poll:
    """A site asks the others to follow it."""

    def __init__(self, term: Term, opening: Opening) -> None:
        self.term: Final = term
        self.opening = opening
        self._asked: Final = {seat.sender for seat in opening.seats}
        self.promises: Final[set[int]] = set()
        # By number after that of `opening`: what was accepted in the latest term.
        self._found: Final[dict[int, tuple[Term, bytes]]] = {}

    def promised(self, site: int) -> None:
        """A site follows."""
        self.promises.add(site)

    def found(self, number: int, term: Term, record: bytes) -> None:
        """A site has accepted an opening that this one does not know to be decided."""
        if not 0 < number - self.opening.number <= ACCEPTED_MAX:
            return
        known = self._found.get(number)
        if known is None or term > known[0]:
            self._found[number] = (term, record)

    def learned(self, opening: Opening) -> None:
        """A site knows a later opening that was decided: what was found may be before it."""
        if opening.number > self.opening.number:
            self.opening = opening
            for number in [number for number in self._found if number <= opening.number]:
                del self._found[number]

    def not_asked(self) -> set[int]:
        """The sites that came with an opening that this one has only learned of."""
        return {seat.sender for seat in self.opening.seats} - self._asked

    @property
    def won(self) -> bool:
        """Whether enough follow."""
        return is_quorum(self.opening.seats, self.promises)

    def unfinished(self) -> list[bytes]:
        """What to propose again, in order, since it may have been decided."""
        found: list[bytes] = []
        number = self.opening.number + 1
        while number in self._found:
            found.append(self._found[number][1])
            number += 1
        return found
