"""The manager of a federation: wishes and failures in, openings of new graphs out (PROP §5).

Every site has one of these; it acts at the site that is the manager. When sites or groups come and
go it computes a new graph, has it accepted, closes the old one at its roots and opens the new one
at its roots (PROP §5.1). When sites fail it stops the others, collects their histories and opens a
graph without the failed, with the history that all survivors go on from (PROP §5.2.1); or, if
recovery is atomic, it waits for them (PROP §5.2.2). If the manager fails, the first site that
notices takes over and finishes what was begun.
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from semcast.errors import ConfigError, RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.propagation.config import FederationConfig, Seat, check_groups, groups_of
from semcast.protocol.propagation.council import Ballots, Poll, is_quorum
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.records import (
    ACCEPT,
    DONE,
    FREEZE,
    NO_TERM,
    POLL,
    PROMISE,
    PROPOSE,
    Opening,
    Term,
    read_opening,
    with_life,
    write_close,
    write_motion,
    write_numbers,
    write_opening,
)
from semcast.protocol.propagation.recovering import (
    Past,
    Report,
    installed_floors,
    merge,
    newest,
)

# Wishes that come within this time share a graph.
GATHER_NS: Final = 10_000_000
# How many graphs may be opened before the first of them is open everywhere.
UNFINISHED_MAX: Final = 4


@mypyc_attr(allow_interpreted_subclasses=True)
class Sites(ABC):
    """What a manager can do about other sites, and about its own."""

    @abstractmethod
    def tell(self, site: int, record: bytes, now_ns: i64) -> None:
        """Tell a site something, on CONTROL; also this site itself."""

    @abstractmethod
    def heard_ns(self, seat: Seat) -> i64:
        """When a site was last heard, in its life; -1: never; -2: it is in another life."""

    @abstractmethod
    def graph_for(self, seats: tuple[Seat, ...], old: Graph, number: int) -> Graph:
        """A propagation graph of the groups of these seats."""

    @abstractmethod
    def learn(self, opening: Opening, record: bytes, now_ns: i64) -> None:
        """An opening was decided that this site may not have heard of."""


@final
class _Recovery:
    """A recovery that runs: who failed, and what the others have reported."""

    def __init__(self, attempt: int, failed: set[int]) -> None:
        self.attempt: Final = attempt
        # Of those who have a seat. Nobody may have failed but sites that were about to leave.
        self.failed: Final = failed
        self.reports: Final[dict[int, Report]] = {}
        self.past: Final[Past] = {}


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
        self._life: Final = int(me.incarnation)
        self._config: Final = config
        self._streams: Final = streams
        self._sites: Final = sites
        self.ballots: Final = Ballots(memory)
        # The newest opening that is known to be decided, and since when; and the one before it.
        self.opening: Opening | None = None
        self._before: Opening | None = None
        self._since_ns: i64 = 0
        self._term: Term = NO_TERM
        self._poll: Poll | None = None
        self._poll_ns: i64 = NEVER
        # The opening that others have been asked to accept, and who has.
        self._proposal: Opening | None = None
        self._record: bytes = b""
        self._accepts: set[int] = set()
        # What a former manager had accepted, and others may act on: it comes first, in order. And
        # whether the proposal is of these.
        self._inherited: list[bytes] = []
        self._inherits = False
        # By site: what it wants to be; None: to leave. And when to act on it.
        self._wishes: Final[dict[int, Seat | None]] = {}
        self._act_ns: i64 = NEVER
        self._recovery: _Recovery | None = None
        self._attempts: int = 0
        # By site: the newest graph that it has opened. Up to `_done` all have.
        self._opened: Final[dict[int, int]] = {}
        self._done: int = 0
        # Seats that there are no more, and the first graph without them. Until all have opened
        # that, some may wait for what only such a site passes on.
        self._leavers: list[tuple[Seat, int]] = []

    # -- who is the manager ------------------------------------------------------------------------

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
        if self.opening is None or opening.number > self.opening.number:
            if self._config.atomic:
                opening = self._in_present_lives(opening)
            self._note_leavers(opening)
            self._before = self.opening
            self.opening = opening
            self._since_ns = now_ns
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

    def _take_over(self, now_ns: i64) -> None:
        """Ask all to follow this site, since the manager is not heard."""
        opening = self.opening
        assert opening is not None
        term = (self.ballots.promised[0] + 1, self._me)
        self._poll = Poll(term, opening)
        self._poll_ns = now_ns
        record = write_numbers(POLL, term[0], term[1], opening.number)
        for seat in opening.seats:
            self._sites.tell(seat.sender, record, now_ns)

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
        poll = self._poll
        if poll is None or poll.term != term or term < self.ballots.promised or not parts:
            return
        if parts[0]:
            opening = read_opening(parts[0], self._streams)
            poll.learned(opening)
            self._sites.learn(opening, parts[0], now_ns)
        for accepted, record in zip(parts[1::2], parts[2::2], strict=False):
            found = read_opening(record, self._streams)
            poll.found(found.number, _term_of(accepted), record)
        poll.promised(site)
        if not poll.won:
            return
        self._term = term
        self._poll = None
        self._poll_ns = NEVER
        self._since_ns = now_ns
        self._proposal = None
        self._recovery = None
        self._inherited = poll.unfinished()
        self._inherits = False
        if not self._go_on(now_ns):
            self._finish(now_ns)
            self._act_ns = now_ns
        assert self.opening is not None
        self._introduce(poll.not_asked(), self._term, now_ns)
        self._see_opened(self.opening, now_ns)

    def _go_on(self, now_ns: i64) -> bool:
        """Propose what comes next of what a former manager had accepted, if there is any left."""
        self._inherits = bool(self._inherited)
        if self._inherits:
            self._propose(read_opening(self._inherited.pop(0), self._streams), now_ns)
        return self._inherits

    def _introduce(self, sites: set[int], term: Term, now_ns: i64) -> None:
        """These know another manager, and would follow that one for as long as they hear it: ask
        them to follow this one, and to say what they have opened.
        """
        assert self.opening is not None
        record = write_numbers(POLL, *term, self.opening.number)
        for site in sorted(sites):
            self._sites.tell(site, record, now_ns)

    def came_back(self, site: int, life: int, now_ns: i64) -> None:
        """A site is in another life, with all that it had: tell it again what it may lack, and who
        is the manager, since it may have been away when that changed.
        """
        opening = self.opening
        if opening is None:
            return
        self.opening = with_life(opening, site, life)
        if self._poll is not None:
            self._introduce({site}, self._poll.term, now_ns)
        if not self.active:
            return
        self._introduce({site}, self._term, now_ns)
        if self._done:
            self._sites.tell(site, write_numbers(DONE, self._done), now_ns)
        if self._proposal is None:
            self._finish(now_ns)
        else:
            motion = write_motion(PROPOSE, self._term, [self._record])
            self._sites.tell(site, motion, now_ns)

    def _finish(self, now_ns: i64) -> None:
        """The last manager may have told only some of the newest opening: tell all again."""
        before, opening = self._before, self.opening
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
                if self._done:
                    self._sites.tell(seat.sender, write_numbers(DONE, self._done), now_ns)
                return
        elif present is not None and present.life == seat.life and present.version >= seat.version:
            return
        self._wishes[seat.sender] = None if leaves else seat
        self._act_ns = min(self._act_ns, now_ns + GATHER_NS)

    def _act(self, now_ns: i64) -> None:
        """Make a graph of what sites want."""
        opening = self.opening
        self._act_ns = NEVER
        if opening is None or not self.active or self._recovery is not None:
            return
        # Whoever comes back can go on from one graph to the next, and not over several.
        unfinished_max = 0 if self._config.atomic else UNFINISHED_MAX
        if self._proposal is not None or opening.number - self._done > unfinished_max:
            # It is looked at again when this is over.
            return
        seats = self._wished(opening)
        if seats == opening.seats:
            return
        number = opening.number + 1
        try:
            check_groups(groups_of(seats), len(seats))
            graph = self._sites.graph_for(seats, opening.graph, number)
        except ConfigError:
            # One of the wishes cannot be granted; none of them is, until sites ask again.
            return
        self._propose(Opening(graph, seats, self._me, begun=opening.begun), now_ns)

    def _wished(self, opening: Opening) -> tuple[Seat, ...]:
        seats: list[Seat] = []
        for seat in opening.seats:
            wish = self._wishes.pop(seat.sender, seat)
            if wish is not None:
                seats.append(wish)
        for sender in sorted(self._wishes):
            wish = self._wishes[sender]
            if wish is not None:
                seats.append(wish)
        self._wishes.clear()
        return tuple(seats)

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
            self._introduce(newcomers, self._term, now_ns)
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
        self._opened[site] = max(self._opened.get(site, 0), number)
        self._see_opened(opening, now_ns)

    def _see_opened(self, opening: Opening, now_ns: i64) -> None:
        """Tell all which graph everybody has opened, if that is news."""
        if not self.active:
            return
        least = min(self._opened.get(seat.sender, 0) for seat in opening.seats)
        if least > self._done:
            self._done = least
            self._act_ns = min(self._act_ns, now_ns)
            record = write_numbers(DONE, least)
            leavers = [seat for seat, number in self._leavers if number <= least]
            self._leavers = [one for one in self._leavers if one[1] > least]
            for seat in (*opening.seats, *leavers):
                self._sites.tell(seat.sender, record, now_ns)

    # -- failures ----------------------------------------------------------------------------------

    def silent(self, now_ns: i64) -> set[int]:
        """The sites that were not heard for too long."""
        opening = self.opening
        assert opening is not None
        found: set[int] = set()
        for seat in opening.seats:
            if seat.sender != self._me:
                heard = self._sites.heard_ns(seat)
                waited = now_ns - max(heard, self._since_ns)
                if heard == -2 or waited > self._config.silence_ns:
                    found.add(seat.sender)
        return found

    def _lost_leavers(self, now_ns: i64) -> bool:
        """Whether a site went before all had opened a graph without it: what it was to pass on in
        the graphs before, a Close or an Open, comes to nobody any more.
        """
        return any(
            now_ns - max(self._sites.heard_ns(seat), self._since_ns) > self._config.silence_ns
            for seat, number in self._leavers
            if number > self._done
        )

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

    def _recover(self, failed: set[int], now_ns: i64) -> None:
        """Stop all survivors, and ask what they have."""
        opening = self.opening
        assert opening is not None
        self._attempts += 1
        self._proposal = None
        self._recovery = _Recovery(self._attempts, failed)
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
        recovery.reports[site] = report
        recovery.past.update(past)
        survivors = {seat.sender for seat in opening.seats} - recovery.failed
        if self._proposal is None and survivors <= recovery.reports.keys():
            self._propose(self._recovered(recovery, opening), now_ns)

    def _set_free(self, opening: Opening, site: int, now_ns: i64) -> None:
        """A site stands still for a recovery that a former manager began: bring all together now,
        unless what the site waits for is on its way.
        """
        if self._config.atomic or self._inherits or self._proposal is not None:
            return  # it will say so again
        if opening.recovers and self._opened.get(site, 0) < opening.number:
            return
        failed = self.silent(now_ns)
        if is_quorum(opening.seats, {seat.sender for seat in opening.seats} - failed):
            self._recover(failed, now_ns)

    def _recovered(self, recovery: _Recovery, opening: Opening) -> Opening:
        """The opening that the survivors go on with."""
        number = opening.number + 1
        seats = tuple(seat for seat in opening.seats if seat.sender not in recovery.failed)
        gone = tuple(
            (seat.sender, seat.life) for seat in opening.seats if seat.sender in recovery.failed
        )
        # Nobody has asked those who were about to leave, or waits for them any more.
        gone += tuple((seat.sender, seat.life) for seat, _ in self._leavers)
        reports = recovery.reports
        floors = installed_floors(reports, recovery.past)
        return Opening(
            graph=self._sites.graph_for(seats, opening.graph, number),
            seats=seats,
            manager=self._me,
            gone=gone,
            recovers=True,
            history=tuple(merge(reports, recovery.past)),
            past=dict(recovery.past),
            ordered=tuple(newest(reports).items()),
            floors=tuple((graph, group, place) for (graph, group), place in sorted(floors.items())),
            begun=opening.begun,
        )

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
            self._see_manager(opening, now_ns)

    def _see_failures(self, opening: Opening, now_ns: i64) -> None:
        if self._config.atomic or self._inherits:
            # What others may act on is not to be given up.
            return
        failed = self.silent(now_ns)
        recovery = self._recovery
        if recovery is not None and failed <= recovery.failed:
            # Another recovery begins only if somebody else failed; who is heard again is in it.
            return
        present = {seat.sender for seat in opening.seats} - failed
        if (failed or self._lost_leavers(now_ns)) and is_quorum(opening.seats, present):
            self._recover(failed, now_ns)

    def _see_manager(self, opening: Opening, now_ns: i64) -> None:
        """Take over from a manager that is silent: the first in line first."""
        silent = self.silent(now_ns)
        if (
            opening.seat(self.site) is not None
            and self.site not in silent
            and self.site != self._me
        ):
            return
        line = [seat.sender for seat in opening.seats if seat.sender not in silent]
        seat = opening.seat(self.site)
        heard = -1 if seat is None else self._sites.heard_ns(seat)
        waited = now_ns - max(heard, self._since_ns)
        # One that has left has not failed, and nobody need wait to be sure of it.
        patience = 0 if seat is None else self._config.silence_ns
        patience += line.index(self._me) * 2 * self._config.null_ns
        again = self._poll is None or now_ns - self._poll_ns > self._config.silence_ns
        if waited > patience and again:
            self._take_over(now_ns)


def _term_of(record: bytes) -> Term:
    if len(record) != 17:
        raise RemoteProtocolError("a term that is none")
    return (
        int.from_bytes(record[1:9], "little", signed=True),
        int.from_bytes(record[9:17], "little", signed=True),
    )
