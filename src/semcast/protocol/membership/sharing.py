"""Sharing: which views others have in; what they need to come to the latest one out.

A member that lags behind by one step is told the change, any other the whole view, in parts. Parts
that are lost are asked for. A member that is in the latest view no more learns it in the same way.
Nobody is told anything more often than every few milliseconds, and in a large group only a few
members answer the same one.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Randomness, Source
from semcast.protocol.backoff import backoff_ns
from semcast.protocol.membership.agreement import Succession
from semcast.protocol.membership.collecting import ANSWER_PARTS_MAX, Collecting
from semcast.protocol.membership.parcels import Parcel, view_parcel
from semcast.protocol.membership.post import Post
from semcast.protocol.membership.view import Change, View
from semcast.wire.families.agreement import REFUTE, VIEW_PARCEL, Ballot, Lack, Wishes

_MS: Final = 1_000_000
# A later view is asked for again after so long, and each time after twice as long.
_ASK_NS: Final = 20 * _MS
_ASK_TRIES_MAX: Final = 8
# One process is told something no more often than this.
INFORM_NS: Final = 20 * _MS
_INFORMED_MAX: Final = 1024
_INFORMERS: Final = 4
# If more come in, the view is told to everybody rather than to each of them.
_FEW_JOINS: Final = 3


@final
class Sharing:
    """How one member keeps others up to date, and itself."""

    def __init__(
        self, succession: Succession, collecting: Collecting, post: Post, random: Randomness
    ) -> None:
        self._succession: Final = succession
        self._collecting: Final = collecting
        self._post: Final = post
        self._random: Final = random
        # The word that led to this view, and the change that was decided.
        self._decided: Ballot | None = None
        self._change: Parcel | None = None
        # The latest view that was heard of, from whom, and when to ask for it.
        self._later: i64 = 0
        self._later_from: i64 = 0
        self._asked: i64 = 0
        self.ask_ns: i64 = NEVER
        # When each process was last told something; the last one is last.
        self._informed: Final[dict[int, int]] = {}

    # -- others that lag behind --------------------------------------------------------------------

    def word(self, rows: list[tuple[int, int, int]], answer: bool = False) -> Wishes:
        """Which view this is, and what is wished of the next."""
        view = self._succession.view
        return Wishes(view.digest, view.number, view.origin, len(view.present), rows, answer)

    def may_inform(self, sender: int, now_ns: i64) -> bool:
        """Whether a process may be told something now; then it is."""
        if now_ns - self._informed.get(sender, -NEVER) < INFORM_NS:
            return False
        self._informed.pop(sender, None)
        if len(self._informed) >= _INFORMED_MAX:
            del self._informed[next(iter(self._informed))]
        self._informed[sender] = int(now_ns)
        return True

    def inform(self, source: Source, now_ns: i64, number: i64 = 0) -> None:
        """Tell a process which view this is, or how to come to it from the one with `number`."""
        if self.answers():
            self.answer(source, now_ns, number)

    def answer(self, source: Source, now_ns: i64, number: i64 = 0) -> None:
        """The same, whoever else may do it."""
        to = int(source.sender)
        if self.may_inform(to, now_ns) and not self._tell_change(to, number):
            self._post.send(to, self.word([], answer=True))

    def vouch(self, accusers: list[int], sender: int, life: int) -> None:
        """Tell those who accuse a member that it was heard."""
        if self.answers():
            for accuser in accusers:
                self._post.send(accuser, self.word([(REFUTE, sender, life)]))

    def answers(self) -> bool:
        """Whether this member is one of those who answer what everybody was told."""
        view, agreement = self._succession.view, self._succession.agreement
        first = agreement.me == agreement.electorate.first
        return first or self._random.randrange(len(view.present)) < _INFORMERS

    def _tell_change(self, to: int, number: i64) -> bool:
        """Tell the step from the view with this number to this one, if that is known."""
        decided, change = self._decided, self._change
        if decided is None or change is None or number != decided.number:
            return False
        self._post.parts(to, change, 0, ANSWER_PARTS_MAX - 1)
        self._post.send(to, decided)
        return True

    def tell_view(self, to: int) -> None:
        """Tell the whole view, or its beginning: the rest is asked for."""
        self._post.parts(to, view_parcel(self._succession.view), 0, ANSWER_PARTS_MAX - 1)

    def welcome(self, view: View, change: Change) -> None:
        """Tell those who come in which view they are in."""
        parcel = view_parcel(view)
        if len(change.joins) > _FEW_JOINS:
            self._post.parts(EVERYBODY, parcel, 0, int(parcel.count) - 1)
            return
        for sender, _, _ in change.joins:
            self._post.parts(sender, parcel, 0, ANSWER_PARTS_MAX - 1)

    def on_lack(self, frame: Lack, source: Source, proposed: Parcel | None) -> None:
        """Somebody lacks something. `proposed`: what it asks for, if it is under way here."""
        to = int(source.sender)
        if frame.parcel == 0:
            behind = frame.number < self._succession.view.number
            if behind and not self._tell_change(to, frame.number):
                self.tell_view(to)
            return
        asked = proposed
        for parcel in (self._change, view_parcel(self._succession.view)):
            if parcel is not None and parcel.name == frame.parcel:
                asked = parcel
        if asked is None:
            return
        left = ANSWER_PARTS_MAX
        for first, last in frame.ranges or [(0, int(asked.count) - 1)]:
            end = min(last, first + left - 1)
            if first <= end:
                self._post.parts(to, asked, first, end)
                left -= end - first + 1

    # -- this member lags behind -------------------------------------------------------------------

    def led_by(self, decided: Ballot, change: Parcel | None) -> None:
        """The next view follows by this change."""
        self._decided = decided
        self._change = change

    def follow(self, view: View) -> None:
        """Go on with another view."""
        if self._decided is not None and self._decided.number + 1 != view.number:
            self._decided = None
            self._change = None
        self._collecting.forget(view.number)
        if view.number >= self._later:
            self.ask_ns = NEVER

    def heard_of(self, number: i64, source: Source, now_ns: i64) -> None:
        """A member has the view with this number, which is later."""
        if number > self._later or self.ask_ns == NEVER:
            self._later = number
            self._asked = 0
            self.ask_ns = now_ns
        self._later_from = source.sender

    def ask(self, now_ns: i64) -> None:
        """Ask for the later view, unless it is coming already."""
        number = self._succession.view.number
        self._asked += 1
        if self._asked > _ASK_TRIES_MAX or self._later <= number:
            self.ask_ns = NEVER
            return
        if not self._collecting.collects(VIEW_PARCEL, self._later):
            self._post.send(int(self._later_from), Lack(0, number, []))
        self.ask_ns = now_ns + backoff_ns(_ASK_NS, self._asked, NEVER)
