"""The two-phase protocol (PROP §2; Birman and Joseph): promises, bounds, and where it blocks."""

import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semcast.errors import (
    ConfigError,
    LocalProtocolError,
    RemoteProtocolError,
    UnknownGroupError,
    WindowFullError,
)
from semcast.ids import NEVER, Source
from semcast.obsolescence import Ranked
from semcast.protocol.config import MemberConfig
from semcast.protocol.propagation.config import Charter, FederationConfig, Seat
from semcast.protocol.propagation.federated import stream_of
from semcast.protocol.propagation.two_phase.queue import PriorityQueue
from semcast.protocol.propagation.two_phase.records import (
    Decision,
    Left,
    Offer,
    PhaseRecord,
    Priority,
    read_record,
    write_record,
)
from semcast.protocol.propagation.two_phase.site import TwoPhaseSite
from semcast.wire.message import Message

GROUPS = {0: ("a",), 1: ("a", "b"), 2: ("a", "b"), 3: ("b",), 4: ()}
CHARTER = Charter(tuple(Seat(site, 1, f"s{site}", groups) for site, groups in GROUPS.items()))
STEP_NS = 1_000_000


def site(number: int, **settings: object) -> TwoPhaseSite:
    config = MemberConfig(**settings)  # type: ignore[arg-type]
    me = Source(number, 1)
    rng = random.Random(number)
    return TwoPhaseSite(
        config, me, f"s{number}", GROUPS[number], rng, None, FederationConfig(), CHARTER
    )


def held_up(one: TwoPhaseSite) -> bool:
    return one.blocked


class Net:
    """Five sites; datagrams are delivered by hand, in any order, or held."""

    def __init__(self, **settings: object) -> None:
        self.sites = [site(number, **settings) for number in GROUPS]
        self.now_ns = 0
        self.under_way: deque[tuple[int, int, bytes]] = deque()
        self.silent: set[int] = set()

    def send(self) -> None:
        for number, one in enumerate(self.sites):
            found = one.datagrams(self.now_ns)
            if number not in self.silent:
                self.under_way.extend((number, int(out.to), out.frames) for out in found)

    def run(self, rng: random.Random | None = None, loss: float = 0.0, steps: int = 400) -> None:
        """Let time go by until nothing is due, or for so many steps."""
        for _ in range(steps):
            self.send()
            waiting = list(self.under_way)
            self.under_way.clear()
            if rng is not None:
                rng.shuffle(waiting)
            for origin, to, frames in waiting:
                if to not in self.silent and (rng is None or rng.random() >= loss):
                    self.sites[to].receive(frames, Source(origin, 1), self.now_ns)
            self.now_ns += STEP_NS
            for one in self.sites:
                if one.next_deadline_ns() <= self.now_ns:
                    one.on_timer(self.now_ns)

    def take(self) -> list[list[tuple[int, int]]]:
        return [
            [(int(one.source.site), int(one.seq)) for one in member.take(1000, self.now_ns)]
            for member in self.sites
        ]


# -- order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(12))
def test_sites_deliver_messages_of_overlapping_groups_in_one_order(seed: int) -> None:
    """Property c, with members and strangers as sources, over a network that loses and reorders
    (PROP §1, §2).
    """
    net, rng = Net(purging=False), random.Random(seed)
    for _ in range(30):
        source = rng.randrange(5)
        net.sites[source].multicast_to(rng.choice("ab"), b"m", None, net.now_ns)
        net.run(rng, 0.2, rng.randrange(4))
    net.run(rng, 0.1)
    net.run(steps=1500)
    orders = net.take()
    assert orders[4] == [], "it is in no group"
    assert sum(map(len, orders)) > 80
    for first in orders:
        for second in orders:
            common = set(first) & set(second)
            assert [m for m in first if m in common] == [m for m in second if m in common]
    assert set(orders[0]) | set(orders[3]) == set(orders[1]) == set(orders[2])
    for order in (orders[0], orders[3]):
        for source in range(5):
            mine = [seq for sender, seq in order if sender == source]
            assert mine == sorted(mine), "property a: one source, one group"


def test_a_message_waits_until_its_source_has_decided() -> None:
    net = Net()
    net.sites[4].multicast_to("a", b"m", None, 0)
    net.send()
    for origin, to, frames in list(net.under_way):
        net.sites[to].receive(frames, Source(origin, 1), 0)
    assert [one.deliverable() for one in net.sites] == [0] * 5
    net.under_way.clear()
    net.run(steps=10)
    assert [one.deliverable() for one in net.sites] == [1, 1, 1, 0, 0]


def test_a_source_that_crashes_between_the_phases_blocks_its_groups() -> None:
    """PROP §5.2.3: "the source fails before it can send the second phase messages"."""
    net = Net()
    net.sites[4].multicast_to("a", b"lost", None, 0)
    net.send()
    net.silent = {4}
    net.run(steps=50)
    net.sites[0].multicast_to("a", b"later", None, net.now_ns)
    net.run(steps=300)
    assert [one.deliverable() for one in net.sites] == [0] * 5
    net.sites[3].multicast_to("b", b"after it", None, net.now_ns)
    net.run(steps=300)
    assert net.sites[3].deliverable() == 1, "this one was not in the first group"
    assert net.sites[1].deliverable() == 0, "behind an undecided message everything waits"


# -- bounds ----------------------------------------------------------------------------------------


def test_a_window_is_full_until_messages_have_left_the_queues_of_all_members() -> None:
    net = Net(window_messages=3, delivery_messages=1, purging=False)
    for _ in range(3):
        net.sites[4].multicast_to("a", b"m", None, 0)
    assert not net.sites[4].can_multicast_to("a")
    assert net.sites[4].can_multicast_to("b"), "each group has a window of its own"
    with pytest.raises(WindowFullError):
        net.sites[4].multicast_to("a", b"m", None, 0)
    assert held_up(net.sites[4])
    assert net.sites[4].sent == 3
    net.run()
    assert net.sites[4].can_multicast_to("a"), "one waits for the application of each"
    net.sites[4].multicast_to("a", b"m", None, net.now_ns)
    assert not held_up(net.sites[4])
    net.run()
    assert not net.sites[4].can_multicast_to("a"), "nobody has taken anything"
    for _ in range(4):
        net.take()
        net.run()
    assert net.sites[4].all_stable()
    assert all(one.stats()["retained_held"] == 0 for one in net.sites)


@pytest.mark.parametrize("seed", range(6))
def test_sites_with_room_for_one_message_never_wait_for_each_other(seed: int) -> None:
    net, rng = Net(window_messages=1, delivery_messages=1), random.Random(seed)
    sent = 0
    for _ in range(200):
        source, group = rng.choice(net.sites), rng.choice("ab")
        if source.can_multicast_to(group):
            source.multicast_to(group, b"m", rng.choice((None, "k")), net.now_ns)
            sent += 1
        net.run(rng, 0.1, 3)
        rng.choice(net.sites).take(1, net.now_ns)
    assert sent > 30
    for _ in range(100):
        net.run(steps=25)
        net.take()
    assert all(one.all_stable() for one in net.sites)
    assert all(one.next_deadline_ns() == NEVER for one in net.sites)


def test_a_replaced_message_leaves_a_queue_only_for_one_that_is_decided() -> None:
    queue = PriorityQueue(7, purging=True)
    stream = stream_of(Source(1, 1), "a")
    first, second, other = (
        Message(stream, seq, b"k" * bool(by) + b"x", int(by), by_key=by)
        for seq, by in ((1, True), (2, True), (3, False))
    )
    one, two, three = queue.put(first), queue.put(second), queue.put(other)
    assert queue.decide(one, 5, 9) == []
    assert queue.head() is None, "the second is undecided, and its priority is lower"
    assert queue.decide(two, 6, 9) == [first]
    assert queue.head() is None, "the third is undecided"
    assert queue.decide(three, 8, 1) == []
    assert queue.head() is second
    queue.pop()
    assert queue.head() is other


def test_what_replaced_messages_an_application_did_not_get_is_told() -> None:
    net = Net()
    for number in range(5):
        net.sites[0].multicast_to("a", b"%d" % number, "k", 0)
    net.run()
    (message,) = net.sites[1].take(10, net.now_ns)
    assert message.payload == b"4"
    assert message.skipped == (1, 2, 3, 4)


# -- what is refused -------------------------------------------------------------------------------


def test_mistakes_of_callers_change_nothing() -> None:
    one = site(0)
    with pytest.raises(UnknownGroupError):
        one.multicast_to("z", b"", None, 0)
    with pytest.raises(LocalProtocolError):
        one.multicast_to("a", b"", Ranked("k", 1), 0)
    with pytest.raises(ConfigError):
        one.want(("b",), 0)
    assert one.sent == 0
    assert one.datagrams(0) == []


def test_a_site_that_is_not_in_the_charter_cannot_be_made() -> None:
    config, federation, rng = MemberConfig(), FederationConfig(), random.Random(1)
    for me, groups, charter in (
        (Source(9, 1), (), CHARTER),
        (Source(0, 2), ("a",), CHARTER),
        (Source(0, 1), ("b",), CHARTER),
        (Source(0, 1), ("a",), None),
    ):
        with pytest.raises(ConfigError):
            TwoPhaseSite(config, me, "x", groups, rng, None, federation, charter)


@given(
    st.one_of(
        st.builds(Offer, st.integers(0, 1 << 62 - 1), st.integers(1, 1 << 61), st.binary()),
        st.builds(Priority, st.integers(1, 1 << 61), st.integers(1, 1 << 61)),
        st.builds(
            Decision, st.integers(1, 1 << 61), st.integers(1, 1 << 61), st.integers(0, 1 << 61)
        ),
        st.builds(Left, st.integers(0, 1 << 61), st.integers(1, 1 << 61)),
    )
)
def test_a_record_that_is_written_is_read(record: PhaseRecord) -> None:
    assert read_record(write_record(record)) == record


@given(st.binary(max_size=60))
def test_bad_bytes_raise_one_error_only(data: bytes) -> None:
    try:
        record = read_record(data)
    except RemoteProtocolError:
        return
    assert write_record(record) == data


@given(st.binary(max_size=60), st.integers(0, 4))
def test_records_that_make_no_sense_change_nothing(data: bytes, kind: int) -> None:
    one = site(1)
    try:
        one.on_record(0, bytes([kind]) + data, 0)
    except RemoteProtocolError:
        assert one.stats()["early_held"] == 0


def test_a_source_that_ignores_its_window_is_refused() -> None:
    one, stream = site(1, window_messages=2), stream_of(Source(0, 1), "a")
    whole = site(0).multicast_to("a", b"m", None, 0)
    from semcast.protocol.propagation.federated import group_id
    from semcast.wire.encode import encode_whole

    assert whole.source == stream
    for seq in (1, 2):
        one.on_record(0, write_record(Offer(group_id("a"), seq, encode_whole(whole))), 0)
    for bad in (
        Offer(group_id("a"), 3, encode_whole(whole)),
        Offer(group_id("nobody"), 3, encode_whole(whole)),
        Priority(1, 1),
        Decision(9, 1, 1),
        Decision(1, 1, 0),
        Left(group_id("a"), 1),
    ):
        with pytest.raises(RemoteProtocolError):
            one.on_record(0, write_record(bad), 0)
    assert one.stats()["early_held"] == 2
