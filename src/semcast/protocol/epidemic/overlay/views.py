"""Partial views: the neighbours of a member, and others who may take their place (HyParView).

A link is made by an inquiry and its answer, and is held at both ends. It ends when one end says so
(DISCONNECT) or is dead. Candidates for new links come from the passive view. Newcomers, members
without any neighbour, and those that mend a split may displace a neighbour elsewhere (URGENT);
others are taken only where there is room. Knows nothing of walks, pulses and islands.

INV-ACTIVE: a member has at most `active_max` neighbours; none of them is in its passive view.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Randomness, Source
from semcast.protocol.epidemic.overlay.config import OverlayConfig
from semcast.protocol.epidemic.overlay.entries import Entries, draw
from semcast.protocol.epidemic.overlay.inquiries import Inquiries
from semcast.protocol.epidemic.overlay.post import Post
from semcast.wire.families.overlay import ACCEPTS, REFUSES, URGENT, Disconnect, Entry, Neighbor

# What an inquiry remembers: that it is URGENT for the other end, or that this end makes room.
MAKES_ROOM: Final = 0x100


@final
class Neighbour:
    """A member at the other end of a link."""

    def __init__(self, entry: Entry, heard_ns: i64) -> None:
        self.entry: Final = entry
        self.heard_ns: i64 = heard_ns


@final
class PartialViews:
    """The active view, the passive view, and the exiles: members that were lost."""

    def __init__(self, me: Entry, config: OverlayConfig, random: Randomness, post: Post) -> None:
        self._me: Final = me
        self._my_id: Final[i64] = me.source.sender
        self._config: Final = config
        self._random: Final = random
        self._post: Final = post
        self.active: Final[dict[int, Neighbour]] = {}
        self.passive: Final = Entries(config.passive_max, random)
        self.exiles: Final = Entries(config.exiles_max, random)
        self._asked: Final = Inquiries(config.answer_ns, config.link_asks_max)
        # Whom this member has asked in this round, and neighbours that it has displaced.
        self._tried: Final[dict[int, None]] = {}
        self._displaced: i64 = 0
        # Members that became neighbours and those that are none any more, for whoever is above.
        self._changes: list[tuple[Entry, bool]] = []

    # -- who is known ------------------------------------------------------------------------------

    def others(self, but: i64) -> list[Neighbour]:
        """All neighbours but that one."""
        return [one for sender, one in self.active.items() if sender != but]

    def another(self, but: i64, nor: i64) -> Neighbour | None:
        """A random neighbour, but neither of these."""
        those = [one for sender, one in self.active.items() if sender != but and sender != nor]
        return those[self._random.randrange(len(those))] if those else None

    def is_neighbour(self, source: Source) -> bool:
        """Whether there is a link with this life of a member."""
        known = self.active.get(int(source.sender))
        return known is not None and known.entry.source == source

    def is_former(self, source: Source) -> bool:
        """Whether a later life of this member is known: what this one says is out of date."""
        known = self.active.get(int(source.sender))
        if known is not None:
            return known.entry.source.incarnation > source.incarnation
        return self.passive.knows_later(source)

    def know(self, entry: Entry) -> None:
        """Somebody told of a member; it may become a neighbour later."""
        sender = int(entry.source.sender)
        if sender != self._my_id and sender not in self.active:
            self.passive.add(entry)

    def reborn(self, source: Source) -> None:
        """A neighbour speaks in a later life: the link was with the former one."""
        known = self.active[int(source.sender)]
        self._unlink(known)
        self.know(Entry(source, known.entry.address))

    def entry_of(self, sender: int) -> Entry | None:
        """A member that is in one of the views."""
        known = self.active.get(sender)
        return known.entry if known is not None else self.passive.get(sender)

    def take_changes(self) -> list[tuple[Entry, bool]]:
        """Who became a neighbour (True) and who is none any more (False), in order."""
        changes = self._changes
        if changes:
            self._changes = []
        return changes

    # -- making links ------------------------------------------------------------------------------

    def free(self) -> bool:
        """Whether there is room for one more neighbour."""
        return len(self.active) < self._config.active_max

    def can_take(self) -> bool:
        """Whether one more can be taken, even if another has to go. That happens a few times in a
        round only, so that a crowd of newcomers does not take all links apart.
        """
        return self.free() or self._displaced < self._config.displaced_per_round

    def ask(self, entry: Entry, marks: i64, now_ns: i64) -> None:
        """Ask a member to be a neighbour, if it is none and is not being asked. URGENT: a full view
        there makes room; MAKES_ROOM: one here does.
        """
        sender = int(entry.source.sender)
        if sender == self._my_id or sender in self.active or self._asked.get(sender) is not None:
            return
        self._tried[sender] = None
        number = self._asked.ask(entry, marks, now_ns).number
        self._post.send(entry, Neighbor(marks & URGENT, number, self._me))

    def refill(self, now_ns: i64) -> None:
        """Ask members of the passive view to take the places that are free.

        With most places taken there is no hurry: one is asked in a round. In a hurry, two are asked
        for each place, since many may have died together.
        """
        wanted: i64 = self._config.active_max - len(self.active)
        hurry = 2 * len(self.active) <= self._config.active_max
        if wanted <= 0 or (self._tried and not hurry):
            return
        wanted = 2 * wanted - len(self._asked)
        for entry in draw(self.passive.all(), self._config.passive_max, self._random):
            if len(self._tried) >= self._config.links_per_round or wanted <= 0:
                return
            if int(entry.source.sender) not in self._tried:
                self.ask(entry, 0 if self.active else URGENT, now_ns)
                wanted = wanted - 1 if hurry else 0

    def on_neighbor(self, frame: Neighbor, source: Source, now_ns: i64) -> None:
        """An inquiry, or the answer to one."""
        if frame.sender.source != source or source == self._me.source or self.is_former(source):
            return
        if frame.marks & (ACCEPTS | REFUSES):
            self._on_answer(frame, now_ns)
            return
        agreed = self.is_neighbour(source) or self.free()
        if not agreed and frame.marks & URGENT:
            agreed = self.can_take()
        answer = Neighbor(ACCEPTS if agreed else REFUSES, frame.number, self._me)
        self._post.send(frame.sender, answer)
        if agreed:
            self._link(frame.sender, now_ns)
        else:
            self.know(frame.sender)

    def _on_answer(self, frame: Neighbor, now_ns: i64) -> None:
        sender = int(frame.sender.source.sender)
        inquiry = self._asked.get(sender)
        if inquiry is None or inquiry.number != frame.number:
            return
        self._asked.answered(sender)
        if frame.marks & REFUSES:
            self.know(frame.sender)
        elif self.free() or (inquiry.marks & MAKES_ROOM and self.can_take()):
            self._link(frame.sender, now_ns)
        else:
            # Others were quicker. The other end has to know, or it would hold half a link.
            self._post.send(frame.sender, Disconnect())
            self.know(frame.sender)
        self.refill(now_ns)

    def confirm(self, source: Source, now_ns: i64) -> bool:
        """A member says that this one is its neighbour. True if it is; if this one had asked for
        that, the answer was lost, and it is from now on.
        """
        if self.is_neighbour(source):
            return True
        inquiry = self._asked.get(int(source.sender))
        if inquiry is None or inquiry.entry.source != source or not self.free():
            return False
        self._asked.answered(int(source.sender))
        self._link(inquiry.entry, now_ns)
        return True

    def _link(self, entry: Entry, now_ns: i64) -> None:
        sender = int(entry.source.sender)
        known = self.active.get(sender)
        if known is not None:
            if known.entry.source == entry.source:
                known.heard_ns = now_ns
                return
            self._unlink(known)
        elif not self.free():
            self._displace()
        self.passive.discard(sender)
        self.exiles.discard(sender)
        self._asked.answered(sender)
        self.active[sender] = Neighbour(entry, now_ns)
        self._changes.append((entry, True))

    def _displace(self) -> None:
        """A random neighbour makes room; it may become one again later."""
        neighbour = self.another(self._my_id, self._my_id)
        assert neighbour is not None
        self._displaced += 1
        self._unlink(neighbour)
        self._post.send(neighbour.entry, Disconnect())
        self.know(neighbour.entry)

    # -- ending links ------------------------------------------------------------------------------

    def on_disconnect(self, frame: Disconnect, source: Source, now_ns: i64) -> None:
        """A member is a neighbour no longer, and may leave for good."""
        sender = int(source.sender)
        known = self.active.get(sender)
        if known is not None and known.entry.source == source:
            self._unlink(known)
            if not frame.leaves:
                self.know(known.entry)
            self.refill(now_ns)
        if frame.leaves and not self.passive.knows_later(source):
            self.passive.discard(sender)
            self.exiles.discard(sender)

    def lose(self, entry: Entry, now_ns: i64) -> None:
        """A member does not answer: it is dead, or cut off, and is asked again much later."""
        sender = int(entry.source.sender)
        known = self.active.get(sender)
        if known is not None and known.entry.source == entry.source:
            self._unlink(known)
        if not self.passive.knows_later(entry.source):
            self.passive.discard(sender)
        self.exiles.add(entry)
        self.refill(now_ns)

    def leave(self) -> None:
        """Say goodbye to all neighbours."""
        for neighbour in self.others(self._my_id):
            self._unlink(neighbour)
            self._post.send(neighbour.entry, Disconnect(leaves=True))

    def _unlink(self, neighbour: Neighbour) -> None:
        del self.active[int(neighbour.entry.source.sender)]
        self._changes.append((neighbour.entry, False))

    # -- time --------------------------------------------------------------------------------------

    def due_ns(self) -> i64:
        """When to call `on_timer`."""
        return self._asked.due_ns

    def on_timer(self, now_ns: i64) -> None:
        """Ask again whoever has not answered, and give up those that never do."""
        again, given_up = self._asked.due(now_ns)
        for inquiry in again:
            frame = Neighbor(inquiry.marks & URGENT, inquiry.number, self._me)
            self._post.send(inquiry.entry, frame)
        for inquiry in given_up:
            self.lose(inquiry.entry, now_ns)

    def on_round(self, now_ns: i64) -> None:
        """Another round begins: what was used up may be used again."""
        self._tried.clear()
        self._displaced = 0
        self.passive.on_round(self._config.age_rounds)
        self.refill(now_ns)
