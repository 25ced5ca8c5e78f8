"""Atomic recovery (PROP §5.2.2): a site that failed comes back, and all go on where they were.

The site has written down what it had (`memory`). In its next life it tells all others how far it
is in its graph, and they tell it how far they are; each then sends again what the other lacks, in
the same order. Until all its children have said so it passes nothing on, and nothing is passed on
to it by a parent before it has said so. Nobody else has to stop: what does not need the site goes
on, and what does waits in queues that are bounded.
"""

from collections.abc import Callable
from typing import Final, final

from semcast.ids import Source
from semcast.protocol.propagation.entries import read_group
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.neighbour import Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.records import RESUME, Opening, with_life, write_close
from semcast.protocol.propagation.turns import Turns
from semcast.wire.record_fields import RecordReader, RecordWriter


@final
class Resuming:
    """How a site goes on with others after it, or one of them, has failed."""

    def __init__(
        self,
        me: Source,
        own: Own,
        turns: Turns,
        neighbours: Neighbours,
        tell: Callable[[int, bytes], None],
    ) -> None:
        self._me: Final = me
        self._own: Final = own
        self._turns: Final = turns
        self._neighbours: Final = neighbours
        self._tell: Final = tell
        # The children that have not said yet how far they are.
        self._awaited: Final[set[int]] = set()
        # Of a life that goes on where a former one was: the sites that it has told so.
        self._told: set[int] | None = None
        # Whether this life goes on where a former one was, and nobody else has said anything yet.
        self.lonely = False

    def begin(self) -> None:
        """Be a later life: tell everybody how far it is, and wait for the children."""
        turns = self._turns
        assert turns.opening is not None
        me = int(self._me.sender)
        self._awaited.update(turns.opening.graph.children.get(me, ()))
        turns.frozen = bool(self._awaited)
        self.lonely = len(turns.opening.seats) > 1
        record = self._state(True)
        self._told = {seat.sender for seat in turns.opening.seats}
        for seat in turns.opening.seats:
            if seat.sender != me:
                self._tell(seat.sender, record)

    def opened(self, opening: Opening) -> None:
        """Another graph counts. Sites that came with it may know this one by its former life only:
        one that has sent all to that, and was told that it came, says nothing to it any more.
        """
        told = self._told
        if told is None:
            return
        self._told = {seat.sender for seat in opening.seats}
        for site in sorted(self._told - told):
            self._tell(site, self._state(True))

    def greet(self, source: Source) -> None:
        """A site is in another life: tell it how far this one is. What was on its way to its former
        life is lost, and maybe that was told the same.
        """
        turns = self._turns
        site = int(source.sender)
        self._neighbours.unasked.pop(site, None)
        if turns.opening is not None and turns.opening.seat(site) is not None:
            turns.opening = with_life(turns.opening, site, int(source.incarnation))
            # Or a later message would overtake those that were on their way.
            self._own.begin_anew(site)
            self._tell(site, self._state(True))

    def ask(self) -> None:
        """Sites are in another life that this one has heard of by others: ask how far they are."""
        for source in list(self._neighbours.unasked.values()):
            self.greet(source)

    def _state(self, begins: bool) -> bytes:
        """How far this site is. `begins`: the other has to say the same of itself."""
        turns = self._turns
        out = RecordWriter(RESUME)
        out.number(1 if begins else 0)
        out.number(turns.number)
        out.number(1 if turns.open else 0)
        installed = {} if turns.passing is None else turns.passing.installed
        out.count(len(installed))
        for group, place in installed.items():
            out.text(group)
            out.number(place)
        return out.take()

    def on_resume(self, body: RecordReader, source: Source) -> bool:
        """Another site says how far it is; says whether it comes back."""
        begins = body.number() == 1
        number = body.seq_or_none()
        is_open = body.number() == 1
        installed: dict[str, int] = {}
        for _ in range(body.count(13)):
            group = read_group(body)
            installed[group] = body.seq_or_none()
        body.end()
        site = int(source.sender)
        turns = self._turns
        if turns.opening is None:
            return False
        if turns.opening.seat(site) is None:
            if begins and number > turns.number:
                # It came with a graph that this site has still to open, perhaps as its parent, and
                # is not among those that were told how far this one is.
                self._tell(site, self._state(True))
            return False
        self.lonely = False
        if begins:
            turns.opening = with_life(turns.opening, site, int(source.incarnation))
            self._own.begin_anew(site)
            self._tell(site, self._state(False))
            if turns.passing is not None:
                turns.passing.say_all()
        neighbour = self._neighbours.find(site)
        held = neighbour is not None and neighbour.holds
        if begins or held or site in self._awaited:
            self._send_again(site, number, is_open, installed)
        if neighbour is not None:
            neighbour.hold(False)
        if site in self._awaited:
            self._awaited.discard(site)
            turns.frozen = bool(self._awaited)
        return begins

    def _send_again(self, site: int, number: int, is_open: bool, installed: dict[str, int]) -> None:
        """Let wait for a child what it lacks, in order."""
        turns = self._turns
        line = self._neighbours.lines.get(site)
        if line is None:
            return
        line.clear()
        before, opening = turns.before, turns.opening
        assert opening is not None
        if number < opening.number:
            known = before is not None and number == before.number
            if known and before is not None and before.graph.parent(site) == self._me.sender:
                self._put(before.graph, site, installed)
                if is_open:
                    line.put_order(write_close(number))
            # This site may have come with this graph.
            if opening.graph.parent(site) == self._me.sender:
                line.put_order(turns.record)
                self._put(opening.graph, site, {})
        elif number == opening.number and opening.graph.parent(site) == self._me.sender:
            self._put(opening.graph, site, installed)
            if is_open and not turns.open:
                line.put_order(write_close(number))

    def _put(self, graph: Graph, site: int, installed: dict[str, int]) -> None:
        line = self._neighbours.lines[site]
        for entry in self._turns.history.recent():
            lacks = entry.place > installed.get(entry.group, 0)
            below = graph.next_sites(int(self._me.sender), entry.group)
            if entry.graph == graph.number and lacks and site in below:
                line.put(entry)
