"""One member's rounds, page by page, for stability or for safety.

What this member has of each source, frames of others and the time go in; what is agreed, what
others have heard of, and frames come out. Sources are dealt into pages of a few senders each, every
page with rounds of its own, so that a frame always fits a datagram.

Whoever counts all votes of a round finds out which sources have ended (`followed.py`). It says so
for a while, and again whenever a member speaks of a source that has.
"""

from typing import final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, SEQ_MAX, Source
from semcast.protocol.stability.followed import ENDED, page_of
from semcast.protocol.stability.rounds.page import Page
from semcast.protocol.stability.rounds.page_rows import NO_COLUMN, Row
from semcast.protocol.stability.rounds.page_views import Found, PageViews
from semcast.protocol.stability.rounds.round_message import Numbers, RoundMessage
from semcast.wire.families.rounds import Round


@final
class Pages(PageViews):
    """All pages of a member."""

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

    def hold_back(self, source: Source, floor: i64) -> None:
        """Vote for no more than `floor` of a source, as long as no vote for more was cast."""
        if floor >= SEQ_MAX:
            self._floors.pop(source, None)
        else:
            self._floors[source] = int(floor)
        page = self._page_for(source)
        row = None if page is None else page.row(source)
        if page is None or row is None:
            return
        before = min(row.own, row.floor)
        row.floor = int(floor)
        if min(row.own, row.floor) > before:
            page.stale = True
            page.fresh = True
            self._touched[page.number] = None

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

    @property
    def joining(self) -> bool:
        """Whether this member came back, and has no vote yet on some source."""
        if not self._joining:
            return False
        return any(not row.joined for page in self._pages.values() for row in page.rows.values())

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
        if self._asks:
            self._asks = False
            self._ask_to_begin(now_ns)
        if self._touched:
            touched = list(self._touched)
            self._touched.clear()
            for number in touched:
                self._look(self._pages[number], now_ns)

    def _ask_to_begin(self, now_ns: i64) -> None:
        """Ask for a round in each page with sources that a newcomer has yet to begin with. If it
        is for the newcomer itself to begin rounds, nobody else will, so it does.
        """
        for page in self._pages.values():
            if any(not row.joined for row in page.rows.values()):
                if self._leads(page):
                    self._begin(page, now_ns)
                page.tracker.ask(now_ns)
                self._note(page)

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
        if not page.tracker.under_way():
            # A member that is alone has ended the round at once; more may be wanted.
            self._look(page, now_ns)

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
        page.follow_gone()

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
            self._floors.pop(source, None)
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
