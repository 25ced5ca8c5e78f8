"""Resending: what a former life held when it was put out goes in; what nobody received comes out.

A member that was stopped or cut off, and that the others have put out, comes back in another life.
Some of its messages may have reached nobody. When its former life has *ended*, all who are in have
got equally far with it and nobody will get farther (`followed`). So the process asks a member how
far that is, and sends again what comes after it, in order, before its application sends anything
new. What is no longer held was stable, so all had it, or is replaced by something that is held.

Every member remembers the ends of some lives and tells them to whoever asks (`Endings.ends`). If
nobody knows the end of a life any more, it cannot be known which of its messages were received:
none is sent again, since some would come twice, and the application is told how many they are.

Knows nothing of how messages travel.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import WindowFullError
from semcast.ids import NEVER, Source
from semcast.obsolescence.bitmap import distances
from semcast.obsolescence.tagger import Keys, Predecessors, Ranked, Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.doubts import Doubts
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.order import Order
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.protocol.stability.detection import Detection
from semcast.protocol.stability.followed import ENDED as HAS_ENDED
from semcast.protocol.streams.accepting import Accepting
from semcast.wire.families.pasts import AGAIN, ASKS, ENDED, PAST, UNKNOWN, Past
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message

# So many questions wait to be answered; more are not, and are asked again.
_QUESTIONS_MAX: Final = 64
# A question is repeated after so many of `nak_delay_ns`, then ever later, up to so many.
_PATIENCE: Final = 10
_PATIENCE_MAX: Final = 250


@final
class Held:
    """A message that a former life still held."""

    def __init__(
        self, message: Message, delivered: bool, before: tuple[tuple[Source, int], ...] = ()
    ) -> None:
        self.message: Final = message
        # The sources and numbers that it had in lives before that one.
        self.before: Final = before
        # Whether the process's own application has it already.
        self.delivered: Final = delivered


@final
class Resending(Part):
    """What one member does about its former lives, and about those of others."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        order: Order,
        detection: Detection,
        ends: dict[Source, int],
        doubts: Doubts,
        observer: Observer | None,
    ) -> None:
        """`ends`: how far all got with lives that have ended, as far as that is remembered."""
        self._config: Final = config
        self._me: Final = me
        self._view = view
        self._order: Final = order
        self._detection: Final = detection
        self._ends: Final = ends
        self._doubts: Final = doubts
        self._observer: Final = observer
        # INV-AGAIN: what is still to be sent again, in order; while there is anything, the
        # application sends nothing new.
        self._held: list[Held] = []
        # Former lives whose ends are not known yet, and those whose ends are; -1: nobody knows.
        self._wanted: list[Source] = []
        self._found: Final[dict[Source, int]] = {}
        # Whether it is decided what of `_held` is sent again.
        self._decided = True
        # By source and number: the number that a message has now.
        self._numbers: Final[dict[tuple[Source, int], int]] = {}
        # Who is asked, who has said that it does not know, and when to ask again.
        self._asked = -1
        self._unknowing: Final[set[int]] = set()
        self._ask_ns: i64 = NEVER
        self._patience: i64 = _PATIENCE
        # By what was sent again, in order: all that it was before.
        self._origins: Final[list[tuple[tuple[Source, int], ...]]] = []
        # (who asks, what)
        self._questions: list[tuple[int, Past]] = []
        # How many messages were sent again; and of how many it cannot be known who received them.
        self.resent = 0
        self.unsure = 0

    # -- a process that comes back -----------------------------------------------------------------

    @property
    def waits(self) -> bool:
        """Whether something is still to be sent again, before anything new."""
        return len(self._held) > 0

    @property
    def ready(self) -> bool:
        """Whether the next one can be sent again now."""
        return self._decided and len(self._held) > 0

    def unreceived(self, retained: list[Message], taken: int) -> list[Held]:
        """What this life holds, now that it is over: what it has sent, of which its own application
        has taken everything up to `taken`; then what it has not sent again yet.
        """
        origins = self._origins
        found = []
        for one in retained:
            before = origins[one.seq - 1] if one.seq <= len(origins) else ()
            found.append(Held(one, one.seq <= taken, before))
        return found + self._held

    def begin(
        self, held: list[Held], since: dict[Source, int], same_group: bool, now_ns: i64
    ) -> None:
        """The former life held these, and its application had got so far with others. In another
        group nobody knows how far that life got.
        """
        self._doubts.begin(since, self._view, now_ns)
        if not held:
            return
        if not same_group:
            for one in held:
                self._give_up(one.message)
            return
        self._held = held
        self._decided = False
        self._wanted = list(dict.fromkeys([one.message.source for one in held]))
        self._ask_ns = now_ns
        self._choose()

    def _give_up(self, message: Message) -> None:
        """Nobody knows whether this one was received."""
        self.unsure += 1
        if self._observer is not None:
            self._observer.progress("unsure", message.source, int(message.seq), None, 0)

    def no_room(self) -> WindowFullError:
        """Why nothing new can be sent."""
        return WindowFullError(
            f"{len(self._held)} messages of this process's former life are sent again first, as "
            "far as nobody received them; wait",
            len(self._held),
            self._config.window_messages,
        )

    def send(self, accepting: Accepting, now_ns: i64) -> bool:
        """Send again what there is room for. Returns whether that was all."""
        while self._held:
            held = self._held[0]
            before = held.message
            try:
                message = accepting.accept(before.payload, self._replaces(before), now_ns)
            except WindowFullError:
                return False
            del self._held[0]
            self._numbers[before.source, int(before.seq)] = int(message.seq)
            self._origins.append((*held.before, (before.source, int(before.seq))))
            self.resent += 1
            if self._observer is not None:
                of, by = before.source, message.source
                self._observer.progress("again", of, int(before.seq), by, int(message.seq))
        self._numbers.clear()
        return True

    def _replaces(self, message: Message) -> Replaces:
        """What a message replaced, of what is sent again: the rest is of another source now, which
        a message does not replace.
        """
        if message.ranked:
            return Ranked(message.key, int(message.rank))
        if message.several:
            return Keys(tuple(message.keys))
        if message.key_len > 0:
            return message.key
        found: list[int] = []
        for distance in distances(message.bitmap):
            number = self._numbers.get((message.source, int(message.seq) - distance))
            if number is not None:
                found.append(number)
        return Predecessors(tuple(sorted(found))) if found else None

    def _decide(self) -> None:
        """The ends of all former lives are known, or nobody knows them: keep what comes after."""
        again: list[Held] = []
        for one in self._held:
            end = self._found[one.message.source]
            if end < 0:
                self._give_up(one.message)
            elif one.message.seq > end:
                again.append(one)
        self._held = again
        self._decided = True
        self._ask_ns = NEVER
        delivered = 0
        while delivered < len(again) and again[delivered].delivered:
            delivered += 1
        if delivered > 0 and self._config.deliver_own:
            self._order.skip_to(self._me, delivered)

    # -- asking ------------------------------------------------------------------------------------

    def _others(self) -> list[int]:
        """Who can be asked: those who have been there longest first, as they know most."""
        view = self._view
        found = [
            (view.since[view.position(one)] if view.since else 0, one)
            for one in view.others(self._me)
        ]
        return [one for _, one in sorted(found)]

    def _choose(self) -> None:
        """Ask somebody else from now on, if the end of a life is still wanted."""
        others = self._others()
        if not others and self._wanted:
            # Nobody is here who could have received anything.
            for source in self._wanted:
                self._found[source] = 0
            self._wanted = []
        left = [one for one in others if one not in self._unknowing]
        if not left and self._wanted:
            self._found[self._wanted.pop(0)] = -1
            self._unknowing.clear()
            left = others
        if not self._wanted:
            if not self._decided:
                self._decide()
            return
        later = left[left.index(self._asked) + 1 :] if self._asked in left else left
        self._asked = later[0] if later else left[0]

    def _on_answer(self, past: Past, sender: int, now_ns: i64) -> None:
        if not self._wanted or past.source != self._wanted[0]:
            return  # nobody asks any more
        if past.says == ENDED:
            self._found[self._wanted.pop(0)] = int(past.seq)
            self._unknowing.clear()
            self._patience = _PATIENCE
        elif past.says == UNKNOWN:
            self._unknowing.add(sender)
        else:
            return  # it is asked again, or another is, when it is time
        self._ask_ns = now_ns
        self._choose()

    # -- a part of the member ----------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (PAST,)

    def install(self, view: View, now_ns: i64) -> None:
        self._view = view
        self._doubts.install(view, now_ns)
        if self._wanted and not view.is_present(self._asked):
            self._unknowing.intersection_update(view.present)
            self._ask_ns = now_ns
            self._choose()

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        assert isinstance(frame, Past)
        if frame.says == AGAIN:
            self._doubts.on_answer(frame, source, now_ns)
        elif not frame.says & ASKS:
            self._on_answer(frame, int(source.sender), now_ns)
        elif len(self._questions) < _QUESTIONS_MAX:
            self._questions.append((int(source.sender), frame))

    def next_deadline_ns(self) -> i64:
        return min(self._ask_ns, self._doubts.next_deadline_ns())

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        if self._questions:
            questions, self._questions = self._questions, []
            for to, asked in questions:
                if not asked.says & AGAIN:
                    outbox.frame(to, self._answer(asked.source))
                elif not self._held:
                    outbox.frame(to, Past(AGAIN, asked.source, self._sent_of(asked)))
        self._doubts.pack(outbox, now_ns)
        if now_ns >= self._ask_ns and self._wanted:
            outbox.frame(self._asked, Past(ASKS, self._wanted[0]))
            self._choose()  # if there is no answer, the next one is asked
            self._ask_ns = now_ns + self._patience * self._config.nak_delay_ns
            self._patience = min(2 * self._patience, _PATIENCE_MAX)

    def _sent_of(self, asked: Past) -> int:
        """How many of this life's first messages somebody has who had got so far with a former one.
        What it had got of lives before that one, it has too.
        """
        found = 0
        for at, origins in enumerate(self._origins):
            for source, seq in origins:
                if source == asked.source and seq <= asked.seq:
                    found = at + 1
        return found

    def _answer(self, source: Source) -> Past:
        """How far all have got with a life that is over."""
        end = self._ends.get(source)
        if end is not None:
            return Past(ENDED, source, end)
        followed = self._view.position(source.sender) >= 0 and self._view.is_over(source)
        if followed and self._detection.stable(source) < HAS_ENDED:
            return Past(0, source)
        return Past(UNKNOWN, source)
