"""The simulated world of an open group: processes come, go and come back, and no perfect detector
says who is gone. Members find that out themselves, as they do live.

A process starts as a newcomer. One that the others have put out comes back by itself in a later
life. Whoever leaves says so in its last datagrams, which may be lost. A group is at rest when every
process that lives is in, holds nothing, and goes by a view of exactly those that live.
"""

from dataclasses import replace
from typing import Final

from semcast.ids import Source
from semcast.journal import parse_node
from semcast.protocol.machine import Machine, MachineMaker
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.sim.attendance import Attendance, Comings
from semcast.sim.closed_world import World
from semcast.sim.life import OpenLife
from semcast.sim.scenario import ProtocolScenario
from semcast.sim.surroundings import Crash


class OpenWorld(World):
    """Everything there is, for one run of an open group."""

    def __init__(
        self,
        scenario: ProtocolScenario,
        seed: int,
        journal: bool,
        name: str,
        make: MachineMaker = Member,
    ) -> None:
        super().__init__(scenario, seed, journal, name, make)
        self._attendance: Final = Attendance(self._now_ns)
        self._readers: Final = frozenset(scenario.readers)
        self._agreed: Final = self._config.group_reliable
        for process in self._processes:
            process.on_inside = self._inside
            process.on_out = self._rejoin

    # -- lives -------------------------------------------------------------------------------------

    def _start(self, node: int) -> None:
        self._begin(node, None)

    def _begin(self, node: int, former: Machine | None) -> None:
        """A process begins a life; `former` is what it was before, if it did not crash."""
        me, tally = self._next_life(node)
        config = self._config
        if node in self._readers:
            config = replace(config, role="reader")
        self._attendance.start(tally.node)
        tally.on_view = self._on_view
        rng = self._rng(f"{tally.node}/protocol")
        life = OpenLife(me, self._keys, tally, config, rng, self._make, former)
        self._run_life(life)

    def _on_view(self, life: str, view: View) -> None:
        agreed = self._agreed and parse_node(life)[0] not in self._readers
        self._attendance.view(life, view, agreed)

    def _inside(self, node: int) -> None:
        self._attendance.inside(self._name(node))

    def _rejoin(self, node: int) -> None:
        """The others have gone on without this life."""
        former = self._processes[node].retire()
        self._record(node, "leave")
        self._attendance.gone(self._source(node))
        self._attendance.rejoins += 1
        self._begin(node, former)

    # -- process faults ----------------------------------------------------------------------------

    def _crash(self, fault: Crash) -> None:
        self._record(fault.member, "crash")
        self._processes[fault.member].crash()
        self._attendance.gone(self._source(fault.member))

    def _begin_leaving(self, member: int) -> None:
        life = self._processes[member].life
        assert life is not None

        def silent() -> list[int]:
            return [] if life.member is None else life.member.suspects()

        self._processes[member].begin_leaving(silent)

    def _leave(self, member: int) -> None:
        self._processes[member].say_goodbye()
        self._record(member, "leave")
        self._processes[member].crash()
        self._attendance.gone(self._source(member))

    def _source(self, node: int) -> Source:
        return Source(node, self._incarnations[node])

    def _record(self, node: int, event: str) -> None:
        if self.journal is not None:
            self.journal.record(self._now_ns(), self._name(node), event)

    # -- the end -----------------------------------------------------------------------------------

    def _at_rest(self) -> bool:
        return self._views_are_right() and super()._at_rest()

    def _views_are_right(self) -> bool:
        """Whether everybody knows who lives, so that nobody lacks anything without knowing it."""
        right = self._lives_are_agreed() if self._agreed else self._audiences_are_right()
        if not right:
            self._rested_ns = -1
        return right

    def _lives_are_agreed(self) -> bool:
        """Whether members go by a view of those that live, and no others, and serve all readers,
        who follow just these.
        """
        lives = {
            process.node: int(process.life.me.incarnation)
            for process in self._processes
            if process.life is not None and process.node not in self._readers
        }
        for process in self._processes:
            if process.life is None:
                continue
            view = None if process.life.member is None else process.life.member.view
            if view is None or {one: view.life(one) for one in view.present} != lives:
                return False
        return self._readers_are_served()

    def _audiences_are_right(self) -> bool:
        """Whether each process of a feed reads from all senders that live, and each sender has all
        other processes as readers. One that was forgotten, and does not know that, may lack much.
        """
        lives = [process.life for process in self._processes if process.life is not None]
        senders = [life.me for life in lives if int(life.me.sender) not in self._readers]
        for life in lives:
            sends = life.me in senders
            found = [one.me for one in lives] if sends else senders
            if life.member is None or not all(life.member.view.holds(one) for one in found):
                return False
            if sends and life.member.stats()["readers"] < len(lives) - 1:
                return False
        return True

    def _readers_are_served(self) -> bool:
        """Whether readers of a group are served by those who they believe do so."""
        served = believed = 0
        for process in self._processes:
            member = None if process.life is None else process.life.member
            if member is not None:
                stats = member.stats()
                served += stats.get("readers", 0)
                believed += stats.get("patrons", 0)
        return served >= believed

    def comings(self) -> Comings:
        held_up = {
            tally.node: tally.held_up
            for tally in self._tallies
            if parse_node(tally.node)[0] in self._scenario.senders
        }
        return self._attendance.comings(self._agreed, held_up)
