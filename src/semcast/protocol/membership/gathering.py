"""Collecting state: what a newcomer still wants in, requests out; chunks in, the whole state out.

In a group any member can provide everything, so one is asked, and another if that one refuses, is
silent or goes. In a feed each sender is asked for its own. A request says how many bytes are
welcome: few at first, twice as many after each that was answered in full, half after a loss. What
was lost is asked for again, by the numbers that nothing is known of.

A group also has standing values of sources that have ended, of which a newcomer never heard; so it
asks for a list first. Knows nothing of what becomes of the state.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.snapshots import Fetch
from semcast.protocol.membership.wants import Asked, Want
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.followed import ENDED
from semcast.wire.families.state import (
    INCOMPLETE,
    KEEPS_NONE,
    LAST,
    LATER,
    LIST,
    LISTED,
    NEWCOMER,
    SNAPSHOT,
    URGENT,
    Chunk,
    Need,
    Tell,
)

# How many bytes are asked for at once: at first, and at most.
_BYTES_FIRST: Final = 64 << 10
_BYTES_LEAST: Final = 16 << 10
_BYTES_MOST: Final = 512 << 10
# So many requests, for different sources, are on their way at a time.
_ASKED_MAX: Final = 8
# A request is repeated after so many of `nak_delay_ns`, then ever later, up to so many; but where
# that is short, no sooner than an answer of many bytes takes on a link that others use too.
_UNIT_NS_MIN: Final = 1_000_000
_PATIENCE: Final = 10
_PATIENCE_MAX: Final = 500
# After so many requests in a row that were not answered, another member is asked.
_SILENCE_MAX: Final = 2
# One that has to save a snapshot first may say so many times in a row that it needs more time.
_LATER_MAX: Final = 20
# If nothing of a snapshot has come for so many of `nak_delay_ns`, nobody's application saves one.
SAVE_PATIENCE: Final = 15_000
# Sources begin here.
_FIRST: Final = Source(0, 0)


@final
class Collection:
    """The state that one newcomer collects."""

    def __init__(self, config: MemberConfig, me: Source, random: Randomness, lists: bool) -> None:
        """`lists`: there may be sources that this member never heard of."""
        self._config: Final = config
        self._me: Final = me
        self._random: Final = random
        self._group: Final = config.group_reliable
        self.wants: Final[dict[Source, Want]] = {}
        # Sources whose state the application has been given already.
        self._given: Final[set[Source]] = set()
        # Members that can be asked, and the one that is.
        self._providers: list[int] = []
        self.provider = -1
        # Why members do not answer.
        self._refused: Final[dict[int, int]] = {}
        self._urgent = False
        self._silent = 0
        self._later = 0
        self._asked: Final[dict[int, Asked]] = {}
        self._number = 0
        self._bytes: i64 = _BYTES_FIRST
        self._patience: i64 = _PATIENCE
        # Nothing is asked before this time.
        self._rests_until_ns: i64 = 0
        self._rest_ns: i64 = config.nak_delay_ns
        # Whether a snapshot is wanted instead of values.
        self.fetch: Final = Fetch(config.standing_bytes_max) if config.state == "snapshot" else None
        # Whether it is known of all sources where this member begins. Then it asks for the list:
        # how far that has come, and sources on it of which that is not known after all.
        self._begun = False
        self._listed = not lists or not self._group or self.fetch is not None
        self._list_from = _FIRST
        self.expected: Final[set[Source]] = set()
        # Sources of which there is no state: all that they sent comes live.
        self._live: Final[set[Source]] = set()
        # Nobody has any state, or something of it is lost.
        self._given_up = False
        self.incomplete = False
        self.nobody_saved = False

    # -- what is wanted ----------------------------------------------------------------------------

    def want(self, source: Source, after: i64, cut: i64, had: i64 = 0) -> None:
        """The state of this source, after one number and up to another, is wanted. `had`: all that
        came of it, if its stream begins again.
        """
        self.expected.discard(source)
        want = self.wants.get(source)
        if want is not None and had > 0:
            want.go_on(had, cut)
        elif want is None and self.fetch is None and (source not in self._given or had > 0):
            self.wants[source] = Want(source, after, cut)

    def live(self, source: Source) -> None:
        """There is no state of this source: all of its stream comes live, or has come."""
        self.expected.discard(source)
        self._live.add(source)

    def awaits(self, source: Source) -> bool:
        """Whether some of the state of this source is still to come to the application."""
        return source in self.wants or source in self.expected

    def all_begun(self) -> None:
        """Where this member begins is known of all sources that it has heard of."""
        self._begun = True

    def install(self, present: list[int], now_ns: i64) -> None:
        """These others are there."""
        self._providers = present
        for sender in [one for one in self._refused if one not in present]:
            del self._refused[sender]
        for number in [one for one, asked in self._asked.items() if asked.to not in present]:
            self._give_up_on(number)
        if self.provider not in present:
            self._next_provider()
        if self._refused:
            self._judge(now_ns)

    @property
    def complete(self) -> bool:
        """Whether there is nothing more to wait for."""
        if self._given_up:
            return True
        if self.fetch is not None:
            return self.fetch.complete
        return self._begun and self._listed and not self.expected and self.has_all

    @property
    def has_all(self) -> bool:
        """Whether all that is wanted so far has come."""
        if self.fetch is not None:
            return False
        return all(want.complete for want in self.wants.values())

    def given(self) -> None:
        """The application is given what has come so far."""
        self._given.update(self.wants)
        self.wants.clear()

    @property
    def came(self) -> int:
        """How many messages have come."""
        return sum(len(want) for want in self.wants.values())

    def lose(self, source: Source) -> None:
        """Nobody has what is missing of this source."""
        want = self.wants[source]
        if not want.complete:
            want.holes.fill(0, want.cut)
            want.incomplete = True
            want.until_ns = NEVER

    # -- what comes --------------------------------------------------------------------------------

    def on_chunk(self, chunk: Chunk, source: Source, now_ns: i64) -> None:
        """A part of the state came from a member."""
        if self.fetch is not None:
            if chunk.marks & SNAPSHOT:
                self.fetch.on_piece(chunk, source, now_ns)
                if chunk.marks & INCOMPLETE:
                    self.incomplete = True
        elif not chunk.marks & SNAPSHOT:
            want = self.wants.get(chunk.source)
            if want is not None and (self._group or chunk.source == source):
                want.on_chunk(chunk, self._config.limits.message_bytes_max)
        asked = self._asked.get(int(chunk.number))
        if asked is None or asked.to != int(source.sender):
            return
        self._answered()
        asked.came.add(int(chunk.index))
        asked.until_ns = now_ns + self._patience_ns()
        if chunk.marks & LAST:
            whole = len(asked.came) > chunk.index
            self._bytes = min(2 * self._bytes, _BYTES_MOST) if whole else self._fewer()
            self._give_up_on(int(chunk.number))

    def on_tell(self, tell: Tell, source: Source, now_ns: i64) -> None:
        """A part of the list came, or a refusal."""
        asked = self._asked.get(int(tell.number))
        if asked is None or asked.to != int(source.sender):
            return
        self._give_up_on(int(tell.number))
        self._answered()
        if tell.answer == LISTED:
            self._on_list(tell, now_ns)
        elif self._group or self.fetch is not None:
            self._on_refusal(asked.to, int(tell.answer), now_ns)
        elif asked.want is not None and tell.answer == KEEPS_NONE:
            self.lose(asked.want.source)
        else:
            self._rest(now_ns)

    def _on_list(self, tell: Tell, now_ns: i64) -> None:
        if tell.marks & INCOMPLETE:
            self.incomplete = True
        for source, ended in tell.rows:
            if source == self._me or source in self._live:
                continue
            if ended:
                self.want(source, 0, ENDED)
            elif not (source in self.wants or source in self._given):
                self.expected.add(source)
        if not tell.marks & LAST and tell.rows:
            self._list_from = tell.rows[-1][0]
            return
        self._list_from = _FIRST
        self._listed = True
        if self.expected:
            # It will soon be known where they begin, or that they have ended: look again then.
            self._listed = False
            self._rest(now_ns)

    def _on_refusal(self, to: int, answer: int, now_ns: i64) -> None:
        if answer == LATER:
            self._rest(now_ns)
            # Meanwhile others may have got what they lacked.
            self._refused.clear()
            self._later += 1
            # An application that has to save a snapshot first needs some time.
            if self.fetch is None or self._later > _LATER_MAX:
                self._later = 0
                self._next_provider()
            return
        self._refused[to] = answer
        self._next_provider()
        self._judge(now_ns)

    def _judge(self, now_ns: i64) -> None:
        """If all refuse: either nobody has any state, or somebody has it and must give it."""
        if self.provider >= 0:
            return
        if all(one in (NEWCOMER, KEEPS_NONE) for one in self._refused.values()):
            self._given_up = True
            self.incomplete = True
            return
        self._urgent = True
        self._refused.clear()
        self._next_provider()
        self._rest(now_ns)

    def _answered(self) -> None:
        self._silent = 0
        self._patience = _PATIENCE

    def _fewer(self) -> i64:
        return max(self._bytes // 2, _BYTES_LEAST)

    def _rest(self, now_ns: i64) -> None:
        """Ask nothing for a while, ever longer."""
        self._rests_until_ns = now_ns + self._rest_ns
        self._rest_ns = min(2 * self._rest_ns, 50 * self._config.nak_delay_ns)

    def _patience_ns(self) -> i64:
        return self._patience * max(self._config.nak_delay_ns, _UNIT_NS_MIN)

    # -- what is asked -----------------------------------------------------------------------------

    def on_timer(self, now_ns: i64) -> None:
        """Give up requests that were not answered."""
        late = [one for one, asked in self._asked.items() if asked.until_ns <= now_ns]
        for number in late:
            asked = self._asked[number]
            self._give_up_on(number)
            self._bytes = self._fewer()
            if not asked.came and asked.to == self.provider:
                self._silent += 1
        if late:
            self._patience = min(2 * self._patience, _PATIENCE_MAX)
        if self._silent >= _SILENCE_MAX:
            self._next_provider()
        for source in [one for one, want in self.wants.items() if want.until_ns <= now_ns]:
            self.lose(source)
        self._lose_patience(now_ns)

    def _lose_patience(self, now_ns: i64) -> None:
        """Applications save snapshots while they receive, and it may be that none ever does. Then
        go on without: a newcomer that takes nothing would stop the whole group in the end.
        """
        patience_ns = SAVE_PATIENCE * self._config.nak_delay_ns
        if self.fetch is not None and self.fetch.is_in_vain(now_ns, patience_ns):
            self._given_up = True
            self.incomplete = True
            self.nobody_saved = True

    def next_deadline_ns(self) -> i64:
        """When to call `on_timer`, or `pack`."""
        if self.complete:
            return NEVER
        soonest: i64 = NEVER
        for asked in self._asked.values():
            soonest = min(soonest, asked.until_ns)
        for want in self.wants.values():
            soonest = min(soonest, want.until_ns)
        if self._has_to_ask():
            soonest = min(soonest, self._rests_until_ns)
        return soonest

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        """Ask for what is missing, if somebody can be asked."""
        if now_ns < self._rests_until_ns or self.complete:
            return
        if not self._providers and (self._group or self.fetch is not None):
            # Nobody else is there, so nobody has any state.
            self._given_up = True
            self.incomplete = True
        while self._has_to_ask():
            self._ask_next(outbox, now_ns)

    def _has_to_ask(self) -> bool:
        if self._given_up or len(self._asked) >= _ASKED_MAX:
            return False
        if self.provider < 0 and (self._group or self.fetch is not None):
            return False
        if self._asks_for_one():
            return self._begun and not self._asked_for_one()
        return self._next_want() is not None

    def _asks_for_one(self) -> bool:
        """Whether the list, or a snapshot, is what is to be asked for next."""
        if self.fetch is not None:
            return not self.fetch.complete
        return self._begun and not self._listed and self._next_want() is None

    def _asked_for_one(self) -> bool:
        return any(asked.want is None for asked in self._asked.values())

    def _next_want(self) -> Want | None:
        for source in sorted(self.wants):
            want = self.wants[source]
            if not want.asked and not want.complete:
                return want
        return None

    def _ask_next(self, outbox: Outbox, now_ns: i64) -> None:
        self._number = (self._number + 1) & 0xFFFFFFFF
        urgent: i64 = URGENT if self._urgent else 0
        number, size = self._number, self._bytes
        want: Want | None = None
        if self._asks_for_one():
            if self.fetch is None:
                need = Need(LIST | urgent, number, size, self._list_from)
            else:
                fetch = self.fetch
                fetch.asked(now_ns)
                wants, at = SNAPSHOT | urgent, fetch.offset
                need = Need(wants, number, size, _FIRST, fetch.number, 0, 0, at)
        else:
            want = self._next_want()
            assert want is not None, "there is something to ask"
            after, until, offset = want.position()
            need = Need(urgent, number, size, want.source, after, until, want.cut, offset)
            want.asked = True
        to = self.provider
        if want is not None and not self._group:
            to = int(want.source.sender)
        self._asked[number] = Asked(to, want, now_ns + self._patience_ns())
        outbox.frame(to, need)

    def _give_up_on(self, number: int) -> None:
        want = self._asked.pop(number).want
        if want is not None:
            want.asked = False

    def _next_provider(self) -> None:
        """Ask somebody else from now on: the first one by chance, then in order, so that newcomers
        do not all ask the same.
        """
        self._silent = 0
        if self.fetch is not None and not self.fetch.complete:
            self.fetch.begin_anew()
        others = [one for one in self._providers if one not in self._refused]
        if not others:
            self.provider = -1
            return
        if self.provider < 0:
            self.provider = others[self._random.randrange(len(others))]
            return
        later = [one for one in others if one > self.provider]
        self.provider = later[0] if later else others[0]
