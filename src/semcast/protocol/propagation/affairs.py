"""The affairs of a site: all that it does beside passing messages on.

It tells sources what became of their messages, its parent what all below it have, and its children
what everybody has. It asks the manager for what its application wants, stands still for a recovery,
fetches what it lacks then, and learns when the others have gone on without it.
"""

from collections import deque
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.catching import Catching
from semcast.protocol.propagation.config import FederationConfig, Seat, groups_of
from semcast.protocol.propagation.departed import Departed
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.manager import Manager, Sites
from semcast.protocol.propagation.memory import Memory, Recalled
from semcast.protocol.propagation.neighbour import Listener, Neighbour, Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.progress import Progress
from semcast.protocol.propagation.records import (
    ACCEPT,
    BOUNCE,
    CLOSE,
    DONE,
    FETCH,
    FETCHED,
    FLOOR,
    FREEZE,
    OPEN,
    OPENED,
    POLL,
    PROMISE,
    PROPOSE,
    REACHED,
    REFER,
    REPORT,
    RESUME,
    ROLLBACK,
    SETTLED,
    WANT,
    Opening,
    read_motion,
    read_opening,
    read_report,
    read_want,
    write_numbers,
    write_want,
)
from semcast.protocol.propagation.recovering import Past
from semcast.protocol.propagation.resuming import Resuming
from semcast.protocol.propagation.returning import Returning
from semcast.protocol.propagation.rule_names import make_graph
from semcast.protocol.propagation.standing import Standing
from semcast.protocol.propagation.turns import Turns
from semcast.wire.record_fields import RecordReader, RecordWriter

# What only a site that has a seat, in the life that the seat is for, can say to a manager: the word
# of another life would make a majority of sites that are not there.
_OF_SEATS: Final = (PROMISE, ACCEPT, REPORT, OPENED)


@final
class _Hands(Sites):
    """What the manager of this site does, done by the site."""

    def __init__(self, affairs: "Affairs") -> None:
        super().__init__()
        self._affairs: Final = affairs

    def tell(self, site: int, record: bytes, now_ns: i64) -> None:
        self._affairs.tell(site, record, now_ns)

    def heard_ns(self, seat: Seat) -> i64:
        return self._affairs.heard_ns(seat)

    def graph_for(self, seats: tuple[Seat, ...], old: Graph, number: int) -> Graph:
        sites = [seat.sender for seat in seats]
        # The manager may be about to leave.
        center = self._affairs.site if self._affairs.site in sites else min(sites, default=NO_SITE)
        return make_graph(self._affairs.config.rule, groups_of(seats), number, old, center)

    def learn(self, opening: Opening, record: bytes, now_ns: i64) -> None:
        self._affairs.learn(opening, record, now_ns)


@final
class Affairs(Listener):
    """What a site has to do with others, but for passing messages on."""

    def __init__(
        self,
        me: Source,
        config: FederationConfig,
        own: Own,
        turns: Turns,
        streams: Streams,
        neighbours: Neighbours,
        memory: Memory,
        message_bytes_max: int,
        observer: Observer | None,
    ) -> None:
        super().__init__()
        self._memory: Final = memory
        self.config: Final = config
        self._source: Final = me
        self._me: Final = int(me.sender)
        self.site: Final = self._me
        self._own: Final = own
        self._turns: Final = turns
        self._streams: Final = streams
        self._neighbours: Final = neighbours
        self._bytes_max: Final = message_bytes_max
        self._observer: Final = observer
        self.manager: Final = Manager(me, config, streams, memory, _Hands(self))
        # What this site says to itself, so that nothing is done in the midst of something else.
        self._to_me: Final[deque[bytes]] = deque()
        # What the application wants: a seat, or to leave; and when to ask for it again.
        self.wish: Seat | None = None
        self.leaves = False
        self._ask_ns: i64 = NEVER
        self._contacts: Final[list[Source]] = []
        self._contact: int = 0
        self._look_ns: i64 = NEVER
        # Graphs that are not known to be open everywhere; and the newest that is.
        self._past: Final[Past] = {}
        self._done: int = 0
        self.catching: Final = Catching(
            turns, streams, message_bytes_max, config.silence_ns, self._tell_later
        )
        self.returning: Final = Returning(me, streams, turns.delivery, memory, observer)
        self.resuming: Final = Resuming(me, own, turns, neighbours, self._tell_later)
        self._progress: Final = Progress(
            self._me, config.settle_ns, own, turns, streams, self._tell_later
        )
        self._departed: Final = Departed(self._me, config.silence_ns, own, neighbours)
        self._standing: Final = Standing(
            2 * config.silence_ns, turns, self.catching, self.returning, streams, self._tell_later
        )

    # -- telling -----------------------------------------------------------------------------------

    def _tell_later(self, site: int, record: bytes) -> None:
        self.tell(site, record, 0)

    def tell(self, site: int, record: bytes, now_ns: i64) -> None:  # noqa: ARG002
        """Say something to a site on CONTROL."""
        if site == self._me:
            self._to_me.append(record)
            return
        neighbour = self._know(site)
        if neighbour is not None:
            neighbour.tell(record)

    def _know(self, site: int) -> Neighbour | None:
        """A site that this one deals with, or has to from now on."""
        known = self._neighbours.find(site)
        opening = self.manager.opening
        seat = None if opening is None else opening.seat(site)
        if seat is None or site == self._me:
            return known
        if known is None or known.to.incarnation < seat.life:
            known = self._neighbours.meet(seat.source)
        return known

    def heard_ns(self, seat: Seat) -> i64:
        """When a site was last heard, in its life; -1: never; -2: it is in another life."""
        neighbour = self._neighbours.find(seat.sender)
        if neighbour is None or neighbour.to.incarnation < seat.life:
            return -1
        return -2 if neighbour.to.incarnation > seat.life else neighbour.link.heard_ns

    def on_control(self, record: bytes, source: Source, now_ns: i64) -> None:
        """A record came on CONTROL."""
        body = RecordReader(record)
        kind = record[0]
        site = int(source.sender)
        if kind in (BOUNCE, SETTLED, REACHED, FLOOR):
            self._progress.on_record(kind, body, site)
        elif kind == FETCH:
            self.catching.on_fetch(body, site)
        elif kind == FETCHED:
            self.catching.on_fetched(body, now_ns)
        elif kind in (WANT, REFER, ROLLBACK):
            self._on_coming(kind, body, source, now_ns)
        elif kind == RESUME:
            if self.resuming.on_resume(body, source):
                self._came_back(source, now_ns)
        elif kind == CLOSE:
            self._turns.order(record)
        elif kind == OPEN:
            opening = read_opening(record, self._streams)
            if opening.recovers:
                self.learn(opening, record, now_ns)
            else:
                self._turns.order(record)
        elif kind not in _OF_SEATS or self._is_seated(source):
            self._on_council(kind, body, site, now_ns)

    def _is_seated(self, source: Source) -> bool:
        """Whether a life of a site has a seat in the newest opening, so that its word counts."""
        opening = self.manager.opening
        seat = None if opening is None else opening.seat(int(source.sender))
        return seat is not None and seat.life == source.incarnation

    def work(self, now_ns: i64) -> None:
        """Do what this site has told itself, and what follows from what was passed on."""
        while True:
            while self._to_me:
                self.on_control(self._to_me.popleft(), self._source, now_ns)
            self.catching.work(now_ns)
            self._turns.work()
            self._after_work(now_ns)
            if not self._to_me:
                return

    def _after_work(self, now_ns: i64) -> None:
        turns = self._turns
        self._progress.bounce()
        for opening, before in turns.opened:
            if before is not None:
                self._progress.tell_sources(before)
            self._past[opening.number] = dict(opening.graph.groups)
            self.manager.decided(opening, now_ns)
            self.returning.opened(opening)
            self.resuming.opened(opening)
            for site, life in opening.gone:
                self._neighbours.forget(site, life)
            self._departed.note(opening)
            self._after_opening(opening, now_ns)
        turns.opened.clear()
        for site in self._own.targets():
            self._know(site)
        self.resuming.ask()
        self._progress.look(now_ns)

    def _after_opening(self, opening: Opening, now_ns: i64) -> None:
        self.tell(self.manager.site, write_numbers(OPENED, opening.number), now_ns)
        seat = opening.seat(self._me)
        wish = self.wish
        if seat is None and not self.leaves:
            self._come_in_again(opening, now_ns)
        if seat is None or wish is None:
            return
        if seat.version > wish.version:
            # A former life had asked for it, before it crashed.
            self.wish = wish = seat
        if self.leaves or seat.version < wish.version:
            self._ask_ns = now_ns
        else:
            self._ask_ns = NEVER
        if self._look_ns == NEVER:
            self._look_ns = now_ns + self.config.null_ns

    def _come_in_again(self, opening: Opening, now_ns: i64) -> None:
        """A former life had asked to leave, and was granted it: this one asks to be let in."""
        self._contacts[:] = [one.source for one in opening.seats]
        self._ask_ns = now_ns

    # -- coming and going --------------------------------------------------------------------------

    def met(self, source: Source, now_ns: i64) -> None:
        """Another site shows itself: a newcomer may ask it to be let in."""
        if self._turns.opening is None and source not in self._contacts:
            self._contacts.insert(0, source)
            del self._contacts[8:]
            self._contact = 0
            self._ask_ns = min(self._ask_ns, now_ns)

    @property
    def has_asked(self) -> bool:
        """Whether this site knows somebody whom it asks to be let in."""
        return bool(self._contacts)

    def ask(self, now_ns: i64) -> None:
        """Ask for what the application wants, soon."""
        self._ask_ns = min(self._ask_ns, now_ns)

    @property
    def _is_in(self) -> bool:
        """Whether this site has a seat in the graph that counts."""
        opening = self._turns.opening
        return opening is not None and opening.seat(self._me) is not None

    def _ask(self, now_ns: i64) -> None:
        """Ask the manager for what the application wants; a newcomer asks whom it knows."""
        self._ask_ns = now_ns + self.config.silence_ns // 2
        wish = self.wish
        if wish is None:
            return
        waited = self._standing.has_waited(now_ns)
        if self._turns.opening is None and not self.catching.busy and waited:
            # If there was a recovery, it went by without this site.
            self._turns.frozen = False
        returning = self.returning
        record = write_want(wish, self.leaves, returning.former, returning.installed, self._streams)
        if self._is_in or self.leaves:
            self.tell(self.manager.site, record, now_ns)
        elif self._contacts:
            contact = self._contacts[self._contact % len(self._contacts)]
            self._contact += 1
            self._neighbours.meet(contact).tell(record)

    def _on_coming(self, kind: int, body: RecordReader, source: Source, now_ns: i64) -> None:
        if kind == WANT:
            seat, leaves, former, installed = read_want(body, self._streams)
            if seat.sender != source.sender or seat.life != source.incarnation:
                raise RemoteProtocolError("a site that wants something for somebody else")
            if not self.manager.active:
                self._refer(source)
                return
            answer = self.returning.answer(seat.sender, former, installed) if former else b""
            neighbour = self._neighbours.find(seat.sender)
            if answer and neighbour is not None:
                neighbour.tell(answer)
            self.manager.on_want(seat, leaves, now_ns)
        elif kind == REFER:
            manager = body.source()
            body.end()
            if not self._is_in and manager.sender != self._me:
                self._contacts.insert(0, manager)
                del self._contacts[8:]
                self._contact = 0
                self._ask_ns = min(self._ask_ns, now_ns)
        else:
            redo, have = self.returning.told(body)
            self.catching.redo(redo, have, now_ns)

    def _refer(self, source: Source) -> None:
        opening = self.manager.opening
        seat = None if opening is None else opening.seat(self.manager.site)
        if seat is None or seat.sender == self._me:
            return
        out = RecordWriter(REFER)
        out.source(seat.source)
        neighbour = self._neighbours.find(int(source.sender))
        if neighbour is not None:
            neighbour.tell(out.take())

    def _came_back(self, source: Source, now_ns: i64) -> None:
        """A site is in another life, and has all that it had."""
        site = int(source.sender)
        self.manager.came_back(site, int(source.incarnation), now_ns)
        if site == self.manager.site:
            self._ask_ns = min(self._ask_ns, now_ns)
            self.tell(site, write_numbers(OPENED, self._turns.number), now_ns)
        self._progress.say_soon(now_ns)

    def greet(self, source: Source, known: bool, now_ns: i64) -> None:
        """A site is met in this life for the first time. `known`: it was met in a former one."""
        opening = self._turns.opening
        seat = None if opening is None else opening.seat(int(source.sender))
        if known:
            self.resuming.greet(source)
        elif seat is not None and seat.life < source.incarnation:
            # It does not know that this site has a graph with its former life, and says nothing of
            # itself: this site came while it was away.
            self.resuming.greet(source)
            self._came_back(source, now_ns)

    def resume(self, recalled: Recalled, now_ns: i64) -> None:
        """Go on where a former life was."""
        opening = self._turns.opening
        assert opening is not None
        self.manager.ballots.recall(recalled.promised, recalled.accepted)
        if self._turns.before is not None:
            # As the manager it may have to close that for somebody who was away.
            self.manager.decided(self._turns.before, now_ns)
        self.manager.decided(opening, now_ns)
        self._past[opening.number] = dict(opening.graph.groups)
        seat = opening.seat(self._me)
        if seat is not None:
            self.wish = seat
        else:
            self._come_in_again(opening, now_ns)
        self._departed.note(opening)
        self._look_ns = now_ns + self.config.null_ns
        self._progress.say_soon(now_ns)
        self.resuming.begin()
        self.tell(self.manager.site, write_numbers(OPENED, opening.number), now_ns)

    # -- councils ----------------------------------------------------------------------------------

    def _on_council(self, kind: int, body: RecordReader, site: int, now_ns: i64) -> None:
        manager = self.manager
        if kind == REPORT:
            term, attempt, report, past = read_report(body, self._streams)
            manager.on_report(term, attempt, report, past, site, now_ns)
        elif kind in (PROMISE, PROPOSE):
            term, parts = read_motion(body)
            if kind == PROMISE:
                manager.on_promise(term, parts, site, now_ns)
            else:
                manager.on_propose(term, parts, site, now_ns)
        elif kind in (OPENED, DONE):
            number = body.seq()
            body.end()
            if kind == OPENED:
                manager.on_opened(number, site, now_ns)
            else:
                self._all_opened(number)
        elif kind == FREEZE:
            term = (body.seq_or_none(), body.site())
            attempt, number = body.seq_or_none(), body.seq_or_none()
            body.end()
            if manager.ballots.promise(term):
                self._standing.begin(term, attempt, number, self._past, site, now_ns)
        elif kind in (POLL, ACCEPT):
            term = (body.seq_or_none(), body.site())
            number = body.seq_or_none()
            body.end()
            if kind == POLL:
                self._on_poll(term, number, site, now_ns)
            else:
                manager.on_accept(term, number, site, now_ns)
        else:
            raise RemoteProtocolError(f"record of kind {kind}, which there is not")

    def _on_poll(self, term: tuple[int, int], number: int, site: int, now_ns: i64) -> None:
        self.manager.on_poll(term, number, site, now_ns)
        # Whoever becomes the manager has to hear what this site wants, and what it has opened.
        self._ask_ns = min(self._ask_ns, now_ns)
        if self._turns.number:
            self.tell(site, write_numbers(OPENED, self._turns.number), now_ns)

    def _all_opened(self, number: int) -> None:
        """All sites have opened this graph, so everybody has all that was before it."""
        self._done = max(self._done, number)
        if number > self._turns.number:
            return
        self._turns.history.settle_before(number)
        passing = self._turns.passing
        if passing is not None and number == self._turns.number:
            passing.all_before()
        self._own.all_before(number)
        for past in [past for past in self._past if past < number]:
            del self._past[past]
        self._memory.look()

    def may_go(self, now_ns: i64) -> bool:
        """Whether a site that has left need not wait for others any more: all have opened a graph
        without it, or there is nobody left, or nobody who would say so. With atomic recovery others
        write down what they get, so that nobody needs it again.
        """
        opening = self._turns.opening
        if self.config.atomic or opening is None or not opening.seats:
            return True
        if self._done >= opening.number:
            return True
        neighbour = self._neighbours.find(self.manager.site)
        heard_ns = -1 if neighbour is None else neighbour.link.heard_ns
        return self.manager.site != self._me and now_ns - heard_ns > self.config.silence_ns

    # -- recovery ----------------------------------------------------------------------------------

    def learn(self, opening: Opening, record: bytes, now_ns: i64) -> None:
        """An opening was decided. One after a failure counts as soon as this site has what it
        lacks; others come down the tree.
        """
        self.manager.decided(opening, now_ns)
        # The manager lets in whoever comes back before it has opened this graph itself.
        self.returning.opened(opening)
        seat = opening.seat(self._me)
        known = max(self._turns.number, self._standing.reported)
        if not opening.recovers or opening.number <= known or seat is None:
            return
        if seat.life == self._source.incarnation:
            missing = opening.missing_at(self._me, self._standing.report())
            self.catching.go_on_with(opening, record, missing, now_ns)

    def was_left(self, number: int) -> None:
        """Others say that they have gone on without this life: they will not hear it any more, also
        if they had only begun to let it in.
        """
        if number > self._turns.number:
            self.returning.was_left(number)
            self._turns.frozen = True

    # -- time --------------------------------------------------------------------------------------

    def begin(self, opening: Opening, now_ns: i64) -> None:
        """The first opening, which all who are in it know."""
        self.manager.begin(opening, now_ns)
        self._look_ns = now_ns + self.config.null_ns

    def next_deadline_ns(self) -> i64:
        """When `on_timer` is due."""
        soonest = min(self._progress.due_ns, self._ask_ns, self.catching.due_ns)
        return min(soonest, self.manager.next_deadline_ns(self._look_ns))

    def on_timer(self, now_ns: i64) -> None:
        """Do what is due."""
        if self._progress.due_ns <= now_ns:
            self._progress.say()
        if self._ask_ns <= now_ns:
            self._ask(now_ns)
        if self._look_ns <= now_ns:
            self._look_ns = now_ns + self.config.null_ns
            self._say_alive(now_ns)
            if self._turns.opening is not None:
                self._departed.send_elsewhere(self._turns.opening, now_ns)
            self._departed.forget(now_ns)
            self._standing.remind(self.manager.site, self._past, now_ns)
            self._turns.forget_streams()
            if self._turns.opening is not None and not self._turns.frozen:
                self._memory.look()
        if not self.returning.out:
            self.manager.on_timer(now_ns)

    def _say_alive(self, now_ns: i64) -> None:
        """Let those who watch this site hear of it, if they have not lately."""
        graph = self._turns.graph
        opening = self.manager.opening
        if opening is None or self.returning.out:
            return
        watched: set[int] = {self.manager.site}
        if self.manager.active:
            watched.update(seat.sender for seat in opening.seats)
        if graph is not None:
            watched.add(graph.parent(self._me))
            watched.update(graph.children.get(self._me, ()))
        for site in sorted(watched):
            seat = opening.seat(site)
            if site != self._me and seat is not None:
                link = self._neighbours.meet(seat.source).link
                if now_ns - link.said_ns >= self.config.null_ns:
                    link.say(now_ns)
