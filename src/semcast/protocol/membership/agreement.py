"""Agreement on the next view: changes that are proposed in; the one that is decided out.

One instance of consensus for each view (single-decree Paxos). The members that are present in view
v are its acceptors; the value is the `Change` that makes view v + 1. Any member may propose:

    PREPARE ──►  has promised nothing higher? ──► PROMISE (with what it voted for last)
    ACCEPT  ──►  has promised nothing higher? ──► VOTE; a quorum of votes decides

A proposer that has the promises of a quorum proposes what the highest earlier ballot among them
voted for, and its own change only if there is none. Two quorums share a member, so whatever may
have been decided is what every higher ballot proposes.

Ballot 0 belongs to the first member and needs no promises, because no ballot is lower: usually one
round trip decides. The *first* member is the one that has been in longest, and of those who came in
together the one with the lowest position. A newcomer is therefore never the one on whom an even
split depends.

An acceptor remembers its promises and votes only as long as it lives. One that comes back is in
another life, which is no acceptor of that view, so it cannot vote against its own promise.

Nothing here knows of time, frames or loss: a step that is lost is said again by whoever needs it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError
from semcast.ids import Source
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import ACCEPT, PREPARE, PROMISE, REFUSE, VOTE

NO_BALLOT: Final = -1
QUORUMS: Final = ("majority", "all", "one")
# A ballot is a round and, in its lowest bits, the position of the member that it belongs to.
_POSITION_BITS: Final = 16
_POSITION_MASK: Final = (1 << _POSITION_BITS) - 1
# More rounds than any instance comes to: a higher one is not believed.
_ROUND_MAX: Final = 1 << 31
# So many members are ready to take over, one after the other.
HEIRS_MAX: Final = 16


@final
class Electorate:
    """Who decides what follows a view. Never changes, so members in one process may share it."""

    def __init__(self, view: View, quorum: str) -> None:
        if quorum not in QUORUMS:
            raise ConfigError(f"quorum is {quorum!r}; it is one of {', '.join(QUORUMS)}")
        self.view: Final = view
        self.quorum: Final = quorum
        elders = sorted((view.since[at], at) for at in view.positions.values() if _there(view, at))
        # Positions of those who propose, in the order in which they take over from each other.
        self.heirs: Final = [at for _, at in elders[:HEIRS_MAX]]
        self.first: Final = self.heirs[0] if self.heirs else -1

    def is_quorum(self, bits: int) -> bool:
        """Whether these members, as bits by position, can decide.

        INV-QUORUM: any two quorums share a member (unless `quorum` is "one", which gives that up).
        """
        view = self.view
        there = (bits & view.present_bits).bit_count()
        many = len(view.present)
        if self.quorum == "one":
            return there > 0
        if self.quorum == "all":
            return there == many
        if 2 * there == many:
            return bool(bits >> self.first & 1)
        return 2 * there > many


def _there(view: View, at: int) -> bool:
    return bool(view.present_bits >> at & 1)


@final
class Said:
    """One step of one ballot, as a member says it."""

    def __init__(
        self, step: i64, ballot: i64, voted: i64 = NO_BALLOT, change: Change | None = None
    ) -> None:
        self.step: Final[i64] = step
        self.ballot: Final[i64] = ballot
        # Of a promise: in which ballot its sender last voted, and for what.
        self.voted: Final[i64] = voted
        self.change: Final = change

    def __repr__(self) -> str:
        return f"<Said {self.step} in ballot {self.ballot}, {self.voted} for {self.change}>"


@final
class Agreement:
    """One member's part in the instance of one view: it is an acceptor, and perhaps proposes."""

    def __init__(self, electorate: Electorate, me: int) -> None:
        """`me`: the position of this member in the view."""
        self.electorate: Final = electorate
        self.me: Final = me
        # The acceptor. INV-PROMISE: it votes in no ballot below `promised`, which never falls.
        self.promised: i64 = 0
        self.voted: i64 = NO_BALLOT
        self.voted_for: Change | None = None
        # The proposer: its ballot, who promised or voted, and what it must propose, if anything.
        self.ballot: i64 = NO_BALLOT
        self.highest: i64 = 0
        self.promises = 0
        self.votes = 0
        self._bound_by: i64 = NO_BALLOT
        self._bound: Change | None = None
        # What it proposes in its ballot. INV-ONE: one value in one ballot.
        self.offered: Change | None = None
        self.decided: Change | None = None

    def copy(self) -> "Agreement":
        """Another one in the same state, for a search that goes on in several ways."""
        other = Agreement(self.electorate, self.me)
        other.promised, other.voted, other.voted_for = self.promised, self.voted, self.voted_for
        other.ballot, other.highest = self.ballot, self.highest
        other.promises, other.votes = self.promises, self.votes
        other._bound_by, other._bound = self._bound_by, self._bound
        other.offered, other.decided = self.offered, self.decided
        return other

    def state(self) -> tuple[object, ...]:
        """All that it knows; two with the same state behave alike."""
        acceptor = (int(self.promised), int(self.voted), self.voted_for)
        proposer = (int(self.ballot), int(self.highest), self.promises, self.votes)
        return (*acceptor, *proposer, int(self._bound_by), self._bound, self.offered, self.decided)

    # -- the proposer ------------------------------------------------------------------------------

    @property
    def overtaken(self) -> bool:
        """Whether a higher ballot than this member's has begun."""
        return self.highest > self.ballot or self.promised > self.ballot

    def claim(self) -> bool:
        """Begin ballot 0, if this is the first member and nobody has begun a higher ballot here."""
        if self.me != self.electorate.first or self.promised > 0 or self.ballot != NO_BALLOT:
            return False
        self.ballot = 0
        return True

    def prepare(self) -> Said:
        """Begin a ballot above all that were heard of."""
        above = max(self.highest, self.promised) >> _POSITION_BITS
        self.ballot = (above + 1) << _POSITION_BITS | self.me
        self.highest = self.promised = self.ballot
        self.promises = 1 << self.me
        self.votes = 0
        self.offered = None
        self._bound_by = self.voted
        self._bound = self.voted_for
        return Said(PREPARE, self.ballot)

    @property
    def ready(self) -> bool:
        """Whether this member may now propose in its ballot."""
        if self.offered is not None or self.ballot == NO_BALLOT or self.overtaken:
            return False
        return self.ballot == 0 or self.electorate.is_quorum(self.promises)

    @property
    def bound(self) -> bool:
        """Whether an earlier ballot says what this one proposes."""
        return self._bound is not None

    def offer(self, change: Change) -> Said:
        """Propose a change, or what an earlier ballot may have decided."""
        assert self.ready, "it owns ballot 0, or has the promises of a quorum"
        value = change if self._bound is None else self._bound
        self.offered = value
        self.voted = self.ballot
        self.voted_for = value
        self._count(self.me)
        return Said(ACCEPT, self.ballot, NO_BALLOT, value)

    def _count(self, at: int) -> None:
        self.votes |= 1 << at
        if self.electorate.is_quorum(self.votes):
            self.decided = self.offered

    # -- what others say ---------------------------------------------------------------------------

    def receive(self, said: Said, at: int) -> Said | None:
        """The member at this position said something; what to answer it."""
        if said.step == PREPARE or said.step == ACCEPT:
            if not self._owns(said.ballot, at):
                return None
            return self._on_prepare(said) if said.step == PREPARE else self._on_accept(said)
        if said.step == PROMISE:
            self._on_promise(said, at)
        elif said.step == VOTE:
            if said.ballot == self.ballot and self.offered is not None:
                self._count(at)
        elif said.step == REFUSE and said.ballot >> _POSITION_BITS < _ROUND_MAX:
            self.highest = max(self.highest, said.ballot)
        return None

    def _owns(self, ballot: i64, at: int) -> bool:
        if ballot == 0:
            return at == self.electorate.first
        return ballot & _POSITION_MASK == at and 0 < ballot >> _POSITION_BITS < _ROUND_MAX

    def _on_prepare(self, said: Said) -> Said:
        if said.ballot < self.promised:
            return Said(REFUSE, self.promised)
        self.promised = said.ballot
        self.highest = max(self.highest, said.ballot)
        return Said(PROMISE, said.ballot, self.voted, self.voted_for)

    def _on_promise(self, said: Said, at: int) -> None:
        if said.ballot != self.ballot or self.offered is not None:
            return
        self.promises |= 1 << at
        if said.voted > self._bound_by and said.change is not None:
            self._bound_by = said.voted
            self._bound = said.change

    def _on_accept(self, said: Said) -> Said | None:
        if said.ballot < self.promised:
            return Said(REFUSE, self.promised)
        assert said.change is not None, "a proposal has a value"
        self.promised = said.ballot
        self.highest = max(self.highest, said.ballot)
        self.voted = said.ballot
        self.voted_for = said.change
        return Said(VOTE, said.ballot)


# Electorates that were made lately: members in one process share them.
_KEPT_MAX: Final = 16
_ELECTORATES: Final[dict[tuple[int, int, str], Electorate]] = {}


def electorate_of(view: View, quorum: str) -> Electorate:
    """Who decides what follows a view."""
    name = (int(view.digest), view.number, quorum)
    known = _ELECTORATES.get(name)
    if known is not None and (known.view is view or known.view.since == view.since):
        return known
    made = Electorate(view, quorum)
    if len(_ELECTORATES) >= _KEPT_MAX:
        _ELECTORATES.clear()
    _ELECTORATES[name] = made
    return made


@final
class Succession:
    """How one view follows another at one member: the latest view, and the instance after it."""

    def __init__(self, me: Source, view: View, quorum: str) -> None:
        self.me: Final = me
        self.quorum: Final = quorum
        self.view = view
        self.agreement = Agreement(electorate_of(view, quorum), view.position(me.sender))

    def copy(self) -> "Succession":
        """Another one in the same state, for a search that goes on in several ways."""
        other = Succession(self.me, self.view, self.quorum)
        other.agreement = self.agreement.copy()
        return other

    def receive(self, view: i64, number: i64, said: Said, source: Source) -> Said | None:
        """A step that `source` said of the view with this digest and number; what to answer it.

        INV-VIEW: only steps of this very view count, by members that are in it in this life.
        """
        if view != self.view.digest or number != self.view.number:
            return None
        if not self.view.holds(source):
            return None
        return self.agreement.receive(said, self.view.positions[int(source.sender)])

    def follow(self, view: View) -> None:
        """Go on with a later view; this member is in it."""
        assert view.number > self.view.number, "numbers only grow"
        assert view.holds(self.me), "only those who are in it have a say"
        self.view = view
        self.agreement = Agreement(electorate_of(view, self.quorum), view.position(self.me.sender))
