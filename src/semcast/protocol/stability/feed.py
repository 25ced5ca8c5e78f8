"""Detection in a feed: each reader acknowledges to each sender; a sender minds its own readers.

What this process has of other senders goes in, and HAVE frames for these senders come out: soon
after every so many messages, at the latest after a period, and at once if a sender asks. What the
readers of this process have comes in; what all of them have is stable and may be forgotten. Nobody
else keeps anything, so there is no safety to find out.

INV-HAVE: this process has everything of a stream from its beginning up to what it acknowledged. So
an acknowledgement may come late or twice, and is true still.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY, NEVER, SEQ_MAX, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.audience import Audience
from semcast.protocol.stability.detection import Agreed, Detection, Heard
from semcast.wire.families.readers import HAVE, HAVE_ROWS_MAX, Begin, Have
from semcast.wire.frames import ControlFrame

# A reader acknowledges each time that such a part (a quarter) of a window has come.
_ACKS_PER_WINDOW: Final = 4
# With many senders, acknowledgements that only time asks for come later: one more period for so
# many streams.
_STREAMS_PER_PERIOD: Final = 8
# A sign of life when there is nothing to say.
BEAT_NS: Final = 5_000_000_000
# To so few others, a frame goes to each; to more, once to everybody.
_FEW: Final = 3
# What was had of so many former streams is remembered, for the case that they go on.
_FORMER_MAX: Final = 1_024


@final
class Stream:
    """What this process has of one sender."""

    def __init__(self, attempt: i64, begin: i64) -> None:
        # The number of the subscription that was answered.
        self.attempt = attempt
        # Everything after this one is to be had.
        self.begin = begin
        self.has = begin
        # What was acknowledged last.
        self.said = begin


@final
class FeedDetection(Detection):
    """What one process of a feed has, and what its readers have."""

    def __init__(self, config: MemberConfig, me: Source, name: str) -> None:
        self._me: Final = me
        self._name: Final = name
        self._sends: Final = config.role != "reader"
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._ack_messages: Final[i64] = max(
            config.gossip_messages or config.window_messages // _ACKS_PER_WINDOW, 1
        )
        self._ack_bytes: Final[i64] = max(config.window_bytes // _ACKS_PER_WINDOW, 1)
        self.audience: Final = Audience(config)
        self.streams: Final[dict[Source, Stream]] = {}
        # What was had of streams that are over here, though they may go on elsewhere.
        self._former: Final[dict[Source, int]] = {}
        # Streams of which more has come than was acknowledged, and when to acknowledge it.
        self._news: Final[dict[Source, Stream]] = {}
        self._new_bytes: i64 = 0
        self._ack_ns: i64 = NEVER
        self._beat_ns: i64 = NEVER
        # What `pack` is to send: acknowledgements, reminders, and to whom that it is no reader.
        self._due: Final[dict[Source, Stream]] = {}
        self._remind: list[Source] = []
        self._beat_due = False
        self._no_readers: Final[dict[int, None]] = {}
        self._told_stable: i64 = 0
        self._agreed = Agreed()

    def kinds(self) -> tuple[int, ...]:
        return (HAVE,)

    def install(self, view: View, now_ns: i64) -> None:
        """Who comes and goes is said by the calls below; only signs of life depend on it."""
        if len(view.members) <= 1:
            self._beat_ns = NEVER
        elif self._beat_ns == NEVER:
            self._beat_ns = now_ns + BEAT_NS

    # -- streams that this process reads -----------------------------------------------------------

    def begin(self, source: Source, attempt: i64, after: i64, newest: i64) -> None:
        """A sender says where its stream begins for this process.

        If that is behind what is here, the stream goes on as if nothing had happened, and nothing
        has. If not, messages in between are gone, and the application learns that it begins anew.
        """
        stream = self.streams.get(source)
        if stream is None or after > stream.has:
            stream = self.streams[source] = Stream(attempt, after)
            self._former.pop(source, None)
            self._agreed.joined.append(source)
            if source in self._agreed.ended:
                self._agreed.ended.remove(source)  # nobody has heard of that yet
        stream.attempt = attempt
        self._due[source] = stream
        self._hears(source, newest)

    def end(self, source: Source) -> None:
        """A sender is gone, or nothing was heard of it for long: its stream has ended here."""
        stream = self.streams.pop(source, None)
        self._news.pop(source, None)
        self._due.pop(source, None)
        if stream is None:
            return
        self._agreed.ended.append(source)
        if source in self._agreed.joined:
            # Nobody has heard of its beginning yet, and nothing of it is here.
            self._agreed.joined.remove(source)
            return
        if len(self._former) >= _FORMER_MAX:
            del self._former[next(iter(self._former))]
        self._former[source] = int(stream.has)

    def since(self, source: Source) -> int:
        """What is here of a source, also from before; -1 if it was never read."""
        stream = self.streams.get(source)
        return self._former.get(source, -1) if stream is None else int(stream.has)

    # -- what this process has ---------------------------------------------------------------------

    def hold_back(self, source: Source, floor: i64, now_ns: i64) -> None:
        """Does nothing: in a feed there are no readers beside those who acknowledge."""

    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        stream = self.streams.get(source)
        if stream is None:
            if source == self._me:
                self.audience.has_sent(seq, now_ns)
                self._look()
            elif seq > self._former.get(source, SEQ_MAX):
                # It waited for room when the stream ended.
                self._former[source] = int(seq)
            return
        if seq <= stream.has:
            return
        stream.has = seq
        if stream.has - stream.said >= self._ack_messages or self._new_bytes >= self._ack_bytes:
            self._ack_ns = min(self._ack_ns, now_ns)
        elif self._ack_ns == NEVER:
            periods = 1 + len(self.streams) // _STREAMS_PER_PERIOD
            self._ack_ns = min(self._ack_ns, now_ns + periods * self._period_ns)
        self._news[source] = stream

    def knows(self, source: Source, seq: i64) -> None:
        """Nobody else needs what waits here."""

    def count_bytes(self, size_bytes: i64) -> None:
        self._new_bytes += size_bytes

    def no_room(self, now_ns: i64) -> None:
        self.audience.no_room(now_ns)

    def room(self) -> None:
        self.audience.room()

    def vote_soon(self, now_ns: i64) -> None:
        """Nobody waits for votes."""

    def rest_safety(self, resting: bool) -> None:
        """There is no safety to find out."""

    def begin_leaving(self) -> None:
        """Acknowledgements go on until the end."""

    def excuse(self, silent: list[int]) -> None:
        """Silent readers are forgotten anyway."""

    # -- what is agreed ----------------------------------------------------------------------------

    def poll(self, now_ns: i64) -> Agreed | None:  # noqa: ARG002
        self._look()
        agreed = self._agreed
        if not agreed:
            return None
        self._agreed = Agreed()
        return agreed

    def _look(self) -> None:
        if self.audience.stable > self._told_stable:
            self._told_stable = self.audience.stable
            self._agreed.stable.append(self._me)

    def stable(self, source: Source) -> i64:
        """Of another sender, what comes before its stream begins: there is nothing else to know."""
        if source == self._me:
            return self.audience.stable
        stream = self.streams.get(source)
        return 0 if stream is None else stream.begin

    def safe(self, source: Source) -> i64:
        return self.stable(source)

    def held(self, source: Source, seq: i64) -> bool:
        return self.stable(source) >= seq

    def follows(self, source: Source) -> bool:
        return source in self.streams

    def joining(self) -> bool:
        return False

    # -- frames ------------------------------------------------------------------------------------

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        assert isinstance(frame, Have)
        for of, seq in frame.rows:
            if of == self._me:
                reads = self.audience.acknowledge(source, seq, now_ns)
                if self._sends and not reads:
                    self._no_readers[int(source.sender)] = None
            elif of == source and source in self.streams:
                self._hears(source, seq)
        if frame.answer and source in self.streams:
            self._due[source] = self.streams[source]

    def _hears(self, source: Source, newest: i64) -> None:
        if newest > self.streams[source].has:
            heard = Heard(source, int(newest), int(source.sender), int(newest))
            self._agreed.heard.append(heard)

    def remind(self, reader: Source) -> None:
        """Ask a reader for an acknowledgement now."""
        if reader not in self._remind:
            self._remind.append(reader)

    def no_reader(self, sender: int) -> None:
        """Tell somebody that it is no reader of this process."""
        if self._sends:
            self._no_readers[sender] = None

    def on_timer(self, now_ns: i64) -> None:
        if now_ns >= self._ack_ns:
            self._due.update(self._news)
            self._ack_ns = NEVER
        if now_ns >= self.audience.due_ns():
            self._remind = self.audience.remind(now_ns)
        if now_ns >= self._beat_ns:
            self._beat_ns = now_ns + BEAT_NS
            self._beat_due = True

    def next_deadline_ns(self) -> i64:
        return min(self._ack_ns, self.audience.due_ns(), self._beat_ns)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        for source, attempt, after in self.audience.take_untold(now_ns):
            rows = [(self._me, after, int(self.audience.sent))]
            outbox.frame(int(source.sender), Begin(attempt, self._name, False, rows))
        if self._due:
            self._pack_acknowledgements(outbox)
        if self._remind:
            self._pack_reminders(outbox)
        if self._beat_due:
            self._pack_beat(outbox)
        if self._no_readers:
            for sender in self._no_readers:
                outbox.frame(sender, Begin(0, self._name, True))
            self._no_readers.clear()

    def _pack_acknowledgements(self, outbox: Outbox) -> None:
        for source, stream in self._due.items():
            stream.said = stream.has
            self._news.pop(source, None)
            outbox.frame(int(source.sender), Have([(source, int(stream.has))]))
        self._due.clear()
        if not self._news:
            self._new_bytes = 0
            self._ack_ns = NEVER

    def _pack_reminders(self, outbox: Outbox) -> None:
        frame = Have(self._own_row(), True)
        if len(self._remind) > _FEW:
            outbox.frame(EVERYBODY, frame)
        else:
            for source in self._remind:
                outbox.frame(int(source.sender), frame)
        self._remind = []

    def _pack_beat(self, outbox: Outbox) -> None:
        """A reader's signs of life go to those it reads; a sender's, to everybody."""
        self._beat_due = False
        if len(self.audience) == 0 and len(self.streams) <= _FEW:
            for source, stream in self.streams.items():
                outbox.frame(int(source.sender), Have([(source, int(stream.has))]))
            return
        rows = [(source, int(stream.has)) for source, stream in self.streams.items()]
        for at in range(0, max(len(rows), 1), HAVE_ROWS_MAX - 1):
            some = self._own_row() + rows[at : at + HAVE_ROWS_MAX - 1]
            outbox.frame(EVERYBODY, Have(some))

    def _own_row(self) -> list[tuple[Source, int]]:
        return [(self._me, int(self.audience.sent))] if self._sends else []

    def figures(self) -> dict[str, int]:
        return {"sources_followed": len(self.streams), "readers": len(self.audience)}
