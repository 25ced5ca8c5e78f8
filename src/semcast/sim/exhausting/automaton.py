"""A member as a table: a state and something that happens to it in; what it does, and a state, out.

The real `Member` runs behind it, but only once for each thing that can happen in each state; from
then on the answer is looked up. That is sound, as a member is sans-IO and deterministic: what it
does follows from what happened to it, in which order, and from nothing else. Its clock moves only
when its timer fires, so that when something happens elsewhere cannot matter here. Two ways that
lead to the same state (same digest of all that the member holds, same judged events in its journal)
are one state. Members cannot be copied, so a state is reached again by repeating its history.
"""

from typing import Final, NamedTuple, TypeAlias, final

from semcast.errors import WindowFullError
from semcast.ids import EVERYBODY, SEQ_MAX, Source
from semcast.journal import Event, Header, Journal, JournalObserver, node_name
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.machine import MachineMaker
from semcast.protocol.member import Member
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outgoing
from semcast.sim.exhausting.digest import digest

# What can happen to a member: its application multicasts the next so many messages at once; a
# datagram of another member comes; its timer fires; it learns that another member is gone; its
# application takes all that waits.
MULTICAST: Final = 0
RECEIVE: Final = 1
TICK: Final = 2
REMOVE: Final = 3
TAKE: Final = 4
# The kind, then how many messages, or which member; then, on RECEIVE, the number of the datagram.
Action: TypeAlias = tuple[int, int, int]

# Events that no checker looks at: runs that differ in them only are the same run.
_UNJUDGED: Final = frozenset(("nak", "retransmit", "safe", "block", "unblock"))
# Events whose verdict depends on what has happened at other members by then.
_COMPARED: Final = frozenset(("stable", "purge", "skip"))
_HAVING: Final = frozenset(("multicast", "receive", "skip"))
# Members that stand ready in a state, so that going on from it need not repeat its history.
_PARKED_MAX: Final = 1024


class Step(NamedTuple):
    """What an action does."""

    state: int
    # Which datagrams leave for which member, in order.
    sent: tuple[tuple[int, tuple[int, ...]], ...]
    events: tuple[Event, ...]
    # Whether other members' progress decides if these events are right.
    compared: bool


@final
class Datagrams:
    """Datagrams by number: equal ones have one number, whoever sent them when."""

    def __init__(self) -> None:
        self.frames: Final[list[bytes]] = []
        self._numbers: Final[dict[bytes, int]] = {}

    def number(self, frames: bytes) -> int:
        """The number of a datagram."""
        number = self._numbers.setdefault(frames, len(self.frames))
        if number == len(self.frames):
            self.frames.append(frames)
        return number


@final
class Queues:
    """Queues of datagrams by number: 0 is the empty one."""

    def __init__(self) -> None:
        self.contents: Final[list[tuple[int, ...]]] = [()]
        self._numbers: Final[dict[tuple[int, ...], int]] = {(): 0}
        self._longer: Final[dict[tuple[int, tuple[int, ...]], int]] = {}
        self._shorter: Final[dict[int, int]] = {}

    def longer(self, queue: int, datagrams: tuple[int, ...]) -> int:
        """The queue with these at its end."""
        name = (queue, datagrams)
        found = self._longer.get(name)
        if found is None:
            found = self._longer[name] = self._number(self.contents[queue] + datagrams)
        return found

    def shorter(self, queue: int) -> int:
        """The queue without its head."""
        found = self._shorter.get(queue)
        if found is None:
            found = self._shorter[queue] = self._number(self.contents[queue][1:])
        return found

    def _number(self, content: tuple[int, ...]) -> int:
        number = self._numbers.setdefault(content, len(self.contents))
        if number == len(self.contents):
            self.contents.append(content)
        return number


@final
class Turns:
    """Randomness without chance: choices among members go round, back-offs are the shortest.

    What it returns is as good as any random number, and its state is small.
    """

    def __init__(self, members: int) -> None:
        self._members: Final = members
        self._turn = 0

    def randrange(self, stop: int, /) -> int:
        """The next choice among few; the lowest of many."""
        if not 1 < stop < self._members:
            return 0
        self._turn = (self._turn + 1) % stop
        return self._turn

    def random(self) -> float:
        """Always the same."""
        return 0.0


@final
class _Live:
    """A member that really runs, with its clock and its journal."""

    def __init__(
        self,
        config: MemberConfig,
        me: int,
        members: int,
        plan: list[Replaces],
        body: bytes,
        make: MachineMaker,
    ) -> None:
        self.now_ns = 0
        self.source: Final = Source(me, 1)
        header = Header(run="exhaust", members=tuple(f"p{at}.1" for at in range(members)))
        self.journal: Final = Journal(header)
        observer = JournalObserver(self.journal, node_name(self.source), lambda: self.now_ns)
        view = View.first(list(range(members)), config.f)
        self.member: Final = make(config, self.source, view, Turns(members), observer, False)
        self._plan: Final = plan
        self._body: Final = body
        self.multicasts = 0

    def do(self, action: Action, takes: bool, datagrams: Datagrams) -> list[Outgoing]:
        """Let it happen, and say what leaves."""
        kind, number, datagram = action
        member = self.member
        if kind == MULTICAST:
            for _ in range(number):
                member.multicast(self._body, self._plan[self.multicasts], self.now_ns)
                self.multicasts += 1
        elif kind == RECEIVE:
            member.receive(datagrams.frames[datagram], Source(number, 1), self.now_ns)
        elif kind == TICK:
            # A member that waits for nothing has no timer that could fire.
            due_ns = member.next_deadline_ns()
            if due_ns < SEQ_MAX:
                self.now_ns = max(self.now_ns, due_ns)
                member.on_timer(self.now_ns)
        elif kind == REMOVE:
            member.remove(number, self.now_ns)
        if kind == TAKE or takes:
            while member.deliverable():
                member.take(member.deliverable(), self.now_ns)
        return member.datagrams(self.now_ns)


@final
class Automaton:
    """One member of a group, in every state that it can get into."""

    def __init__(
        self,
        config: MemberConfig,
        me: int,
        members: int,
        plan: list[Replaces],
        datagrams: Datagrams,
        takes: bool,
        body: bytes,
        merging: bool = True,
        make: MachineMaker = Member,
    ) -> None:
        """`plan`: what it is going to multicast; `takes`: whether its application takes at once.

        Without `merging` every history is a state of its own. `make` makes the member.
        """
        self.plan: Final = plan
        self._config: Final = config
        self._me: Final = me
        self._members: Final = members
        self._datagrams: Final = datagrams
        self._takes: Final = takes
        self._body: Final = body
        self._merging: Final = merging
        self._make: Final = make
        # By state: how it was first reached, and what is known of it.
        self._came: Final[list[tuple[int, Action]]] = [(-1, (TAKE, 0, 0))]
        self.journals: Final[list[int]] = [0]
        # What checkers count others' purges by: which messages it multicast, received or skipped.
        self.had: Final[list[int]] = [0]
        self.multicasts: Final[list[int]] = [0]
        # Whether nothing waits for the application, and whether nothing at all is held.
        self.taken: Final[list[bool]] = [True]
        self.resting: Final[list[bool]] = [True]
        self._steps: Final[dict[tuple[int, Action], Step | None]] = {}
        self._states: Final[dict[object, int]] = {}
        # Journals of judged events, numbered: by the one before and what was added.
        self._journals: Final[dict[tuple[int, tuple[object, ...]], int]] = {}
        self._parked: Final[dict[int, _Live]] = {}

    def step(self, state: int, action: Action) -> Step | None:
        """What an action does, or None if it cannot be done now: there is no room."""
        name = (state, action)
        if name not in self._steps:
            self._steps[name] = self._really(state, action)
        return self._steps[name]

    def _really(self, state: int, action: Action) -> Step | None:
        live = self._at(state)
        before = len(live.journal)
        try:
            sent = self._sort(live.do(action, self._takes, self._datagrams))
        except WindowFullError:
            return None
        events = tuple(live.journal.events[before:])
        judged = tuple(event for event in events if event.event not in _UNJUDGED)
        journal = self.journals[state]
        if judged:
            # Times and numbers are left out: no verdict depends on when something happened.
            rows = tuple(event[2:] for event in judged)
            journal = self._journals.setdefault((journal, rows), len(self._journals) + 1)
        had = self.had[state]
        news = tuple(event[2:6] for event in judged if event.event in _HAVING)
        if news:
            had = self._journals.setdefault((had, news), len(self._journals) + 1)
        key: object = (state, action)
        if self._merging:
            key = (digest(live.member), live.now_ns, live.multicasts, journal)
        reached = self._states.get(key)
        if reached is None:
            reached = self._states[key] = len(self._came)
            self._came.append((state, action))
            self.journals.append(journal)
            self.had.append(had)
            self.multicasts.append(live.multicasts)
            stats = live.member.stats()
            self.taken.append(stats["delivery_held"] == 0)
            self.resting.append(
                stats["delivery_held"] + stats["retained_held"] + stats["early_held"] == 0
            )
        self._park(reached, live)
        return Step(reached, sent, events, any(event.event in _COMPARED for event in judged))

    def _sort(self, sent: list[Outgoing]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """What goes to whom."""
        found = []
        for to in range(self._members):
            numbers = [
                self._datagrams.number(outgoing.frames)
                for outgoing in sent
                if outgoing.to == to or (outgoing.to == EVERYBODY and to != self._me)
            ]
            if numbers:
                found.append((to, tuple(numbers)))
        return tuple(found)

    def _at(self, state: int) -> _Live:
        """A member in this state; it is used up by going on from there."""
        live = self._parked.pop(state, None)
        if live is not None:
            return live
        history = []
        while state != 0:
            state, action = self._came[state]
            history.append(action)
        live = _Live(self._config, self._me, self._members, self.plan, self._body, self._make)
        for action in reversed(history):
            live.do(action, self._takes, self._datagrams)
        return live

    def _park(self, state: int, live: _Live) -> None:
        if len(self._parked) >= _PARKED_MAX:
            del self._parked[next(iter(self._parked))]
        self._parked[state] = live
