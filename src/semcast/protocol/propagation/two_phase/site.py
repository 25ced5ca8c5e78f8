"""A site of the two-phase protocol of Birman and Joseph, sans-IO: what PROP §2 describes and §4
compares with, on the links that the propagation protocol has too.

    multicast_to ──► OFFER to all members ──► each answers with a PRIORITY ──► the highest is sent
    back as a DECISION ──► PriorityQueue: lowest first, if it is decided ──► delivery ──► take

The groups are those of the charter and never change. There is no recovery: if a member crashes, its
answers are missing, and if a source crashes before the second phase, its message is never decided.
Either way, whatever comes after such a message at any member waits for ever, as in two-phase commit
(PROP §5.2.3).

Bounds. A source may have `window_messages` messages to a group that have not left the queue of
every member, so every member has room for whatever comes: no site ever waits for room before it
answers, and no two sites wait for each other. A full window is the caller's WindowFullError. What
left the queues waits for the application, in a buffer with its own bound; behind a full one, queues
stand.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import (
    ConfigError,
    GroupClosedError,
    LocalProtocolError,
    MessageTooLargeError,
    RemoteProtocolError,
    UnknownGroupError,
    WindowFullError,
)
from semcast.ids import SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Ranked, Replaces, Tagger
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.protocol.propagation.config import Charter, FederationConfig
from semcast.protocol.propagation.federated import Federated, group_id, stream_of
from semcast.protocol.propagation.two_phase.delivery import PhaseDelivery
from semcast.protocol.propagation.two_phase.peers import Peers, Taker
from semcast.protocol.propagation.two_phase.queue import PriorityQueue
from semcast.protocol.propagation.two_phase.records import (
    Decision,
    Left,
    Offer,
    Priority,
    read_record,
    write_record,
)
from semcast.protocol.propagation.two_phase.sending import Blocking, GroupWindow, Votes
from semcast.wire.decode import decode_whole
from semcast.wire.encode import encode_whole
from semcast.wire.message import Message


@final
class _Records(Taker):
    """Hands the records of other sites to a site."""

    def __init__(self, site: "TwoPhaseSite") -> None:
        self._site: Final = site

    def on_record(self, sender: int, data: bytes, now_ns: i64) -> None:
        self._site.on_record(sender, data, now_ns)


@final
class TwoPhaseSite(Federated):
    """One site of a federation whose order is voted on, message by message."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        name: str,
        groups: tuple[str, ...],
        random: Randomness,  # noqa: ARG002
        observer: Observer | None,
        federation: FederationConfig,  # noqa: ARG002
        charter: Charter | None,
        store: object = None,  # noqa: ARG002
    ) -> None:
        """`charter`: the sites and groups that there are. Without one, ConfigError: nobody comes
        later. What other protocols need besides (random numbers, a store) is not used.
        """
        super().__init__(config, me)
        if charter is None:
            raise ConfigError("the two-phase protocol has no way in later; give it a charter")
        me.name = name
        self._seats: Final = {seat.sender: seat.source for seat in charter.seats}
        self._groups: Final = charter.groups()
        self._own: Final = tuple(sorted(groups))
        found = tuple(one for one, sites in self._groups.items() if int(me.sender) in sites)
        if self._seats.get(int(me.sender)) != me or found != self._own:
            raise ConfigError(f"the charter says something else of site {name!r}")
        self._numbers: Final = {group_id(one): one for one in self._groups}
        self._observer: Final = observer
        self._tagger: Final = Tagger(config.k, by_key=config.by_key)
        self._seq = 0
        self._queue: Final = PriorityQueue(int(me.sender), config.purging)
        self._delivery: Final = PhaseDelivery(config, observer)
        self._windows: Final[dict[str, GroupWindow]] = {}
        self._rounds: Final[dict[int, Votes]] = {}
        self._streams: Final[dict[tuple[int, str], Source]] = {}
        # The last number that came of each stream.
        self._newest: Final[dict[Source, int]] = {}
        self._peers: Final = Peers(config, me, self._seats, _Records(self))
        self._blocking: Final = Blocking(me, observer)
        self._leaving = False
        if observer is not None:
            observer.opened(1, self._own)

    # -- sending -----------------------------------------------------------------------------------

    def multicast_to(self, group: str, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        window = self._checked(group, payload, replaces)
        if not window.open:
            self._blocking.no_room(self._seq, now_ns)
            raise WindowFullError(
                f"send window to {group!r} full: {window.held} of {self.config.window_messages} "
                "messages have not left the queues of all members; wait for them",
                window.held,
                self.config.window_messages,
            )
        message = self._write(group, payload, replaces, now_ns)
        self._blocking.has_room(self._seq, now_ns)
        if self._observer is not None:
            self._observer.message("multicast", message, "", None)
            if group in self._own and not window.own:
                self._observer.message("ignore", message, "", None)
        window.sent += 1
        votes = Votes(group, window.others)
        self._rounds[int(message.seq)] = votes
        record = write_record(Offer(group_id(group), int(message.seq), encode_whole(message)))
        for member in window.others:
            self._peers.offer(member, record)
        if window.own:
            waiting = self._queue.put(message)
            votes.heard(waiting.counter, waiting.site)
        if votes.complete:
            self._decide(int(message.seq), votes, now_ns)
            self._advance(now_ns)
        return message

    def _checked(self, group: str, payload: bytes, replaces: Replaces) -> GroupWindow:
        """The window of a group, if this message could be sent to it at any time."""
        if self._leaving:
            raise GroupClosedError("this site is leaving; join again to send more")
        if group not in self._groups:
            raise UnknownGroupError(group, self.known_groups())
        if len(payload) > self.config.limits.message_bytes_max:
            raise MessageTooLargeError(len(payload), self.config.limits.message_bytes_max)
        if isinstance(replaces, Ranked):
            raise LocalProtocolError("a ranked message in a federation; name a key instead")
        return self._window(group)

    def _window(self, group: str) -> GroupWindow:
        window = self._windows.get(group)
        if window is None:
            mine = int(self.me.sender)
            own = self.config.deliver_own and mine in self._groups[group]
            others = tuple(site for site in self._groups[group] if site != mine)
            window = GroupWindow(self.config.window_messages, others, own)
            self._windows[group] = window
        return window

    def _write(self, group: str, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        mark = self._tagger.tag(self._seq + 1, replaces, payload)
        self._seq += 1
        stream = self._stream(int(self.me.sender), group)
        body = mark.key + payload if mark.key else payload
        return Message(
            stream, self._seq, body, len(mark.key), mark.bitmap, 0, False, now_ns,
            mark.several, mark.by_key,
        )  # fmt: skip

    def _stream(self, site: int, group: str) -> Source:
        stream = self._streams.get((site, group))
        if stream is None:
            stream = self._streams[site, group] = stream_of(self._seats[site], group)
        return stream

    def can_multicast_to(self, group: str, payload_bytes: i64 = 0) -> bool:  # noqa: ARG002
        """Whatever can never be accepted is to be tried, and raises."""
        return self._leaving or group not in self._groups or self._window(group).open

    def groups(self) -> tuple[str, ...]:
        return self._own

    def known_groups(self) -> tuple[str, ...]:
        return tuple(self._groups)

    @property
    def sent(self) -> int:
        return self._seq

    @property
    def blocked(self) -> bool:
        return self._blocking.blocked

    def blocked_ns(self, now_ns: i64) -> int:
        return self._blocking.blocked_ns(now_ns)

    def all_stable(self) -> bool:
        return self._unsettled() == 0

    def _unsettled(self) -> int:
        """How many messages of this site wait in some queue, or to be decided."""
        return len(self._rounds) + sum([window.held for window in self._windows.values()])

    # -- the two phases ----------------------------------------------------------------------------

    def on_record(self, sender: int, data: bytes, now_ns: i64) -> None:
        """Another site says something; a RemoteProtocolError, if that makes no sense."""
        record = read_record(data)
        if isinstance(record, Offer):
            self._on_offer(sender, record)
        elif isinstance(record, Priority):
            votes = self._rounds.get(record.seq)
            if votes is None or not votes.awaits(sender):
                raise RemoteProtocolError(f"site {sender} was not asked about {record.seq}")
            votes.heard(record.counter, sender)
            if votes.complete:
                self._decide(record.seq, votes, now_ns)
        elif isinstance(record, Decision):
            self._on_decision(sender, record, now_ns)
        else:
            self._on_left(sender, record)

    def _group(self, number: int) -> str:
        group = self._numbers.get(number)
        if group is None:
            raise RemoteProtocolError(f"no group has the number {number:x}")
        return group

    def _on_offer(self, sender: int, offer: Offer) -> None:
        """First phase, at a member: the message gets a priority and waits."""
        group = self._group(offer.group)
        stream = self._stream(sender, group)
        if group not in self._own or self._queue.held_of(stream) >= self.config.window_messages:
            raise RemoteProtocolError(f"site {sender} sends to {group!r} what it may not")
        if offer.seq <= self._newest.get(stream, 0):
            raise RemoteProtocolError(f"site {sender} sends message {offer.seq} out of order")
        limit = self.config.limits.message_bytes_max
        message = decode_whole(offer.whole, stream, offer.seq, limit)
        if message.ranked:
            raise RemoteProtocolError("a ranked message in a federation")
        self._newest[stream] = offer.seq
        waiting = self._queue.put(message)
        self._peers.answer(sender, write_record(Priority(offer.seq, waiting.counter)))

    def _decide(self, seq: int, votes: Votes, now_ns: i64) -> None:
        """Second phase, at the source: all members have answered."""
        del self._rounds[seq]
        record = write_record(Decision(seq, votes.counter, votes.site))
        for member in votes.members:
            self._peers.answer(member, record)
        waiting = self._queue.find(self._stream(int(self.me.sender), votes.group), seq)
        if waiting is not None:
            self._decided(waiting.message, votes.counter, votes.site, now_ns)

    def _on_decision(self, sender: int, decision: Decision, now_ns: i64) -> None:
        for group in self._own:
            waiting = self._queue.find(self._stream(sender, group), decision.seq)
            if waiting is not None:
                break
        else:
            raise RemoteProtocolError(f"a decision on {decision.seq}, which does not wait here")
        given = (waiting.counter, waiting.site)
        if waiting.decided or (decision.counter, decision.site) < given:
            raise RemoteProtocolError(f"a decision on {decision.seq} that cannot be")
        self._decided(waiting.message, decision.counter, decision.site, now_ns)

    def _decided(self, message: Message, counter: int, site: int, now_ns: i64) -> None:
        waiting = self._queue.find(message.source, int(message.seq))
        assert waiting is not None
        for victim in self._queue.decide(waiting, counter, site):
            self._delivery.purged_before(victim, message)
            self._leaves(victim, now_ns)

    def _advance(self, now_ns: i64) -> None:
        """Let messages whose turn has come wait for the application, while there is room."""
        message = self._queue.head()
        while message is not None and self._delivery.insert(message):
            self._queue.pop()
            self._leaves(message, now_ns)
            message = self._queue.head()

    # -- flow control ------------------------------------------------------------------------------

    def _leaves(self, message: Message, now_ns: i64) -> None:
        """A message has left the queue: its source will hear of it."""
        site, group = int(message.source.site), message.source.group
        if site == self.me.sender:
            self._windows[group].left(site)
            return
        self._peers.left(site, group, now_ns)

    def _on_left(self, sender: int, record: Left) -> None:
        window = self._windows.get(self._group(record.group))
        if window is None or not window.left_up_to(sender, record.count):
            raise RemoteProtocolError(f"site {sender} says that {record.count} messages left")

    # -- taking ------------------------------------------------------------------------------------

    def take_one(self, now_ns: i64) -> Message | None:
        message = self._delivery.take()
        if message is not None:
            self._advance(now_ns)
        return message

    def deliverable(self) -> int:
        return self._delivery.held

    def oldest(self) -> Message | None:
        return self._delivery.oldest()

    def cover_of(self, source: Source, seq: i64) -> tuple[Source, int] | None:
        return self._delivery.cover_of(source, int(seq))

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        try:
            self._peers.receive(frames, source, now_ns)
        finally:
            self._advance(now_ns)

    def datagrams(self, now_ns: i64, data_max: i64 = SEQ_MAX) -> list[Outgoing]:
        return self._peers.datagrams(now_ns, data_max)

    @property
    def unsent(self) -> bool:
        return self._peers.unsent

    def next_deadline_ns(self) -> int:
        return self._peers.next_deadline_ns()

    def on_timer(self, now_ns: i64) -> None:
        self._peers.on_timer(now_ns)

    # -- the federation ----------------------------------------------------------------------------

    @property
    def view(self) -> View:
        """All sites of the charter, whatever has become of them."""
        seats = [self._seats[sender] for sender in sorted(self._seats)]
        ids = tuple(int(one.sender) for one in seats)
        return View(1, ids, tuple(int(one.incarnation) for one in seats), 0)

    def remove(self, sender: int, now_ns: i64) -> None:
        """Nothing changes: whoever waits for that site goes on waiting (PROP §5.2.3)."""

    def begin_leaving(self, now_ns: i64) -> None:  # noqa: ARG002
        self._leaving = True

    @property
    def leaving(self) -> bool:
        return self._leaving

    def settled(self, silent: list[int]) -> bool:  # noqa: ARG002
        return self.all_stable()

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:  # noqa: ARG002
        """The others cannot go on without it, so that it can only leave when all do."""
        return self.all_stable() and len(self._queue) == 0

    def stats(self) -> dict[str, int]:
        return {
            "multicast": self._seq,
            "delivery_held": self._delivery.held,
            "retained_held": self._unsettled() + len(self._queue),
            "early_held": len(self._queue),
            "purged_delivery": self._delivery.purged,
            "purged_wait": self._delivery.purged_early,
            "undecided": len(self._rounds),
        }
