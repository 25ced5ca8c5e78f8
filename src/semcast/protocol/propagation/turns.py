"""Which graph a site is in, and whose turn it is: lines that wait in, installed entries out.

    CLOSED(g) --Open(g+1)--> OPEN(g+1) --Close(g+1)--> CLOSED(g+1)

While its graph is open a site takes from each line what there is room for. After a Close it touches
nothing until the next graph opens; messages of sources wait (PROP §5.1). An entry, Open or Close of
a graph that is not due yet waits at the head of its line; one of a graph that is over is dropped.

A source's message is accepted only if this site has been the primary destination of its group ever
since the graph that the message names (readings, R1); else the source is told where to begin anew.
At an Open, the Open itself goes on to the children first (R3).
"""

from typing import Final, final

from semcast.ids import Source
from semcast.protocol.observer import Observer
from semcast.protocol.propagation.config import FederationConfig
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.graph import NO_SITE, Graph
from semcast.protocol.propagation.history import History
from semcast.protocol.propagation.line import Line, Order
from semcast.protocol.propagation.memory import Memory, Recalled
from semcast.protocol.propagation.neighbour import Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.passing import Passing
from semcast.protocol.propagation.records import CLOSE, Opening, read_opening, with_life
from semcast.protocol.propagation.recovering import Past, Report
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.wire.record_fields import RecordReader

# How many orders of the manager are kept until they are due: more than there ever are.
ORDERS_MAX: Final = 32
# Of so many streams of lives that are over it is known what has a place, of the last ones.
PAST_STREAMS_MAX: Final = 4096


@final
class Turns:
    """The path of messages through a site, from graph to graph."""

    def __init__(
        self,
        me: Source,
        own: Own,
        delivery: SiteDelivery,
        streams: Streams,
        neighbours: Neighbours,
        memory: Memory,
        config: FederationConfig,
        observer: Observer | None,
    ) -> None:
        # Whether sites come back with all that they had, so that another life changes nothing.
        self._atomic: Final = config.atomic
        self._memory: Final = memory
        self._me: Final = int(me.sender)
        self._source: Final = me
        self._own: Final = own
        self.delivery: Final = delivery
        self._streams: Final = streams
        self._observer: Final = observer
        self.history: Final = History(memory, config.history_messages)
        # The opening that counts, its record, and the opening before it.
        self.opening: Opening | None = None
        self.record: bytes = b""
        self.before: Opening | None = None
        self.passing: Passing | None = None
        # Whether the graph is open, and whether everything has to stand still for a recovery.
        self.open = False
        self.frozen = False
        # By group whose primary destination this site is: since which graph.
        self._primary_since: dict[str, int] = {}
        self.last: Final[dict[Source, int]] = {}
        # How many streams there may be before those of lives that are over are looked for.
        self._streams_max: int = PAST_STREAMS_MAX
        self._neighbours: Final = neighbours
        # Orders that came from the manager, and not down the tree: by number, until they are due.
        # They are kept apart, since what they wait for may come behind them on the same lane.
        self._closes: Final[dict[int, bytes]] = {}
        self._opens: Final[dict[int, bytes]] = {}
        # Openings that count from now on, with what was passed on in the graphs before them; and
        # what sources have to be told.
        self.opened: Final[list[tuple[Opening, Passing | None]]] = []
        self.bounces: Final[list[tuple[Entry, int]]] = []
        # The newest graph that this site has gone over, installing what has its place there.
        self._over: int = 0

    @property
    def graph(self) -> Graph | None:
        """The graph that counts, or counted last."""
        return None if self.opening is None else self.opening.graph

    @property
    def number(self) -> int:
        """Its number; 0 if there is none yet."""
        return 0 if self.opening is None else self.opening.number

    # -- turns -------------------------------------------------------------------------------------

    def work(self) -> None:
        """Do all that can be done now."""
        going = True
        while going and not self.frozen:
            going = self._serve_orders()
            for neighbour in self._neighbours.all():
                going = self._serve_source(neighbour.offered) or going
                going = self._serve_tree(neighbour.came, int(neighbour.to.sender)) or going
            going = self._serve_own() or going

    def order(self, record: bytes) -> None:
        """The manager gives this site an order; it is obeyed when it is due."""
        body = RecordReader(record)
        number = body.seq()
        if record[0] == CLOSE:
            body.end()
            self._closes[number] = record
        else:
            self._opens[number] = record
        for waiting in (self._closes, self._opens):
            while len(waiting) > ORDERS_MAX:
                del waiting[max(waiting)]

    def _serve_orders(self) -> bool:
        """Obey what the manager said, as far as it is due. A newcomer that had to wait may have the
        Open of its first graph and the Close of it.
        """
        served = False
        for waiting in (self._opens, self._closes):
            for number in sorted(waiting):
                if not self.frozen and self._obey(waiting[number]):
                    del waiting[number]
                    served = True
        return served

    def _serve_tree(self, line: Line, site: int) -> bool:
        """Take what came down the tree from one site, as far as there is room."""
        served = False
        while not self.frozen:
            head = line.head()
            if head is None:
                break
            done = self._obey(head.record) if isinstance(head, Order) else self._accept(head, site)
            if not done:
                break
            line.pop()
            served = True
        return served

    def _accept(self, entry: Entry, site: int) -> bool:
        """Take an entry from the parent, if it is time. True: it is dealt with."""
        if entry.graph != self.number:
            # What comes to a newcomer before its first Open was for a former life.
            return entry.graph < self.number or self.opening is None
        passing = self.passing
        if not self.open or passing is None or passing.graph.parent(self._me) != site:
            # Whatever belongs to this graph came before its Close.
            return True
        if self._atomic and entry.place > passing.installed.get(entry.group, entry.place) + 1:
            # The parent sent it before it knew how far this life is, and will send it again.
            return True
        return passing.accept(entry)

    def _serve_source(self, line: Line) -> bool:
        """Give messages of a source their places, as far as there is room."""
        served = False
        while self.open and not self.frozen:
            head = line.head()
            if head is None or isinstance(head, Order) or head.graph > self.number:
                break
            if not self._order(head):
                break
            line.pop()
            served = True
        return served

    def _order(self, entry: Entry) -> bool:
        passing = self.passing
        assert passing is not None
        if passing.has_place(entry):
            return True
        since = self._primary_since.get(entry.group, -1)
        if since < 0 or entry.graph < since:
            self.bounces.append((entry, passing.graph.primaries.get(entry.group, NO_SITE)))
            return True
        return passing.order(entry)

    def _serve_own(self) -> bool:
        """Give its own messages their places, where this site is the primary destination."""
        served = False
        passing = self.passing
        while self.open and not self.frozen and passing is not None:
            own = self._own.next_group(self._me)
            if own is None or own.graph > self.number:
                break
            group = own.stream.group
            if not passing.is_primary(group):
                self._own.bounced(
                    own.stream,
                    own.head(),
                    own.attempt,
                    self.number,
                    passing.graph.primaries.get(group, NO_SITE),
                )
                served = True
                continue
            entry = own.peek_entry()
            if not passing.order(entry):
                break
            own.next_entry()
            served = True
        return served

    # -- from graph to graph -----------------------------------------------------------------------

    def _obey(self, record: bytes) -> bool:
        """Do what an order says, if it is time. True: it is dealt with."""
        if record[0] == CLOSE:
            body = RecordReader(record)
            number = body.seq()
            body.end()
            if number == self.number and self.open:
                self._close(record)
            return number <= self.number or self.opening is None
        opening = read_opening(record, self._streams)
        if opening.number <= self.number:
            return True
        placed = self.open and self.graph is not None and self.graph.holds(self._me)
        newcomer = self.opening is None or (self._atomic and self._has_left)
        if not newcomer and (placed or opening.number != self.number + 1):
            return False
        if newcomer:
            seat = opening.seat(self._me)
            if seat is None or seat.life != self._source.incarnation:
                return True
        self.install(opening, record)
        return True

    @property
    def _has_left(self) -> bool:
        """Whether this site has no seat in its graph. If a later life of it is let in again, the
        others may be several graphs further on.
        """
        return self.opening is not None and self.opening.seat(self._me) is None

    def _close(self, record: bytes) -> None:
        graph = self.graph
        assert graph is not None
        for child in graph.children.get(self._me, ()):
            self._neighbours.lines[child].put_order(record)
        self.open = False
        self._memory.closed(self.number)
        if self._observer is not None:
            self._observer.progress("close", self._source, self.number, None, 0)

    def install(self, opening: Opening, record: bytes) -> None:
        """From now on this opening counts."""
        former = self.graph
        graph = opening.graph
        self._memory.opened(record)
        self.before = self.opening
        opening = self._in_present_lives(opening) if self._atomic else opening
        self.opening = opening
        self.record = record
        if self.passing is not None:
            self.passing.end()
        self.opened.append((opening, self.passing))
        for seat in opening.seats:
            self._streams.learn_name(seat.sender, seat.name)
        for child in graph.children.get(self._me, ()):
            placed = opening.seat(child)
            assert placed is not None, "who has a place has a seat"
            line = self._neighbours.meet(placed.source).forward
            if opening.recovers:
                line.clear()
            else:
                line.put_order(record)
        self.passing = Passing(
            self._me, graph, self._neighbours.lines, self.delivery, self.history, self.last
        )
        self._neighbours.seated = frozenset(seat.sender for seat in opening.seats)
        since = self._primary_since
        self._primary_since = {
            name: since.get(name, graph.number)
            for name, site in graph.primaries.items()
            if site == self._me
        }
        self.open = True
        self.frozen = False
        if self._observer is not None:
            self._observer.opened(graph.number, graph.groups_of(self._me))
        gone = {site for site, _ in opening.gone}
        if former is None:
            gone.add(NO_SITE)
        self._own.opened(graph, gone, opening.recovers, dict(opening.ordered))

    def _in_present_lives(self, opening: Opening) -> Opening:
        """The same opening with sites in the lives that they are known to be in."""
        opening = with_life(opening, self._me, int(self._source.incarnation))
        for neighbour in self._neighbours.all():
            site, life = int(neighbour.to.sender), int(neighbour.to.incarnation)
            opening = with_life(opening, site, life)
        return opening

    def forget_streams(self) -> None:
        """Of lives that are over only the last ones may still have somebody send for them: what of
        the others has a place need not be known any more, or it would pile up for ever.
        """
        if self.opening is None or self.passing is None or len(self.last) <= self._streams_max:
            return
        lives = {(seat.sender, seat.life) for seat in self.opening.seats}
        over = [one for one in self.last if (int(one.site), int(one.incarnation)) not in lives]
        for stream in over[:-PAST_STREAMS_MAX]:
            del self.last[stream]
            self.passing.forget(stream)
        self._streams_max = max(PAST_STREAMS_MAX, 2 * len(self.last))

    # -- coming back -------------------------------------------------------------------------------

    def recall(self, recalled: Recalled) -> None:
        """Be where a former life was (PROP §5.2.2)."""
        openings = [read_opening(record, self._streams) for record in recalled.openings]
        self.opening = with_life(openings[-1], self._me, int(self._source.incarnation))
        self.record = recalled.openings[-1]
        self.before = openings[-2] if len(openings) > 1 else None
        graph = self.opening.graph
        for seat in self.opening.seats:
            self._streams.learn_name(seat.sender, seat.name)
            if graph.parent(seat.sender) == self._me:
                self._neighbours.meet(seat.source)
        self._neighbours.seated = frozenset(seat.sender for seat in self.opening.seats)
        self.passing = Passing(
            self._me, graph, self._neighbours.lines, self.delivery, self.history, self.last
        )
        self.passing.recall_base(recalled.installed)
        self.last.update(recalled.last)
        for entry in recalled.entries:
            self._recall_entry(entry)
        self.recall_untaken(recalled)
        self._primary_since = {
            name: graph.number for name, site in graph.primaries.items() if site == self._me
        }
        self.open = recalled.closed != graph.number
        for entry in recalled.own:
            placed = max(recalled.placed.get(entry.stream, 0), self.last.get(entry.stream, 0))
            if entry.seq > placed:
                self._own.recall(entry, graph)
        self.passing.say_all()
        if self._observer is not None:
            self._observer.opened(graph.number, graph.groups_of(self._me))

    def recall_untaken(self, recalled: Recalled) -> None:
        """Let the application have what waited for it in a former life."""
        self.delivery.recall_taken(recalled.taken)
        for entry in self.meant(recalled.untaken(), recalled):
            if entry.message is not None:
                self.delivery.recall(entry.message)

    def meant(self, entries: list[Entry], recalled: Recalled) -> list[Entry]:
        """Those of some entries of a former life that were for its application: others it only
        passed on.
        """
        graphs: dict[int, Graph] = {}
        for record in recalled.openings:
            opening = read_opening(record, self._streams)
            graphs[opening.number] = opening.graph
        return [
            entry
            for entry in entries
            if entry.graph not in graphs or graphs[entry.graph].is_member(self._me, entry.group)
        ]

    def _recall_entry(self, entry: Entry) -> None:
        tells = self.history.recall(entry)
        self.last[entry.stream] = max(self.last.get(entry.stream, 0), entry.seq)
        assert self.passing is not None
        if entry.graph == self.number:
            self.passing.recall(entry, tells)

    # -- recovery ----------------------------------------------------------------------------------

    def report(self) -> Report:
        """What this site has, while it stands still."""
        installed = {} if self.passing is None else dict(self.passing.installed)
        return Report(self.number, installed, self.history.recent(), dict(self.last))

    def catch_up(self, entry: Entry, past: Past) -> bool:
        """Install an entry of a graph that is over; False if there is no room for it now. `past`:
        graphs that this site goes over, of which observers hear before what has its place there.
        """
        if entry.graph > max(self.number, self._over) and entry.graph in past:
            self._over = entry.graph
            if self._observer is not None:
                groups = past[entry.graph]
                mine = tuple(name for name in groups if self._me in groups[name])
                self._observer.opened(entry.graph, mine)
        if entry.message is not None and not self.delivery.admits(entry.message):
            return False
        self.history.add(entry)
        self.last[entry.stream] = max(self.last.get(entry.stream, 0), entry.seq)
        self.delivery.put(entry)
        return True
