"""Transfer: a process that comes late gets what stands, before the stream and in order with it.

At a newcomer: where each stream begins goes in (its *cut*); the state up to there is collected, and
meanwhile the application gets nothing, though messages are received, acknowledged and purged as
always. When all of it is there the application gets the state first, then what waits.
At the others: a newcomer's requests go in, chunks of what stands come out (`providing`).

Nothing comes twice, as the state ends where the stream begins; and nothing that stands is missing,
as what is not in the state any more was replaced by something in the stream (`standing`).
What the application has already it does not get again (`having`).
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Randomness, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.gathering import Collection
from semcast.protocol.membership.having import Had
from semcast.protocol.membership.inheriting import to_give
from semcast.protocol.membership.patience import FORGET_NS_MAX
from semcast.protocol.membership.providing import Provider
from semcast.protocol.membership.relisting import Relisting
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.order import Order
from semcast.protocol.outbox import Outbox
from semcast.protocol.part import Part
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.stability.detection import Agreed, Detection
from semcast.protocol.stability.followed import ENDED
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.families.state import CHUNK, NEED, TELL, Chunk, Need, Tell
from semcast.wire.frames import ControlFrame
from semcast.wire.message import Message
from semcast.wire.sources import Sources


@final
class Transfer(Part):
    """State: what one member gets when it comes, and what it gives to those who come later."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        view: View,
        joining: bool,
        order: Order,
        intake: Intake,
        retained: PurgingBuffer,
        detection: Detection,
        sources: Sources,
        random: Randomness,
        observer: Observer | None,
    ) -> None:
        """`joining`: the group runs, so that there is a state to get. What is released from
        `retained` has an heir, if values are kept for newcomers.
        """
        self._config: Final = config
        self._me: Final = sender.source
        self._view = view
        self._order: Final = order
        self._intake: Final = intake
        self._detection: Final = detection
        self._provider: Final = Provider(config, sender, intake, order, retained, detection)
        self._standing: Final = retained.heir
        self._sources: Final = sources
        self._random: Final = random
        self._observer: Final = observer
        # Whom a process asks that is in no view.
        self._patrons: list[int] | None = None
        self._had: Final = Had(order)
        # Sources that a provider said have ended, and of which all that stood has come: that they
        # have, this member may find out later.
        self._whole: Final[set[Source]] = set()
        # Not None while the state is still to come.
        self._collection: Collection | None = None
        # How often there was state to come.
        self.begun = 0
        # Whether this member got all that stood when it came; and how many messages these were.
        self.complete = True
        self.messages = 0
        # Whether members were there, and the application of none of them saved a snapshot.
        self.nobody_saved = False
        self._relisting: Final = Relisting(config)
        if joining and config.state != "none":
            self._begin(True)

    # -- what the world does -----------------------------------------------------------------------

    @property
    def pending(self) -> bool:
        """Whether the state is still to come, or a snapshot waits for the application."""
        return self._collection is not None or self._had.snapshot is not None

    @property
    def snapshot(self) -> bytes | None:
        """A snapshot that has come, for the application."""
        return self._had.snapshot

    @property
    def asks(self) -> int:
        """Which member is asked for the state; -1 if none is."""
        return -1 if self._collection is None else self._collection.provider

    @property
    def came(self) -> int:
        """How many messages of the state have come, while not all have."""
        return 0 if self._collection is None else self._collection.came

    @property
    def fetched_bytes(self) -> int:
        """How much of a snapshot has come, while not all has."""
        fetch = None if self._collection is None else self._collection.fetch
        return 0 if fetch is None else fetch.offset

    @property
    def wants_snapshot(self) -> bool:
        """Whether the application should save a snapshot now: call `provide`."""
        return self._provider.shelf.wanted

    def taken(self) -> dict[Source, int]:
        """How far the application has got; to be asked at the moment at which it saves."""
        return self._provider.shelf.taken()

    def had(self) -> dict[Source, int]:
        """What the application of this process has, for the life that follows this one, which was
        put out: so far has it got with each source, ENDED with those of which it has everything.
        """
        late = self._provider.late
        return self._had.for_next_life(self.taken(), self._standing, self._collection, late)

    def provide(self, snapshot: bytes, taken: dict[Source, int]) -> None:
        """The application has saved this, when it had taken so much."""
        self._provider.shelf.provide(snapshot, taken)

    def take_snapshot(self) -> bytes | None:
        """The application takes the snapshot that has come, if there is one, and must restore it
        before it takes any message; until then it gets none.
        """
        return self._had.take_snapshot()

    def resume(self, since: dict[Source, int]) -> None:
        """The process was here before, and its application has everything up to these numbers: it
        gets what changed since then. To be said before anything else.
        """
        self._had.since = since

    def knows_up_to(self, source: Source, seq: i64) -> None:
        """The application has these messages already, from a former life of the same sender."""
        self._had.skip(self._sources.intern(source), seq)

    def ask_only(self, patrons: list[int], now_ns: i64) -> None:
        """Ask only these members: they serve a process that is in no view."""
        self._patrons = patrons
        if self._collection is not None:
            self._collection.install(patrons, now_ns)

    # -- a newcomer --------------------------------------------------------------------------------

    def _begin(self, lists: bool) -> None:
        self._order.hold()
        self.begun += 1
        lists = lists or self._relisting.due
        self._relisting.due = False
        # Of a stream that begins later only its own state is missing.
        self._provider.late = lists
        collection = self._collection = Collection(self._config, self._me, self._random, lists)
        collection.install(self._others(), 0)
        self._tell("state-begun", 0, False)

    def _others(self) -> list[int]:
        return self._view.others(self._me) if self._patrons is None else self._patrons

    def agreed(self, agreed: Agreed, now_ns: i64) -> None:
        """Detection has found out where streams begin, or that they have ended."""
        if self._standing is not None:
            for source in agreed.ended:
                self._standing.end(source)
        if self._config.state == "none":
            return
        if self._relisting.applies:
            self._follow_up_on(agreed)
        for source in agreed.ended:
            if source not in agreed.missed:
                self._on_ended(source, now_ns)
        for source in agreed.joined:
            inbound = self._intake.inbounds.get(source)
            if inbound is None:
                self._want(source, ENDED, 0)
                continue
            awaited = self._collection is not None and source in self._collection.wants
            if not awaited:
                # A stream that goes on or begins anew: the application has what came before.
                self._had.reach(source, inbound.had)
            self._want(source, inbound.cut, inbound.had)
        for source in agreed.missed:
            self._want(source, ENDED, 0)
        self._look()

    def _follow_up_on(self, agreed: Agreed) -> None:
        """A reader may have been forgotten: ask for what it lacks of sources that end."""
        for source in self._relisting.ended(agreed, self._intake.inbounds):
            if self._collection is not None and self._collection.awaits(source):
                continue  # its state, which is still to come, came before this stream
            self._had.reach(source, self._end(source))
            if self._observer is not None:
                self._observer.progress("join", source, ENDED, None, 0)
            self._want(source, ENDED, 0)
        if agreed.served_again:
            if self._intake.endings.forgot:
                # It could not tell what of the list it has.
                self.complete = False
            else:
                self._relisting.due = True
                self._ask_for_list()

    def _end(self, source: Source) -> int:
        """Where a source has ended here. The application needs only what came after that."""
        return self._intake.endings.ends.get(source, 0)

    def _ask_for_list(self) -> None:
        """If the list is still to be asked for, and somebody can be asked, begin."""
        if self._relisting.due and self._collection is None and self._others():
            self._begin(True)

    def _on_ended(self, source: Source, now_ns: i64) -> None:
        """A stream has ended of which this member has had all, or all after its state.

        Of a sender of a feed that is silent, nobody else has the state. It may only be cut off, so
        it is waited for, but no longer than for anybody who owes an answer.
        """
        collection = self._collection
        if collection is None:
            return
        want = collection.wants.get(source)
        if self._config.group_reliable:
            collection.live(source)
        elif want is not None and not want.complete:
            want.until_ns = now_ns + FORGET_NS_MAX

    def _want(self, source: Source, cut: i64, had: i64) -> None:
        """A stream begins after the cut. Of what came before, everything up to `had` is here."""
        # Messages of the state have the same source as those of the stream, which has a name.
        source = self._sources.intern(source)
        since = self._had.of(source)
        if since > cut:
            # What comes of the stream up to there, the application has.
            self._order.skip_to(source, since)
        # Whoever provides for others must have all that stands, whatever its application had.
        has = 0 if self._config.group_reliable else since
        if source == self._me or (cut <= has and self._collection is None):
            return
        if cut == ENDED and source in self._whole:
            return
        if self._had.restored:
            self.complete = self.complete and self._had.has(source, cut)
            return
        if self._collection is None:
            self._begin(False)
        elif cut > has:
            self._order.hold()
        assert self._collection is not None
        if self._standing is not None and self._config.group_reliable and cut > 0:
            self._standing.expect(source, cut)
            self._provider.lacks.add(source)
            since = 0
        self._collection.want(source, since, cut, had)

    def _look(self) -> None:
        """If all of the state is there, let the application have it."""
        collection = self._collection
        if collection is None:
            return
        if not self._detection.joining():
            collection.all_begun()
        for source in list(collection.expected):
            if self._detection.stable(source) >= ENDED:
                self._want(source, ENDED, 0)
            elif not self._detection.joining() and self._view.holds(source):
                # It came with this member or later, so that all of its stream is live.
                collection.live(source)
        if not collection.complete:
            if self._order.held and self._is_full():
                self._go_on_without(collection)
            return
        snapshot = None if collection.fetch is None else collection.fetch.result()
        self._collection = None
        self._provider.late = False
        state = self._inherit(collection)
        self._tell("state-done", self.messages, not self.complete)
        if snapshot is None:
            self._order.let_go(state)
        else:
            followed = self._intake.inbounds
            self._had.restore(snapshot[0], snapshot[1], followed, self._me, self._view)
        self._ask_for_list()

    def _is_full(self) -> bool:
        """Whether not every message can wait for the application any more."""
        largest = self._config.limits.message_bytes_max + 255
        return not self._order.waiting.room_for(self._me, largest)

    def _go_on_without(self, collection: Collection) -> None:
        """The queue is full, and it may be that where other streams begin cannot be known before
        there is room again: a life waits until former ones have ended, and these for room. So let
        the application have what there is; what else stands comes later, each source's before its
        stream.
        """
        if collection.fetch is not None:
            collection.all_begun()
        elif collection.has_all:
            state = self._inherit(collection)
            collection.given()
            self._order.let_go(state)

    def _inherit(self, collection: Collection) -> list[Message]:
        """What has come, as the application is to get it; whoever provides has it from here on."""
        if collection.incomplete:
            self.complete = False
            self._provider.shelf.incomplete = True
        self.nobody_saved = collection.nobody_saved
        self._provider.lacks.clear()
        keeps = self._standing if self._config.group_reliable else None
        for want in collection.wants.values():
            self.complete = self.complete and not want.is_lacking
            if want.cut == ENDED:
                self._whole.add(want.source)
            if keeps is None:
                continue
            if want.is_lacking:
                keeps.lost(want.source)
            keeps.fill(want.source, want.messages(), want.cut == ENDED)
        if self._standing is not None and not self.complete:
            self._standing.lacks_ended = True
        state = to_give(collection.wants, self._had.since, self._order)
        self.messages += sum(1 for one in state if one.state)
        return state

    def _tell(self, event: str, count: int, incomplete: bool) -> None:
        if self._observer is not None:
            self._observer.progress(event, self._me, count, self._me, int(incomplete))

    # -- a part of the member ----------------------------------------------------------------------

    def kinds(self) -> tuple[int, ...]:
        return (NEED, CHUNK, TELL)

    def strangers_kinds(self) -> tuple[int, ...]:
        """Who asks may be in no view, or in one that is not known here yet."""
        return (NEED,)

    def install(self, view: View, now_ns: i64) -> None:
        self._view = view
        self._provider.shelf.forget(view.present)
        self._ask_for_list()
        collection = self._collection
        if collection is not None:
            collection.install(self._others(), now_ns)
            if not self._config.group_reliable:
                # Nobody else has what they sent.
                for source in [one for one in collection.wants if view.is_over(one)]:
                    collection.lose(source)
            self._look()

    def on_frame(self, frame: ControlFrame, source: Source, now_ns: i64) -> None:
        if isinstance(frame, Need):
            self._provider.on_need(frame, source)
        elif self._collection is not None:
            if isinstance(frame, Chunk):
                self._collection.on_chunk(frame, source, now_ns)
            else:
                assert isinstance(frame, Tell)
                for of, _ in frame.rows:
                    # What it lacks of a stream that it follows it asks for when that ends.
                    if self._detection.follows(of) or of in self._whole:
                        self._collection.live(of)
                    elif self._relisting.applies and not self._collection.awaits(of):
                        self._had.reach(of, self._end(of))
                self._collection.on_tell(frame, source, now_ns)
            self._look()

    def on_timer(self, now_ns: i64) -> None:
        if self._collection is not None:
            self._collection.on_timer(now_ns)
            self._look()

    def next_deadline_ns(self) -> i64:
        return NEVER if self._collection is None else self._collection.next_deadline_ns()

    def pack(self, outbox: Outbox, now_ns: i64) -> None:
        self._provider.pack(outbox)
        if self._collection is not None:
            self._collection.pack(outbox, now_ns)
            self._look()

    def figures(self) -> dict[str, int]:
        """Gauges for people, by name."""
        standing = self._standing
        return {
            "standing_keys": 0 if standing is None else len(standing),
            "standing_bytes": 0 if standing is None else standing.held_bytes,
            "standing_dropped": 0 if standing is None else int(standing.dropped),
            "state_messages": self.messages,
            "state_pending": int(self.pending),
            "state_incomplete": int(not self.complete),
        }
