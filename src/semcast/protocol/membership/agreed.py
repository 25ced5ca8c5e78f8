"""Agreed views: wishes and the words of other members in; one sequence of views out (SRM §4.2).

Every member gathers wishes (`wishes`). The first member that is not suspected proposes the change
that fulfils them; if it stays silent the next one does, and so on (`agreement`). Whoever has the
votes of a quorum tells everybody.

    wishes ──► ripe ──► PREPARE, if somebody is accused ──► ACCEPT ──► DECIDED ──► next view
                            └ the answers show that a quorum hears us before anybody is removed

A verdict on others needs a majority twice. A member that suspects so many others that the rest
would be no quorum proposes nothing: it is in a `minority`, and says so. The change that removes
accused members is chosen only when a quorum has answered, and those who answered are not accused.

A member that hears of a later view asks for it. One that is not in it any more is `out`: it keeps
its last view, does nothing more, and its world lets it rejoin in another life. So are all members
of a group that meets a larger one of the same name which was begun apart.

Nothing here waits for room: view changes bypass flow control. All is said again, ever less often,
for as long as it is not fulfilled.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.agreement import HEIRS_MAX, Succession
from semcast.protocol.membership.collecting import Collecting
from semcast.protocol.membership.parcels import read_view, view_after
from semcast.protocol.membership.post import Post
from semcast.protocol.membership.proposing import Proposer
from semcast.protocol.membership.saying import Saying
from semcast.protocol.membership.sharing import INFORM_NS, Sharing
from semcast.protocol.membership.view import View
from semcast.protocol.membership.views import Views
from semcast.protocol.membership.wishes import BATCH_NS, WishList
from semcast.protocol.outbox import Outbox
from semcast.wire.families.agreement import (
    ACCUSE,
    BALLOT,
    ENDED,
    GONE,
    JOIN,
    LACK,
    LEAVE,
    PART,
    REFUTE,
    VIEW_PARCEL,
    WISHES,
    WITHDRAW,
    Ballot,
    Join,
    Lack,
    PartOf,
    Wishes,
)
from semcast.wire.frames import ControlFrame

_KINDS: Final = (JOIN, WISHES, BALLOT, PART, LACK)
_MS: Final = 1_000_000
# The first member says now and then which view it has, so that others see whether they lag behind
# and groups that were begun apart find each other: soon after a new view, then ever less often.
_ANNOUNCE_NS: Final = 25 * _MS
_ANNOUNCE_MAX_NS: Final = 8_000 * _MS
# Parts of a decided change that are sent at a time.
_FEW_PARTS: Final = 3
# So many of those who propose hear of a newcomer that asked one member only.
_TOLD_MAX: Final = 3


@final
class AgreedViews(Views):
    """The views of one member of an open group: `view` is the latest that it knows."""

    def __init__(self, me: Source, view: View, f_max: int, quorum: str, random: Randomness) -> None:
        """`view`: the first one that has this member in it. `f_max`: f is that, or less in a small
        group. `quorum`: who decides, see `agreement`.
        """
        super().__init__(view)
        self._me: Final = me
        self._f_max: Final = f_max
        self._random: Final = random
        self._post: Final = Post()
        self.wishes: Final = WishList(me, view)
        self._collecting: Final = Collecting()
        self._succession: Final = Succession(me, view, quorum)
        self._sharing: Final = Sharing(self._succession, self._collecting, self._post, random)
        self._saying: Final = Saying(self.wishes, self._sharing, self._post, random)
        self._proposer: Final = Proposer(
            self._succession, self.wishes, self._collecting, self._post, random
        )
        # INV-OUT: once out, this life never comes back in, and says nothing more.
        self.out = False
        # The latest time that this member was told.
        self._now_ns: i64 = 0
        # Who began a group alone says so at once: others may wait for it.
        self._announce_ns: i64 = 0
        self._announced: i64 = 0 if len(view.members) == 1 else -1
        self._refuted_ns: i64 = -NEVER

    # -- what this member and its world wish -------------------------------------------------------

    def accuse(self, sender: int) -> None:
        """The watch has not heard from this member for too long."""
        if self.view.is_present(sender) and sender != self._me.sender:
            self._wish(ACCUSE, sender)

    def clear(self, sender: int) -> None:
        """The watch has heard from it again."""
        if self.wishes.unwish(ACCUSE, sender) and not self.out:
            life = self.view.life(sender)
            self.wishes.hear(WITHDRAW, sender, life, int(self._me.sender), self._now_ns)
            self._post.send(EVERYBODY, self._sharing.word([(WITHDRAW, sender, life)]))
            self._proposer.plan(self._now_ns)

    def leave(self, now_ns: i64) -> None:
        """Wish to go. This member is `out` as soon as the others know."""
        self._now_ns = max(self._now_ns, now_ns)
        self._wish(LEAVE, int(self._me.sender))

    def ended(self, sender: int) -> None:
        """Nothing is kept here of a member that is gone. If all say so, it is dropped."""
        if self.view.life(sender) >= 0 and not self.view.is_present(sender):
            self._wish(ENDED, sender)

    def gone(self, sender: int, now_ns: i64) -> None:
        """The world vouches for it: no other accuser is needed."""
        self._now_ns = max(self._now_ns, now_ns)
        if self.view.is_present(sender):
            self._wish(GONE, sender)

    def _wish(self, what: i64, sender: int) -> None:
        now_ns = self._now_ns
        if self.out or not self.wishes.wish(what, sender, self.view.life(sender), now_ns):
            return
        self._saying.soon(now_ns)
        self._proposer.plan(now_ns)

    @property
    def minority(self) -> bool:
        """Whether wishes cannot be fulfilled because no quorum answers."""
        return self._proposer.minority_ns < NEVER

    @property
    def since_ns(self) -> int:
        """Since when this member is in a minority; NEVER if it is not."""
        return self._proposer.minority_ns

    # -- what is heard -----------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return _KINDS

    def strangers_kinds(self) -> tuple[int, ...]:
        """All of them: members of a later view, of another group, and newcomers may speak."""
        return _KINDS

    def heard(self, source: Source, now_ns: i64) -> None:
        """Whoever is heard is not dead."""
        if self.wishes.accuses:
            self._absolve(int(source.sender), True, now_ns)

    def reborn(self, source: Source, now_ns: i64) -> None:
        """It may be out, or a newcomer, or in a later view: it compares this view with its own."""
        if not self.out and source.sender != self._me.sender:
            self._sharing.inform(source, now_ns)

    def stranger(self, source: Source, now_ns: i64) -> None:
        """One of the two lags behind."""
        if not self.out:
            self._sharing.inform(source, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        """Something about views, from a member of any view, or from a newcomer."""
        self._now_ns = max(self._now_ns, now_ns)
        if self.out:
            return
        if isinstance(frame, Wishes):
            self._on_wishes(frame, source, now_ns)
        elif isinstance(frame, Ballot):
            self._on_ballot(frame, source, now_ns)
        elif isinstance(frame, PartOf):
            self._on_part(frame, source, now_ns)
        elif isinstance(frame, Lack):
            self._sharing.on_lack(frame, source, self._proposer.parcel(int(frame.parcel)))
        elif isinstance(frame, Join):
            self._on_join(frame, source, now_ns)
        self._conclude(now_ns)

    def _on_join(self, frame: Join, source: Source, now_ns: i64) -> None:
        who = frame.source
        direct = who == source
        if self.view.life(who.sender) >= who.incarnation:
            # It is in and was not told yet; or it was in, and this life of it is over.
            asked = frame.contact or frame.attempt >= self._proposer.rank(now_ns)
            if direct and asked and self._sharing.may_inform(int(who.sender), now_ns):
                self._sharing.tell_view(int(who.sender))
            return
        if direct and frame.contact:
            self._sharing.answer(source, now_ns)
        if frame.group != self.view.origin:
            # It asks another group, or knows of none. Were a life let into two groups, one of them
            # would wait for it for ever.
            if frame.group == 0 and direct and not frame.contact:
                self._introduce(source, now_ns)
            return
        news = self.wishes.join(who, frame.name, now_ns)
        if direct and (frame.contact or (news and self._sharing.answers())):
            # Whoever was asked may die; what everybody was asked may not have reached the first.
            for to in self._heirs(now_ns)[: _TOLD_MAX if frame.contact else 1]:
                if to != self._me.sender:
                    self._post.send(to, Join(who, frame.name, frame.attempt, False, frame.group))
        self._proposer.plan(now_ns)

    def _introduce(self, source: Source, now_ns: i64) -> None:
        """A newcomer asked everybody which group there is. If a crowd does, one answer will do."""
        if self._proposer.rank(now_ns) == 0:
            self._announced = 0
            self._announce_ns = min(self._announce_ns, now_ns + BATCH_NS)
        elif self._sharing.answers():
            self._sharing.answer(source, now_ns)

    def _on_wishes(self, frame: Wishes, source: Source, now_ns: i64) -> None:
        if frame.group != self.view.origin:
            self._meet(frame, source, now_ns)
            return
        self._compare(frame.number, source, now_ns)
        if frame.number == self.view.number and frame.view != self.view.digest:
            # Only without a majority can a group split; the smaller side gives up.
            if (frame.present, frame.view) > (len(self.view.present), self.view.digest):
                self.out = True
            elif not frame.answer:
                self._sharing.inform(source, now_ns)
        if not self.view.holds(source):
            return
        by = int(source.sender)
        for what, sender, life in frame.rows:
            if what == ACCUSE and sender == self._me.sender:
                self._refute(life, now_ns)
            elif what == ACCUSE and self.wishes.absolved(sender, now_ns):
                self._sharing.vouch([by], sender, life)
            elif what == REFUTE and self.view.life(sender) == life:
                self._absolve(sender, by == sender, now_ns)
            else:
                self.wishes.hear(what, sender, life, by, now_ns)
        if frame.rows:
            self._proposer.plan(now_ns)

    def _absolve(self, sender: int, heard: bool, now_ns: i64) -> None:
        """A member that may be accused was heard here, or by another, as that one says. Its
        accusers perhaps do not hear it.
        """
        accusers = self.wishes.refuted(sender, heard, now_ns)
        if accusers and not heard:
            self._proposer.plan(now_ns)
        elif accusers:
            others = [one for one in accusers if one != self._me.sender]
            self._sharing.vouch(others, sender, self.view.life(sender))
            self._proposer.plan(now_ns)

    def _refute(self, life: int, now_ns: i64) -> None:
        """Say that this member lives: it is accused."""
        if life == self._me.incarnation and now_ns - self._refuted_ns >= INFORM_NS:
            self._refuted_ns = now_ns
            self._post.send(EVERYBODY, self._sharing.word([(REFUTE, int(self._me.sender), life)]))

    def _on_ballot(self, frame: Ballot, source: Source, now_ns: i64) -> None:
        if frame.number != self.view.number:
            self._compare(frame.number, source, now_ns)
        elif frame.view == self.view.digest:
            self._proposer.on_ballot(frame, source, now_ns)

    def _on_part(self, frame: PartOf, source: Source, now_ns: i64) -> None:
        # A view that this member has, or a change of an earlier one, is of no use.
        whole = frame.what == VIEW_PARCEL
        if frame.number < self.view.number or (whole and frame.number == self.view.number):
            return
        parcel = self._collecting.take(frame, source.sender, now_ns)
        if parcel is None:
            return
        if not whole:
            self._proposer.on_change(parcel, now_ns)
            return
        view = read_view(parcel.data, int(parcel.name))
        if view.origin == self.view.origin and view.number > self.view.number:
            self._install(view, now_ns)

    def _compare(self, number: i64, source: Source, now_ns: i64) -> None:
        """Somebody in this group has the view with this number."""
        if number < self.view.number:
            self._sharing.inform(source, now_ns, number)
        elif number > self.view.number:
            self._sharing.heard_of(number, source, now_ns)

    def _meet(self, frame: Wishes, source: Source, now_ns: i64) -> None:
        """Another group of the same name was begun apart: the smaller one gives up."""
        view = self.view
        if (frame.present, frame.group) > (len(view.present), view.origin):
            self.out = True
        elif self._proposer.rank(now_ns) == 0:
            # All of the other group should hear of this one.
            self._announced = 0
            self._announce_ns = min(self._announce_ns, now_ns + INFORM_NS)
        elif not frame.answer:
            self._sharing.inform(source, now_ns)

    # -- the next view -----------------------------------------------------------------------------

    def _conclude(self, now_ns: i64) -> None:
        """If the change of this view is decided, make the next one."""
        change = self._proposer.decided
        if change is None or self.out:
            return
        here, before = self._proposer.decided_here, self.view
        decided = self._proposer.tell(before, change)
        parcel = self._proposer.parcel(int(decided.parcel))
        self._sharing.led_by(decided, parcel)
        view = view_after(before, change, self._f_max)
        if here and len(before.present) > 1:
            assert parcel is not None, "it was proposed"
            self._post.parts(EVERYBODY, parcel, 0, _FEW_PARTS - 1)
            self._post.send(EVERYBODY, decided)
        if here:
            self._sharing.welcome(view, change)
        self._install(view, now_ns)

    def _install(self, view: View, now_ns: i64) -> None:
        if not view.holds(self._me):
            self.out = True
            return
        self.view = view
        self._succession.follow(view)
        self.wishes.follow(view, now_ns)
        self._sharing.follow(view)
        self._announced = 0
        self._announce_ns = now_ns + _ANNOUNCE_NS
        self._saying.follow(now_ns)
        self._proposer.follow(now_ns)

    # -- what is said ------------------------------------------------------------------------------

    def on_timer(self, now_ns: i64) -> None:
        """Propose, repeat, ask and announce what is due."""
        self._now_ns = max(self._now_ns, now_ns)
        if self.out:
            return
        if now_ns >= self._proposer.act_ns:
            self._proposer.act(now_ns)
            self._conclude(now_ns)
        if now_ns >= self._saying.at_ns:
            self._say(now_ns)
        if now_ns >= self._announce_ns:
            self._announce(now_ns)
        if now_ns >= self._sharing.ask_ns:
            self._sharing.ask(now_ns)
        for to, lack in self._collecting.questions(now_ns):
            self._post.send(to, lack)

    def next_deadline_ns(self) -> i64:
        if self.out:
            return NEVER
        soonest = min(self._proposer.act_ns, self._saying.at_ns, self._announce_ns)
        return min(soonest, self._sharing.ask_ns, self._collecting.next_deadline_ns())

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        self._now_ns = max(self._now_ns, now_ns)
        self._post.pack(outbox)

    def _say(self, now_ns: i64) -> None:
        """Say what this member wishes; a member that is alone need not."""
        alone = len(self.view.present) < 2
        heirs = [one for one in self._heirs(now_ns)[:1] if one != self._me.sender]
        self._saying.say(alone, heirs, now_ns)
        self._proposer.plan(now_ns)

    def _heirs(self, now_ns: i64) -> list[int]:
        """The members that propose, one after the other."""
        heirs = [self.view.members[at] for at in self._succession.agreement.electorate.heirs]
        return [sender for sender in heirs if not self.wishes.suspects(sender, now_ns)]

    def _announce(self, now_ns: i64) -> None:
        """The first member says which view it has; its heirs see whether it is their turn."""
        rank = self._proposer.rank(now_ns)
        if rank == 0 and self._announced >= 0:
            self._post.send(EVERYBODY, self._sharing.word([]))
        wait_ns = backoff_ns(_ANNOUNCE_NS, self._announced, _ANNOUNCE_MAX_NS)
        self._announced += 1
        self._announce_ns = now_ns + wait_ns if rank < HEIRS_MAX else NEVER
