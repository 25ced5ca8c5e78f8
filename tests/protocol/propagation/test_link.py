"""A link: records come in order, once each, whatever the network does (PROP Appendix I)."""

import random
from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semcast.errors import RemoteProtocolError
from semcast.ids import NEVER, Source
from semcast.protocol.outbox import Outbox
from semcast.protocol.propagation.lanes import (
    CONTROL,
    SOURCE,
    TREE,
    WINDOW_PIECES,
    Feed,
    Sink,
)
from semcast.protocol.propagation.link import SiteLink
from semcast.wire.decode import Decoder
from semcast.wire.families.propagation import LANES, ROWS_MAX, Link, Piece
from semcast.wire.limits import Limits

MS = 1_000_000
RECORD_BYTES_MAX = 20_000


class Records(Feed):
    def __init__(self) -> None:
        super().__init__()
        self.left: deque[bytes] = deque()

    def next_record(self) -> bytes:
        return self.left.popleft() if self.left else b""

    def waits(self) -> bool:
        return bool(self.left)


class Taken(Sink):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[bytes] = []
        self.space = 1 << 20

    def room(self) -> int:
        return self.space

    def put(self, record: bytes, now_ns: int) -> None:  # noqa: ARG002
        self.found.append(record)


class End:
    """One of two sites."""

    def __init__(self, me: Source, to: Source) -> None:
        self.me = me
        self.feeds = [Records() for _ in range(LANES)]
        self.sinks = [Taken() for _ in range(LANES)]
        self.outbox = Outbox(me, Limits())
        self.decoder = Decoder()
        self.link = SiteLink(
            to, tuple(self.feeds), tuple(self.sinks), RECORD_BYTES_MAX, Limits().frames_bytes_max
        )

    def datagrams(self, now_ns: int) -> list[bytes]:
        self.link.pack(self.outbox, WINDOW_PIECES, now_ns)
        return [one.frames for one in self.outbox.take()]

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:
        for frame in self.decoder.decode(frames, source).control:
            if isinstance(frame, Piece):
                self.link.on_piece(frame, now_ns)
            elif isinstance(frame, Link):
                self.link.on_link(frame, now_ns)


class Pair:
    """Two sites, and a network that loses, doubles and shuffles datagrams."""

    def __init__(self, seed: int = 0, loss: float = 0.0, double: float = 0.0) -> None:
        self.rng = random.Random(f"{seed}/link")
        self.loss, self.double = loss, double
        self.a = End(Source(1, 1), Source(2, 1))
        self.b = End(Source(2, 1), Source(1, 1))
        self.now_ns = 0
        self.sent = 0
        self._way: list[tuple[int, int, End, bytes, Source]] = []

    def step(self, ms: float = 1.0) -> None:
        self.now_ns += round(ms * MS)
        due = sorted((one for one in self._way if one[0] <= self.now_ns), key=lambda one: one[:2])
        self._way = [one for one in self._way if one[0] > self.now_ns]
        for _, _, to, frames, source in due:
            to.receive(frames, source, self.now_ns)
        for end, other in ((self.a, self.b), (self.b, self.a)):
            if end.link.next_deadline_ns() <= self.now_ns:
                end.link.on_timer(self.now_ns)
            for frames in end.datagrams(self.now_ns):
                self.sent += 1
                for _ in range(1 + (self.rng.random() < self.double)):
                    if self.rng.random() >= self.loss:
                        late_ns = self.rng.randrange(8 * MS)
                        way = (self.now_ns + late_ns, self.sent, other, frames, end.me)
                        self._way.append(way)

    def run(self, ms: int) -> None:
        for _ in range(ms):
            self.step()


@settings(max_examples=100, deadline=None)
@given(
    st.integers(0, 1 << 30),
    st.lists(
        st.tuples(st.integers(0, LANES - 1), st.sampled_from([1, 40, 1_300, 5_000])), max_size=60
    ),
)
def test_records_come_in_order_once_each_under_loss_reordering_and_duplicates(
    seed: int, records: list[tuple[int, int]]
) -> None:
    """Numbers, a wait queue, and nothing that blocks it (PROP Appendix I; readings)."""
    pair = Pair(seed, loss=0.25, double=0.25)
    expected: list[list[bytes]] = [[] for _ in range(LANES)]
    for at, (lane, size) in enumerate(records):
        record = at.to_bytes(2, "big") + bytes(size)
        expected[lane].append(record)
        pair.a.feeds[lane].left.append(record)
    for _ in range(6_000):
        pair.step()
        if not pair.a.link.busy:
            break
        for lane in range(LANES):
            # Never anything but a beginning: no gap, no duplicate, no other order.
            found = pair.b.sinks[lane].found
            assert found == expected[lane][: len(found)]
    assert [sink.found for sink in pair.b.sinks] == expected
    assert not pair.a.link.busy


def test_a_full_sink_holds_its_sender_back_and_other_lanes_go_on() -> None:
    """Three lanes that never wait for each other, and back-pressure on each."""
    pair = Pair()
    pair.b.sinks[TREE].space = 0
    for at in range(3 * WINDOW_PIECES):
        pair.a.feeds[TREE].left.append(b"tree%d" % at)
        pair.a.feeds[CONTROL].left.append(b"control%d" % at)
    pair.run(300)
    assert len(pair.b.sinks[TREE].found) == WINDOW_PIECES
    assert len(pair.a.feeds[TREE].left) == 2 * WINDOW_PIECES
    assert len(pair.b.sinks[CONTROL].found) == 3 * WINDOW_PIECES
    pair.b.sinks[TREE].space = 10
    pair.run(50)
    assert WINDOW_PIECES < len(pair.b.sinks[TREE].found) < 3 * WINDOW_PIECES
    pair.b.sinks[TREE].space = 1 << 20
    pair.run(400)
    assert pair.b.sinks[TREE].found == [b"tree%d" % at for at in range(3 * WINDOW_PIECES)]


def test_a_record_stays_in_its_queue_until_it_may_be_sent() -> None:
    """So that it can still be purged there."""
    pair = Pair()
    pair.b.sinks[SOURCE].space = 0
    pair.a.feeds[SOURCE].left.extend([b"x"] * (WINDOW_PIECES + 5))
    pair.run(100)
    assert len(pair.a.feeds[SOURCE].left) == 5
    assert not pair.a.link.unsent
    assert pair.a.link.busy


def test_a_record_that_is_larger_than_a_datagram_comes_whole() -> None:
    pair = Pair(3, loss=0.3)
    records = [
        bytes([at]) * size for at, size in enumerate([1, 1_280, 1_281, 9_999, RECORD_BYTES_MAX])
    ]
    pair.a.feeds[CONTROL].left.extend(records)
    pair.run(2_000)
    assert pair.b.sinks[CONTROL].found == records


def test_a_record_that_is_too_large_is_refused() -> None:
    pair = Pair()
    pair.a.feeds[CONTROL].left.append(bytes(RECORD_BYTES_MAX + 1))
    with pytest.raises(RemoteProtocolError, match="more than"):
        pair.run(100)


def test_the_loss_of_a_last_piece_is_noticed_by_the_next_link_frame() -> None:
    """Null messages carry the next number (readings; PROP Appendix I: threshold_out)."""
    pair = Pair()
    pair.a.feeds[TREE].left.append(b"lost")
    assert pair.a.datagrams(0)
    pair.a.link.say(1)
    (null,) = pair.a.datagrams(1)
    pair.b.receive(null, pair.a.me, 2)
    assert not pair.b.sinks[TREE].found
    soon_ns = pair.b.link.next_deadline_ns()
    assert soon_ns < 10 * MS
    (asked,) = pair.b.datagrams(soon_ns)
    (link,) = Decoder().decode(asked, pair.b.me).control
    assert isinstance(link, Link)
    assert link.missing == [(TREE, 1, 1)]
    pair.a.receive(asked, pair.b.me, soon_ns)
    for frames in pair.a.datagrams(soon_ns):
        pair.b.receive(frames, pair.a.me, soon_ns)
    assert pair.b.sinks[TREE].found == [b"lost"]


def test_what_was_acknowledged_is_kept_no_longer_and_nothing_more_is_due() -> None:
    pair = Pair()
    pair.a.feeds[TREE].left.append(b"one")
    pair.run(60)
    assert not pair.a.link.busy
    assert pair.a.link.next_deadline_ns() == NEVER
    before = pair.sent
    pair.run(200)
    assert pair.sent == before


def test_an_acknowledgement_of_what_was_never_sent_is_refused() -> None:
    end = End(Source(1, 1), Source(2, 1))
    with pytest.raises(RemoteProtocolError, match="was acknowledged"):
        end.link.on_link(Link(1, [(1, 1, 256), (1, 0, 256), (1, 0, 256)], []), 0)
    with pytest.raises(RemoteProtocolError, match="was allowed"):
        end.link.on_link(Link(1, [(1, 0, 256), (999, 0, 256), (1, 0, 256)], []), 0)


def test_a_piece_beyond_what_was_allowed_is_not_kept() -> None:
    """INV-WAIT: what waits is within the limit."""
    end = End(Source(1, 1), Source(2, 1))
    for number in (WINDOW_PIECES + 1, 1 << 40):
        end.link.on_piece(Piece(1, TREE, number, True, True, b"far"), 0)
    assert end.link.into[TREE].missing() == []
    end.link.on_piece(Piece(1, TREE, WINDOW_PIECES, True, True, b"near"), 0)
    assert end.link.into[TREE].missing() == [(1, WINDOW_PIECES - 1)]


def test_a_piece_that_does_not_go_on_with_its_record_is_refused() -> None:
    end = End(Source(1, 1), Source(2, 1))
    with pytest.raises(RemoteProtocolError, match="neither begins"):
        end.link.on_piece(Piece(1, TREE, 1, False, True, b"end"), 0)
    end.link.on_piece(Piece(1, SOURCE, 1, True, False, b"begin"), 0)
    with pytest.raises(RemoteProtocolError, match="neither begins"):
        end.link.on_piece(Piece(1, SOURCE, 2, True, True, b"another"), 0)


def test_many_gaps_are_asked_for_in_frames_that_others_accept() -> None:
    end = End(Source(2, 1), Source(1, 1))
    for lane in range(LANES):
        for number in range(2, 80, 2):
            end.link.on_piece(Piece(1, lane, number, True, True, b"x"), 0)
    frames = b"".join(end.datagrams(50 * MS))
    (link,) = Decoder().decode(frames, end.me).control
    assert isinstance(link, Link)
    assert len(link.missing) == ROWS_MAX


def test_a_sender_hears_of_room_although_that_was_lost_when_it_was_told() -> None:
    """All it sent is acknowledged, so that nothing is sent again, and nobody has more to say."""
    pair = Pair()
    pair.b.sinks[SOURCE].space = 0
    pair.a.feeds[SOURCE].left.extend([b"x"] * (WINDOW_PIECES + 5))
    pair.run(100)
    pair.b.sinks[SOURCE].space = 1 << 20
    pair.loss = 1.0
    pair.run(50)
    assert len(pair.a.feeds[SOURCE].left) == 5
    pair.loss = 0.0
    pair.run(1500)
    assert len(pair.b.sinks[SOURCE].found) == WINDOW_PIECES + 5


def test_the_first_credit_is_what_both_sides_know() -> None:
    end = End(Source(1, 1), Source(2, 1))
    link = SiteLink(
        Source(2, 1), tuple(end.feeds), tuple(end.sinks), RECORD_BYTES_MAX,
        Limits().frames_bytes_max, 3,
    )  # fmt: skip
    end.feeds[TREE].left.extend([b"x"] * 5)
    end.feeds[CONTROL].left.extend([b"x"] * 5)
    link.pack(end.outbox, WINDOW_PIECES, 0)
    assert len(end.feeds[TREE].left) == 2
    assert not end.feeds[CONTROL].left
