"""Readers of a group, at a member: who reads through this one, and what they have.

Readers are not in the view: they vote on nothing, and count for no majority. A reader subscribes
with f + 1 members, its *patrons*. A patron tells it where each stream begins, and holds its own
votes on stability back to what its readers have acknowledged. So nothing is forgotten anywhere that
a reader still needs; and when up to f members crash, one patron is left that goes on holding back
while the reader finds others.

What a reader lacks it asks of anybody, as members do. A reader that was not heard of for too long
(`patience`) while it holds the group back is forgotten, and told so when it speaks again. One whose
place was lost, because more is stable than it has, is told the same.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.patience import Awaited, Patience
from semcast.protocol.membership.view import View, scatter
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.protocol.stability.detection import Detection
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.families.readers import HAVE, HAVE_ROWS_MAX, SUBSCRIBE, Begin, Have, Subscribe
from semcast.wire.frames import ControlFrame

# Readers ask their patrons every second, but questions are lost.
_SIGN_NS: Final = 2_500_000_000
# How often to look what readers lack, in periods; at rest ever less often.
_LOOK_PERIODS: Final = 4
_LOOK_PERIODS_MAX: Final = 16
# More readers than this one member does not serve, and so many former ones it remembers.
_READERS_MAX: Final = 1_024
_PAST_MAX: Final = 512
# What a reader says of more streams than these is not kept.
_STREAMS_MAX: Final = 4_096
# A stream of which nothing is known here may have just come, to a view that is on its way. If it is
# not known after so long, it has ended; so many such streams are remembered.
_STRANGE_NS: Final = 5_000_000_000
_STRANGE_MAX: Final = 256


@final
class _Reader:
    """One reader."""

    def __init__(self, source: Source, attempt: i64, awaited: Awaited) -> None:
        self.source: Final = source
        self.attempt: Final[i64] = attempt
        self.awaited: Final = awaited
        # INV-FLOOR: of each stream, it has everything up to here, or did not ask for it.
        self.floors: Final[dict[Source, int]] = {}
        # What it said that it has, and the floors of its former subscription, until it has said it
        # of all streams.
        self.said: Final[dict[Source, int]] = {}
        self.former: dict[Source, int] = {}
        self.begun = False
        # Streams that it may not know the beginning of.
        self.untold: Final[dict[Source, None]] = {}

    def floor(self, source: Source) -> int:
        """What it holds a stream back to."""
        own = self.floors.get(source, SEQ_MAX)
        return min(own, self.former.get(source, SEQ_MAX)) if self.former else own


@final
class Readers(Part):
    """The readers that one member serves."""

    def __init__(
        self, config: MemberConfig, view: View, detection: Detection, intake: Intake, sender: Sender
    ) -> None:
        self._f: Final = config.f
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._view = view
        self._detection: Final = detection
        self._intake: Final = intake
        self._sender: Final = sender
        self._me: Final = sender.source
        self._readers: Final[dict[int, _Reader]] = {}
        # INV-HELD: the lowest floor of each stream, which this member's votes do not exceed.
        self._held: Final[dict[Source, int]] = {}
        # What was here of each stream when last looked.
        self._seen: dict[Source, int] = {}
        self._past: Final[dict[Source, int]] = {}
        self._patience: Final = Patience()
        self._look_ns: i64 = NEVER
        self._look_periods: i64 = _LOOK_PERIODS
        self._leaving = False
        # What `pack` is to send, by reader.
        self._begins: Final[dict[int, None]] = {}
        self._haves: Final[dict[int, dict[Source, int]]] = {}
        self._asks: Final[dict[int, None]] = {}
        self._ended: Final[dict[int, dict[Source, int]]] = {}
        self._gone: Final[dict[int, None]] = {}
        # Streams of which nothing is known here, and since when a reader has asked for them.
        self._strange: Final[dict[Source, int]] = {}

    def __len__(self) -> int:
        return len(self._readers)

    def kinds(self) -> tuple[int, ...]:
        return (SUBSCRIBE, HAVE)

    def strangers_kinds(self) -> tuple[int, ...]:
        return (SUBSCRIBE, HAVE)

    def install(self, view: View, now_ns: i64) -> None:
        self._view = view
        if self._readers:
            self._follow_sources(now_ns)
            for sender in self._readers:
                self._begins[sender] = None

    # -- what is heard -----------------------------------------------------------------------------

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if isinstance(frame, Have):
            self._on_have(frame, source, now_ns)
        else:
            assert isinstance(frame, Subscribe)
            self._on_subscribe(frame, source, now_ns)

    def _on_subscribe(self, frame: Subscribe, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        reader = self._readers.get(sender)
        if reader is not None and reader.source.incarnation > source.incarnation:
            return
        if frame.leaves:
            if reader is not None and reader.source == source:
                self._dismiss(reader, now_ns)
            if not frame.direct:
                self._remember(source, SEQ_MAX)
            return
        if self._leaving or self._detection.joining():
            return
        if reader is not None and reader.source != source:
            self._dismiss(reader, now_ns)
            reader = None
        if reader is None or (frame.direct and frame.attempt > reader.attempt):
            reader = self._subscribed(frame, source, reader, now_ns)
        if reader is None or frame.attempt < reader.attempt:
            return
        reader.awaited.heard(now_ns)
        if len(reader.said) + len(frame.rows) <= _STREAMS_MAX:
            reader.said.update(dict(frame.rows))
        if reader.begun:
            # It repeats itself because an answer was lost.
            reader.untold.update(dict.fromkeys(reader.floors))
        elif len(reader.said) >= frame.total:
            self._begin(reader, now_ns)
        self._begins[sender] = None

    def _subscribed(
        self, frame: Subscribe, source: Source, before: _Reader | None, now_ns: i64
    ) -> _Reader | None:
        """A new subscription, if this member is to serve it."""
        if before is None:
            full = len(self._readers) >= _READERS_MAX
            if full or frame.attempt <= self._past.get(source, -1):
                return None
            if not frame.direct and not self._is_nominated(source, frame.attempt):
                return None
        awaited = Awaited(_LOOK_PERIODS_MAX * self._period_ns, _SIGN_NS, now_ns)
        reader = self._readers[int(source.sender)] = _Reader(source, frame.attempt, awaited)
        if before is not None:
            reader.former = before.floors if before.begun else before.former
        self._look_ns = min(self._look_ns, now_ns + _LOOK_PERIODS * self._period_ns)
        self._look_periods = _LOOK_PERIODS
        return reader

    def _is_nominated(self, source: Source, attempt: i64) -> bool:
        """Whether this member is among those that a new reader gets as patrons. All members reckon
        the same, and readers are dealt to all of them alike.
        """
        present = self._view.present
        first = scatter(int(source.sender) + int(attempt)) % len(present)
        return (present.index(int(self._me.sender)) - first) % len(present) <= self._f

    def _on_have(self, frame: Have, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        reader = self._readers.get(sender)
        if reader is None or reader.source != source:
            if reader is None or reader.source.incarnation < source.incarnation:
                self._gone[sender] = None
            return
        reader.awaited.heard(now_ns)
        for of, seq in frame.rows:
            self._acknowledge(reader, of, seq, now_ns)
        if frame.answer:
            self._haves.setdefault(sender, {})
            for of, floor in reader.floors.items():
                has = self._has(of)
                if floor < has:
                    self._haves[sender][of] = has

    def _acknowledge(self, reader: _Reader, of: Source, seq: int, now_ns: i64) -> None:
        before = reader.floors.get(of, -1)
        if before < 0:
            if self._is_over(of, now_ns):
                self._ended.setdefault(int(reader.source.sender), {})[of] = seq
            return
        reader.untold.pop(of, None)
        if seq > before:
            reader.floors[of] = seq
            if before == self._held.get(of, -1):
                self._hold(of, now_ns)

    def refused(self, sender: int, now_ns: i64) -> None:
        """The world says that nobody listens any more where that reader was. It may be wrong."""
        reader = self._readers.get(sender)
        if reader is not None:
            reader.awaited.refused(now_ns)
            self._look_ns = min(self._look_ns, now_ns + self._patience.ask_after_ns())

    # -- who reads ---------------------------------------------------------------------------------

    def _begin(self, reader: _Reader, now_ns: i64) -> None:
        """All is known of what it has: its streams begin."""
        reader.begun = True
        for of in self._sources():
            self._add(reader, of)
        former, reader.former = reader.former, {}
        for of in {**reader.floors, **former}:
            self._hold(of, now_ns)

    def _add(self, reader: _Reader, of: Source) -> None:
        """A stream begins for a reader: after what it has, if all since then is still here; else
        after what this member has, because that is what it may have voted for.
        """
        said = reader.said.get(of, -1)
        reader.floors[of] = said if said >= self._detection.stable(of) else self._has(of)
        reader.untold[of] = None

    def _dismiss(self, reader: _Reader, now_ns: i64) -> None:
        """Hold nothing back for it any longer."""
        sender = int(reader.source.sender)
        del self._readers[sender]
        self._remember(reader.source, int(reader.attempt))
        self._begins.pop(sender, None)
        self._haves.pop(sender, None)
        self._asks.pop(sender, None)
        self._ended.pop(sender, None)
        for of in {**reader.floors, **reader.former}:
            self._hold(of, now_ns)
        if not self._readers:
            self._look_ns = NEVER
            self._seen = {}

    def _remember(self, source: Source, attempt: int) -> None:
        if len(self._past) >= _PAST_MAX:
            del self._past[next(iter(self._past))]
        self._past[source] = max(attempt, self._past.get(source, -1))

    def leave(self) -> None:
        """As a member that leaves, tell the readers to find other patrons. What they have still
        counts until they have, or until they are forgotten.
        """
        if not self._leaving:
            self._leaving = True
            self._gone.update(dict.fromkeys(self._readers))

    # -- streams -----------------------------------------------------------------------------------

    def _sources(self) -> list[Source]:
        """All streams that a reader gets: of all who are present, and those that have not ended."""
        found = {self._me: None}
        view = self._view
        for sender in view.present:
            found[Source(sender, view.life(sender))] = None
        for of in self._intake.inbounds:
            if of not in found and not self._has_ended(of):
                found[of] = None
        return list(found)

    def _has(self, of: Source) -> int:
        if of == self._me:
            return int(self._sender.packed)
        inbound = self._intake.inbounds.get(of)
        return 0 if inbound is None else int(inbound.next - 1)

    def _has_ended(self, of: Source) -> bool:
        """Whether there is nothing more to get of a stream: members have let go of it."""
        if self._detection.stable(of) >= ENDED:
            return True
        return self._view.position(of.sender) < 0 and of not in self._intake.inbounds

    def _is_over(self, of: Source, now_ns: i64) -> bool:
        """Whether to say that a stream has ended of which a reader speaks and this member does not.
        A life in a view that has not come here yet looks like one that was dropped long ago.
        """
        if not self._has_ended(of):
            return False
        if self._view.position(of.sender) >= 0 or of in self._intake.endings.ends:
            return True
        while len(self._strange) >= _STRANGE_MAX and of not in self._strange:
            del self._strange[next(iter(self._strange))]
        return now_ns - self._strange.setdefault(of, int(now_ns)) >= _STRANGE_NS

    def _hold(self, of: Source, now_ns: i64) -> None:
        """Vote for no more of a stream than all readers have."""
        lowest = SEQ_MAX
        for reader in self._readers.values():
            lowest = min(lowest, reader.floor(of))
        if lowest != self._held.get(of, SEQ_MAX):
            if lowest == SEQ_MAX:
                del self._held[of]
            else:
                self._held[of] = lowest
            self._detection.hold_back(of, lowest, now_ns)

    def _follow_sources(self, now_ns: i64) -> None:
        """Streams are new, or have ended."""
        sources = self._sources()
        for reader in self._readers.values():
            if not reader.begun:
                continue
            for of in sources:
                if of not in reader.floors:
                    self._add(reader, of)
            for of in [of for of in reader.floors if self._has_ended(of)]:
                last = reader.floors.pop(of)
                reader.untold.pop(of, None)
                self._ended.setdefault(int(reader.source.sender), {})[of] = last
        for of in {**dict.fromkeys(sources), **self._held}:
            self._hold(of, now_ns)

    # -- what is due -------------------------------------------------------------------------------

    def on_timer(self, now_ns: i64) -> None:
        if now_ns < self._look_ns:
            return
        late_ns = self._patience.woke(self._look_ns, now_ns)
        if late_ns > 0:
            for reader in self._readers.values():
                reader.awaited.slept(late_ns, now_ns)
        self._follow_sources(now_ns)
        seen = {of: self._has(of) for of in self._held}
        # While a stream moves, what readers lack of it is mostly on its way to them.
        at_rest = [of for of, has in seen.items() if self._seen.get(of, -1) == has]
        for reader in list(self._readers.values()):
            self._look_at(reader, seen, at_rest, now_ns)
        quiet = seen == self._seen
        self._seen = seen
        most = _LOOK_PERIODS_MAX if quiet else _LOOK_PERIODS
        self._look_periods = min(2 * self._look_periods, most)
        if self._readers:
            self._look_ns = now_ns + self._look_periods * self._period_ns

    def _look_at(
        self, reader: _Reader, seen: dict[Source, int], at_rest: list[Source], now_ns: i64
    ) -> None:
        sender = int(reader.source.sender)
        behind = not reader.begun or bool(reader.untold)
        for of, floor in reader.floors.items():
            if floor < seen.get(of, 0):
                behind = True
                if floor < self._detection.stable(of):
                    # Members have forgotten what it still needs: it has to begin anew.
                    self._gone[sender] = None
                    self._dismiss(reader, now_ns)
                    return
        patience, one = self._patience, reader.awaited
        one.owes(min(one.owes_ns, now_ns) if behind else NEVER)
        if patience.is_silent(one, now_ns) or patience.owes_too_long(one, now_ns):
            self._dismiss(reader, now_ns)
            return
        if patience.is_to_ask(one):
            self._haves.setdefault(sender, {})
            self._asks[sender] = None
            self._look_periods = 1
        if reader.untold:
            self._begins[sender] = None
        owed = {of: seen[of] for of in at_rest if reader.floors.get(of, SEQ_MAX) < seen[of]}
        if owed:
            self._haves.setdefault(sender, {}).update(owed)
            self._asks[sender] = None

    def next_deadline_ns(self) -> i64:
        return self._look_ns

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        for sender in self._gone:
            outbox.frame(sender, Begin(0, "", True))
        self._gone.clear()
        for sender in self._begins:
            reader = self._readers.get(sender)
            if reader is not None and reader.begun:
                self._pack_begins(outbox, reader)
        self._begins.clear()
        for sender, rows in self._haves.items():
            _pack_rows(outbox, sender, rows, sender in self._asks, False)
        self._haves.clear()
        self._asks.clear()
        for sender, rows in self._ended.items():
            _pack_rows(outbox, sender, rows, False, True)
        self._ended.clear()

    def _pack_begins(self, outbox: Outbox, reader: _Reader) -> None:
        view, total = self._view, len(reader.floors)
        for of in reader.untold:
            at = view.position(of.sender)
            name = view.names[at] if at >= 0 and view.names else ""
            rows = [(of, reader.floors[of], self._has(of))]
            frame = Begin(reader.attempt, name, False, rows, total)
            outbox.frame(int(reader.source.sender), frame)


def _pack_rows(outbox: Outbox, to: int, rows: dict[Source, int], answer: bool, ended: bool) -> None:
    """At least one frame, which is a sign of life."""
    found = list(rows.items())
    for at in range(0, max(len(found), 1), HAVE_ROWS_MAX):
        outbox.frame(to, Have(found[at : at + HAVE_ROWS_MAX], answer, ended))
