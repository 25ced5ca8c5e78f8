"""The audience: acknowledgements of a sender's readers in; what all of them have out.

A sender of a feed keeps its own readers, and nobody agrees on anything. Each reader has a *floor*:
it has everything up to there, or its stream begins after it. What is below all floors may be
forgotten. Here is also whom to remind: a reader that owes an acknowledgement may have missed the
last message, or its acknowledgement was lost, or it is gone (SRM §5.3). Knows nothing of frames.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig

# So many former readers are remembered, so that a subscription which comes late does not bring one
# of them back.
_PAST_MAX: Final = 512
# A sender that rests reminds its readers ever less often, down to this many periods apart.
_REST_PERIODS_MAX: Final = 16
# While messages flow, a reader is reminded only if nothing was acknowledged for so long.
_UNHEARD_NS: Final = 500_000_000


@final
class Reader:
    """One process that reads what this one sends."""

    def __init__(self, attempt: i64, floor: i64, now_ns: i64) -> None:
        # The number of its subscription: what belongs to an earlier one does not count.
        self.attempt = attempt
        # INV-FLOOR: it has everything up to here, or did not ask for it; this never falls.
        self.floor = floor
        # Whether it knows where its stream begins.
        self.begun = False
        # When it last acknowledged anything.
        self.heard_ns = now_ns
        # Since when it has owed an acknowledgement, as far as was looked; NEVER if it owes none.
        self.behind_ns: i64 = NEVER


@final
class Audience:
    """The readers of one sender."""

    def __init__(self, config: MemberConfig) -> None:
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._wait_first_ns: Final[i64] = min(config.nak_delay_ns, config.gossip_period_ns)
        self._readers: Final[dict[Source, Reader]] = {}
        # Readers whose streams begin when the next datagrams are packed, with their attempts.
        self._fresh: Final[dict[Source, int]] = {}
        # Readers that are to be told where their streams begin.
        self._untold: Final[dict[Source, None]] = {}
        self._past: Final[dict[Source, int]] = {}
        # The newest message that was sent.
        self.sent: i64 = 0
        # INV-STABLE: every reader has everything up to here that it asked for; this never falls.
        self.stable: i64 = 0
        # The lowest floor, and how many readers have it.
        self._lowest: i64 = SEQ_MAX
        self._at_lowest: i64 = 0
        self._remind_ns: i64 = NEVER
        self._pause_ns: i64 = 2 * self._period_ns
        self._reminded: i64 = 0
        self._waits = False

    def __len__(self) -> int:
        return len(self._readers) + len(self._fresh)

    def holds(self, source: Source) -> bool:
        """Whether it is a reader."""
        return source in self._readers or source in self._fresh

    # -- who reads ---------------------------------------------------------------------------------

    def admit(self, source: Source, attempt: i64, since: i64, direct: bool, now_ns: i64) -> bool:
        """Somebody subscribes. `since`: what it has from before, -1 if it comes for the first time.
        `direct`: it means this sender and no other. Says whether it is a reader now.
        """
        reader = self._readers.get(source)
        if reader is None:
            if attempt <= self._past.get(source, -1):
                return False
            if self._fresh.get(source, -1) >= attempt:
                return True
        elif attempt == reader.attempt or not direct:
            if not reader.begun or direct:
                self._untold[source] = None
            return True
        elif attempt < reader.attempt:
            return True
        self._fresh.pop(source, None)
        if self.stable <= since <= self.sent:
            # All that came after it is still here.
            self._begin(source, Reader(attempt, since, now_ns), now_ns)
        else:
            self._fresh[source] = int(attempt)
            if reader is not None:
                del self._readers[source]
        self._count()
        return True

    def _begin(self, source: Source, reader: Reader, now_ns: i64) -> None:
        self._readers[source] = reader
        self._untold[source] = None
        self._remind_ns = min(self._remind_ns, now_ns + self._period_ns)

    def dismiss(self, source: Source) -> None:
        """It reads no longer, or was not heard of for too long: wait for it no more."""
        reader = self._readers.pop(source, None)
        attempt = self._fresh.pop(source, -1) if reader is None else int(reader.attempt)
        self._untold.pop(source, None)
        if attempt >= 0:
            if len(self._past) >= _PAST_MAX:
                del self._past[next(iter(self._past))]
            self._past[source] = attempt
            self._count()

    def take_untold(self, now_ns: i64) -> list[tuple[Source, int, int]]:
        """Who is to be told where its stream begins: (reader, attempt, the last message before).

        New streams begin here: what was sent by now is before, and what is sent later is after, so
        that nobody has to ask for what was sent while it waited for its beginning.
        """
        if self._fresh:
            for source, attempt in self._fresh.items():
                self._begin(source, Reader(attempt, self.sent, now_ns), now_ns)
            self._fresh.clear()
            self._count()
        told = []
        for source in self._untold:
            reader = self._readers[source]
            told.append((source, int(reader.attempt), int(reader.floor)))
        self._untold.clear()
        return told

    # -- what they have ----------------------------------------------------------------------------

    def has_sent(self, seq: i64, now_ns: i64) -> None:
        """Own messages up to here were sent."""
        if seq > self.sent:
            self.sent = seq
            if not self._readers:
                self.stable = seq
            elif self._remind_ns == NEVER:
                self._pause_ns = 2 * self._period_ns
                self._remind_ns = now_ns + self._pause_ns

    def acknowledge(self, source: Source, seq: i64, now_ns: i64) -> bool:
        """A reader has everything up to here. Says whether it is a reader at all."""
        reader = self._readers.get(source)
        if reader is None:
            return source in self._fresh
        reader.heard_ns = now_ns
        if seq < reader.floor:
            if not reader.begun:
                self._untold[source] = None
            return True
        reader.begun = True
        before = reader.floor
        reader.floor = min(seq, max(self.sent, before))
        if reader.floor >= self.sent:
            reader.behind_ns = NEVER
        if before == self._lowest and reader.floor > before:
            self._at_lowest -= 1
            if self._at_lowest == 0:
                self._count()
        return True

    def _count(self) -> None:
        """Find the lowest floor anew."""
        lowest: i64 = SEQ_MAX
        count: i64 = 0
        for reader in self._readers.values():
            if reader.floor < lowest:
                lowest = reader.floor
                count = 0
            if reader.floor == lowest:
                count += 1
        self._lowest = lowest
        self._at_lowest = count
        stable = min(lowest, self.sent)
        if stable > self.stable:
            self.stable = stable
            if self._waits:
                self._pause_ns = self._wait_first_ns

    def behind_since_ns(self, source: Source) -> i64:
        """Since when this reader has owed something; NEVER if it is no reader, or owes nothing."""
        reader = self._readers.get(source)
        return NEVER if reader is None else reader.behind_ns

    # -- whom to remind ----------------------------------------------------------------------------

    def no_room(self, now_ns: i64) -> None:
        """The sender cannot send until readers acknowledge more."""
        if not self._waits:
            self._waits = True
            self._pause_ns = self._wait_first_ns
            self._remind_ns = min(self._remind_ns, now_ns + self._pause_ns)

    def room(self) -> None:
        """It can send again."""
        self._waits = False

    def due_ns(self) -> i64:
        """When to call `remind`."""
        return self._remind_ns

    def remind(self, now_ns: i64) -> list[Source]:
        """The readers to ask for an acknowledgement now."""
        rests = self.sent == self._reminded
        self._reminded = self.sent
        owing = 0
        found = []
        for source, reader in self._readers.items():
            if reader.floor >= self.sent and reader.begun:
                continue
            owing += 1
            if reader.behind_ns == NEVER:
                reader.behind_ns = now_ns
            if not reader.begun:
                self._untold[source] = None
            elif self._waits and not rests:
                if reader.floor == self._lowest:
                    found.append(source)
            elif rests or now_ns - reader.heard_ns >= _UNHEARD_NS:
                found.append(source)
        self._pause(rests)
        self._remind_ns = now_ns + self._pause_ns if owing else NEVER
        return found

    def _pause(self, rests: bool) -> None:
        if self._waits:
            self._pause_ns = min(2 * self._pause_ns, self._period_ns)
        elif rests:
            self._pause_ns = min(2 * self._pause_ns, _REST_PERIODS_MAX * self._period_ns)
        else:
            self._pause_ns = 2 * self._period_ns
