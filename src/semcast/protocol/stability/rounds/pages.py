"""One member's rounds, page by page, for stability or for safety.

What this member has of each source, frames of others and the time go in; what is agreed, what
others have heard of, and frames come out. Sources are dealt into pages of a few senders each, every
page with rounds of its own, so that a frame always fits a datagram.

Whoever counts all votes of a round finds out which sources have ended (`followed.py`). It says so
for a while, and again whenever a member speaks of a source that has.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, Source
from semcast.protocol.membership.view import View
from semcast.protocol.stability.followed import ENDED, Followed, page_of
from semcast.protocol.stability.rounds.page import COLUMNS, END_SAID_RESULTS, NO_COLUMN, Page, Row
from semcast.protocol.stability.rounds.protocols import RoundSetup, make_tracker
from semcast.protocol.stability.rounds.roll import Roll
from semcast.protocol.stability.rounds.round_message import Numbers, RoundMessage
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


@final
class Pages:
    """All pages of a member."""

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
        self._votes: Final = votes
        self._roll: Final = roll
        self._joining: Final = joining
        self._pages: Final[dict[int, Page]] = {}
        # Pages in which something has happened since the last look.
        self._touched: Final[dict[int, None]] = {}
        # When to look again; -1 if that has to be computed.
        self._deadline_ns: i64 = NEVER
        self._found = Found()
        if joining:
            self._meet_everybody(followed.view)

    # -- the member --------------------------------------------------------------------------------

    def install(self, view: View, now_ns: i64) -> None:
        """Another view counts: rounds begin anew. What members have, they have still."""
        self._me = view.position(self._me_source.sender)
        before = list(self._pages.values())
        self._pages.clear()
        self._touched.clear()
        self._deadline_ns = -1
        for page in before:
            for source, row in page.rows.items():
                self._carry_over(view, source, row)
            for sender in page.ended:
                self._page(page_of(view.position(sender))).ended[sender] = END_SAID_RESULTS
        if self._joining:
            self._meet_everybody(view)
        for page in self._pages.values():
            page.place()
            # Even if all is agreed, a round shows it to everybody in this view.
            page.tracker.wanted = not self.safety
            self._look(page, now_ns)

    def _meet_everybody(self, view: View) -> None:
        """A member that came back abstains on all who are there, even if they never sent anything,
        so that it has a vote on their messages when they do.
        """
        for sender in view.present:
            source = Source(sender, view.life(sender))
            page = self._page(self._followed.page(source))
            page.row(source)

    def _carry_over(self, view: View, source: Source, row: Row) -> None:
        if self._followed.has_ended(source):
            self._found.ended.append(source)
            return
        if view.is_over(source):
            # Its sender is gone, so only messages that some member has can still come.
            row.newest = row.own
        # Who spoke of it in another view does not count in this one.
        row.abstained = 0
        row.heard = False
        row.column = NO_COLUMN
        self._page(self._followed.page(source)).rows[source] = row

    def has(self, source: Source, seq: i64) -> i64:
        """We have everything of `source` up to `seq`, or covers of it. Says how much is new."""
        page = self._page_for(source)
        row = None if page is None else page.row(source)
        if page is None or row is None or seq <= row.own:
            return 0
        more = seq - row.own
        row.own = int(seq)
        page.stale = True
        page.fresh = True
        self._touched[page.number] = None
        return more

    def knows(self, source: Source, seq: i64) -> None:
        """There is more of a source here, up to `seq`, which waits for room."""
        page = self._page_for(source)
        row = None if page is None else page.row(source)
        if page is not None and row is not None and seq > row.newest:
            row.newest = int(seq)
            if row.column != NO_COLUMN:
                page.tracker.heard_of(row.column, row.newest)

    def agreed(self, source: Source) -> i64:
        """Enough members have everything of `source` up to here."""
        if self._followed.has_ended(source):
            return ENDED
        page = self._pages.get(self._followed.page(source))
        row = None if page is None else page.rows.get(source)
        return 0 if row is None else row.agreed

    def follows(self, source: Source) -> bool:
        """Whether votes on this source count, and this member has one."""
        page = self._page_for(source)
        row = None if page is None else page.row(source)
        return row is not None and row.joined

    def sources(self) -> list[Source]:
        """All sources that are followed."""
        return [source for page in self._pages.values() for source in page.rows]

    @property
    def joining(self) -> bool:
        """Whether this member came back, and has no vote yet on some source, or on any."""
        if not self._joining:
            return False
        rows = [row for page in self._pages.values() for row in page.rows.values()]
        return not rows or any(not row.joined for row in rows)

    def end(self, sources: list[Source]) -> None:
        """These have ended, as stability detection has found out."""
        for source in sources:
            page = self._pages.get(self._followed.page(source))
            if page is not None and source in page.rows:
                page.drop(source)

    def take(self) -> Found:
        """What was found out since the last call."""
        found, self._found = self._found, Found()
        return found

    def poll(self, now_ns: i64) -> None:
        """Begin rounds that are due because of what this member has now."""
        if self._touched:
            touched = list(self._touched)
            self._touched.clear()
            for number in touched:
                self._look(self._pages[number], now_ns)

    def urge(self, now_ns: i64) -> None:
        """A window is full: begin a round, or ask for one, without waiting."""
        for page in self._pages.values():
            if page.tracker.under_way() or self.resting or not page.fresh:
                continue
            if page.tracker.coordinator() == self._me:
                self._begin(page, now_ns)
            else:
                page.fresh = False
                page.flush()
                page.tracker.ask(now_ns)
                self._note(page)

    def on_round(self, frame: Round, position: int, now_ns: i64) -> bool:
        """A frame for this member arrived. Returns whether its sender uses another tree."""
        if not 0 <= frame.page <= page_of(len(self._followed.view.members) - 1):
            return False
        page = self._page(int(frame.page))
        page.flush()
        message, ended = page.message_of(frame)
        self._note_ended(ended)
        page.tracker.on_round_message(message, position, now_ns)
        strange = page.tracker.strange
        page.tracker.strange = False
        self._note(page)
        self._look(page, now_ns)
        return strange

    def greet(self, number: int, position: int) -> None:
        """Write to a member, so that it sees that this one uses another tree."""
        page = self._page(number)
        page.tracker.greet(position)
        self._note(page)

    def on_timer(self, now_ns: i64) -> None:
        """Whatever is due."""
        if now_ns < self.next_deadline_ns():
            return
        for page in self._pages.values():
            if page.tracker.next_deadline_ns() <= now_ns:
                page.flush()
                page.tracker.on_timer(now_ns)
                self._note(page)
            self._look(page, now_ns)

    def next_deadline_ns(self) -> int:
        """When to call on_timer."""
        if self._deadline_ns < 0:
            self._deadline_ns = NEVER
            for page in self._pages.values():
                due: i64 = page.tracker.next_deadline_ns()
                if not self.resting and self._leads(page):
                    due = min(due, page.trigger.deadline_ns())
                self._deadline_ns = min(self._deadline_ns, due)
        return self._deadline_ns

    def want(self, now_ns: i64) -> None:
        """A member came back, and waits for a round in every page."""
        for page in self._pages.values():
            page.tracker.wanted = True
            self._look(page, now_ns)

    def epoch_changed(self, now_ns: i64) -> None:
        """There is another tree: rounds under way are over."""
        for page in self._pages.values():
            page.flush()
            page.tracker.epoch_changed(now_ns)
            page.busy = False
            self._note(page)
            self._look(page, now_ns)

    def led(self) -> int:
        """In how many pages this member begins the rounds."""
        return sum(page.tracker.coordinator() == self._me for page in self._pages.values())

    def round_us(self) -> int:
        """How long a round takes, in the page in which it takes longest."""
        took_ns = [int(page.tracker.timeouts.round_ns) for page in self._pages.values()]
        return max(took_ns, default=0) // 1000

    # -- rounds ------------------------------------------------------------------------------------

    def _look(self, page: Page, now_ns: i64) -> None:
        """Begin a round if one is due and it is for this member to begin it."""
        self._deadline_ns = -1
        tracker = page.tracker
        if tracker.under_way():
            return
        if tracker.coordinator() != self._me:
            if tracker.next_deadline_ns() == NEVER and not self.resting:
                page.flush()
                tracker.watch(now_ns)
            return
        waiting, _ = page.waiting()
        if not self.resting and page.trigger.due(
            waiting, page.fresh, tracker.timeouts.round_ns, now_ns
        ):
            self._begin(page, now_ns)

    def _leads(self, page: Page) -> bool:
        """Whether it is for this member to begin a round now."""
        return not page.tracker.under_way() and page.tracker.coordinator() == self._me

    def _begin(self, page: Page, now_ns: i64) -> None:
        waiting, came = page.begin()
        page.trigger.began(waiting, came, now_ns)
        page.tracker.start(now_ns)
        self._note(page)

    def _note(self, page: Page) -> None:
        """Collect what the tracker has found out, and the messages that it sends."""
        self._deadline_ns = -1
        tracker = page.tracker
        for source, row in page.placed():
            self._note_row(tracker.agreed, tracker.newest, source, row)
        if not tracker.under_way():
            page.trigger.ended(page.settled())
            self.rounds += int(page.busy)
        page.busy = tracker.under_way()
        result = tracker.result()
        if result is not None and result.values is not None:
            # A column may be for another source since, but it is the same round.
            page.said_by, page.said = int(result.root), result.values.tolist()
            if result.name() != page.result:
                page.result = result.name()
                self._note_result(page, result)
        if not self.safety:
            tracker.wanted = tracker.wanted or self._has_over(page)
        # Before columns change hands, messages become frames: they speak of columns as they were.
        for to, message in tracker.take_out():
            target = EVERYBODY if to == EVERYBODY else self._followed.view.members[to]
            self._found.out.append((target, page.frame_of(message, target, self._may_leave_out())))
        page.place()

    def _note_row(self, agreed: Numbers, newest: Numbers | None, source: Source, row: Row) -> None:
        column = row.column
        if agreed[column] > row.agreed:
            row.agreed = int(agreed[column])
            self._found.grown.append(source)
        if newest is not None:
            row.newest = int(newest[column])
            # Reported again each time, since a member that has just joined missed it before.
            if row.newest > row.own:
                self._found.heard.append((source, row.newest))

    def _note_result(self, page: Page, result: RoundMessage) -> None:
        for sender in list(page.ended):
            page.ended[sender] -= 1
            if page.ended[sender] == 0:
                del page.ended[sender]
        if self._joining:
            self._found.joined.extend(page.join(result))
        counted = page.tracker.counted
        if counted is page.counted or self.safety:
            return
        page.counted = counted
        assert counted is not None
        # At most one life of each sender may end: whoever spoke of that one may have had no room to
        # speak of the next.
        known = list(page.rows)
        for source, _ in sorted(page.placed()):
            if page.may_end(source, known, counted):
                self._note_ended(page.end(source))

    def _note_ended(self, ended: list[tuple[Source, bool]]) -> None:
        for source, joined in ended:
            self._found.ended.append(source)
            if not joined:
                self._found.missed.append(source)

    def _has_over(self, page: Page) -> bool:
        """Whether a life is over. It needs a round to end, even if all of it is agreed."""
        return any(self._followed.view.is_over(source) for source in page.rows)

    # -- small parts -------------------------------------------------------------------------------

    def _may_leave_out(self) -> bool:
        """Whether votes in this group may leave out what is agreed."""
        if not self._setup.delta or self.safety or self._joining:
            return False
        return self._followed.view.lives == self._first_lives

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
            page = Page(number, tracker, trigger, self._followed, self.safety, joining, me)
            self._pages[number] = page
        return page
