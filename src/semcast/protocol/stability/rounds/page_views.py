"""The pages of one member through all views: who is followed, and what is carried over.

Views go in; pages come out, whose rounds begin anew in each. Knows nothing of frames, nor of when
rounds begin: see `pages`.
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.membership.view import NO_ORIGIN, View
from semcast.protocol.stability.followed import Followed, page_of
from semcast.protocol.stability.rounds.page import Page
from semcast.protocol.stability.rounds.page_rows import COLUMNS, END_SAID_RESULTS, NO_COLUMN, Row
from semcast.protocol.stability.rounds.protocols import RoundSetup, make_tracker
from semcast.protocol.stability.rounds.roll import Roll
from semcast.protocol.stability.rounds.trigger import Trigger
from semcast.wire.families.rounds import Round


@final
class Found:
    """What was found out, and what is to be sent."""

    def __init__(self) -> None:
        # Sources of which more is agreed; of which others have more than this member; with which it
        # begins, after what is agreed; and that have ended.
        self.grown: Final[list[Source]] = []
        self.heard: Final[list[tuple[Source, int]]] = []
        self.joined: Final[list[Source]] = []
        self.ended: Final[list[Source]] = []
        # Those of the ended on which this member, which came back, had no vote yet.
        self.missed: Final[list[Source]] = []
        # Frames, and to whom: a sender id or EVERYBODY.
        self.out: Final[list[tuple[int, Round]]] = []


class PageViews(ABC):
    """All pages of a member, in the view that counts."""

    def __init__(
        self,
        setup: RoundSetup,
        followed: Followed,
        me: Source,
        votes: int,
        roll: Roll,
        joining: bool = False,
    ) -> None:
        """`votes`: 0 for those of all members, or f+1 for safety. `joining`: this member came back
        without memory, and abstains at first.
        """
        self.safety: Final = votes > 0
        # While this is so, this member begins no round (SRM §6.4).
        self.resting = False
        # Rounds that this member took part in to their end.
        self.rounds = 0
        self._setup: Final = setup
        self._followed: Final = followed
        self._me_source: Final = me
        self._me = followed.view.position(me.sender)
        self._first_lives: Final = followed.view.lives
        self._votes = votes
        self._roll: Final = roll
        self._joining: Final = joining
        self._pages: Final[dict[int, Page]] = {}
        # Pages in which something has happened since the last look.
        self._touched: Final[dict[int, None]] = {}
        # When to look again; -1 if that has to be computed.
        self._deadline_ns: i64 = NEVER
        self._found = Found()
        # By source, what this member's votes are held back to.
        self._floors: Final[dict[Source, int]] = {}
        # Whether rows are carried over to another view, so that pages get no others yet.
        self._carries = False
        # Whether this member, which is new or came back, has to ask for rounds in which to begin.
        # Where nobody has anything to agree on there would be none.
        self._asks = joining
        self._count_votes(followed.view)
        if joining:
            self._meet_everybody()
            for source in followed.gone():
                self._page(followed.page(source)).row(source)

    # -- the member --------------------------------------------------------------------------------

    def install(self, view: View, former: list[Source], now_ns: i64) -> None:
        """Another view counts: rounds begin anew. What members have, they have still. `former`: see
        `Followed.install`.
        """
        self._me = view.position(self._me_source.sender)
        assert self._me >= 0, "a view without this member is not for it"
        self._count_votes(view)
        before = list(self._pages.values())
        self._pages.clear()
        self._touched.clear()
        self._deadline_ns = -1
        self._carries = True
        for page in before:
            for source, row in page.rows.items():
                self._carry_over(view, source, row)
            for sender in page.ended:
                if sender in view.positions:
                    self._page(page_of(view.position(sender))).ended[sender] = END_SAID_RESULTS
        self._carries = False
        for source in [one for one in self._floors if self._followed.has_ended(one)]:
            del self._floors[source]
        if self._joining:
            for page in self._pages.values():
                page.meet()
            self._meet_everybody()
        if not self.safety:
            for source in self._followed.gone() + former:
                self._page(self._followed.page(source)).row(source)
        self._lead_newcomers(view)
        for page in self._pages.values():
            page.place()
            # Even if all is agreed, a round shows it to everybody in this view.
            page.tracker.wanted = not self.safety
            self._look(page, now_ns)

    def _count_votes(self, view: View) -> None:
        """In an open group f is that of the view."""
        if self.safety and view.origin != NO_ORIGIN:
            self._votes = view.f + 1

    def _meet_everybody(self) -> None:
        """Abstain on all who were there before this member."""
        for source in self._followed.older():
            self._page(self._followed.page(source)).row(source)

    def _lead_newcomers(self, view: View) -> None:
        """If members have come in with this view, whoever begins the rounds has some of each page
        with members that were there before, since newcomers wait for those.
        """
        if self.safety or view.origin == NO_ORIGIN or view.number not in view.since:
            return
        if self._roll.successor(self._roll.first.root) == self._me:
            for at, since in enumerate(view.since):
                if since < view.number:
                    self._page(page_of(at))

    def _carry_over(self, view: View, source: Source, row: Row) -> None:
        if self._followed.has_ended(source):
            self._found.ended.append(source)
            if not row.joined and view.position(source.sender) < 0:
                self._found.missed.append(source)
            return
        if view.is_over(source):
            # Its sender is gone, so only messages that some member has can still come.
            row.newest = row.own
        # Who spoke of it in another view does not count in this one.
        row.abstained = 0
        row.heard = False
        row.column = NO_COLUMN
        self._page(self._followed.page(source)).rows[source] = row

    @abstractmethod
    def _look(self, page: Page, now_ns: i64) -> None:
        """Begin a round if one is due and it is for this member to begin it."""

    def sources(self) -> list[Source]:
        """All sources that are followed."""
        return [source for page in self._pages.values() for source in page.rows]

    # -- small parts -------------------------------------------------------------------------------

    def _page_for(self, source: Source) -> Page | None:
        number = self._followed.page(source)
        return None if number < 0 else self._page(number)

    def _page(self, number: int) -> Page:
        page = self._pages.get(number)
        if page is None:
            votes = self._votes or len(self._followed.view.members)
            tracker = make_tracker(self._setup, self._me, COLUMNS, votes, self._roll)
            trigger = Trigger(
                self._setup.window_messages, self._setup.bound_ns, self._setup.period_ns
            )
            joining = self._me_source if self._joining else None
            me = self._me_source
            page = Page(
                number,
                tracker,
                trigger,
                self._followed,
                self.safety,
                joining,
                me,
                self._floors,
                self._setup.rows_max,
            )
            self._pages[number] = page
            if self._joining and not self._carries:
                page.meet()
        return page
