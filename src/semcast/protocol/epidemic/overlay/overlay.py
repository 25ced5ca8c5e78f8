"""The overlay of one member: whom it sends to, in a group that nobody knows in full.

Frames of the overlay and a time go in; frames for others come out of `pack`, and events of `events`
say who became a neighbour or is none any more, that the overlay was split, or that this member is
alone. What it holds and what it sends in a round do not depend on the group's size. Knows nothing
of messages; `draw` gives the neighbours that one goes to.

Once a round a member sends a PULSE to each neighbour, begins a SHUFFLE, asks one entry of its
passive view whether it lives, and every few rounds one that was lost or through which it entered.
Whoever answers from another island becomes a neighbour, so that a split is mended by the first
entry that crosses it.
"""

from collections.abc import Callable
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.entries import draw
from semcast.protocol.epidemic.overlay.inquiries import Inquiries
from semcast.protocol.epidemic.overlay.island import Island
from semcast.protocol.epidemic.overlay.post import Post
from semcast.protocol.epidemic.overlay.views import MAKES_ROOM, PartialViews
from semcast.protocol.epidemic.overlay.walks import Walks
from semcast.protocol.epidemic.targets import Targets
from semcast.protocol.membership.view import View
from semcast.protocol.outbox import Outbox
from semcast.wire.families.overlay import (
    ANSWERS,
    ASKS,
    DISCONNECT,
    ENTER,
    LINKED,
    NEIGHBOR,
    PULSE,
    SHUFFLE,
    URGENT,
    Disconnect,
    Enter,
    Entry,
    Neighbor,
    Pulse,
    Shuffle,
)
from semcast.wire.frames import ControlFrame

# Kinds of events.
UP: Final = "up"  # somebody is a neighbour
DOWN: Final = "down"  # somebody is none any more
SPLIT: Final = "split"  # somebody was on another island
ALONE: Final = "alone"  # no neighbour for some rounds
_EVENTS_MAX: Final = 256


@final
class OverlayEvent:
    """Something that whoever runs the member may want to know."""

    def __init__(self, kind: str, source: Source) -> None:
        self.kind: Final = kind
        self.source: Final = source

    def __repr__(self) -> str:
        return f"<{self.kind} {self.source!r}>"


@final
class Overlay(Targets):
    """Keeps the partial views of one member."""

    def __init__(self, me: Entry, config: OverlayConfig, random: Randomness, now_ns: i64) -> None:
        self.me: Final = me
        self.config: Final = config
        self._random: Final = random
        self._post: Final = Post()
        self.views: Final = PartialViews(me, config, random, self._post)
        self._walks: Final = Walks(me, config, random, self.views, self._post)
        self.island: Final = Island(me.source, config.beacon_rounds, config.steady_rounds)
        # Who was asked for a sign of life.
        self._doubts: Final = Inquiries(config.answer_ns, config.asks_max)
        # Members begin at different times in a round, so that they do not all send at once.
        self._round_ns: i64 = now_ns + random.randrange(config.round_ns)
        self._rounds: i64 = 0
        self._alone: i64 = 0
        self._events: list[OverlayEvent] = []
        self._gone: list[int] = []
        self.splits: i64 = 0
        # Says where this sender is, for members that do not know it themselves.
        self.place_of: Callable[[int], bytes] | None = None

    # -- for whoever runs it -----------------------------------------------------------------------

    def enter(self, contact: Entry, now_ns: i64) -> None:
        """Enter through a member that the world knows; with neighbours, only remember it."""
        self._walks.enter(contact, now_ns)

    def goodbye(self) -> None:
        """Leave the overlay, in the next frames."""
        self.views.leave()
        self._settle()

    def draw(self, count: i64, came_from: i64) -> list[int]:
        """At most `count` neighbours at random, but not `came_from`."""
        those = [one.entry for one in self.views.others(came_from)]
        return [int(entry.source.sender) for entry in draw(those, count, self._random)]

    def links(self) -> int:
        """How many neighbours a member has at most: whoever shares room among them need not follow
        each that comes or goes.
        """
        return self.config.active_max

    def accepts(self, source: Source) -> bool:
        """Strangers are heard, since newcomers are; former lives of members are not."""
        return not self.views.is_former(source)

    def take_gone(self) -> list[int]:
        gone = self._gone
        if gone:
            self._gone = []
        return gone

    def neighbours(self) -> list[int]:
        """The sender ids of all neighbours."""
        return list(self.views.active)

    def known(self) -> list[Entry]:
        """The members of both views: a sample of the group."""
        near = [one.entry for one in self.views.active.values()]
        return near + self.views.passive.all()

    def entry_of(self, sender: int) -> Entry | None:
        """A member for which a frame was packed: its life, and how to reach it."""
        entry = self.views.entry_of(sender)
        return self._post.entry_of(sender) if entry is None else entry

    def address_of(self, sender: int) -> bytes | None:
        """How to reach a member for which a frame was packed."""
        entry = self.entry_of(sender)
        return None if entry is None else entry.address

    def events(self) -> list[OverlayEvent]:
        """What happened since the last call; of very much, the newest."""
        events, self._events = self._events, []
        return events

    def stats(self) -> dict[str, int]:
        """Counters and gauges."""
        return {
            "active": len(self.views.active),
            "passive": len(self.views.passive),
            "exiles": len(self.views.exiles),
            "rounds": int(self._rounds),
            "sent_frames": int(self._post.sent),
            "splits": int(self.splits),
        }

    # -- as a part ---------------------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (ENTER, NEIGHBOR, DISCONNECT, SHUFFLE, PULSE)

    def strangers_kinds(self) -> tuple[int, ...]:
        return self.kinds()

    def install(self, view: View, now_ns: i64) -> None:
        """There are no views in which everybody is."""

    def heard(self, source: Source, now_ns: i64) -> None:
        """Any datagram of a neighbour is a sign of life."""
        neighbour = self.views.active.get(int(source.sender))
        if neighbour is None:
            return
        if neighbour.entry.source == source:
            neighbour.heard_ns = now_ns
            if len(self._doubts) > 0:
                self._doubts.answered(int(source.sender))
        elif neighbour.entry.source.incarnation < source.incarnation:
            self.views.reborn(source)
            self._settle()

    def refused(self, sender: int, now_ns: i64) -> None:
        """The system of a neighbour says that nobody is there: ask it now, not after silence."""
        neighbour = self.views.active.get(sender)
        if neighbour is not None:
            self._doubt(neighbour.entry, now_ns)

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        self.heard(source, now_ns)
        self._place(frame, source)
        if isinstance(frame, Pulse):
            self._on_pulse(frame, source, now_ns)
        elif isinstance(frame, Shuffle):
            self._walks.on_shuffle(frame, source)
        elif isinstance(frame, Enter):
            self._walks.on_enter(frame, source, now_ns)
        elif isinstance(frame, Neighbor):
            self.views.on_neighbor(frame, source, now_ns)
            self._settle()
        elif isinstance(frame, Disconnect):
            self.views.on_disconnect(frame, source, now_ns)
            self._settle()

    def _place(self, frame: ControlFrame, source: Source) -> None:
        """If the sender of a frame does not know its own address, the world says where it is."""
        if isinstance(frame, Enter):
            own = frame.newcomer
        elif isinstance(frame, Neighbor):
            own = frame.sender
        elif isinstance(frame, Shuffle):
            own = frame.begun_by
        else:
            return
        if self.place_of is not None and not own.address and own.source == source:
            own.address = self.place_of(int(source.sender))

    def next_deadline_ns(self) -> i64:
        first = min(self._round_ns, self.views.due_ns())
        return min(first, min(self._doubts.due_ns, self._walks.due_ns()))

    def on_timer(self, now_ns: i64) -> None:
        again, given_up = self._doubts.due(now_ns)
        for inquiry in again:
            self._ask(inquiry.entry, inquiry.number)
        for inquiry in given_up:
            self.views.lose(inquiry.entry, now_ns)
        self.views.on_timer(now_ns)
        if now_ns >= self._round_ns:
            self._on_round(now_ns)
        self._walks.on_timer(now_ns)
        self._settle()

    def pack(self, outbox: Outbox, now_ns: i64) -> None:  # noqa: ARG002
        for to, frame in self._post.take():
            outbox.frame(to, frame)

    def take(self) -> list[tuple[int, ControlFrame]]:
        """What `pack` would write, as it is."""
        return self._post.take()

    # -- rounds ------------------------------------------------------------------------------------

    def _on_round(self, now_ns: i64) -> None:
        round_ns = self.config.round_ns
        # A tenth of a round is drawn anew each time, so that members do not fall into step.
        self._round_ns = now_ns + round_ns - round_ns // 20 + self._random.randrange(round_ns // 10)
        self._rounds += 1
        self.island.on_round()
        self.views.on_round(now_ns)
        self._pulse(now_ns)
        self._walks.on_round()
        self._check_one(now_ns)
        self._alone = 0 if self.views.active else self._alone + 1
        if self._alone > 0:
            self._walks.stranded(now_ns)
        if self._alone == self.config.alone_rounds:
            self._tell(ALONE, self.me.source)

    def _pulse(self, now_ns: i64) -> None:
        """A sign of life to each neighbour, and an inquiry to those that gave none for long."""
        silent_ns: i64 = self.config.silent_ns
        pulse = self._pulse_with(LINKED, 0)
        for neighbour in self.views.active.values():
            if now_ns - neighbour.heard_ns > silent_ns:
                self._doubt(neighbour.entry, now_ns)
            self._post.send(neighbour.entry, pulse)

    def _check_one(self, now_ns: i64) -> None:
        """Ask one whom this member knows but does not hear of, so that views hold the living."""
        entry = None
        if self._rounds % self.config.exile_rounds == 0:
            lost = self._rounds % (2 * self.config.exile_rounds) == 0
            entry = self.views.exiles.next() if lost else self._walks.contacts.next()
        if entry is None:
            entry = self.views.passive.next()
        if entry is not None and not self.views.is_neighbour(entry.source):
            self._doubt(entry, now_ns)

    def _doubt(self, entry: Entry, now_ns: i64) -> None:
        if self._doubts.get(int(entry.source.sender)) is None:
            self._ask(entry, self._doubts.ask(entry, 0, now_ns).number)

    def _ask(self, entry: Entry, number: i64) -> None:
        marks = ASKS | LINKED if self.views.is_neighbour(entry.source) else ASKS
        self._post.send(entry, self._pulse_with(marks, number))

    def _pulse_with(self, marks: i64, number: i64) -> Pulse:
        island = self.island
        return Pulse(marks, number, island.beacon, island.beat, island.steady)

    # -- pulses ------------------------------------------------------------------------------------

    def _on_pulse(self, frame: Pulse, source: Source, now_ns: i64) -> None:
        sender = int(source.sender)
        linked = self.views.is_neighbour(source)
        if frame.marks & LINKED and not linked:
            linked = self.views.confirm(source, now_ns)
            if not linked:
                # The other end holds half a link: it lost our DISCONNECT, or we were forgetful.
                self._post.reply(sender, Disconnect())
            self._settle()
        if linked:
            self.island.on_news(frame.beacon, frame.beat)
        if frame.marks & ASKS:
            marks = ANSWERS | LINKED if linked else ANSWERS
            self._post.reply(sender, self._pulse_with(marks, frame.number))
        if frame.marks & ANSWERS and not linked:
            self._on_answer(frame, source, now_ns)

    def _on_answer(self, frame: Pulse, source: Source, now_ns: i64) -> None:
        """One who is no neighbour gives a sign of life."""
        inquiry = self._doubts.get(int(source.sender))
        if inquiry is None or inquiry.number != frame.number:
            return
        self._doubts.answered(int(source.sender))
        entry = inquiry.entry
        if entry.source != source:
            # It came back in another life, at the same address.
            if source.incarnation < entry.source.incarnation:
                return
            entry = Entry(source, entry.address)
        self.views.exiles.discard(int(source.sender))
        self.views.know(entry)
        if self.island.differs(frame.beacon, frame.steady):
            self.splits += 1
            self._tell(SPLIT, frame.beacon)
            self.views.ask(entry, URGENT | MAKES_ROOM, now_ns)
        else:
            self.views.refill(now_ns)

    # -- events ------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Note who became a neighbour and who is none any more."""
        changes = self.views.take_changes()
        if not changes:
            return
        for entry, up in changes:
            self._tell(UP if up else DOWN, entry.source)
            self._doubts.answered(int(entry.source.sender))
            if not up and len(self._gone) < _EVENTS_MAX:
                self._gone.append(int(entry.source.sender))
            if up and len(self.views.active) == 1:
                self._walks.arrived(entry)

    def _tell(self, kind: str, source: Source) -> None:
        if len(self._events) >= _EVENTS_MAX:
            del self._events[0]
        self._events.append(OverlayEvent(kind, source))
