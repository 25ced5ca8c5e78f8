"""A site of a federation, sans-IO: it sends to groups, and gets what is sent to its own (PROP).

    multicast_to ─► Own ─► primary destination ─► Turns: place, pass on, deliver ─► take
                     ▲          (a link)              │        ▲
                     └── bounced, settled ────────────┴─ links ┴─ parent, children, sources

`Turns` is the path of messages, `Affairs` all else that sites have to do with each other, and
`Manager` decides which graph comes next. `Lives` begins a life of the site and writes down what the
next one needs, and `Departure` knows when the site may go. This file is what worlds drive: frames
to links, and time.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import GroupClosedError, RemoteProtocolError
from semcast.ids import NEVER, SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.protocol.propagation.affairs import Affairs
from semcast.protocol.propagation.config import (
    Charter,
    FederationConfig,
    Seat,
    check_group_name,
)
from semcast.protocol.propagation.departure import Departure
from semcast.protocol.propagation.entries import Streams
from semcast.protocol.propagation.federated import Federated
from semcast.protocol.propagation.graph import Graph
from semcast.protocol.propagation.lives import Lives
from semcast.protocol.propagation.memory import Memory
from semcast.protocol.propagation.neighbour import Neighbour, Neighbours
from semcast.protocol.propagation.own import Own
from semcast.protocol.propagation.records import Opening, Term
from semcast.protocol.propagation.recovering import Rollback
from semcast.protocol.propagation.site_delivery import SiteDelivery
from semcast.protocol.propagation.store import Store
from semcast.protocol.propagation.turns import Turns
from semcast.wire.decode import Decoder
from semcast.wire.families.propagation import Link, Out, Piece
from semcast.wire.message import Message

# How many sites that are in no graph a site deals with: newcomers, and those who left.
STRANGERS_MAX: Final = 64


@final
class Site(Federated):
    """One site. See `docs/design/propagation.md`."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        name: str,
        groups: tuple[str, ...],
        random: Randomness,  # noqa: ARG002  (every kind of member takes it; sites need none)
        observer: Observer | None = None,
        federation: FederationConfig | None = None,
        charter: Charter | None = None,
        store: Store | None = None,
    ) -> None:
        """`groups`: those whose messages it wants. `charter`: the sites that begin together, each
        with the same charter; None: it joins what runs (`met`), or begins alone (`begin`). `store`:
        what it has written down in former lives, and goes on to write down.
        """
        super().__init__(config, me)
        for group in groups:
            check_group_name(group)
        settings = FederationConfig() if federation is None else federation
        self.federation: Final = settings
        me.name = name
        self._observer: Final = observer
        self._streams: Final = Streams()
        self._streams.learn_name(int(me.sender), name)
        self._memory: Final = Memory(store, self._streams)
        self._own: Final = Own(config, me, self._streams, self._memory, observer)
        self._delivery: Final = SiteDelivery(config, me, self._memory, observer)
        limits = config.limits
        self._neighbours: Final = Neighbours(
            me, settings, config.purging, limits, self._streams, self._own, observer
        )
        self._turns: Final = Turns(
            me,
            self._own,
            self._delivery,
            self._streams,
            self._neighbours,
            self._memory,
            settings,
            observer,
        )
        self._affairs: Final = Affairs(
            me, settings, self._own, self._turns, self._streams, self._neighbours,
            self._memory, limits.message_bytes_max, observer,
        )  # fmt: skip
        self._neighbours.listen(self._affairs)
        self._decoder: Final = Decoder()
        self._outbox: Final = Outbox(me, limits)
        self._departure: Final = Departure(
            me, settings, self._own, self._turns, self._affairs, self._neighbours
        )
        self._lives: Final = Lives(
            me, settings, self._own, self._delivery, self._turns, self._affairs,
            self._neighbours, self._memory, self._streams,
        )  # fmt: skip
        # To whom it is to be said that the others have gone on without it.
        self._outs: Final[dict[int, Out]] = {}
        self._affairs.wish = Seat(
            int(me.sender), int(me.incarnation), name, tuple(sorted(set(groups)))
        )
        self._lives.begin(charter, limits.message_bytes_max)

    def begin(self, now_ns: i64) -> None:
        """Begin a federation alone, since nobody is there."""
        self._lives.begin_alone(now_ns)

    def want(self, groups: tuple[str, ...], now_ns: i64) -> None:
        """From now on this site wants the messages of these groups; the manager sees to it."""
        for group in groups:
            check_group_name(group)
        wish = self._affairs.wish
        assert wish is not None
        self._affairs.wish = Seat(
            wish.sender, wish.life, wish.name, tuple(sorted(set(groups))), wish.version + 1
        )
        self._affairs.ask(now_ns)

    # -- the application ---------------------------------------------------------------------------

    def multicast_to(self, group: str, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        if self._departure.leaving or self._affairs.returning.out:
            raise GroupClosedError("this site is leaving the federation; join again to send more")
        return self._own.multicast(self._turns.graph, group, payload, replaces, now_ns)

    def can_multicast_to(self, group: str, payload_bytes: i64 = 0) -> bool:
        graph = self._turns.graph
        if (
            self._departure.leaving
            or self._affairs.returning.out
            or graph is None
            or group not in graph.groups
        ):
            return True
        return self._own.can_multicast(group, payload_bytes)

    def groups(self) -> tuple[str, ...]:
        graph = self._turns.graph
        return () if graph is None else graph.groups_of(int(self.me.sender))

    def known_groups(self) -> tuple[str, ...]:
        graph = self._turns.graph
        return () if graph is None else tuple(graph.groups)

    def graph(self) -> Graph | None:
        """The graph that counts, or counted last."""
        return self._turns.graph

    def seats(self) -> tuple[Seat, ...]:
        """The sites of the federation, those that came first in front."""
        return () if self._turns.opening is None else self._turns.opening.seats

    def manager(self) -> int:
        """The site that is the manager, as far as this one knows."""
        return self._affairs.manager.site

    def prospects(self) -> list[tuple[Term, Opening]]:
        """The newest opening that this site knows, and those that may come next."""
        return self._affairs.manager.prospects()

    def take_rollback(self) -> Rollback | None:
        """What to undo of a former life and what to do again, once, when this site is told."""
        found = self._affairs.returning.rollback
        self._affairs.returning.rollback = None
        return found

    def to_undo(self) -> list[Message]:
        owed = self._affairs.returning.owed
        return [entry.message for entry in owed if entry.message is not None]

    def undid(self, message: Message) -> None:
        self._affairs.returning.undid(message.source, int(message.seq))

    @property
    def sent(self) -> int:
        return self._own.seq

    @property
    def blocked(self) -> bool:
        return self._own.blocked

    def blocked_ns(self, now_ns: i64) -> int:
        return self._own.blocked_for_ns(now_ns)

    def all_stable(self) -> bool:
        return self._own.held == 0

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        taken: list[Message] = []
        while len(taken) < messages_max:
            message = self.take_one(now_ns)
            if message is None:
                break
            taken.append(message)
        return taken

    def take_one(self, now_ns: i64) -> Message | None:  # noqa: ARG002
        return None if self._affairs.returning.owed else self._delivery.take()

    def deliverable(self) -> int:
        """Before its application has undone what it is to undo, it gets nothing else."""
        return 0 if self._affairs.returning.owed else self._delivery.held

    def oldest(self) -> Message | None:
        return self._delivery.peek()

    def age_ns(self, message: Message, now_ns: i64) -> int:
        """As far as the sender's clock can be trusted."""
        return max(int(now_ns - message.sent_ns), 0)

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        return self._delivery.cover_of(source, seq)

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        if source.sender == self.me.sender:
            return
        if self._affairs.returning.left_behind(source):
            self._outs[int(source.sender)] = Out(
                source.incarnation, self._affairs.returning.left_behind(source)
            )
            return
        decoded = self._decoder.decode(frames, self._decoder.sources.intern(source))
        try:
            for frame in decoded.control:
                if isinstance(frame, Piece):
                    neighbour = self._neighbour(source, frame.to_life, now_ns)
                    if neighbour is not None:
                        neighbour.link.on_piece(frame, now_ns)
                elif isinstance(frame, Link):
                    neighbour = self._neighbour(source, frame.to_life, now_ns)
                    if neighbour is not None:
                        neighbour.link.on_link(frame, now_ns)
                elif isinstance(frame, Out) and frame.to_life == self.me.incarnation:
                    self._affairs.was_left(int(frame.graph))
        finally:
            self._affairs.work(now_ns)

    def _neighbour(self, source: Source, to_life: i64, now_ns: i64) -> Neighbour | None:
        """Who sent a frame, if it is for this life and from the present one of the other."""
        if to_life != self.me.incarnation:
            if to_life < self.me.incarnation and self.federation.atomic:
                # It does not know this life yet, and learns of it from any frame.
                self._meet(source, now_ns).link.say(now_ns)
            return None
        known = self._neighbours.find(int(source.sender))
        if known is None or known.to.incarnation < source.incarnation:
            opening = self._turns.opening
            seat = None if opening is None else opening.seat(int(source.sender))
            if seat is None and len(self._neighbours) >= STRANGERS_MAX + len(self.seats()):
                raise RemoteProtocolError(f"more than {STRANGERS_MAX} sites that are in no graph")
            known = self._meet(source, now_ns)
        elif known.to.incarnation > source.incarnation:
            return None
        known.link.heard_ns = now_ns
        return known

    def _meet(self, source: Source, now_ns: i64) -> Neighbour:
        """A site in this life; if it was in another one, each has to hear how far the other is."""
        known = self._neighbours.find(int(source.sender))
        found = self._neighbours.meet(source)
        if found is not known and self.federation.atomic:
            self._affairs.greet(source, known is not None, now_ns)
        return found

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        self._affairs.work(now_ns)
        packed: i64 = 0
        for neighbour in self._neighbours.all():
            packed += neighbour.link.pack(self._outbox, max(data_max - packed, 0), now_ns)
        for site, frame in self._outs.items():
            self._outbox.frame(site, frame)
        self._outs.clear()
        return self._outbox.take()

    @property
    def unsent(self) -> bool:
        return any(neighbour.link.unsent for neighbour in self._neighbours.all())

    def next_deadline_ns(self) -> int:
        soonest: i64 = self._affairs.next_deadline_ns()
        for neighbour in self._neighbours.all():
            soonest = min(soonest, neighbour.link.next_deadline_ns())
        return min(soonest, NEVER)

    def on_timer(self, now_ns: i64) -> None:
        for neighbour in self._neighbours.all():
            neighbour.link.on_timer(now_ns)
        self._affairs.on_timer(now_ns)
        self._affairs.work(now_ns)

    # -- the federation ----------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """The sites of the federation, as if they were a group."""
        seats = sorted(self.seats(), key=lambda seat: seat.sender)
        if not seats:
            return View(1, (int(self.me.sender),), (int(self.me.incarnation),), 0)
        return View(
            max(self._turns.number, 1),
            tuple(seat.sender for seat in seats),
            tuple(seat.life for seat in seats),
            0,
            tuple(seat.name for seat in seats),
        )

    def remove(self, sender: int, now_ns: i64) -> None:
        """Sites find out by themselves who is gone."""

    def met(self, source: Source, now_ns: i64) -> None:
        if source.sender != self.me.sender:
            self._affairs.met(source, now_ns)

    @property
    def inside(self) -> bool:
        """Whether it has a graph, with the groups that it asked for at last."""
        opening, wish = self._turns.opening, self._affairs.wish
        if opening is None or wish is None:
            return False
        seat = opening.seat(int(self.me.sender))
        return seat is not None and seat.life == self.me.incarnation

    @property
    def begun(self) -> tuple[int, int]:
        opening = self._turns.opening
        return (0, 0) if opening is None else opening.begun

    @property
    def has_asked(self) -> bool:
        return self._affairs.has_asked

    @property
    def has_left(self) -> bool:
        return self._departure.has_left

    def is_minority(self, now_ns: int) -> bool:
        return self._affairs.manager.is_minority(now_ns)

    def cannot_lose(self, lost: set[int]) -> bool:
        return self._affairs.manager.cannot_lose(lost)

    @property
    def resumes(self) -> bool:
        return self._affairs.resuming.lonely

    @property
    def settled_groups(self) -> bool:
        """Whether it is a member of just the groups that it wants."""
        wish = self._affairs.wish
        return wish is not None and self.groups() == wish.groups

    def was_put_out(self, source: Source) -> bool:
        return self._affairs.returning.left_behind(source) > 0

    @property
    def out(self) -> bool:
        return self._affairs.returning.out

    def follow_up(self, former: Machine, now_ns: i64) -> None:  # noqa: ARG002
        """Be another life of a site that the others have gone on without."""
        if isinstance(former, Site):
            self._lives.follow(former._lives)

    def begin_leaving(self, now_ns: i64) -> None:
        self._departure.begin(now_ns)

    @property
    def leaving(self) -> bool:
        return self._departure.leaving

    def settled(self, silent: list[int]) -> bool:
        return self._departure.settled(silent)

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        return self._departure.may_leave(silent, now_ns)

    def stats(self) -> dict[str, int]:
        lines = [(one.forward, one.came, one.offered) for one in self._neighbours.all()]
        return {
            "multicast": self._own.seq,
            "delivery_held": self._delivery.held,
            "retained_held": self._own.held + sum(one.held for one in self._neighbours.all()),
            "early_held": 0,
            "history_held": len(self._turns.history),
            "graph": self._turns.number,
            "purged_delivery": int(self._delivery.purged),
            "purged_source": int(self._own.purged),
            "purged_forward": sum(int(forward.purged) for forward, _, _ in lines),
            "purged_wait": sum(int(came.purged + offered.purged) for _, came, offered in lines),
            "skipped": int(self._delivery.skipped),
            "recovering": int(self._turns.frozen),
        }


def as_site(machine: Machine | None) -> Site | None:
    """The machine, if it is a site with a propagation graph (see `as_federated`)."""
    return machine if isinstance(machine, Site) else None
