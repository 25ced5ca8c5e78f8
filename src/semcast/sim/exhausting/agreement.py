"""Every run of the agreement on views in a small scope: how many members propose how often in, what
breaks out.

Three members decide who is in the next view; one process joins. What is said stays said: each word
may reach its receiver at any time, any number of times, or never, so that every order, loss and
repetition is a run. A process that takes no step any more has crashed, so that every crash is a run
too. From each state in which one process is dead the others go on in peace, to see whether they
still can: nothing may wait for the dead one.

How a process behaves is said in `party`.
"""

from dataclasses import dataclass, field
from typing import Final, TypeAlias, final

from semcast.protocol.membership.agreement import Succession, electorate_of
from semcast.protocol.membership.parcels import view_after
from semcast.protocol.membership.view import Change, View
from semcast.sim.exhausting.party import F_MAX, AgreementScope, Party, Step, Vocabulary, Word
from semcast.wire.families.agreement import ACCEPT, DECIDED, VOTE

NOBODY: Final = -1
# Rounds of the closing phase: in each of them somebody proposes.
_ROUNDS_MAX: Final = 6


@dataclass
class AgreementOutcome:
    """What was found."""

    states: int = 0
    closings: int = 0
    complete: bool = False
    # By number: the digests of the views that were decided in any run.
    decisions: dict[int, set[int]] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)


# The states of the processes, all words that were said, and how many ballots were prepared.
_State: TypeAlias = tuple[int, ...]


class AgreementBrokenError(Exception):
    """A run breaks a promise."""


@final
class AgreementSearch:
    """Goes through all runs of a scope."""

    def __init__(self, scope: AgreementScope, states_max: int = 1 << 30) -> None:
        self.scope: Final = scope
        self._states_max: Final = states_max
        self._known: Final = Vocabulary(scope)
        self.processes: Final = self._known.processes
        self.parties: Final = [Party(self._known, at) for at in range(self.processes)]
        self.outcome: Final = AgreementOutcome()
        # What was judged before: words that were said, and ends of runs.
        self._judged: Final[set[int]] = set()
        self._closed: Final[set[tuple[int, ...]]] = set()

    def run(self) -> AgreementOutcome:
        """All states, depth first."""
        start: _State = (0,) * (self.processes + 2)
        seen = {start}
        stack = [start]
        try:
            while stack:
                state = stack.pop()
                if len(seen) > self._states_max:
                    self.outcome.states = len(seen)
                    return self.outcome
                self._judge(state)
                for reached in self._onward(state):
                    if reached not in seen:
                        seen.add(reached)
                        stack.append(reached)
            self.outcome.complete = True
        except (AgreementBrokenError, AssertionError) as error:
            self.outcome.violations.append(f"{type(error).__name__}: {error}")
        self.outcome.states = len(seen)
        return self.outcome

    def _onward(self, state: _State) -> list[_State]:
        found: list[_State] = []
        words, prepared = state[-2], state[-1]
        for at, party in enumerate(self.parties):
            here = state[at]
            step = party.claim(here) if self.scope.claims else None
            if step is not None:
                found.append(self._after(state, at, step, 0))
            if prepared < self.scope.prepares:
                step = party.prepare(here)
                if step is not None:
                    found.append(self._after(state, at, step, 1))
            left = words & self._known.to[at]
            while left:
                lowest = left & -left
                left ^= lowest
                step = party.hear(here, lowest.bit_length() - 1)
                if step is not None:
                    found.append(self._after(state, at, step, 0))
        return found

    def _after(self, state: _State, at: int, step: Step, prepared: int) -> _State:
        now = list(state)
        now[at] = step[0]
        now[-2] |= step[1]
        now[-1] += prepared
        return tuple(now)

    # -- judging -----------------------------------------------------------------------------------

    def _judge(self, state: _State) -> None:
        """One sequence of views, each decided by a quorum of the one before."""
        views: dict[int, int] = {}
        if state[-2] & self._known.decisions and state[-2] not in self._judged:
            self._judged.add(state[-2])
            self._judge_words(self._said(state[-2]))
        for at, party in enumerate(self.parties):
            behind = party.at(state[at])
            if behind is not None:
                view = self._latest(behind)
                if views.setdefault(view.number, int(view.digest)) != view.digest:
                    raise AgreementBrokenError(f"two views have the number {view.number}")
                self.outcome.decisions.setdefault(view.number, set()).add(int(view.digest))
        if self.scope.closing:
            for dead in range(NOBODY, self.processes):
                self._close(state, dead)

    def _latest(self, behind: Succession) -> View:
        """The view of a process, or the one that it knows to be without it."""
        change = behind.agreement.decided
        return behind.view if change is None else view_after(behind.view, change, F_MAX)

    def _judge_words(self, words: list[Word]) -> None:
        decided: dict[int, Change] = {}
        for word in words:
            if word[4] == DECIDED and word[7] is not None:
                number, change = word[3], word[7]
                if decided.setdefault(number, change) != change:
                    raise AgreementBrokenError(f"two decisions after view {number}")
                self._judge_votes(self._known.views[word[2]], change, words)

    def _judge_votes(self, view: View, change: Change, words: list[Word]) -> None:
        """What was decided was proposed by somebody, and a quorum voted for it in one ballot."""
        voters: dict[int, int] = {}
        proposed = set()
        for by, _, digest, _, step, ballot, _, value in words:
            if digest == view.digest and step in (ACCEPT, VOTE):
                voters[ballot] = voters.get(ballot, 0) | 1 << view.position(by)
                if value == change:
                    proposed.add(ballot)
        if len(view.present) > 1 and not proposed:
            raise AgreementBrokenError(f"nobody proposed what follows view {view.number}")
        quorum = electorate_of(view, "majority")
        if not any(quorum.is_quorum(voters[ballot]) for ballot in proposed):
            raise AgreementBrokenError(f"no quorum decided what follows view {view.number}")

    def _said(self, bits: int) -> list[Word]:
        found = []
        while bits:
            lowest = bits & -bits
            bits ^= lowest
            found.append(self._known.words[lowest.bit_length() - 1])
        return found

    # -- can the others go on? ---------------------------------------------------------------------

    def _close(self, state: _State, dead: int) -> None:
        """One process is dead, or none; the others hear everything, and one of them proposes."""
        name = (*state[:-1], dead)
        if name in self._closed:
            return
        self._closed.add(name)
        self.outcome.closings += 1
        now = state
        alive = [at for at in range(self.processes) if at != dead]
        for turn in range(_ROUNDS_MAX):
            now = self._settle(now, alive)
            latest = max((self._view_of(now, at) for at in alive), key=_number_of)
            if latest is None:
                return
            inside = [at for at in alive if latest.is_present(at)]
            if latest.number > 1 and all(
                (view := self._view_of(now, at)) is not None and view.number == latest.number
                for at in inside
            ):
                return
            bits = sum(1 << latest.position(at) for at in inside)
            if not electorate_of(latest, "majority").is_quorum(bits):
                return
            proposer = inside[turn % len(inside)]
            step = self.parties[proposer].prepare(now[proposer])
            if step is not None:
                now = self._after(now, proposer, step, 0)
        raise AgreementBrokenError(f"with {dead} dead, the others never decide")

    def _view_of(self, state: _State, at: int) -> View | None:
        behind = self.parties[at].at(state[at])
        return None if behind is None else behind.view

    def _settle(self, state: _State, alive: list[int]) -> _State:
        """Everything that was said among the living is heard, until nothing changes."""
        now = state
        changed = True
        while changed:
            changed = False
            for at in alive:
                for number, word in enumerate(self._known.words):
                    if word[1] != at or word[0] not in alive or not now[-2] >> number & 1:
                        continue
                    step = self.parties[at].hear(now[at], number)
                    if step is not None:
                        after = self._after(now, at, step, 0)
                        changed = changed or after != now
                        now = after
        return now


def _number_of(view: View | None) -> int:
    return 0 if view is None else view.number


def exhaust_agreement(scope: AgreementScope, states_max: int = 1 << 30) -> AgreementOutcome:
    """Go through all runs of a scope, or through so many states."""
    return AgreementSearch(scope, states_max).run()
