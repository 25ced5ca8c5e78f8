"""Every run of a small group: a scope in, a proof by exhaustion or a run that breaks a promise out.

A scope is a few processes, a few messages of one sender, what they replace, and how often timers
fire. All interleavings are covered, with one crash of any process at any point or none, with the
real `Member` code, and every run is judged by `semcast.check`.

What keeps it small, and why nothing is lost by it:

* **Members are tables** (`automaton`): each runs once for each thing that can happen in each of its
  states. A global state is then a tuple of numbers and of datagrams on their way, and each is
  visited once, whatever number of interleavings leads to it. Events at different members commute:
  channels are FIFO with one writer and one reader each, and clocks are local. So interleavings that
  order each member's events alike (a Mazurkiewicz trace) lead to one state; and so do traces that
  leave all members and channels alike.
* **Safety on the way.** Most properties look at each member by itself: they are judged at the end
  of a run, which has all its events. Whether a purge was safe, a message stable or a skip covered
  depends on what others have done by then. As every state is visited, each such event is judged
  also where only what must precede it has happened, which is the worst case.
* **The crash comes last.** Nobody notices a crash, so it commutes with all that others do, but for
  the arrival of what the crashed process has sent. Put it after the last such arrival: then what it
  sent is either there or lost, and always loses the end of each channel, never the middle
  (readings: a crashed process's channels lose a suffix). What others do after it they might as well
  do before it. So runs with a crash are: any state, the crash, and the closing phase.
* **The closing phase is one schedule.** The crash is detected by all; then rounds in which
  everything is delivered, slow readers take, and each timer fires once, until nothing is held any
  more. Interleavings of timers beyond the scope's `ticks` are left to `sim.exploring`.
* **Applications** take at once, or (`slow`) take nothing until the closing phase.
* **Datagrams** hold one message each, so that a crash can come between any two messages, and a
  sender may multicast several messages before the first one leaves.
* **Losses**, if any, take the datagram at the head of a channel, at most so many in a run.
"""

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from semcast.check import Violation, check_all, check_safety
from semcast.journal import Header, Journal
from semcast.sim.exhausting.automaton import (
    MULTICAST,
    RECEIVE,
    REMOVE,
    TAKE,
    TICK,
    Action,
    Automaton,
    Datagrams,
    Queues,
    Step,
)
from semcast.sim.exhausting.closing import Closing, Path
from semcast.sim.exhausting.scope import NOBODY, Scope

# So large that the smallest datagram holds one message but not two.
_BODY: Final = b"x" * 250
_ROUNDS_MAX: Final = 40
# A state takes about 1 KB, with all that belongs to it.
STATES_MAX: Final = 2_000_000
# How many states there are between two reports of progress.
_PROGRESS_STATES: Final = 1000
_VERBS: Final = {TICK: "timer", TAKE: "takes all", MULTICAST: "multicasts", REMOVE: "removes"}

# The state of each member; for each pair of members the number of the queue of datagrams on their
# way; how many datagrams were lost; and how often timers fired.
State: TypeAlias = tuple[int, ...]


@dataclass
class Outcome:
    """What became of a scope."""

    scope: Scope
    states: int = 0
    # How many different orders of events lead from the start to where nothing is left to do.
    interleavings: int = 0
    closings: int = 0
    judged: int = 0
    # False if the time was up, or there were too many states, before all was seen.
    complete: bool = False
    violations: list[Violation] = field(default_factory=list)
    # The run that shows them, one line for each step.
    transcript: list[str] = field(default_factory=list)
    # Every set of final deliveries, by member the numbers in order; for comparing scopes.
    finals: set[tuple[tuple[int, ...], ...]] = field(default_factory=set)


class _BrokenError(Exception):
    """A promise was broken."""

    def __init__(self, violations: list[Violation], path: Path) -> None:
        super().__init__(str(violations[0]))
        self.violations: Final = violations
        self.path: Final = path


class _CutShortError(Exception):
    """The time is up, or there is no room for more states."""


def exhaust(
    scope: Scope,
    seconds: float | None = None,
    states_max: int = STATES_MAX,
    progress: Callable[[int], None] | None = None,
) -> Outcome:
    """Explore all of a scope, or as much as time and memory allow. `progress` gets the count."""
    return _Search(scope, seconds, states_max, progress).run()


@final
class _Search:
    def __init__(
        self,
        scope: Scope,
        seconds: float | None,
        states_max: int,
        progress: Callable[[int], None] | None,
    ) -> None:
        self.scope: Final = scope
        self.count: Final = scope.processes
        self.config: Final = scope.config()
        self.names: Final = tuple(f"p{at}.1" for at in range(self.count))
        self.outcome: Final = Outcome(scope)
        self.queues: Final = Queues()
        datagrams = Datagrams()
        self.members: Final = [
            Automaton(
                self.config,
                at,
                self.count,
                list(scope.relation) if at == 0 else [],
                datagrams,
                at != scope.slow,
                _BODY,
                scope.merging,
            )
            for at in range(self.count)
        ]
        self.deadline_s: Final = None if seconds is None else time.monotonic() + seconds
        self.states_max: Final = states_max
        self.progress: Final = progress
        # The run that is being explored.
        self.path: Final[Path] = []
        # By state: how many interleavings lead on from it; 0 while it is being explored.
        self.onward: Final[dict[State, int]] = {}
        self.seen_safe: Final[set[tuple[int, ...]]] = set()
        self.seen_closings: Final[set[tuple[int, ...]]] = set()
        self.seen_rounds: Final[set[tuple[int, ...]]] = set()
        self.seen_ends: Final[set[tuple[int, ...]]] = set()

    def run(self) -> Outcome:
        outcome = self.outcome
        try:
            outcome.interleavings = self.explore()
            outcome.complete = True
        except _BrokenError as broken:
            outcome.violations = broken.violations
            outcome.transcript = self.transcript_of(broken.path)
        except _CutShortError:
            pass
        except Exception as error:
            # Any exception is a bug of ours; the innermost place says most.
            place = traceback.extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {error} ({place.name}, line {place.lineno})"
            outcome.violations = [Violation("Exception", text, "", (), len(self.path))]
            outcome.transcript = self.transcript_of(self.path)
        outcome.states = len(self.onward)
        return outcome

    # -- the graph ---------------------------------------------------------------------------------

    def explore(self) -> int:
        """Depth first over all states; how many interleavings there are."""
        path = self.path
        # The states on the way here: what may happen next, and how many interleavings so far.
        stack: list[tuple[State, list[_Move]]] = []
        sums: list[int] = []
        reached: State | None = (0,) * (self.count + self.count**2 + 2)
        while True:
            if reached is not None:
                moves = self.enter(reached, path)
                stack.append((reached, moves))
                sums.append(0 if moves else 1)
            state, moves = stack[-1]
            if moves:
                actor, action, step, reached = moves.pop()
                path.append((actor, action, step))
                if step is not None and step.compared:
                    self.judge_safety(state, actor, step, path)
                if reached not in self.onward:
                    continue
                total = self.onward[reached]
                assert total > 0, "no run comes back to where it was"
            else:
                stack.pop()
                total = self.onward[state] = sums.pop()
                if not stack:
                    return total
            reached = None
            path.pop()
            sums[-1] += total

    def enter(self, state: State, path: Path) -> list["_Move"]:
        """Enter a new state: end the run here in every way, and return how it may go on."""
        late = self.deadline_s is not None and time.monotonic() > self.deadline_s
        if late or len(self.onward) == self.states_max:
            raise _CutShortError
        self.onward[state] = 0
        if self.progress is not None and len(self.onward) % _PROGRESS_STATES == 0:
            self.progress(len(self.onward))
        moves = self.moves(state)
        if state[-1] == self.scope.ticks:
            for dead in range(NOBODY, self.count):
                if self.at_rest(state, dead):
                    self.close(state, dead, path)
        return moves

    def at_rest(self, state: State, dead: int) -> bool:
        """Whether nothing is on its way among the processes that live."""
        count = self.count
        for at in range(count * count):
            if state[count + at] and dead not in divmod(at, count):
                return False
        return True

    def moves(self, state: State) -> list["_Move"]:
        """Everything that may happen next, but for a crash."""
        count = self.count
        found: list[_Move] = []
        for actor, member in enumerate(self.members):
            here = state[actor]
            actions: list[Action] = []
            if member.plan:
                left = len(member.plan) - member.multicasts[here]
                actions += [(MULTICAST, number, 0) for number in range(1, left + 1)]
            if state[-1] < self.scope.ticks:
                actions.append((TICK, 0, 0))
            for action in actions:
                step = member.step(here, action)
                if step is not None:
                    after = self.after(state, actor, step, NOBODY, action[0] == TICK)
                    found.append((actor, action, step, after))
            for other in range(count):
                queue = state[count + other * count + actor]
                if queue:
                    action = (RECEIVE, other, self.queues.contents[queue][0])
                    step = member.step(here, action)
                    assert step is not None, "only a multicast is refused"
                    found.append((actor, action, step, self.after(state, actor, step, other)))
                    if state[-2] < self.scope.losses:
                        found.append((actor, action, None, self.lose(state, actor, other)))
        return found

    def after(self, state: State, actor: int, step: Step, read: int, tick: bool = False) -> State:
        """The state after a step of `actor`, which took a datagram of `read`, or of nobody."""
        now = list(state)
        count = self.count
        now[actor] = step.state
        if read != NOBODY:
            at = count + read * count + actor
            now[at] = self.queues.shorter(now[at])
        for to, datagrams in step.sent:
            at = count + actor * count + to
            now[at] = self.queues.longer(now[at], datagrams)
        if tick:
            now[-1] += 1
        return tuple(now)

    def lose(self, state: State, actor: int, other: int) -> State:
        now = list(state)
        at = self.count + other * self.count + actor
        now[at] = self.queues.shorter(now[at])
        now[-2] += 1
        return tuple(now)

    # -- the end of a run --------------------------------------------------------------------------

    def close(self, state: State, dead: int, path: Path) -> None:
        """Crash one process, or none; then let everything come to rest, and judge the whole run."""
        count = self.count
        now = list(state)
        had = 0
        if dead != NOBODY:
            # All that matters of a crashed process is what it had; it sends nothing more.
            had = self.members[dead].had[now[dead]]
            now[dead] = 0
            for at in range(count):
                now[count + dead * count + at] = now[count + at * count + dead] = 0
        now[-2:] = [dead, had]
        if tuple(now) in self.seen_closings:
            return
        self.seen_closings.add(tuple(now))
        self.outcome.closings += 1
        end = list(path)
        alive = [at for at in range(count) if at != dead]
        closing = Closing(self.members, self.queues, now, alive, self.scope.slow, end)
        if dead != NOBODY:
            end.append((dead, None, None))
            for at in alive:
                closing.do(at, (REMOVE, dead, 0), NOBODY)
        for _ in range(_ROUNDS_MAX):
            closing.settle()
            if tuple(now) in self.seen_rounds:
                return
            self.seen_rounds.add(tuple(now))
            if all(self.members[at].resting[now[at]] for at in alive):
                break
            for at in alive:
                closing.do(at, (TICK, 0, 0), NOBODY)
        closing.settle()
        if dead != NOBODY:
            now[dead] = state[dead]
        self.judge_end(now, dead, end)

    # -- judging -----------------------------------------------------------------------------------

    def journals(self, state: Sequence[int]) -> tuple[int, ...]:
        return tuple(member.journals[state[at]] for at, member in enumerate(self.members))

    def judge_safety(self, before: State, actor: int, step: Step, path: Path) -> None:
        name = (*self.journals(before), actor, self.members[actor].journals[step.state])
        if name not in self.seen_safe:
            self.seen_safe.add(name)
            self.judge(check_safety(self.journal(path)).violations, path)

    def judge_end(self, state: list[int], dead: int, path: Path) -> None:
        name = (*self.journals(state), dead)
        if name in self.seen_ends:
            return
        self.seen_ends.add(name)
        journal = self.journal(path)
        self.judge(check_all(journal).violations, path)
        delivered: list[list[int]] = [[] for _ in self.names]
        for event in journal.select(event="deliver"):
            delivered[self.names.index(event.node)].append(event.seq or 0)
        self.outcome.finals.add(tuple(map(tuple, delivered)))

    def judge(self, violations: list[Violation], path: Path) -> None:
        self.outcome.judged += 1
        if violations:
            raise _BrokenError(violations, list(path))

    def journal(self, path: Path) -> Journal:
        """The journal of a run, in the order in which it was run."""
        journal = Journal(Header.of(self.config, self.names, run="exhaust"))
        for at, (actor, action, step) in enumerate(path):
            if action is None:
                journal.record(at, self.names[actor], "crash")
            for event in step.events if step is not None else ():
                journal.record(at, event.node, event.event, *event[4:])
        return journal

    def transcript_of(self, path: Path) -> list[str]:
        """A run for people."""
        lines = []
        for at, (actor, action, step) in enumerate(path):
            if action is None:
                lines.append(f"{at:4} p{actor} crashes")
                continue
            kind, number, datagram = action
            if kind == RECEIVE:
                what = f"{'receives' if step else 'loses'} datagram {datagram} of p{number}"
            else:
                what = f"{_VERBS[kind]} {number}" if kind in (MULTICAST, REMOVE) else _VERBS[kind]
            events = [
                f"{event.event} {event.sender}#{event.seq}"
                + (f" by #{event.by_seq}" if event.by_seq is not None else "")
                + (f" from {event.where}" if event.where else "")
                for event in (step.events if step is not None else ())
            ]
            lines.append(f"{at:4} p{actor} {what}: {', '.join(events) or '-'}")
        return lines


_Move: TypeAlias = tuple[int, Action, Step | None, State]
