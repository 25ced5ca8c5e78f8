"""Who the manager is, and which opening comes next: what every site promises and accepts.

PROP §5.1 has one manager, and elects another if it fails. Sites here may also be wrong about that,
so nobody acts alone: whoever wants to be the manager needs the promises of a majority of the sites,
and an opening counts once a majority has accepted it (as in Paxos, one decision per graph number).
Of an even number, half is enough if the site that has been there longest is among them. So there is
one sequence of openings, whatever fails, and the next manager finds an unfinished one.
"""

from typing import Final, final

from semcast.protocol.propagation.config import Seat
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import NO_TERM, Opening, Term

# A term beyond this was never asked for by a site: managers would have to fail all day long.
TERM_MAX: Final = 1 << 40


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
        # The newest opening that was accepted: in which term, its number and its record.
        self._accepted_term: Term = NO_TERM
        self._accepted_number: int = 0
        self._accepted: bytes = b""

    def promise(self, term: Term) -> bool:
        """Whether the site follows whoever has this term from now on."""
        if term < self.promised or term[0] > TERM_MAX:
            return False
        if term > self.promised:
            self.promised = term
            self._write_down()
        return True

    def _write_down(self) -> None:
        self._memory.ballot(
            self.promised, self._accepted_term, self._accepted_number, self._accepted
        )

    def recall(self, promised: Term, accepted: tuple[Term, int, bytes] | None) -> None:
        """What a former life had promised and accepted."""
        self.promised = promised
        if accepted is not None:
            self._accepted_term, self._accepted_number, self._accepted = accepted

    def accepted(self) -> tuple[Term, int, bytes] | None:
        """The newest opening that was accepted."""
        if not self._accepted_number:
            return None
        return self._accepted_term, self._accepted_number, self._accepted

    def accept(self, term: Term, number: int, record: bytes) -> bool:
        """Whether the site accepts an opening."""
        if not self.promise(term):
            return False
        self._accepted_term, self._accepted_number, self._accepted = term, number, record
        self._write_down()
        return True

    def accepted_after(self, number: int) -> tuple[Term, bytes] | None:
        """The opening that was accepted, if it comes after this number."""
        if self._accepted_number > number:
            return self._accepted_term, self._accepted
        return None


@final
class Poll:
    """A site asks the others to follow it."""

    def __init__(self, term: Term, opening: Opening) -> None:
        self.term: Final = term
        self.opening = opening
        self._asked: Final = {seat.sender for seat in opening.seats}
        self.promises: Final[set[int]] = set()
        # The opening that was accepted in the latest term, of those after `opening`.
        self._found: tuple[Term, bytes] | None = None

    def promised(self, site: int) -> None:
        """A site follows."""
        self.promises.add(site)

    def found(self, term: Term, record: bytes) -> None:
        """A site has accepted an opening that this one does not know to be decided."""
        if self._found is None or term > self._found[0]:
            self._found = (term, record)

    def learned(self, opening: Opening) -> None:
        """A site knows a later opening that was decided: what was found may be before it."""
        if opening.number > self.opening.number:
            self.opening = opening
            self._found = None

    def not_asked(self) -> set[int]:
        """The sites that came with an opening that this one has only learned of."""
        return {seat.sender for seat in self.opening.seats} - self._asked

    @property
    def won(self) -> bool:
        """Whether enough follow."""
        return is_quorum(self.opening.seats, self.promises)

    def unfinished(self) -> bytes:
        """What to propose again, since it may have been decided; nothing if there is none."""
        return b"" if self._found is None else self._found[1]
