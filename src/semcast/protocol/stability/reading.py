"""Detection at a reader of a group: what it has in; acknowledgements for its patrons out.

A reader votes on nothing and keeps nothing for others, so that nothing has to be found out here:
its patrons hold the group back to what it acknowledges. It acknowledges soon after every so many
messages, and at the latest after a period. It asks its patrons now and then how far they are: that
is how it notices that the last message was lost (SRM §5.3), and that a patron is there.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.protocol.stability.detection import Agreed, Detection, Heard
from semcast.wire.families.readers import HAVE_ROWS_MAX, Have
from semcast.wire.frames import ControlFrame

# A reader acknowledges each time that such a part (a quarter) of a window has come.
_ACKS_PER_WINDOW: Final = 4
# It asks its patrons first so many periods after the last message, then ever less often.
_ASK_PERIODS: Final = 2
_ASK_MAX_NS: Final = 1_000_000_000
# Senders of which it is remembered which lives have ended.
_ENDED_MAX: Final = 1_024


@final
class ReaderDetection(Detection):
    """What one reader of a group has."""

    def __init__(self, config: MemberConfig) -> None:
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._ack_messages: Final[i64] = max(
            config.gossip_messages or config.window_messages // _ACKS_PER_WINDOW, 1
        )
        self._ack_bytes: Final[i64] = max(config.window_bytes // _ACKS_PER_WINDOW, 1)
        # The members that serve this reader; whoever subscribes says who they are.
        self.patrons: list[int] = []
        # What is here of each stream, and what came before its beginning.
        self.streams: Final[dict[Source, int]] = {}
        self._begins: Final[dict[Source, int]] = {}
        # INV-ENDED: by sender, all its lives up to this one have ended.
        self._ended: Final[dict[int, int]] = {}
        self._news: Final[dict[Source, None]] = {}
        self._new_messages: i64 = 0
        self._new_bytes: i64 = 0
        self._ack_ns: i64 = NEVER
        self._ask_ns: i64 = NEVER
        self._ask_pause_ns: i64 = _ASK_PERIODS * self._period_ns
        # Which stream to name first in the next question.
        self._turn = 0
        # What `pack` is to send: acknowledgements to all patrons, to one, and a question.
        self._due = False
        self._answers: Final[dict[int, dict[Source, int]]] = {}
        self._asking = False
        self._agreed = Agreed()

    def install(self, view: View, now_ns: i64) -> None:
        """Streams begin and end as patrons say."""
        if view.members and self._ask_ns == NEVER:
            self._ask_ns = now_ns + self._ask_pause_ns

    # -- streams -----------------------------------------------------------------------------------

    def begin(self, source: Source, after: int, newest: int) -> None:
        """A stream begins after that message; if it had begun, it begins anew."""
        self.streams[source] = after
        self._begins[source] = after
        self._agreed.joined.append(source)
        self._hears(source, newest, -1)

    def end(self, source: Source) -> None:
        """All members have all of a stream, and this reader has it too."""
        if self.streams.pop(source, None) is None:
            return
        self._begins.pop(source, None)
        self._news.pop(source, None)
        sender = int(source.sender)
        if len(self._ended) >= _ENDED_MAX and sender not in self._ended:
            del self._ended[next(iter(self._ended))]
        self._ended[sender] = max(int(source.incarnation), self._ended.get(sender, -1))
        self._agreed.ended.append(source)

    def has_ended(self, source: Source) -> bool:
        """Whether a stream has ended here."""
        over = source.incarnation <= self._ended.get(int(source.sender), -1)
        return over and source not in self.streams

    def forgotten(self) -> None:
        """Perhaps nobody has held the group back for this reader for a while."""
        self._agreed.forgotten = True

    def served_again(self) -> None:
        """After that, as many patrons as it is to have do so again."""
        self._agreed.served_again = True

    def answer(self, patron: int, source: Source, seq: int) -> None:
        """Tell one patron at once what is here of a stream."""
        self._answers.setdefault(patron, {})[source] = seq

    def ask_now(self) -> None:
        """Ask the patrons at once how far they are."""
        self._asking = True

    def on_have(self, frame: Have, source: Source) -> None:
        """A patron says what it has."""
        sender = int(source.sender)
        for of, seq in frame.rows:
            if of in self.streams:
                self._hears(of, seq, sender)
                if frame.answer:
                    self.answer(sender, of, self.streams[of])

    def _hears(self, source: Source, newest: int, holder: int) -> None:
        if newest > self.streams[source]:
            self._agreed.heard.append(Heard(source, newest, holder, newest))

    # -- what this reader has ----------------------------------------------------------------------

    def has(self, source: Source, seq: i64, now_ns: i64) -> None:
        before = self.streams.get(source, -1)
        if before < 0 or seq <= before:
            return
        self.streams[source] = int(seq)
        self._news[source] = None
        self._new_messages += seq - before
        if self._new_messages >= self._ack_messages or self._new_bytes >= self._ack_bytes:
            self._ack_ns = min(self._ack_ns, now_ns)
        elif self._ack_ns == NEVER:
            self._ack_ns = now_ns + self._period_ns
        self._ask_pause_ns = _ASK_PERIODS * self._period_ns
        self._ask_ns = min(self._ask_ns, now_ns + self._ask_pause_ns)

    def knows(self, source: Source, seq: i64) -> None:
        """Nobody else needs what waits here."""

    def hold_back(self, source: Source, floor: i64, now_ns: i64) -> None:
        """A reader has no vote."""

    def count_bytes(self, size_bytes: i64) -> None:
        self._new_bytes += size_bytes

    def no_room(self, now_ns: i64) -> None:
        """A reader sends nothing."""

    def room(self) -> None:
        """A reader sends nothing."""

    def vote_soon(self, now_ns: i64) -> None:
        """A reader has no vote."""

    def rest_safety(self, resting: bool) -> None:
        """A reader has no vote."""

    def begin_leaving(self) -> None:
        """Acknowledgements go on until the end."""

    def excuse(self, silent: list[int]) -> None:
        """A reader waits for nobody."""

    # -- what is agreed ----------------------------------------------------------------------------

    def poll(self, now_ns: i64) -> Agreed | None:  # noqa: ARG002
        agreed = self._agreed
        if not agreed:
            return None
        self._agreed = Agreed()
        return agreed

    def stable(self, source: Source) -> i64:
        """What comes before the beginning of a stream: a reader learns nothing else."""
        return self._begins.get(source, 0)

    def safe(self, source: Source) -> i64:
        return self.stable(source)

    def held(self, source: Source, seq: i64) -> bool:  # noqa: ARG002
        return True

    def follows(self, source: Source) -> bool:
        return source in self.streams

    def joining(self) -> bool:
        return False

    # -- frames ------------------------------------------------------------------------------------

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:  # noqa: ARG002
        raise AssertionError("frames of readers go to whoever subscribes")

    def on_timer(self, now_ns: i64) -> None:
        if now_ns >= self._ack_ns:
            self._ack_ns = NEVER
            self._due = True
        if now_ns >= self._ask_ns:
            self._asking = True
            self._ask_pause_ns = min(2 * self._ask_pause_ns, _ASK_MAX_NS)
            self._ask_ns = now_ns + self._ask_pause_ns

    def next_deadline_ns(self) -> i64:
        return min(self._ack_ns, self._ask_ns)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        if self._due:
            self._due = False
            rows = [(of, self.streams[of]) for of in self._news]
            self._pack_rows(outbox, rows, False)
            self._news.clear()
            self._new_messages = 0
            self._new_bytes = 0
        if self._asking:
            self._asking = False
            self._pack_rows(outbox, self._some_rows(), True)
        for patron, some in self._answers.items():
            found = list(some.items())
            for at in range(0, len(found), HAVE_ROWS_MAX):
                outbox.frame(patron, Have(found[at : at + HAVE_ROWS_MAX]))
        self._answers.clear()

    def _pack_rows(self, outbox: Outbox, rows: list[tuple[Source, int]], answer: bool) -> None:
        """To all patrons; a question without rows is a sign of life."""
        for at in range(0, max(len(rows), 1), HAVE_ROWS_MAX):
            frame = Have(rows[at : at + HAVE_ROWS_MAX], answer)
            for patron in self.patrons:
                outbox.frame(patron, frame)

    def _some_rows(self) -> list[tuple[Source, int]]:
        """Some streams, others each time: a patron says of each whether it has ended."""
        rows = list(self.streams.items())
        if len(rows) > HAVE_ROWS_MAX:
            self._turn = (self._turn + HAVE_ROWS_MAX) % len(rows)
            rows = (rows[self._turn :] + rows[: self._turn])[:HAVE_ROWS_MAX]
        return rows

    def figures(self) -> dict[str, int]:
        return {"sources_followed": len(self.streams), "patrons": len(self.patrons)}
