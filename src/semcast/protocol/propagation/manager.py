"""The manager of a federation: wishes and failures in, openings of new graphs out (PROP §5).

Every site has one of these; it acts at the site that is the manager. When sites or groups come and
go it computes a new graph, has it accepted, closes the old one at its roots and opens the new one
at its roots (PROP §5.1). When sites fail it stops the others, collects their histories and opens a
graph without the failed, with the history that all survivors go on from (PROP §5.2.1); or, if
recovery is atomic, it waits for them (PROP §5.2.2). If the manager fails, the first site that
notices takes over and finishes what was begun.

This file says what the manager does, and when. What it knows is kept by `Decided`, `Wishes`,
`Recovery` and, of who follows it, `Candidacy`.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.propagation.candidacy import Candidacy
from semcast.protocol.propagation.config import FederationConfig, Seat
from semcast.protocol.propagation.council import Ballots, is_quorum
from semcast.protocol.propagation.decided import UNFINISHED_MAX, Decided
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.hands import Sites
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import (
    ACCEPT,
    DONE,
    FREEZE,
    NO_TERM,
    PROMISE,
    PROPOSE,
    Opening,
    Term,
    read_opening,
    write_close,
    write_motion,
    write_numbers,
    write_opening,
)
from semcast.protocol.propagation.recovering import Past, Report
from semcast.protocol.propagation.recovery import Recovery
from semcast.protocol.propagation.wishes import Wishes

__all__ = ["Manager", "Sites"]

# Wishes that come within this time share a graph.
GATHER_NS: Final = 10_000_000


@final
class Manager:
    """The part of a site that is the manager, or may become it."""

    def __init__(
        self,
        me: Source,
        config: FederationConfig,
        streams: Streams,
        memory: Memory,
        sites: Sites,
    ) -> None:
        self._me: Final = int(me.sender)
        self._config: Final = config
        self._streams: Final = streams
        self._sites: Final = sites
        self.ballots: Final = Ballots(memory)
        self._decided: Final = Decided(me, config, sites)
        self._candidacy: Final = Candidacy(
            self._me, config, streams, sites, self.ballots, self._decided
        )
        self._term: Term = NO_TERM
        # The opening that others have been asked to accept, and who has.
        self._proposal: Opening | None = None
        self._record: bytes = b""
        self._accepts: set[int] = set()
        # What a former manager had accepted, and others may act on: it comes first, in order. And
        # whether the proposal is of these.
        self._inherited: list[bytes] = []
        self._inherits = False
        # What sites want, and when to act on it.
        self._wishes: Final = Wishes()
        self._act_ns: i64 = NEVER
        self._recovery: Recovery | None = None
        self._attempts: int = 0

    # -- who is the manager ------------------------------------------------------------------------

    @property
    def opening(self) -> Opening | None:
        """The newest opening that is known to be decided."""
        return self._decided.opening

    @property
    def active(self) -> bool:
        """Whether this site is the manager."""
        return self._term != NO_TERM and self._term == self.ballots.promised

    @property
    def site(self) -> int:
        """The manager, as far as this site knows."""
        if self.ballots.promised != NO_TERM:
            return self.ballots.promised[1]
        return self._me if self.opening is None else self.opening.manager

    @property
    def recovering(self) -> bool:
        """Whether the survivors of a failure are being brought together."""
        return self._recovery is not None

    def prospects(self) -> list[tuple[Term, Opening]]:
        """The newest opening that is known to be decided, and what this site has accepted of those
        that come after it: whatever is to be decided next, each with its term.
        """
        if self.opening is None:
            return []
        return [(NO_TERM, self.opening)] + [
            (term, read_opening(record, self._streams))
            for term, record in self.ballots.accepted_after(self.opening.number)
        ]

    def begin(self, opening: Opening, now_ns: i64) -> None:
        """The first opening, which needs no decision: all who are in it know it."""
        self.decided(opening, now_ns)
        term = (1, opening.manager)
        self.ballots.promise(term)
        if opening.manager == self._me:
            self._term = term

    def decided(self, opening: Opening, now_ns: i64) -> None:
        """An opening is known to be decided."""
        self._decided.learn(opening, now_ns)

    def on_poll(self, term: Term, number: int, site: int, now_ns: i64) -> None:
        """A site wants to be the manager and knows openings up to `number`."""
        if not self.ballots.promise(term):
            return
        parts = [b""]
        opening = self.opening
        if opening is not None and opening.number > number:
            parts[0] = write_opening(opening, self._streams)
            number = opening.number
        for accepted, record in self.ballots.accepted_after(number):
            parts += [write_numbers(ACCEPT, *accepted), record]
        self._sites.tell(site, write_motion(PROMISE, term, parts), now_ns)

    def on_promise(self, term: Term, parts: list[bytes], site: int, now_ns: i64) -> None:
        """A site follows, and says what it knows."""
        poll = self._candidacy.on_promise(term, parts, site, now_ns)
        if poll is None:
            return
        self._term = term
        self._decided.since_ns = now_ns
        self._proposal = None
        self._recovery = None
        self._inherited = poll.unfinished()
        self._inherits = False
        if not self._go_on(now_ns):
            self._finish(now_ns)
            self._act_ns = now_ns
        opening = self.opening
        assert opening is not None
        self._candidacy.introduce(poll.not_asked(), self._term, now_ns)
        self._see_opened(opening, now_ns)

    def _go_on(self, now_ns: i64) -> bool:
        """Propose what comes next of what a former manager had accepted, if there is any left."""
        self._inherits = bool(self._inherited)
        if self._inherits:
            self._propose(read_opening(self._inherited.pop(0), self._streams), now_ns)
        return self._inherits

    def came_back(self, site: int, life: int, now_ns: i64) -> None:
        """A site is in another life, with all that it had: tell it again what it may lack, and who
        is the manager, since it may have been away when that changed.
        """
        if self.opening is None:
            return
        self._decided.came_back(site, life)
        self._candidacy.ask(site, now_ns)
        if not self.active:
            return
        self._candidacy.introduce({site}, self._term, now_ns)
        if self._decided.done:
            self._sites.tell(site, write_numbers(DONE, self._decided.done), now_ns)
        if self._proposal is None:
            self._finish(now_ns)
        else:
            motion = write_motion(PROPOSE, self._term, [self._record])
            self._sites.tell(site, motion, now_ns)

    def _finish(self, now_ns: i64) -> None:
        """The last manager may have told only some of the newest opening: tell all again."""
        before, opening = self._decided.before, self.opening
        assert opening is not None
        record = write_opening(opening, self._streams)
        if opening.recovers:
            self._open_directly(opening, record, now_ns)
        elif before is not None and before.number == opening.number - 1:
            self._close_and_open(before, opening, record, now_ns)

    # -- openings ----------------------------------------------------------------------------------

    def on_want(self, seat: Seat, leaves: bool, now_ns: i64) -> None:
        """A site wants to come, to be in other groups, or to leave."""
        opening = self.opening
        if opening is None or not self.active:
            return
        present = opening.seat(seat.sender)
        if present is not None and present.life != seat.life:
            # A life that is over: or the former one of this site, which has to be left behind
            # first. The site asks again.
            return
        if leaves:
            if present is None:
                # It goes when all have opened a graph without it.
                if self._decided.done:
                    self._sites.tell(seat.sender, write_numbers(DONE, self._decided.done), now_ns)
                return
        elif present is not None and present.life == seat.life and present.version >= seat.version:
            return
        self._wishes.note(seat.sender, None if leaves else seat)
        self._act_ns = min(self._act_ns, now_ns + GATHER_NS)

    def _act(self, now_ns: i64) -> None:
        """Make a graph of what sites want."""
        opening = self.opening
        self._act_ns = NEVER
        if opening is None or not self.active or self._recovery is not None:
            return
        # Whoever comes back can go on from one graph to the next, and not over several.
        unfinished_max = 0 if self._config.atomic else UNFINISHED_MAX
        if self._proposal is not None or opening.number - self._decided.done > unfinished_max:
            # It is looked at again when this is over.
            return
        wanted = self._wishes.grant(opening, self._me, self._sites)
        if wanted is not None:
            self._propose(wanted, now_ns)

    def _propose(self, opening: Opening, now_ns: i64) -> None:
        before = self.opening
        assert before is not None
        # Each proposal has a term of its own, so that answers to another one are told apart. Only
        # this site acts on what it proposes, so nobody need be asked to follow again.
        self._term = (self._term[0] + 1, self._me)
        self.ballots.promise(self._term)
        self._proposal = opening
        self._record = write_opening(opening, self._streams)
        self._accepts = set()
        motion = write_motion(PROPOSE, self._term, [self._record])
        for seat in before.seats:
            self._sites.tell(seat.sender, motion, now_ns)

    def on_propose(self, term: Term, parts: list[bytes], site: int, now_ns: i64) -> None:
        """The manager asks this site to accept an opening."""
        if len(parts) != 1:
            raise RemoteProtocolError("a proposal without its opening")
        opening = read_opening(parts[0], self._streams)
        known = 0 if self.opening is None else self.opening.number
        if opening.number > known and not self.ballots.accept(term, opening.number, parts[0]):
            return
        record = write_numbers(ACCEPT, term[0], term[1], opening.number)
        self._sites.tell(site, record, now_ns)

    def on_accept(self, term: Term, number: int, site: int, now_ns: i64) -> None:
        """A site has accepted an opening."""
        proposal, before = self._proposal, self.opening
        if proposal is None or before is None or not self.active or term != self._term:
            return
        if number != proposal.number:
            return
        self._accepts.add(site)
        is_decided = before.number >= proposal.number
        if not is_decided and not is_quorum(before.seats, self._accepts):
            return
        self._proposal = None
        self._recovery = None
        if is_decided:
            # A former manager had it decided, and this site has heard of that meanwhile.
            self._finish(now_ns)
            if not self._go_on(now_ns):
                self._act_ns = now_ns
            return
        record = self._record
        self.decided(proposal, now_ns)
        if proposal.manager != self._me:
            known = {seat.sender for seat in before.seats}
            newcomers = {seat.sender for seat in proposal.seats} - known
            self._candidacy.introduce(newcomers, self._term, now_ns)
        if proposal.recovers:
            self._open_directly(proposal, record, now_ns)
        else:
            self._close_and_open(before, proposal, record, now_ns)
        if not self._go_on(now_ns):
            self._act_ns = now_ns

    def _close_and_open(self, before: Opening, after: Opening, record: bytes, now_ns: i64) -> None:
        """Close the old graph at its roots, and open the new one at its roots (PROP §5.1). Sites
        that have no place in it are told too, or what they hold for others is lost (R4).
        """
        close = write_close(before.number)
        for root in before.graph.roots:
            self._sites.tell(root, close, now_ns)
        told = set(after.graph.roots)
        for seat in (*before.seats, *after.seats):
            if not after.graph.holds(seat.sender):
                told.add(seat.sender)
        for site in sorted(told):
            self._sites.tell(site, record, now_ns)

    def _open_directly(self, opening: Opening, record: bytes, now_ns: i64) -> None:
        """After a failure the ways down the trees may be broken."""
        for seat in opening.seats:
            self._sites.tell(seat.sender, record, now_ns)

    def on_opened(self, number: int, site: int, now_ns: i64) -> None:
        """A site has opened a graph."""
        opening = self.opening
        if opening is None or opening.seat(site) is None:
            return
        self._decided.opened(number, site)
        self._see_opened(opening, now_ns)

    def _see_opened(self, opening: Opening, now_ns: i64) -> None:
        """Tell all which graph everybody has opened, if that is news."""
        if not self.active:
            return
        told = self._decided.advance(opening)
        if told:
            self._act_ns = min(self._act_ns, now_ns)
            record = write_numbers(DONE, self._decided.done)
            for seat in told:
                self._sites.tell(seat.sender, record, now_ns)

    # -- failures ----------------------------------------------------------------------------------

    def is_minority(self, now_ns: i64) -> bool:
        """Whether so many sites are silent that the others cannot go on as long as they are."""
        return self._decided.is_minority(now_ns)

    def cannot_lose(self, lost: set[int]) -> bool:
        """Whether the others cannot go on without these; with atomic recovery, they wait."""
        return self._decided.cannot_lose(lost)

    def _recover(self, failed: set[int], now_ns: i64) -> None:
        """Stop all survivors, and ask what they have."""
        opening = self.opening
        assert opening is not None
        self._attempts += 1
        self._proposal = None
        self._recovery = Recovery(self._attempts, failed)
        record = write_numbers(FREEZE, *self._term, self._attempts, opening.number)
        for seat in opening.seats:
            if seat.sender not in failed:
                self._sites.tell(seat.sender, record, now_ns)

    def on_report(
        self, term: Term, attempt: int, report: Report, past: Past, site: int, now_ns: i64
    ) -> None:
        """A survivor says what it has."""
        recovery, opening = self._recovery, self.opening
        if opening is None or not self.active:
            return
        if recovery is None:
            self._set_free(opening, site, now_ns)
            return
        if term != self._term or attempt != recovery.attempt or site in recovery.failed:
            return
        recovery.reported(site, report, past)
        if self._proposal is None and recovery.is_complete(opening):
            leavers = self._decided.leavers()
            self._propose(recovery.outcome(opening, leavers, self._me, self._sites), now_ns)

    def _set_free(self, opening: Opening, site: int, now_ns: i64) -> None:
        """A site stands still for a recovery that a former manager began: bring all together now,
        unless what the site waits for is on its way.
        """
        if self._config.atomic or self._inherits or self._proposal is not None:
            return  # it will say so again
        if opening.recovers and not self._decided.has_opened(opening, site):
            return
        failed = self._decided.silent(now_ns)
        if is_quorum(opening.seats, {seat.sender for seat in opening.seats} - failed):
            self._recover(failed, now_ns)

    # -- time --------------------------------------------------------------------------------------

    def next_deadline_ns(self, look_ns: i64) -> i64:
        """When `on_timer` is due. `look_ns`: when to look who is silent."""
        return min(self._act_ns, look_ns)

    def on_timer(self, now_ns: i64) -> None:
        """Act on wishes, and see who is silent."""
        opening = self.opening
        if opening is None or opening.seat(self._me) is None:
            self._act_ns = NEVER
            return
        if self._act_ns <= now_ns:
            self._act(now_ns)
        if self.active:
            self._see_failures(opening, now_ns)
        else:
            self._candidacy.see_manager(opening, self.site, now_ns)

    def _see_failures(self, opening: Opening, now_ns: i64) -> None:
        if self._config.atomic or self._inherits:
            # What others may act on is not to be given up.
            return
        failed = self._decided.silent(now_ns)
        recovery = self._recovery
        if recovery is not None and failed <= recovery.failed:
            # Another recovery begins only if somebody else failed; who is heard again is in it.
            return
        present = {seat.sender for seat in opening.seats} - failed
        if (failed or self._decided.lost_leavers(now_ns)) and is_quorum(opening.seats, present):
            self._recover(failed, now_ns)
