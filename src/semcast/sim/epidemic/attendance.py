"""Who is there, in a simulated gossip group: processes begin, leave, crash and come back.

Times out of a scenario go in; lives of nodes begin and end. With full views those who are there are
told who else is: of a crash after a while, else at once. With partial views nobody is told anything
but one contact, when it begins.
"""

import random
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.epidemic.overlay.overlay import Overlay
from semcast.protocol.membership.view import View
from semcast.sim.build import SECOND_NS
from semcast.sim.epidemic.gossip_scenario import GossipScenario
from semcast.sim.epidemic.making import Made
from semcast.sim.epidemic.nodes import Application, Node, Timers
from semcast.sim.scheduler import Handler, Scheduler
from semcast.sim.surroundings import Crash, Join, Leave, Restart

# How long others go on sending to one that crashed, if the world tells them who is there.
_DETECTION_NS: Final = SECOND_NS // 2
# How often one that leaves looks whether it may go.
_LEAVING_NS: Final = SECOND_NS // 20
_BEGIN, _CRASH, _LEAVE, _GO, _TELL = range(5)
# Makes the member of a life, with whoever takes its messages: who it is, in which view, its contact
# if it has one, and whether the group runs.
LifeMaker = Callable[[Source, View, Source | None, bool], tuple[Made, Application | None]]


class _Step(NamedTuple):
    """Something that happens to a process."""

    kind: int
    number: int
    # Until when one that leaves may wait.
    until_ns: int = 0


class Attendance(Handler):
    """Begins and ends the lives of nodes."""

    def __init__(
        self,
        scenario: GossipScenario,
        scheduler: Scheduler,
        nodes: list[Node],
        sources: list[Source],
        make: LifeMaker,
        stream: random.Random,
    ) -> None:
        super().__init__()
        self._scenario: Final = scenario
        self._partial: Final = scenario.gossip.partial
        self._scheduler: Final = scheduler
        self._nodes: Final = nodes
        self._sources: Final = sources
        self._make: Final = make
        self._stream: Final = stream
        self._overlays: Final[dict[int, Overlay]] = {}
        self._begun: Final = [False] * len(nodes)
        self._steps: Final[list[_Step]] = []
        self._timers: Final = scheduler.add(Timers(nodes))
        self._number: Final = scheduler.add(self)
        self._view = View.first(list(range(len(nodes))), 0)
        # Every member that there was.
        self.made: Final[list[Made]] = []

    def start(self) -> None:
        """Begin those who are there from the start, and plan the rest."""
        late = {one.member for one in self._joins()}
        first = [number for number in range(len(self._nodes)) if number not in late]
        if self._partial:
            form_ns = round(self._scenario.gossip.form_s * SECOND_NS)
            for at, number in enumerate(first):
                self._plan(at * form_ns // len(first), _Step(_BEGIN, number))
        else:
            self._view = View.first(first, 0)
            for number in first:
                self._begin(number, False)
        for fault in self._scenario.processes:
            at_ns = round(fault.at_s * SECOND_NS)
            match fault:
                case Join():
                    for one in fault.each():
                        self._plan(round(one.at_s * SECOND_NS), _Step(_BEGIN, one.member))
                case Restart():
                    self._plan(at_ns, _Step(_BEGIN, fault.member))
                case Crash():
                    self._plan(at_ns, _Step(_CRASH, fault.member))
                case Leave():
                    until_ns = at_ns + round(fault.within_s * SECOND_NS)
                    self._plan(at_ns, _Step(_LEAVE, fault.member, until_ns))

    def _joins(self) -> Iterator[Join]:
        for fault in self._scenario.processes:
            if isinstance(fault, Join):
                yield from fault.each()

    def _plan(self, at_ns: int, step: _Step) -> None:
        self._scheduler.at(max(at_ns, self._scheduler.now_ns), self._number, len(self._steps))
        self._steps.append(step)

    def fire(self, argument: i64) -> None:
        """A step is due; one that has no sense any more is left out."""
        step = self._steps[argument]
        there = self._nodes[step.number].member is not None
        if step.kind == _BEGIN and not there:
            self._begin(step.number, True)
        elif step.kind == _CRASH and there:
            self._end(step.number)
            self._plan(self._scheduler.now_ns + _DETECTION_NS, _Step(_TELL, step.number))
        elif step.kind == _LEAVE and there:
            self._leave(step)
        elif step.kind == _GO and there:
            self._go(step)
        elif step.kind == _TELL:
            self._tell()

    # -- lives -------------------------------------------------------------------------------------

    def living(self) -> list[int]:
        """Who is there."""
        return [number for number, node in enumerate(self._nodes) if node.member is not None]

    def overlay(self, number: int) -> Overlay | None:
        """The overlay of one that is there, if it has one."""
        return self._overlays.get(number)

    def _begin(self, number: int, late: bool) -> None:
        if self._begun[number]:
            former = self._sources[number]
            self._sources[number] = Source(number, former.incarnation + 1)
        self._begun[number] = True
        me, contact = self._sources[number], None
        if self._partial:
            contact = self._contact()
            view = View.first([number], 0, int(me.incarnation))
        elif late:
            view = self._changed([*self.living(), number])
        else:
            view = self._view
        # Those who form the group miss nothing: the traffic begins when they are there.
        formed_ns = round(self._scenario.gossip.form_s * SECOND_NS)
        joining = late and not (self._partial and self._scheduler.now_ns < formed_ns)
        made, application = self._make(me, view, contact, joining)
        self.made.append(made)
        if made.overlay is not None:
            self._overlays[number] = made.overlay
        self._nodes[number].begin(made.member, self._timers, application)
        if late:
            self._tell()

    def _contact(self) -> Source | None:
        """One through whom to enter: one of the contacts, or anybody if they are gone."""
        contacts = range(min(self._scenario.gossip.contacts, len(self._nodes)))
        those = [number for number in contacts if self._nodes[number].member is not None]
        those = those or self.living()
        return self._sources[self._stream.choice(those)] if those else None

    def _leave(self, step: _Step) -> None:
        member = self._nodes[step.number].member
        assert member is not None
        member.begin_leaving(self._scheduler.now_ns)
        self._go(step)

    def _go(self, step: _Step) -> None:
        """Go, if nothing waits to be passed on, or the time is up."""
        node, now_ns = self._nodes[step.number], self._scheduler.now_ns
        assert node.member is not None
        if not node.member.may_leave([], now_ns) and now_ns < step.until_ns:
            self._plan(now_ns + _LEAVING_NS, _Step(_GO, step.number, step.until_ns))
            return
        overlay = self._overlays.get(step.number)
        if overlay is not None:
            overlay.goodbye()
            node.settle()
        self._end(step.number)
        self._tell()

    def _end(self, number: int) -> None:
        self._nodes[number].end()
        self._overlays.pop(number, None)

    # -- full views --------------------------------------------------------------------------------

    def _tell(self) -> None:
        """Those who are there learn who is, if anybody tells them."""
        living = self.living()
        if self._partial or not living:
            return
        self._view = self._changed(living)
        for number in living:
            node = self._nodes[number]
            if isinstance(node.member, EpidemicMember):
                node.member.install(self._view, self._scheduler.now_ns)
                node.settle()

    def _changed(self, living: list[int]) -> View:
        ids = tuple(sorted(living))
        lives = tuple(int(self._sources[number].incarnation) for number in ids)
        return View(self._view.number + 1, ids, lives, 0)
