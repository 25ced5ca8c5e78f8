"""To become the manager: a manager that is silent goes in, and the poll that this site wins out.

If the manager fails, the first site that notices asks all others to follow it, and to say what they
have accepted (`council`). What the new manager does then is not known here.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER
from semcast.protocol.propagation.config import FederationConfig
from semcast.protocol.propagation.council import Ballots, Poll
from semcast.protocol.propagation.decided import Decided
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.hands import Sites
from semcast.protocol.propagation.records import POLL, Opening, Term, read_opening, write_numbers


@final
class Candidacy:
    """Whether this site asks others to follow it, and who does."""

    def __init__(
        self,
        me: int,
        config: FederationConfig,
        streams: Streams,
        sites: Sites,
        ballots: Ballots,
        decided: Decided,
    ) -> None:
        self._me: Final = me
        self._config: Final = config
        self._streams: Final = streams
        self._sites: Final = sites
        self._ballots: Final = ballots
        self._decided: Final = decided
        self._poll: Poll | None = None
        self._poll_ns: i64 = NEVER

    def see_manager(self, opening: Opening, manager: int, now_ns: i64) -> None:
        """Take over from a manager that is silent: the first in line first."""
        silent = self._decided.silent(now_ns)
        if opening.seat(manager) is not None and manager not in silent and manager != self._me:
            return
        line = [seat.sender for seat in opening.seats if seat.sender not in silent]
        seat = opening.seat(manager)
        heard = -1 if seat is None else self._sites.heard_ns(seat)
        waited = now_ns - max(heard, self._decided.since_ns)
        # One that has left has not failed, and nobody need wait to be sure of it.
        patience = 0 if seat is None else self._config.silence_ns
        patience += line.index(self._me) * 2 * self._config.null_ns
        again = self._poll is None or now_ns - self._poll_ns > self._config.silence_ns
        if waited > patience and again:
            self._take_over(now_ns)

    def _take_over(self, now_ns: i64) -> None:
        """Ask all to follow this site, since the manager is not heard."""
        opening = self._decided.opening
        assert opening is not None
        term = (self._ballots.promised[0] + 1, self._me)
        self._poll = Poll(term, opening)
        self._poll_ns = now_ns
        record = write_numbers(POLL, term[0], term[1], opening.number)
        for seat in opening.seats:
            self._sites.tell(seat.sender, record, now_ns)

    def on_promise(self, term: Term, parts: list[bytes], site: int, now_ns: i64) -> Poll | None:
        """A site follows, and says what it knows. If enough do, the poll that is won comes out."""
        poll = self._poll
        if poll is None or poll.term != term or term < self._ballots.promised or not parts:
            return None
        if parts[0]:
            opening = read_opening(parts[0], self._streams)
            poll.learned(opening)
            self._sites.learn(opening, parts[0], now_ns)
        for accepted, record in zip(parts[1::2], parts[2::2], strict=False):
            found = read_opening(record, self._streams)
            poll.found(found.number, _term_of(accepted), record)
        poll.promised(site)
        if not poll.won:
            return None
        self._poll = None
        self._poll_ns = NEVER
        return poll

    def ask(self, site: int, now_ns: i64) -> None:
        """A site is in another life: if the others are asked to follow this one, it is, too."""
        if self._poll is not None:
            self.introduce({site}, self._poll.term, now_ns)

    def introduce(self, sites: set[int], term: Term, now_ns: i64) -> None:
        """These know another manager, and would follow that one for as long as they hear it: ask
        them to follow this one, and to say what they have opened.
        """
        opening = self._decided.opening
        assert opening is not None
        record = write_numbers(POLL, *term, opening.number)
        for site in sorted(sites):
            self._sites.tell(site, record, now_ns)


def _term_of(record: bytes) -> Term:
    if len(record) != 17:
        raise RemoteProtocolError("a term that is none")
    return (
        int.from_bytes(record[1:9], "little", signed=True),
        int.from_bytes(record[9:17], "little", signed=True),
    )
