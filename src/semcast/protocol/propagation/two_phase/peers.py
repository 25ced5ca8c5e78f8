"""The other sites of a two-phase federation: records to and from each, on a link that loses none.

Frames and a time go in, records come out to whoever takes them; records go in, frames come out. How
many messages of each site have left the queue here is counted too, and told in time. Knows nothing
of priorities.
"""

from abc import ABC, abstractmethod
from collections import deque
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from semcast.ids import NEVER, Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.outbox import Outbox, Outgoing
from semcast.protocol.propagation.federated import group_id
from semcast.protocol.propagation.lanes import WINDOW_PIECES, Feed, Sink
from semcast.protocol.propagation.link import SiteLink
from semcast.protocol.propagation.two_phase.records import OFFER_HEAD_BYTES, Left, write_record
from semcast.wire.decode import Decoder
from semcast.wire.families.propagation import Link, Piece

# What a record may have beside payload and head: the mark of a message, and its keys.
_AROUND_BYTES: Final = 1 << 16
# How long it is not told what left the queue, unless much has.
_LEFT_NS: Final = 5_000_000


@mypyc_attr(allow_interpreted_subclasses=True)
class Taker(ABC):
    """Who takes the records of the other sites."""

    @abstractmethod
    def on_record(self, sender: int, data: bytes, now_ns: i64) -> None:
        """A record came; a RemoteProtocolError says that it makes no sense."""


@final
class _Queue(Feed):
    """Records that wait for one lane of a link."""

    def __init__(self) -> None:
        self.records: Final[deque[bytes]] = deque()

    def next_record(self) -> bytes:
        return self.records.popleft() if self.records else b""

    def waits(self) -> bool:
        return bool(self.records)


@final
class _Arrivals(Sink):
    """Takes the records of one lane. Windows bound how many there can be."""

    def __init__(self, taker: Taker, sender: int) -> None:
        self._taker: Final = taker
        self._sender: Final = sender

    def room(self) -> i64:
        return WINDOW_PIECES

    def put(self, record: bytes, now_ns: i64) -> None:
        self._taker.on_record(self._sender, record, now_ns)


@final
class Peer:
    """Another site: the link to it, and what waits for the link."""

    def __init__(self, taker: Taker, to: Source, record_bytes_max: int, frames_max: int) -> None:
        # Offers and the rest go on different lanes, so that answers never wait for messages.
        self.offers: Final = _Queue()
        self.phases: Final = _Queue()
        self.control: Final = _Queue()
        feeds = (self.control, self.phases, self.offers)
        sink = _Arrivals(taker, int(to.sender))
        self.link: Final = SiteLink(to, feeds, (sink, sink, sink), record_bytes_max, frames_max)
        # By group: how many of its messages left the queue here, and how many it was told of.
        self.left: Final[dict[str, int]] = {}
        self._told: Final[dict[str, int]] = {}

    def untold(self, group: str) -> int:
        """How many have left that it does not know of."""
        return self.left.get(group, 0) - self._told.get(group, 0)

    def tell(self, group: str) -> None:
        """Let it know, if there is anything to say."""
        if self.untold(group) > 0:
            self._told[group] = self.left[group]
            self.control.records.append(write_record(Left(group_id(group), self.left[group])))


@final
class Peers:
    """All sites that this one has to do with."""

    def __init__(
        self, config: MemberConfig, me: Source, seats: dict[int, Source], taker: Taker
    ) -> None:
        """`seats`: the sites that there are, each in the life that it is heard in."""
        self._me: Final = me
        self._seats: Final = seats
        self._taker: Final = taker
        self._window: Final = config.window_messages
        limits = config.limits
        self._record_bytes_max: Final = limits.message_bytes_max + OFFER_HEAD_BYTES + _AROUND_BYTES
        self._frames_bytes_max: Final = limits.frames_bytes_max
        self._peers: Final[dict[int, Peer]] = {}
        self._left_ns: i64 = NEVER
        self._decoder: Final = Decoder()
        self._outbox: Final = Outbox(me, limits)

    def peer(self, sender: int) -> Peer:
        """One of them."""
        peer = self._peers.get(sender)
        if peer is None:
            peer = Peer(
                self._taker, self._seats[sender], self._record_bytes_max, self._frames_bytes_max
            )
            self._peers[sender] = peer
        return peer

    def offer(self, sender: int, record: bytes) -> None:
        """A message for another site, of the first phase."""
        self.peer(sender).offers.records.append(record)

    def answer(self, sender: int, record: bytes) -> None:
        """A priority or a decision for another site."""
        self.peer(sender).phases.records.append(record)

    def left(self, sender: int, group: str, now_ns: i64) -> None:
        """A message of that site to a group left the queue here."""
        peer = self.peer(sender)
        peer.left[group] = peer.left.get(group, 0) + 1
        if 2 * peer.untold(group) >= self._window:
            peer.tell(group)
        else:
            self._left_ns = min(self._left_ns, now_ns + _LEFT_NS)

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: i64) -> None:
        """Frames of one datagram. Strangers, and other lives, are not heard."""
        if source == self._me or self._seats.get(int(source.sender)) != source:
            return
        link = self.peer(int(source.sender)).link
        for frame in self._decoder.decode(frames, source).control:
            if isinstance(frame, Piece) and frame.to_life == self._me.incarnation:
                link.on_piece(frame, now_ns)
            elif isinstance(frame, Link) and frame.to_life == self._me.incarnation:
                link.on_link(frame, now_ns)

    def datagrams(self, now_ns: i64, data_max: i64) -> list[Outgoing]:
        """What there is to send."""
        room = data_max
        for peer in self._peers.values():
            room -= peer.link.pack(self._outbox, max(room, 0), now_ns)
        return self._outbox.take()

    @property
    def unsent(self) -> bool:
        """Whether something waits that may be sent now."""
        return any(peer.link.unsent for peer in self._peers.values())

    def next_deadline_ns(self) -> i64:
        """When to call `on_timer`."""
        soonest = self._left_ns
        for peer in self._peers.values():
            soonest = min(soonest, peer.link.next_deadline_ns())
        return soonest

    def on_timer(self, now_ns: i64) -> None:
        """Do what is due by now."""
        if self._left_ns <= now_ns:
            self._left_ns = NEVER
            for peer in self._peers.values():
                for group in peer.left:
                    peer.tell(group)
        for peer in self._peers.values():
            peer.link.on_timer(now_ns)
