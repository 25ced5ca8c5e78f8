"""A process that takes part in the agreement on views, as a table: a state and something that
happens to it in; its next state, and what it says, out.

The real `Succession` and `Agreement` run behind it, once for each thing that can happen in each of
their states; from then on the answer is looked up.
"""

from dataclasses import dataclass
from typing import Final, TypeAlias, final

from semcast.ids import Source
from semcast.protocol.membership.agreement import Said, Succession
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import DECIDED

LIFE: Final = 1
F_MAX: Final = 1
_ORIGIN: Final = 7
# What can happen beside a word that is heard, whose number is not negative.
_CLAIM: Final = -1
_PREPARE: Final = -2


@dataclass(frozen=True)
class AgreementScope:
    """How many members there are at first, and what may happen."""

    members: int = 3
    # Ballots that are prepared, by all together; and the number of the last view.
    prepares: int = 1
    number_max: int = 2
    # Whether the first member may propose in ballot 0, without promises.
    claims: bool = True
    # Whether the others go on from each state in which one process is dead.
    closing: bool = True
    # Whether those who decide tell others; if not, there is less to go through.
    telling: bool = True


# From, to, digest and number of the view, step, ballot, voted, change.
Word: TypeAlias = tuple[int, int, int, int, int, int, int, Change | None]
# What a process did: its state, and the words that it said, as bits.
Step: TypeAlias = tuple[int, int]


@final
class Vocabulary:
    """Everything that anybody says in any run; words and views that are equal are one."""

    def __init__(self, scope: AgreementScope) -> None:
        self.scope: Final = scope
        # The members, and the joiner.
        self.processes: Final = scope.members + 1
        self.first: Final = first_view(scope.members)
        self.views: Final[dict[int, View]] = {int(self.first.digest): self.first}
        self.words: Final[list[Word]] = []
        # By process: the words that are for it, as bits; and which of all words are decisions.
        self.to: Final[list[int]] = [0] * self.processes
        self.decisions = 0
        self._numbers: Final[dict[Word, int]] = {}

    def word(self, word: Word) -> int:
        """The number of a word."""
        number = self._numbers.setdefault(word, len(self.words))
        if number == len(self.words):
            self.words.append(word)
            self.to[word[1]] |= 1 << number
            if word[4] == DECIDED:
                self.decisions |= 1 << number
        return number


def first_view(members: int) -> View:
    """Members that came in together."""
    ids = tuple(range(members))
    names = tuple(f"p{at}" for at in ids)
    return View(1, ids, (LIFE,) * members, F_MAX, names, 0, (1,) * members, _ORIGIN)


def wish_of(process: int, view: View) -> Change:
    """What a process proposes after a view: each something else."""
    if view.number == 1:
        joiner = len(view.members)
        join = (joiner, LIFE, f"p{joiner}")
        # The first lets the joiner in; each other one also removes the one before it.
        return Change((join,), () if process == 0 else (process - 1,))
    others = [sender for sender in view.present if sender != process]
    return Change((), (others[process % len(others)],))


@final
class Party:
    """One process, in every state that it can get into."""

    def __init__(self, known: Vocabulary, me: int) -> None:
        self._known: Final = known
        self._me: Final = me
        self._source: Final = Source(me, LIFE)
        self._states: Final[list[Succession | None]] = []
        self._numbers: Final[dict[object, int]] = {}
        self._steps: Final[dict[tuple[int, int], Step | None]] = {}
        view = known.first
        is_in = view.holds(self._source)
        self._number(Succession(self._source, view, "majority") if is_in else None)

    def _number(self, state: Succession | None) -> int:
        name: object = None
        if state is not None:
            name = (int(state.view.digest), state.view.number, state.agreement.state())
        number = self._numbers.setdefault(name, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def at(self, state: int) -> Succession | None:
        """What is behind a state; nobody may change it."""
        return self._states[state]

    # -- steps -------------------------------------------------------------------------------------

    def claim(self, state: int) -> Step | None:
        """It proposes in ballot 0, if it may."""
        return self._step(state, _CLAIM)

    def prepare(self, state: int) -> Step | None:
        """It begins a higher ballot."""
        return self._step(state, _PREPARE)

    def hear(self, state: int, word: int) -> Step | None:
        """A word reaches it; None if that changes nothing."""
        return self._step(state, word)

    def _step(self, state: int, action: int) -> Step | None:
        name = (state, action)
        if name not in self._steps:
            self._steps[name] = self._really(state, action)
        return self._steps[name]

    def _really(self, state: int, action: int) -> Step | None:
        known = self._states[state]
        now = None if known is None else known.copy()
        said: list[Word] = []
        if action >= 0:
            now = self._hear(now, self._known.words[action], said)
        elif now is None or now.view.number > self._known.scope.number_max - 1:
            return None
        elif action == _CLAIM:
            if not now.agreement.claim():
                return None
            self._offer(now, said)
        else:
            self._say(now, now.agreement.prepare(), said)
            if now.agreement.ready:
                self._offer(now, said)
        if now is not None:
            now = self._follow(now, said)
        reached = self._number(now)
        bits = 0
        for word in said:
            bits |= 1 << self._known.word(word)
        return None if reached == state and not bits else (reached, bits)

    def _hear(self, now: Succession | None, word: Word, said: list[Word]) -> Succession | None:
        by, _, digest, number, step, ballot, voted, change = word
        if now is None:
            # The joiner is told the view that lets it in.
            view = self._known.views[digest].changed(change or Change(), F_MAX)
            if step != DECIDED or not view.holds(self._source):
                return None
            self._tell(digest, number, change, said)
            return Succession(self._source, view, "majority")
        if step == DECIDED:
            if (now.view.digest, now.view.number) == (digest, number):
                now.agreement.decided = change
            return now
        source = Source(by, LIFE)
        answer = now.receive(digest, number, Said(step, ballot, voted, change), source)
        if answer is not None:
            self._say_to(now, answer, by, said)
        if now.agreement.ready:
            self._offer(now, said)
        return now

    def _offer(self, now: Succession, said: list[Word]) -> None:
        self._say(now, now.agreement.offer(wish_of(self._me, now.view)), said)

    def _say(self, now: Succession, what: Said, said: list[Word]) -> None:
        for sender in now.view.present:
            if sender != self._me:
                self._say_to(now, what, sender, said)

    def _say_to(self, now: Succession, what: Said, to: int, said: list[Word]) -> None:
        view = now.view
        said.append(
            (
                self._me,
                to,
                int(view.digest),
                view.number,
                int(what.step),
                int(what.ballot),
                int(what.voted),
                what.change,
            )
        )

    def _tell(self, digest: int, number: int, change: Change | None, said: list[Word]) -> None:
        """Whoever knows the next view tells those who lag behind."""
        others = [to for to in range(self._known.processes) if to != self._me]
        said += [(self._me, to, digest, number, DECIDED, 0, -1, change) for to in others]

    def _follow(self, now: Succession, said: list[Word]) -> Succession:
        """If a change is decided, it goes on with the next view, and tells everybody."""
        change = now.agreement.decided
        if change is None:
            return now
        before = now.view
        view = before.changed(change, F_MAX)
        self._known.views[int(view.digest)] = view
        if self._known.scope.telling:
            self._tell(int(before.digest), before.number, change, said)
        if view.holds(self._source):
            now.follow(view)
        return now
