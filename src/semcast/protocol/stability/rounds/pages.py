"""Sources into columns: one member's rounds, page by page, for stability or for safety.

What this member has of each source, frames of others and the time go in; what is agreed, what
others have heard of, and frames come out. Sources are dealt into pages of a few senders each, every
page with rounds of its own, so that a frame always fits a datagram. On the wire a source has its
name; in a page it has a column, in the order in which they came, so that members need not agree on
columns.

A voter that does not mention a source has nothing of it. To send less (`delta`), a vote leaves out
what is not more than agreed: whoever reads it takes what is agreed by its own reckoning, which
everybody has. That is not so for f+1 votes, nor for somebody who came back without memory; so it is
done only for stability, and only in groups in which nobody ever did. And a root that does not know
yet what others do would never learn it from votes that leave it out; so it is done only for a root
that has said so much itself (INV-SAID).
"""

from typing import Final, final

import numpy as np
from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.config import LIVES_MAX
from semcast.protocol.stability.gossip.tracker import SENDERS_PER_PAGE, page_of
from semcast.protocol.stability.rounds.patience import NEVER
from semcast.protocol.stability.rounds.protocols import RoundSetup, make_tracker
from semcast.protocol.stability.rounds.roll import Roll
from semcast.protocol.stability.rounds.told import ABSTAINS, ACK, EVERYBODY, Numbers, Told
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.trigger import Trigger
from semcast.protocol.stability.tracker import RoundPages
from semcast.wire.families.rounds import ABSTAIN, HAVE_AGREED, HAVE_NONE, SAYS_NOTHING, Round

WIDTH: Final = LIVES_MAX * SENDERS_PER_PAGE


@final
class _Page:
    """The rounds of a few senders, and which column each of their lives has."""

    def __init__(self, number: int, tracker: RoundTracker, trigger: Trigger) -> None:
        self.number: Final = number
        self.tracker: Final = tracker
        self.trigger: Final = trigger
        self.columns: Final[dict[Source, int]] = {}
        self.sources: Final[list[Source]] = []
        # By column: as in the tracker, but quick to read. `own` is written there when it matters.
        self.own: Final = [0] * WIDTH
        self.agreed: list[int] = [0] * WIDTH
        self.newest: list[int] = [0] * WIDTH
        self.stale = False
        # Whether anything has come since the last round was begun or asked for here.
        self.fresh = False
        # What was there when the last round began here.
        self.began_own: list[int] = [0] * WIDTH
        self.began_column = 0
        self.began_agreed = 0
        # Whether this member took part in a round when it was last looked at.
        self.busy = False
        # INV-SAID: that member knows that at least so much is agreed: it said so last.
        self.teller = -1
        self.said: list[int] = [0] * WIDTH

    def column(self, source: Source) -> int:
        """The column of a source; -1 if there are too many lives to follow them all."""
        found = self.columns.get(source)
        if found is not None:
            return found
        if len(self.sources) < WIDTH:
            self.columns[source] = len(self.sources)
            self.sources.append(source)
            return len(self.sources) - 1
        return -1

    def flush(self) -> None:
        """Let the tracker know what this member has."""
        if self.stale:
            self.stale = False
            for column, seq in enumerate(self.own):
                if seq > self.tracker.own[column]:
                    self.tracker.advance(column, seq)

    def waiting(self) -> tuple[int, int]:
        """How many messages wait to be agreed on in the column with most of them, and which."""
        most, where = 0, 0
        for column in range(len(self.sources)):
            known = max(self.own[column], self.newest[column])
            if known - self.agreed[column] > most:
                most, where = known - self.agreed[column], column
        if most == 0 and (self.tracker.wanted or not self.tracker.joined):
            most = 1
        return most, where


@final
class Pages(RoundPages):
    """All pages of a member."""

    def __init__(
        self, setup: RoundSetup, members: list[int], me: int, votes: int, roll: Roll, joining: bool
    ) -> None:
        """`votes`: 0 for those of all members, or f+1 for safety."""
        super().__init__()
        self.safety: Final = votes > 0
        self._setup: Final = setup
        self._members: Final = members
        self._index: Final = {sender: at for at, sender in enumerate(members)}
        self._me: Final = me
        self._votes: Final = votes or len(members)
        self._roll: Final = roll
        self._joining: Final = joining
        self._pages: Final[dict[int, _Page]] = {}
        # Pages to look at: something has happened to them.
        self._touched: Final[dict[int, None]] = {}
        # When to look again; -1: that has to be found out.
        self._deadline_ns: i64 = NEVER
        self.out: list[tuple[int, Round]] = []
        self.strangers: list[int] = []
        # Rounds that this member took part in to their end.
        self.rounds = 0

    # -- the member --------------------------------------------------------------------------------

    def has(self, source: Source, seq: i64) -> i64:
        page = self._page_for(source)
        column = -1 if page is None else page.column(source)
        if page is None or column < 0 or seq <= page.own[column]:
            return 0
        more = seq - page.own[column]
        page.own[column] = int(seq)
        page.stale = True
        page.fresh = True
        self._touched[page.number] = None
        return more

    def agreed(self, source: Source) -> i64:
        page = self._page_for(source)
        if page is None:
            return 0
        column = page.columns.get(source, -1)
        return page.agreed[column] if column >= 0 else 0

    def sources(self, page: int) -> list[Source]:
        found = self._pages.get(page)
        return [] if found is None else list(found.sources)

    def join(self, number: int) -> None:
        """Its streams have begun, so this member has a vote in a page."""
        page = self._page(number)
        page.tracker.joined = True

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

    def on_round(self, frame: Round, sender: int, now_ns: i64) -> None:
        """A frame for this member arrived from the member with that index."""
        if not 0 <= frame.page <= page_of(len(self._members) - 1):
            return
        page = self._page(int(frame.page))
        page.flush()
        told = self._told_of(page, frame)
        page.tracker.on_told(told, sender, now_ns)
        if page.tracker.strange:
            page.tracker.strange = False
            self.strangers.append(sender)
        self._note(page)
        self._look(page, now_ns)

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

    def epoch_changed(self, now_ns: i64, wanted: bool) -> None:
        """Somebody is gone, is back, or is in another life, which then wants a round."""
        for page in self._pages.values():
            page.flush()
            if wanted:
                page.tracker.wanted = True
            page.tracker.epoch_changed(now_ns)
            page.busy = False
            self._note(page)
            self._look(page, now_ns)

    def led(self) -> int:
        """In how many pages this member begins the rounds."""
        return sum(page.tracker.coordinator() == self._me for page in self._pages.values())

    def round_us(self) -> int:
        """How long a round takes, in the page in which it takes longest."""
        took_ns = [int(page.tracker.patience.round_ns) for page in self._pages.values()]
        return max(took_ns, default=0) // 1000

    # -- rounds ------------------------------------------------------------------------------------

    def _look(self, page: _Page, now_ns: i64) -> None:
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
            waiting, page.fresh, tracker.patience.round_ns, now_ns
        ):
            self._begin(page, now_ns)

    def _leads(self, page: _Page) -> bool:
        """Whether it is for this member to begin a round now."""
        return not page.tracker.under_way() and page.tracker.coordinator() == self._me

    def _begin(self, page: _Page, now_ns: i64) -> None:
        waiting, column = page.waiting()
        came = max(now - then for now, then in zip(page.own, page.began_own, strict=True))
        page.trigger.began(waiting, came, now_ns)
        page.fresh = False
        page.began_own = list(page.own)
        page.began_column, page.began_agreed = column, page.agreed[column]
        page.flush()
        page.tracker.start(now_ns)
        self._note(page)

    def _note(self, page: _Page) -> None:
        """Take what has come of whatever the tracker was told."""
        self._deadline_ns = -1
        tracker = page.tracker
        if tracker.newest is not None:
            page.newest = tracker.newest.tolist()
            for column, source in enumerate(page.sources):
                # Said again and again: somebody who has just joined could not hear it before.
                if page.newest[column] > page.own[column]:
                    self.news.append((source, page.newest[column]))
        agreed: list[int] = tracker.agreed.tolist()
        if agreed != page.agreed:
            for column, source in enumerate(page.sources):
                if agreed[column] > page.agreed[column]:
                    self.grown.append(source)
            page.agreed = agreed
        if tracker.joined and self._joining and not self.safety:
            self.joined_pages.append(page.number)
        if tracker.under_way():
            page.busy = True
        else:
            column = page.began_column
            page.trigger.ended(page.agreed[column] - page.began_agreed)
            self.rounds += int(page.busy)
            page.busy = False
        result = tracker.result()
        if self._setup.delta and result is not None and result.values is not None:
            page.teller = int(result.root)
            page.said = result.values.tolist()
        for to, told in tracker.take_out():
            target = EVERYBODY if to == EVERYBODY else self._members[to]
            self.out.append((target, self._frame_of(page, told, target)))

    # -- the wire ----------------------------------------------------------------------------------

    def _frame_of(self, page: _Page, told: Told, target: int) -> Round:
        unnamed = SAYS_NOTHING
        values: list[int] = [0] * WIDTH
        usual = values
        if told.values is not None:
            values = told.values.tolist()
            unnamed = HAVE_NONE
            if all(value == ABSTAINS for value in values):
                unnamed = ABSTAIN
                usual = values
            elif self._leaves_out(page, told):
                unnamed = HAVE_AGREED
                usual = page.agreed
        newest: list[int] = page.agreed if told.newest is None else told.newest.tolist()
        rows = [
            (source, values[column], newest[column])
            for column, source in enumerate(page.sources)
            if values[column] != usual[column] or newest[column] > page.agreed[column]
        ]
        return Round(
            self.safety,
            told.kind,
            unnamed,
            page.number,
            target,
            told.epoch,
            told.round,
            told.root,
            told.count,
            rows,
        )

    def _leaves_out(self, page: _Page, told: Told) -> bool:
        """Whether a vote may leave out what is agreed; see the module's docstring."""
        if not self._setup.delta or told.kind != ACK:
            return False
        if self.safety or self._roll.anybody_reborn or told.root != page.teller:
            return False
        return all(page.agreed[at] <= page.said[at] for at in range(len(page.sources)))

    def _told_of(self, page: _Page, frame: Round) -> Told:
        values: Numbers | None = None
        if frame.unnamed == HAVE_NONE:
            values = np.zeros(WIDTH, np.int64)
        elif frame.unnamed == HAVE_AGREED:
            values = page.tracker.agreed.copy()
        elif frame.unnamed == ABSTAIN:
            values = np.full(WIDTH, ABSTAINS, np.int64)
        newest = np.zeros(WIDTH, np.int64)
        for source, value, heard_of in frame.rows:
            at = self._index.get(int(source.sender))
            if at is None or page_of(at) != page.number:
                continue
            column = page.column(source)
            if column >= 0:
                newest[column] = heard_of
                if values is not None:
                    values[column] = value
        return Told(
            frame.kind, frame.epoch, frame.round, int(frame.root), int(frame.count), values, newest
        )

    def _page_for(self, source: Source) -> _Page | None:
        at = self._index.get(int(source.sender))
        return None if at is None else self._page(page_of(at))

    def _page(self, number: int) -> _Page:
        page = self._pages.get(number)
        if page is None:
            tracker = make_tracker(
                self._setup, self._me, WIDTH, self._votes, self._roll, self._joining
            )
            trigger = Trigger(
                self._setup.window_messages, self._setup.bound_ns, self._setup.period_ns
            )
            page = self._pages[number] = _Page(number, tracker, trigger)
        return page
