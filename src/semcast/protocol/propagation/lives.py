"""How a life of a site begins, and what it leaves to the next one.

What a former life had written down, or a charter, goes in; a site that has a graph, or is ready to
join one, comes out. With atomic recovery a life goes on where the former one was (PROP §5.2.2).
Otherwise it can tell what that one had delivered, and is told what to undo of it (§5.2.1). Knows
nothing of frames, nor of what a site does between its beginning and its end.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.propagation.affairs import Affairs
from semcast.protocol.propagation.config import Charter, FederationConfig, groups_of
from semcast.protocol.propagation.entries import Entry, Streams
from semcast.protocol.propagation.memory import Memory, Recalled
from semcast.protocol.propagation.neighbour import Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.records import Opening, read_opening, write_opening
from semcast.protocol.propagation.rule_names import make_graph
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.protocol.propagation.turns import Turns


@final
class Lives:
    """One life of a site after another."""

    def __init__(
        self,
        me: Source,
        federation: FederationConfig,
        own: Own,
        delivery: SiteDelivery,
        turns: Turns,
        affairs: Affairs,
        neighbours: Neighbours,
        memory: Memory,
        streams: Streams,
    ) -> None:
        self._me: Final = me
        self._federation: Final = federation
        self._own: Final = own
        self._delivery: Final = delivery
        self._turns: Final = turns
        self._affairs: Final = affairs
        self._neighbours: Final = neighbours
        self._memory: Final = memory
        self._streams: Final = streams
        # Whether it has what a former life had written down.
        self._remembers = False

    # -- how it begins -----------------------------------------------------------------------------

    def begin(self, charter: Charter | None, message_bytes_max: int) -> None:
        """Go on as a former life, or begin with the others of a charter; else it joins later."""
        recalled = self._memory.recall(message_bytes_max)
        self._memory.begins(int(self._me.incarnation))
        self._memory.snapshot = self._write_anew
        if recalled is not None and self._was_in(recalled):
            self._recall(recalled)
        elif charter is not None:
            self._found(charter)

    def _was_in(self, recalled: Recalled) -> bool:
        """Whether a former life was in a graph, and did not leave; or, with atomic recovery, left
        before it had passed on all that it had, or there would be no record of it: nobody else may
        have that (PROP §5.2.2).
        """
        count = 2 if self._federation.atomic else 1
        openings = [read_opening(one, self._streams) for one in recalled.openings[-count:]]
        return any(one.seat(int(self._me.sender)) is not None for one in openings)

    def _recall(self, recalled: Recalled) -> None:
        """Go on as a former life that crashed, or be ready to tell what that had delivered."""
        for record in recalled.openings:
            for seat in read_opening(record, self._streams).seats:
                self._streams.learn_name(seat.sender, seat.name)
        if self._federation.atomic:
            self._turns.recall(recalled)
            self._affairs.resume(recalled, 0)
            self._write_anew()
            return
        self._remembers = True
        self._turns.recall_untaken(recalled)
        installed = self._turns.meant(recalled.entries, recalled)
        self._affairs.returning.come_back(recalled.life, installed, recalled.owed)

    def _found(self, charter: Charter) -> None:
        """Begin with the others of a charter."""
        groups = charter.groups()
        first = charter.seats[0].sender
        graph = make_graph(self._federation.rule, groups, 1, None, first)
        begun = (charter.seats[0].life, first)
        opening = Opening(graph, charter.seats, first, begun=begun)
        seat = opening.seat(int(self._me.sender))
        if seat is None:
            raise ConfigError(f"{self._me.name!r} is not in the charter that it begins with")
        self._affairs.wish = seat
        self._affairs.begin(opening, 0)
        self._turns.install(opening, write_opening(opening, self._streams))
        # Everybody opens it without being told.
        for neighbour in self._neighbours.all():
            neighbour.forward.clear()

    def begin_alone(self, now_ns: i64) -> None:
        """Begin a federation alone, since nobody is there."""
        wish = self._affairs.wish
        assert wish is not None
        assert self._turns.opening is None
        me = int(self._me.sender)
        graph = make_graph(self._federation.rule, groups_of((wish,)), 1, None, me)
        # Nobody is there who knows what a former life is to undo; to be told later is too late.
        self._affairs.returning.begin_anew()
        opening = Opening(graph, (wish,), me, begun=(wish.life, me))
        self._affairs.begin(opening, now_ns)
        self._turns.install(opening, write_opening(opening, self._streams))
        self._affairs.work(now_ns)

    # -- what it leaves to the next one ------------------------------------------------------------

    def follow(self, former: "Lives") -> None:
        """Be another life of a site that the others have gone on without."""
        if not self._remembers:
            self._delivery.follow(former._delivery)
            owed = former._affairs.returning.owed
            life, installed = int(former._me.incarnation), former._installed()
            self._affairs.returning.come_back(life, installed, owed)

    def _installed(self) -> list[Entry]:
        """The last that this site has installed of its groups. It names what it knows everybody to
        have, too, since others may not know that yet.
        """
        graph = self._turns.graph
        if self._turns.opening is None or graph is None:
            return []
        mine = set(graph.groups_of(int(self._me.sender)))
        return [entry for entry in self._turns.history.kept() if entry.group in mine]

    def _write_anew(self) -> None:
        """Write down what a later life needs, and nothing else."""
        turns, ballots = self._turns, self._affairs.manager.ballots
        # What everybody has may have to be told, too, since others may not know that yet.
        recent = turns.history.recent() if self._federation.atomic else turns.history.kept()
        ids = {entry.id for entry in recent}
        waiting = [
            Entry(0, one.source.group, 0, one.source, int(one.seq), one)
            for one in self._delivery.messages()
            if (one.source, int(one.seq)) not in ids
        ]
        openings = [] if turns.before is None else [write_opening(turns.before, self._streams)]
        if turns.opening is not None:
            openings.append(write_opening(turns.opening, self._streams))
        recalled = Recalled(
            int(self._me.incarnation),
            openings,
            0 if turns.open else turns.number,
            {} if turns.passing is None else dict(turns.passing.installed),
            dict(turns.last),
            recent,
            waiting,
            self._own.unsettled(),
            self._delivery.taken() & ids,
            self._affairs.returning.owed,
            self._own.placed(),
            ballots.promised,
            ballots.accepted(),
        )
        self._memory.write_anew(recalled)
