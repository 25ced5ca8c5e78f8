"""What is decided, and how far the sites are with it: openings and what sites say of them in.

Who is silent comes out, which sites are about to leave, and which graph everybody has opened. Every
site keeps this, since each may become the manager. Knows nothing of how an opening is decided.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.propagation.config import FederationConfig, Seat
from semcast.protocol.propagation.council import is_quorum
from semcast.protocol.propagation.hands import Sites
from semcast.protocol.propagation.records import Opening, with_life

# How many graphs may be opened before the first of them is open everywhere.
UNFINISHED_MAX: Final = 4


@final
class Decided:
    """The newest opening that is decided, and how far the sites are with it."""

    def __init__(self, me: Source, config: FederationConfig, sites: Sites) -> None:
        self._me: Final = int(me.sender)
        self._life: Final = int(me.incarnation)
        self._config: Final = config
        self._sites: Final = sites
        # The newest opening that is known to be decided, and the one before it.
        self.opening: Opening | None = None
        self.before: Opening | None = None
        # Since when that one is known, or since when this site is the manager, if that came later.
        # No site counts as silent for longer.
        self.since_ns: i64 = 0
        # By site: the newest graph that it has opened. Up to `done` all have.
        self._opened: Final[dict[int, int]] = {}
        self.done: int = 0
        # Seats that there are no more, and the first graph without them. Until all have opened
        # that, some may wait for what only such a site passes on.
        self._leavers: list[tuple[Seat, int]] = []

    # -- openings ----------------------------------------------------------------------------------

    def learn(self, opening: Opening, now_ns: i64) -> None:
        """An opening is known to be decided."""
        if self.opening is None or opening.number > self.opening.number:
            if self._config.atomic:
                opening = self._in_present_lives(opening)
            self._note_leavers(opening)
            self.before = self.opening
            self.opening = opening
            self.since_ns = now_ns
            present = {seat.sender for seat in opening.seats}
            for site in [site for site in self._opened if site not in present]:
                del self._opened[site]

    def _note_leavers(self, opening: Opening) -> None:
        """Note whose seats there are no more. After a failure nobody waits for them: what comes
        next goes to each site directly.
        """
        if opening.recovers or self.opening is None:
            self._leavers = []
            return
        # What came before these, all have opened: more are never unfinished.
        oldest = opening.number - UNFINISHED_MAX
        self._leavers = [one for one in self._leavers if one[1] >= oldest]
        present = {(seat.sender, seat.life) for seat in opening.seats}
        for seat in self.opening.seats:
            if (seat.sender, seat.life) not in present:
                self._leavers.append((seat, opening.number))

    def _in_present_lives(self, opening: Opening) -> Opening:
        """The same opening with sites in the lives that they are known to be in: it may have been
        proposed before some of them came back.
        """
        opening = with_life(opening, self._me, self._life)
        for seat in () if self.opening is None else self.opening.seats:
            opening = with_life(opening, seat.sender, seat.life)
        return opening

    def came_back(self, site: int, life: int) -> None:
        """A site is in another life, with all that it had."""
        if self.opening is not None:
            self.opening = with_life(self.opening, site, life)

    # -- who has opened what -----------------------------------------------------------------------

    def opened(self, number: int, site: int) -> None:
        """A site has opened a graph."""
        self._opened[site] = max(self._opened.get(site, 0), number)

    def has_opened(self, opening: Opening, site: int) -> bool:
        """Whether a site has said that it has opened this graph, or a later one."""
        return self._opened.get(site, 0) >= opening.number

    def advance(self, opening: Opening) -> tuple[Seat, ...]:
        """See which graph everybody has opened. If that is news: who is to hear of it, and these
        are also the sites that left with that graph or before.
        """
        least = min(self._opened.get(seat.sender, 0) for seat in opening.seats)
        if least <= self.done:
            return ()
        self.done = least
        leavers = [seat for seat, number in self._leavers if number <= least]
        self._leavers = [one for one in self._leavers if one[1] > least]
        return (*opening.seats, *leavers)

    # -- who is there ------------------------------------------------------------------------------

    def leavers(self) -> list[Seat]:
        """Seats that there are no more, while not all have opened a graph without them."""
        return [seat for seat, _ in self._leavers]

    def lost_leavers(self, now_ns: i64) -> bool:
        """Whether a site went before all had opened a graph without it: what it was to pass on in
        the graphs before, a Close or an Open, comes to nobody any more.
        """
        return any(
            now_ns - max(self._sites.heard_ns(seat), self.since_ns) > self._config.silence_ns
            for seat, number in self._leavers
            if number > self.done
        )

    def silent(self, now_ns: i64) -> set[int]:
        """The sites that were not heard for too long."""
        opening = self.opening
        assert opening is not None
        found: set[int] = set()
        for seat in opening.seats:
            if seat.sender != self._me:
                heard = self._sites.heard_ns(seat)
                waited = now_ns - max(heard, self.since_ns)
                if heard == -2 or waited > self._config.silence_ns:
                    found.add(seat.sender)
        return found

    def is_minority(self, now_ns: i64) -> bool:
        """Whether so many sites are silent that the others cannot go on as long as they are."""
        opening = self.opening
        if opening is None or opening.seat(self._me) is None:
            return False
        return self.cannot_lose(self.silent(now_ns))

    def cannot_lose(self, lost: set[int]) -> bool:
        """Whether the others cannot go on without these; with atomic recovery, they wait."""
        if self._config.atomic or self.opening is None:
            return False
        left = {seat.sender for seat in self.opening.seats} - lost
        return not is_quorum(self.opening.seats, left)
