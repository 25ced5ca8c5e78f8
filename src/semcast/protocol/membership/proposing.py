"""Proposing: wishes and the steps of ballots in; steps out, until a change is decided.

When wishes are ripe, the first member that is not suspected proposes; each next one waits a while
longer before it takes over. If somebody is to be removed because it is accused, a ballot is first
prepared even by the first member: the promises show that a quorum hears it, and what is proposed is
chosen only then. Steps are repeated, ever less often, until the instance is decided.

Changes travel as parcels. A step whose parcel is not here yet waits for it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.agreement import HEIRS_MAX, NO_BALLOT, Said, Succession
from semcast.protocol.membership.collecting import Collecting
from semcast.protocol.membership.parcels import Parcel, change_parcel, intern_change
from semcast.protocol.membership.post import Post
from semcast.protocol.membership.view import Change, View
from semcast.protocol.membership.wishes import WishList
from semcast.wire.families.agreement import ACCEPT, DECIDED, PREPARE, REFUSE, Ballot, Lack

_MS: Final = 1_000_000
# How much longer each next member waits before it proposes itself.
TAKEOVER_NS: Final = 150 * _MS
# How long a step waits for its answers before it is repeated; each time it waits twice as long.
_RETRY_NS: Final = 25 * _MS
_RETRY_MAX_NS: Final = 1_000 * _MS
_TRIES_MAX: Final = 6
# If ripe wishes are not fulfilled for so long, no quorum answers.
_MINORITY_NS: Final = 1_000 * _MS
# Changes that were proposed after one view, and steps that wait for one: no more are kept.
_CHANGES_MAX: Final = 8
_HELD_MAX: Final = 32
# A parcel of so few parts is sent along each time; the parts of others are asked for if lost.
_FEW_PARTS: Final = 3


@final
class Proposer:
    """One member's part in the consensus on each next view."""

    def __init__(
        self,
        succession: Succession,
        wishes: WishList,
        collecting: Collecting,
        post: Post,
        random: Randomness,
    ) -> None:
        self._succession: Final = succession
        self._collecting: Final = collecting
        self._wishes: Final = wishes
        self._post: Final = post
        self._random: Final = random
        # When to act: propose, or repeat what was said.
        self.act_ns: i64 = NEVER
        self._again_ns: i64 = 0
        self._tries: i64 = 0
        # Members that are no heirs wait longer still, each differently.
        self._spread_ns: i64 = self._draw_spread()
        # What was proposed after this view, by the number of its parcel.
        self._changes: Final[dict[int, tuple[Change, Parcel]]] = {}
        self._held: Final[dict[int, list[tuple[Ballot, Source]]]] = {}
        # What is decided: the next view follows from it.
        self.decided: Change | None = None
        self.decided_here = False
        # Since when no quorum answers; NEVER if that is not so.
        self.minority_ns: i64 = NEVER

    def _draw_spread(self) -> i64:
        heirs = self._succession.agreement.electorate.heirs
        if self._succession.agreement.me in heirs:
            return 0
        many = 1 + len(self._succession.view.present) // HEIRS_MAX
        return TAKEOVER_NS * (HEIRS_MAX + self._random.randrange(many))

    def follow(self, now_ns: i64) -> None:
        """There is another view, so that another instance begins."""
        self._changes.clear()
        self._held.clear()
        self._again_ns = 0
        self._tries = 0
        self._spread_ns = self._draw_spread()
        self.decided = None
        self.decided_here = False
        self.minority_ns = NEVER
        self.plan(now_ns)

    # -- when to act -------------------------------------------------------------------------------

    def rank(self, now_ns: i64) -> int:
        """How many members should propose before this one; HEIRS_MAX if it is no heir.

        Nor is a member that leaves, while others stay: if it went as soon as it had the votes, and
        its last word were lost, the others might not be able to find out what was decided.
        """
        agreement, wishes = self._succession.agreement, self._wishes
        members, me = self._succession.view.members, agreement.me
        leaves = wishes.goes(members[me])
        ahead = 0
        rank = HEIRS_MAX
        for at in agreement.electorate.heirs:
            if at == me:
                if not leaves:
                    return ahead
                rank = ahead
            elif not wishes.suspects(members[at], now_ns):
                if leaves:
                    return HEIRS_MAX
                ahead += 1
            elif leaves and wishes.goes(members[at]):
                ahead += 1
        return rank

    def plan(self, now_ns: i64) -> None:
        """Find out when to act, after wishes or ballots have changed."""
        ripe_ns = self._wishes.ripe_ns()
        agreement = self._succession.agreement
        if agreement.offered is not None and not agreement.overtaken:
            self.act_ns = self._again_ns
        elif ripe_ns >= NEVER:
            self.act_ns = NEVER
            self.minority_ns = NEVER
        else:
            rank = self.rank(max(now_ns, ripe_ns))
            wait_ns = max(rank * TAKEOVER_NS, self._spread_ns)
            self.act_ns = max(ripe_ns + wait_ns, self._again_ns)

    def act(self, now_ns: i64) -> None:
        """Propose what is wished, or repeat what was said last."""
        if now_ns < self.act_ns or self.decided is not None:
            return
        agreement, view = self._succession.agreement, self._succession.view
        change = self._wishes.change(now_ns)
        verdicts = self._wishes.verdicts(now_ns)
        ripe_ns = self._wishes.ripe_ns()
        offered = agreement.offered is not None and not agreement.overtaken
        if not offered and not change:
            self._again_ns = now_ns + _RETRY_NS
            self.plan(now_ns)
            return
        left = view.present_bits
        for sender in verdicts:
            left &= ~(1 << view.positions[sender])
        self._back_off(now_ns)
        if not agreement.electorate.is_quorum(left):
            # INV-MAJORITY: who suspects so many that the rest decides nothing has no verdict.
            self._say_minority(now_ns)
        elif offered:
            self._send_accept(False)
        elif not verdicts and (agreement.ready or agreement.claim()):
            self._offer(change)
        elif agreement.ballot > 0 and not agreement.overtaken and not agreement.ready:
            self._send(EVERYBODY, Said(PREPARE, agreement.ballot))
        else:
            self._send(EVERYBODY, agreement.prepare())
            self._advance(now_ns)
        if self._tries > 1 and ripe_ns < now_ns - _MINORITY_NS:
            self._say_minority(now_ns)
        self.plan(now_ns)

    def _back_off(self, now_ns: i64) -> None:
        wait_ns = backoff_ns(_RETRY_NS, min(self._tries, _TRIES_MAX), _RETRY_MAX_NS)
        self._tries += 1
        self._again_ns = now_ns + wait_ns + int(self._random.random() * float(wait_ns // 2))

    def _say_minority(self, now_ns: i64) -> None:
        if self.minority_ns == NEVER:
            self.minority_ns = now_ns

    # -- steps -------------------------------------------------------------------------------------

    def _advance(self, now_ns: i64) -> None:
        """A quorum may have promised: choose what to propose, from what is known by now."""
        agreement = self._succession.agreement
        if agreement.ready and agreement.ballot > 0:
            change = self._wishes.change(now_ns)
            if change or agreement.bound:
                self._tries = 0
                self._back_off(now_ns)
                self._offer(change)

    def _offer(self, change: Change) -> None:
        agreement = self._succession.agreement
        if not change and not agreement.bound:
            return
        agreement.offer(change)
        if agreement.decided is not None:
            self._conclude(agreement.decided, True)
        else:
            self._send_accept(True)

    def _send_accept(self, first: bool) -> None:
        agreement = self._succession.agreement
        change = agreement.offered
        assert change is not None, "there is an offer"
        parcel = self._parcel_of(change)
        if first or parcel.count <= _FEW_PARTS:
            self._post.parts(EVERYBODY, parcel, 0, int(parcel.count) - 1)
        self._send(EVERYBODY, Said(ACCEPT, agreement.ballot, NO_BALLOT, change))

    def _conclude(self, change: Change, here: bool) -> None:
        self.decided = change
        self.decided_here = here

    def _send(self, to: int, said: Said) -> None:
        view = self._succession.view
        parcel: i64 = 0 if said.change is None else self._parcel_of(said.change).name
        self._post.send(
            to, Ballot(view.digest, view.number, said.step, said.ballot, said.voted, parcel)
        )

    def _parcel_of(self, change: Change) -> Parcel:
        for known, parcel in self._changes.values():
            if known is change:
                return parcel
        made = change_parcel(change, self._succession.view.number)
        self._keep(change, made)
        return made

    def _keep(self, change: Change, parcel: Parcel) -> None:
        if len(self._changes) >= _CHANGES_MAX:
            del self._changes[next(iter(self._changes))]
        self._changes[int(parcel.name)] = (change, parcel)

    def parcel(self, name: int) -> Parcel | None:
        """A change that was proposed after this view, if it is here."""
        known = self._changes.get(name)
        return None if known is None else known[1]

    # -- what others say ---------------------------------------------------------------------------

    def on_change(self, parcel: Parcel, now_ns: i64) -> None:
        """A whole change came; steps may have waited for it."""
        if parcel.number != self._succession.view.number:
            return
        name = int(parcel.name)
        if name not in self._changes:
            self._keep(intern_change(parcel.data, name), parcel)
        for frame, source in self._held.pop(name, []):
            self.on_ballot(frame, source, now_ns)

    def on_ballot(self, frame: Ballot, source: Source, now_ns: i64) -> None:
        """A step of the instance of this very view."""
        if self.decided is not None:
            return
        change: Change | None = None
        if frame.parcel != 0:
            known = self._changes.get(int(frame.parcel))
            if known is None:
                self._hold(frame, source)
                return
            change = known[0]
        if frame.step == DECIDED:
            # Only a member that had the votes of a quorum says so.
            assert change is not None, "a decision has a parcel"
            self._conclude(change, False)
            return
        said = Said(frame.step, frame.ballot, frame.voted, change)
        answer = self._succession.receive(frame.view, frame.number, said, source)
        if answer is not None:
            self._send(int(source.sender), answer)
        agreement = self._succession.agreement
        if agreement.decided is not None:
            self._conclude(agreement.decided, True)
            return
        if frame.step in (PREPARE, ACCEPT, REFUSE) and agreement.overtaken:
            # Somebody else proposes: let it.
            wait_ns = TAKEOVER_NS * (1 + min(self.rank(now_ns), HEIRS_MAX))
            spread = int(self._random.random() * float(TAKEOVER_NS))
            self._again_ns = max(self._again_ns, now_ns + wait_ns + spread)
        self._advance(now_ns)
        self.plan(now_ns)

    def _hold(self, frame: Ballot, source: Source) -> None:
        name = int(frame.parcel)
        held = self._held.get(name)
        if held is None:
            if len(self._held) >= _CHANGES_MAX:
                del self._held[next(iter(self._held))]
            held = self._held[name] = []
        if len(held) < _HELD_MAX:
            held.append((frame, source))
        if not self._collecting.has(name):
            self._post.send(int(source.sender), Lack(frame.parcel, frame.number, []))

    def tell(self, view: View, change: Change) -> Ballot:
        """The word that this change of this view is decided."""
        parcel = self._parcel_of(change)
        return Ballot(view.digest, view.number, DECIDED, 0, NO_BALLOT, parcel.name)
