"""A link: records to one other site in, and the other's records out, in order and without gaps.

It has three lanes (`lanes`) that never wait for each other. A LINK frame, the null message of PROP
Appendix I, says the next number of each, so that the loss of a last piece is noticed too; it also
says what came, and how much may be sent. A former life of the other site has nothing to do with its
present one: the link begins anew.

Knows nothing of what records mean.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.protocol.outbox import Outbox
from semcast.protocol.propagation.lanes import (
    ASK_NS,
    CONTROL,
    RESEND_NS_MIN,
    WINDOW_PIECES,
    Feed,
    InLane,
    OutLane,
    Sink,
)
from semcast.wire.families.propagation import LANES, PIECE_HEAD_BYTES, ROWS_MAX, Link, Piece
from semcast.wire.frames import FRAME_HEAD_BYTES

# How many come before the other is told so at once, and how long it waits at most.
ACK_PIECES: Final = 16
ACK_NS: Final = 5_000_000


@final
class SiteLink:
    """All that goes on between this site and another one, in one life of that."""

    def __init__(
        self,
        to: Source,
        feeds: tuple[Feed, ...],
        sinks: tuple[Sink, ...],
        record_bytes_max: i64,
        frames_bytes_max: i64,
        first_pieces: i64 = WINDOW_PIECES,
    ) -> None:
        """`first_pieces`: how many may be sent on TREE and on SOURCE before the other has said how
        many it takes; both sides know it.
        """
        assert len(feeds) == len(sinks) == LANES
        self.to: Final = to
        first = min(first_pieces, WINDOW_PIECES)
        # By lane: up to which number the other was told that it may send.
        self._granted: Final[list[int]] = [WINDOW_PIECES, int(first), int(first)]
        self.out: Final = [
            OutLane(feed, limit) for feed, limit in zip(feeds, self._granted, strict=True)
        ]
        self.into: Final = [
            InLane(sink, record_bytes_max, limit)
            for sink, limit in zip(sinks, self._granted, strict=True)
        ]
        self._room_bytes: Final[i64] = frames_bytes_max - FRAME_HEAD_BYTES - PIECE_HEAD_BYTES
        # When it was last heard, and when something was last said to it.
        self.heard_ns: i64 = -1
        self.said_ns: i64 = -1
        # When to say how things stand: it was asked for, much has come, or something is missing.
        self._say_ns: i64 = NEVER

    def on_piece(self, piece: Piece, now_ns: i64) -> None:
        """A piece came."""
        lane = self.into[piece.lane]
        lane.on_piece(piece, now_ns)
        soon = now_ns if lane.fresh >= ACK_PIECES else now_ns + ACK_NS
        if lane.missing_ns != NEVER:
            soon = min(soon, max(now_ns, lane.missing_ns + ASK_NS))
        self._say_ns = min(self._say_ns, soon)

    def on_link(self, link: Link, now_ns: i64) -> None:
        """The other says how things stand."""
        for at in range(LANES):
            following, acked, limit = link.lanes[at]
            self.out[at].heard(acked, limit, now_ns)
            lane = self.into[at]
            before = lane.known
            lane.announced(following, now_ns)
            if lane.missing_ns != NEVER:
                self._say_ns = min(self._say_ns, max(now_ns, lane.missing_ns + ASK_NS))
            elif before != lane.known:
                self._say_ns = min(self._say_ns, now_ns + ACK_NS)
        for number, first, last in link.missing:
            self.out[number].asked(first, last, now_ns)

    def say(self, now_ns: i64) -> None:
        """Tell the other how things stand, in the next datagrams."""
        self._say_ns = min(self._say_ns, now_ns)

    @property
    def unsent(self) -> bool:
        """Whether something waits that may be sent now."""
        return any(lane.unsent for lane in self.out)

    @property
    def busy(self) -> bool:
        """Whether anything waits, or is under way."""
        return any(lane.busy for lane in self.out)

    @property
    def owes(self) -> bool:
        """Whether pieces came of which the other has not been told that they are here."""
        return any(lane.fresh > 0 for lane in self.into)

    def on_timer(self, now_ns: i64) -> None:
        """Send again what nothing was heard of."""
        for lane in self.out:
            lane.on_timer(now_ns)

    def next_deadline_ns(self) -> i64:
        """When something is due here."""
        soonest = self._say_ns
        for lane in self.out:
            soonest = min(soonest, lane.due_ns)
        return soonest

    def pack(self, outbox: Outbox, pieces_max: i64, now_ns: i64) -> i64:
        """Put what there is to say into datagrams; says how many pieces of messages that were."""
        packed: i64 = 0
        for at in range(LANES):
            most = WINDOW_PIECES if at == CONTROL else pieces_max - packed
            count = self.out[at].pack(at, self.to, outbox, self._room_bytes, most, now_ns)
            if at != CONTROL:
                packed += count
            if count > 0:
                self.said_ns = now_ns
        self._see_limits(now_ns)
        if self._say_ns <= now_ns:
            self._pack_link(outbox, now_ns)
        return packed

    def _see_limits(self, now_ns: i64) -> None:
        """Whether the other, which may have nothing left to send by, must hear of more room."""
        for at in range(LANES):
            lane = self.into[at]
            limit = lane.grant()
            used_up = self._granted[at] - lane.known < WINDOW_PIECES // 4
            if limit - self._granted[at] >= WINDOW_PIECES // 2 or (
                used_up and limit > self._granted[at]
            ):
                self.say(now_ns)

    def _pack_link(self, outbox: Outbox, now_ns: i64) -> None:
        lanes: list[tuple[int, int, int]] = []
        missing: list[tuple[int, int, int]] = []
        self._say_ns = NEVER
        for at in range(LANES):
            lane = self.into[at]
            lane.fresh = 0
            limit = int(lane.grant())
            self._granted[at] = limit
            lanes.append((int(self.out[at].next), int(lane.next) - 1, limit))
            if lane.missing_ns != NEVER:
                # It is asked for again if it does not come.
                if now_ns - lane.missing_ns >= ASK_NS:
                    for first, last in lane.missing():
                        missing.append((at, first, last))
                self._say_ns = min(self._say_ns, now_ns + RESEND_NS_MIN)
        outbox.frame(int(self.to.sender), Link(self.to.incarnation, lanes, missing[:ROWS_MAX]))
        self.said_ns = now_ns
