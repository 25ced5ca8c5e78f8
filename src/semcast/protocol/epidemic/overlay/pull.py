"""Repair by pulling: members tell each other what they have received, and ask for what they missed.

Once a round a member sends a SUMMARY of what came in the last rounds to a random neighbour, which
asks for what it lacks (WANT) and answers with a SUMMARY of its own. Messages are answered from a
bounded store; one that was replaced there is answered by what covers it (COVERED) and by the cover.
What is pulled is delivered and not passed on, since others pull it as well (bimodal multicast).
Everything that a request costs is bounded, whatever ranges it names.
"""

from dataclasses import dataclass
from typing import Final, final

from mypy_extensions import i64

from semcast.errors import ConfigError, MessageTooLargeError
from semcast.ids import EVERYBODY, Randomness, Source
from semcast.protocol.epidemic.delivery import Delivery
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.epidemic.message_part import MessagePart
from semcast.protocol.epidemic.overlay.store import MessageStore
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import ROWS_MAX, Outbox
from semcast.wire.encode import encode_whole
from semcast.wire.families.epidemic import ROUND_MAX, Rumour
from semcast.wire.families.pull import EAGER, RANGES_MAX, SUMMARY, WANT, Range, Summary, Want
from semcast.wire.families.repair import COVERED, Covered
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message

_MS_NS: Final = 1_000_000
# How many numbers of a range are looked at, from its end on.
_LOOK_MAX: Final = 256
# Messages that are being asked for, of all members together.
_ASKED_MAX: Final = 1 << 12


@dataclass(frozen=True)
class PullConfig:
    """How often, how much, and how far back."""

    round_ns: int = 1_000 * _MS_NS
    # How many rounds back a summary goes.
    summary_rounds: int = 5
    store_messages: int = 1_024
    store_bytes: int = 1 << 20
    # Messages that are asked for at once, and answered to one request.
    want_max: int = 64
    # How long to wait for an answer before asking somebody else.
    again_ns: int = 500 * _MS_NS

    def __post_init__(self) -> None:
        for name, high in (
            ("round_ns", 1 << 50),
            ("summary_rounds", 256),
            ("store_messages", 1 << 30),
            ("store_bytes", 1 << 40),
            ("want_max", 1 << 16),
            ("again_ns", 1 << 50),
        ):
            if not 1 <= getattr(self, name) <= high:
                raise ConfigError(f"pull {name} is {getattr(self, name)}; it goes from 1 to {high}")


@final
class Pull(MessagePart):
    """Finds out what was missed, and answers others that missed something."""

    def __init__(
        self, me: Source, config: PullConfig, targets: Targets, random: Randomness, now_ns: i64
    ) -> None:
        self._me: Final = me
        self.config: Final = config
        self._targets: Final = targets
        self._random: Final = random
        self.store: Final = MessageStore(config.store_messages, config.store_bytes)
        self._inbox: Inbox | None = None
        self._delivery: Delivery | None = None
        # What was asked for, and until when nobody else is asked.
        self._asked: dict[tuple[Source, int], int] = {}
        self._out: list[tuple[int, ControlFrame]] = []
        self._round_ns: i64 = now_ns + random.randrange(config.round_ns)
        self._start: i64 = 0
        self.wanted: i64 = 0
        self.answered: i64 = 0
        self.too_large: i64 = 0

    # -- messages ----------------------------------------------------------------------------------

    def follows(self) -> bool:
        return True

    def attach(self, inbox: Inbox, delivery: Delivery) -> None:
        self._inbox = inbox
        self._delivery = delivery

    def on_message(self, message: Message, hops: i64, came_from: i64, now_ns: i64) -> None:  # noqa: ARG002
        self.store.put(message)
        if self._asked:
            self._asked.pop((message.source, int(message.seq)), None)

    # -- as a part ---------------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (SUMMARY, WANT, COVERED)

    def install(self, view: View, now_ns: i64) -> None:
        """Whom to ask, the targets know."""

    def next_deadline_ns(self) -> i64:
        return self._round_ns

    def on_timer(self, now_ns: i64) -> None:
        if now_ns < self._round_ns:
            return
        round_ns = self.config.round_ns
        self._round_ns = (
            now_ns + round_ns - round_ns // 20 + self._random.randrange(round_ns // 10 + 1)
        )
        self.store.on_round()
        if len(self._asked) > 0:
            self._asked = {name: at for name, at in self._asked.items() if at > now_ns}
        for to in self._targets.draw(1, EVERYBODY):
            self._out.append((to, self._summary(True)))

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        if isinstance(frame, Summary):
            ranges = self._missing(frame.ranges, now_ns)
            if ranges:
                self._out.append((sender, Want(ranges)))
            if frame.answer:
                self._out.append((sender, self._summary(False)))
        elif isinstance(frame, Want):
            # Over an eager link it goes on from there; otherwise nobody passes it on, as if it had
            # been as far as any message goes.
            self._answer(frame.ranges, sender, 1 if frame.marks == EAGER else ROUND_MAX)
        elif isinstance(frame, Covered) and self._delivery is not None:
            for seq, by_source, by_seq in frame.covers:
                if self._delivery.covered(frame.source, seq, by_source, by_seq):
                    self.store.covered(frame.source, seq, by_source, by_seq)

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        out, self._out = self._out, []
        for to, frame in out:
            try:
                outbox.frame(to, frame)
            except MessageTooLargeError:
                # The message fitted where it came from, and does not into our smaller datagrams.
                self.too_large += 1

    # -- asking ------------------------------------------------------------------------------------

    def _summary(self, answer: bool) -> Summary:
        """If there is more than fits one summary, the next begins elsewhere."""
        self._start += 1
        rounds = self.config.summary_rounds
        return Summary(self.store.ranges(rounds, RANGES_MAX, int(self._start)), answer)

    def _missing(self, ranges: list[Range], now_ns: i64) -> list[Range]:
        """What of these did not come, and is not being asked for."""
        inbox = self._inbox
        most = max(min(self.config.want_max, _ASKED_MAX - len(self._asked)), 0)
        left: i64 = most
        found: list[Range] = []
        for source, first, last in ranges:
            seq: i64 = max(first, last - _LOOK_MAX + 1)
            while seq <= last and left > 0 and len(found) < RANGES_MAX:
                begin = seq
                while seq <= last and left > 0 and self._lacks(inbox, source, seq, now_ns):
                    seq += 1
                    left -= 1
                if seq > begin:
                    found.append((source, int(begin), int(seq - 1)))
                seq += 1
        self.wanted += most - left
        return found

    def _lacks(self, inbox: Inbox | None, source: Source, seq: i64, now_ns: i64) -> bool:
        """Whether to ask for a message now; if so, it counts as asked for."""
        if inbox is None or source.sender == self._me.sender or not inbox.is_new(source, seq):
            return False
        if self._delivery is not None and self._delivery.cover_of(source, seq) is not None:
            return False
        name = (source, int(seq))
        if self._asked.get(name, -1) > now_ns:
            return False
        self._asked[name] = int(now_ns + self.config.again_ns)
        return True

    # -- answering ---------------------------------------------------------------------------------

    def _answer(self, ranges: list[Range], to: int, hops: i64) -> None:
        """Send what of these is here, and tell what covers those that are not."""
        left: i64 = self.config.want_max
        # What goes, each message once, although it may cover many.
        gone: set[tuple[Source, int]] = set()
        for source, first, last in ranges:
            covers: list[tuple[int, Source, int]] = []
            seq: i64 = max(first, last - _LOOK_MAX + 1)
            while seq <= last and left > 0:
                message = self._found(source, seq, covers)
                if message is not None:
                    left -= 1
                    name = (message.source, int(message.seq))
                    if name not in gone:
                        gone.add(name)
                        self._send(message, to, hops)
                seq += 1
            for at in range(0, len(covers), ROWS_MAX):
                self._out.append((to, Covered(source, covers[at : at + ROWS_MAX])))

    def _found(
        self, source: Source, seq: i64, covers: list[tuple[int, Source, int]]
    ) -> Message | None:
        """A message, or its cover, which is noted in `covers`."""
        message = self.store.get(source, seq)
        if message is None:
            message = self._last_cover(source, seq)
            if message is not None:
                covers.append((int(seq), message.source, int(message.seq)))
        return message

    def _send(self, message: Message, to: int, hops: i64) -> None:
        self.answered += 1
        self._out.append((to, Rumour(message.source, message.seq, hops, encode_whole(message))))

    def _last_cover(self, source: Source, seq: i64) -> Message | None:
        """The message here that covers another one, directly or step by step."""
        steps: i64 = 0
        cover = self.store.cover(source, seq)
        while cover is not None and steps < _LOOK_MAX:
            message = self.store.get(cover[0], cover[1])
            if message is not None:
                return message
            cover = self.store.cover(cover[0], cover[1])
            steps += 1
        return None
