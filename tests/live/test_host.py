"""Several groups at one host: each goes on, whatever the others and their threads do."""

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from tests.live.fake_world import payloads
from tests.live.groups import wait_until
from tests.live.pair import MANY, MS, Pair, Script

from semcast.errors import GroupClosedError
from semcast.live.host.host import Host
from semcast.live.host.timing import KEPT_NS
from semcast.live.host.waiting import State
from semcast.live.meeting.notes import HELLO_NS

DEADLINE_S = 30.0


@contextmanager
def sharing(count: int) -> Iterator[list[Pair]]:
    """So many groups, whose engines share a host without a thread of its own."""
    with ExitStack() as stack:
        host = Host()
        pairs = [Pair(host) for _ in range(count)]
        for pair in pairs:
            stack.callback(pair.close)
        yield pairs


@pytest.fixture
def two() -> Iterator[list[Pair]]:
    with sharing(2) as pairs:
        yield pairs


class Receiver:
    """A thread that waits for one message of a group, and what came of it."""

    def __init__(self, pair: Pair, timeout_s: float = DEADLINE_S) -> None:
        self.got: list[object] = []
        self._pair = pair
        self._timeout_s = timeout_s
        self.thread = threading.Thread(target=self._receive, daemon=True)
        self.thread.start()

    def _receive(self) -> None:
        try:
            self.got.append(self._pair.engine.receive(self._timeout_s).payload)
        except Exception as error:
            self.got.append(type(error))

    def result(self) -> list[object]:
        self.thread.join(DEADLINE_S)
        assert not self.thread.is_alive(), "it waits for ever"
        return self.got


def leads(pair: Pair) -> Callable[[], bool]:
    return lambda: pair.engine.host._place.leader is pair.engine.seat


def follows(pair: Pair) -> Callable[[], bool]:
    return lambda: bool(pair.engine.seat.followers)


def fail_in_a_turn(pair: Pair) -> None:
    def on_turn(_: int) -> None:
        raise RuntimeError("a bug")

    pair.engine.seat.on_turn = on_turn


# -- who waits for one group reads for all ---------------------------------------------------------


def test_who_waits_for_one_group_takes_turns_for_all(two: list[Pair]) -> None:
    one, other = two
    other.pass_on(other.send_many)
    with pytest.raises(TimeoutError):
        one.engine.receive(0.01)
    assert payloads(other.b) == MANY


def test_who_sends_in_one_group_reads_for_all_now_and_then(two: list[Pair]) -> None:
    one, other = two
    other.pass_on(other.send_many)
    for _ in range(300):
        one.engine.try_send(b"own", None)
    assert payloads(other.b) == MANY


def test_a_follower_gets_its_message_from_another_groups_leader(two: list[Pair]) -> None:
    one, other = two
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    follower = Receiver(other)
    wait_until(follows(other), "it follows")
    other.pass_on(lambda: other.a.send(b"for the follower"))
    assert follower.result() == [b"for the follower"]
    assert leads(one)(), "it goes on waiting for its own"
    one.pass_on(lambda: one.a.send(b"for the leader"))
    assert leader.result() == [b"for the leader"]


@pytest.mark.parametrize("how", ["message", "timeout", "leave", "fail"])
def test_a_leader_that_goes_leaves_the_sockets_to_a_follower(how: str, two: list[Pair]) -> None:
    """There is no other thread that could read them."""
    one, other = two
    leader = Receiver(one, 1.0 if how == "timeout" else DEADLINE_S)
    wait_until(leads(one), "it leads")
    follower = Receiver(other)
    wait_until(follows(other), "it follows")
    if how == "message":
        one.pass_on(lambda: one.a.send(b"x"))
        expected: object = b"x"
    elif how == "leave":
        one.engine.stop()
        expected = GroupClosedError
    elif how == "fail":
        with one.engine.lock:
            one.engine.host.fail(one.engine.seat, RuntimeError("a bug"))
        expected = GroupClosedError
    else:
        expected = TimeoutError
    assert leader.result() == [expected]
    wait_until(leads(other), "the follower leads")
    other.pass_on(lambda: other.a.send(b"for the follower"))
    assert follower.result() == [b"for the follower"]


def keep_place(pair: Pair) -> None:
    """Keep the place at the sockets for its reader, for ever, as if it had just left."""
    place = pair.engine.host._place
    with pair.engine.lock:
        place.state = State.KEPT
        place._kept_for = pair.engine.seat
        place.kept_until_ns = 1 << 61


def receive_soon_again(pair: Pair) -> None:
    """It is one that is never long away."""
    for _ in range(2):
        with pytest.raises(TimeoutError):
            pair.engine.receive(0.001)
    while not pair.engine.seat.soon_back:  # the machine is busy
        with pytest.raises(TimeoutError):
            pair.engine.receive(0.001)


def test_the_place_of_a_reader_that_is_soon_back_is_kept_and_given_up_if_it_is_not(
    two: list[Pair],
) -> None:
    """So that its messages take one wake-up; and others do not wait for it for ever."""
    quick, other = two
    host = quick.engine.host
    receive_soon_again(quick)
    follower = Receiver(other)
    wait_until(leads(other), "it leads, as nobody else is here")
    keep_place(quick)
    host._leader_waker.wake()
    wait_until(follows(other), "it follows")
    with host.lock:
        assert host._place.state is State.KEPT
        host._place.kept_until_ns = 0
    quick.engine.start()
    host._waker.wake()
    wait_until(leads(other), "it leads again")
    other.pass_on(lambda: other.a.send(b"x"))
    assert follower.result() == [b"x"]


def test_a_leader_that_waits_for_long_leaves_its_place_to_a_reader_that_has_more_to_read(
    two: list[Pair],
) -> None:
    quick, idle = two
    host = quick.engine.host
    leader = Receiver(idle)
    wait_until(leads(idle), "it leads")
    time.sleep(4 * KEPT_NS / 1e9)
    reader = Receiver(quick)
    wait_until(follows(quick), "it follows")
    with host.lock:
        quick.engine.seat.soon_back = True
    quick.pass_on(lambda: quick.a.send(b"x"))
    assert reader.result() == [b"x"]
    assert host._place._kept_for is quick.engine.seat
    quick.engine.start()  # which sees that it does not come
    wait_until(leads(idle), "it leads again")
    idle.pass_on(lambda: idle.a.send(b"x"))
    assert leader.result() == [b"x"]


def test_a_follower_that_goes_does_not_give_away_a_place_that_is_kept(two: list[Pair]) -> None:
    quick, other = two
    host = quick.engine.host
    keep_place(quick)
    followers = Receiver(other), Receiver(other, 0.01)
    assert followers[1].result() == [TimeoutError]
    wait_until(follows(other), "the first goes on following")
    assert host._place.state is State.KEPT
    quick.engine.stop()
    other.pass_on(lambda: other.a.send(b"x"))
    assert followers[0].result() == [b"x"]


def test_a_place_that_is_kept_for_a_group_that_is_left_is_free(two: list[Pair]) -> None:
    quick, other = two
    keep_place(quick)
    follower = Receiver(other)
    wait_until(follows(other), "it follows")
    quick.engine.stop()
    wait_until(leads(other), "it leads")
    other.pass_on(lambda: other.a.send(b"x"))
    assert follower.result() == [b"x"]


def test_a_sender_in_another_group_tells_the_leader_when_that_is_due_sooner(
    two: list[Pair],
) -> None:
    """Else what is due in that group would wait for as long as the leader does."""
    one, other = two
    host = one.engine.host
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    with one.engine.lock:
        host._leader_waker.sleeps_until_ns = 1 << 62
    other.engine.try_send(b"x", None)
    assert host._leader_waker.sleeps_until_ns < 1 << 62
    one.pass_on(lambda: one.a.send(b"x"))
    assert leader.result() == [b"x"]


# -- what idle groups cost -------------------------------------------------------------------------


def test_turns_of_one_group_do_not_concern_idle_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(monkeypatch)
    with sharing(10) as pairs:
        busy, *idle = pairs
        host = busy.engine.host
        turns = dict.fromkeys(pairs, 0)

        def counting(pair: Pair) -> Callable[[int], None]:
            def on_turn(_: int) -> None:
                turns[pair] += 1

            return on_turn

        for pair in pairs:
            pair.engine.seat.on_turn = counting(pair)
        with pytest.raises(TimeoutError):
            busy.engine.receive(HELLO_NS / 1e9)  # all of them have said hello by now
        before = dict(turns)
        for number in range(20):
            datagrams = busy.sent(lambda number=number: busy.a.send(b"%d" % number))  # type: ignore[misc]
            script.comes(script.now_ns + 2 * MS, lambda sent=datagrams: busy.arrive(sent))  # type: ignore[misc]
            assert busy.engine.receive(DEADLINE_S).payload == b"%d" % number
        assert turns[busy] >= before[busy] + 20
        spent_ns = 20 * 2 * MS
        assert spent_ns < HELLO_NS
        # Each says hello about once in that time at the most; and members gossip for a while.
        assert all(turns[pair] <= before[pair] + 3 for pair in idle)
        assert not host._turns._active


def test_groups_whose_time_has_come_are_served_by_a_sender_that_goes_on_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody waits, and the engine's thread leaves the sockets to who is here."""
    script = Script(monkeypatch)
    with sharing(3) as (sender, *others):
        for pair in others:
            pair.world.network.seen.clear()
        for _ in range(10):
            script.sleep(HELLO_NS)
            for _ in range(3):
                sender.engine.try_send(b"x", None)
            sender.engine.try_receive_many(100)
        for pair in others:
            assert pair.kinds(pair.b).count("note") >= 9


def test_many_groups_that_are_due_at_once_are_served_in_several_turns() -> None:
    """The lock is not to be held for as long as all of them take."""
    with sharing(20) as pairs:
        host = pairs[0].engine.host
        served: list[int] = []
        for number, pair in enumerate(pairs):
            pair.engine.seat.on_turn = lambda _, number=number: served.append(number)
        with host.lock:
            now_ns = host.clock.now_ns()
            host._turns.first_due_ns()
            first = host._turns.end(now_ns, None)
            assert 0 < len(first) < len(pairs)
            while set(served) != set(range(20)):
                assert len(served) < 200, "somebody is never served"
                host._turns.first_due_ns()
                host._turns.end(host.clock.now_ns(), None)


# -- floods and slow readers -----------------------------------------------------------------------


def test_a_flood_in_one_group_does_not_hold_up_the_message_of_another(two: list[Pair]) -> None:
    one, flooded = two
    for _ in range(20):
        flooded.pass_on(flooded.say_hello)
        flooded.pass_on(flooded.send_many)
    flood = len(flooded.heard._inbox)
    one.pass_on(lambda: one.a.send(b"x"))
    assert one.engine.receive(DEADLINE_S).payload == b"x"
    # It was served in the same turn as a part of the flood, not after all of it.
    assert len(flooded.heard._inbox) > flood // 2


def test_a_reader_that_takes_nothing_does_not_hold_up_another_group() -> None:
    with ExitStack() as stack:
        host = Host()
        one = Pair(host)
        slow = Pair(host, delivery_messages=4)
        stack.callback(one.close)
        stack.callback(slow.close)
        slow.pass_on(slow.send_many)
        for number in range(50):
            slow.pass_on(slow.say_hello)
            one.pass_on(lambda number=number: one.a.send(b"%d" % number))  # type: ignore[misc]
            assert one.engine.receive(DEADLINE_S).payload == b"%d" % number
        assert [one.payload for one in slow.engine.try_receive_many(100)] == MANY[:4]


def test_sends_that_are_gathered_leave_though_another_groups_thread_leads(two: list[Pair]) -> None:
    one, other = two
    one.engine.start()
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    other.world.network.seen.clear()
    for _ in range(200):
        other.engine.try_send(b"x", None)
    seat = other.engine.seat
    wait_until(lambda: seat.burst.unsent_bytes == 0, "the rest is sent")
    one.pass_on(lambda: one.a.send(b"x"))
    assert leader.result() == [b"x"]


def test_the_rest_of_a_turn_is_done_by_who_waits_for_another_group(two: list[Pair]) -> None:
    """Its own application has its message, and does not come back."""
    one, other = two
    seat = other.engine.seat
    with seat_lock(other):
        seat.owing = True
        seat.left_ns = other.engine.clock.now_ns()
        other.engine.host._turns.outdate(seat)
    with pytest.raises(TimeoutError):
        one.engine.receive(0.1)
    assert not seat.owing


@contextmanager
def seat_lock(pair: Pair) -> Iterator[None]:
    with pair.engine.lock:
        yield


# -- failures --------------------------------------------------------------------------------------


def test_an_error_in_one_seat_ends_that_one_and_no_other(
    two: list[Pair], caplog: pytest.LogCaptureFixture
) -> None:
    one, broken = two
    fail_in_a_turn(broken)
    with caplog.at_level(logging.ERROR, "semcast"), pytest.raises(TimeoutError):
        one.engine.receive(0.01)  # whose thread runs into it
    assert [record.exc_info is not None for record in caplog.records] == [True]
    with pytest.raises(GroupClosedError, match=r"failed: RuntimeError\('a bug'\); join again"):
        broken.engine.receive(DEADLINE_S)
    one.pass_on(lambda: one.a.send(b"x"))
    assert one.engine.receive(DEADLINE_S).payload == b"x"


def test_an_error_in_the_only_seat_is_told_to_its_application() -> None:
    with sharing(1) as (broken,):
        fail_in_a_turn(broken)
        with pytest.raises(GroupClosedError, match="failed"):
            broken.engine.receive(DEADLINE_S)


def test_the_engines_thread_goes_on_after_an_error_in_one_seat(two: list[Pair]) -> None:
    one, broken = two
    fail_in_a_turn(broken)
    one.engine.start()
    wait_until(lambda: broken.engine.session.ended is not None, "it fails", DEADLINE_S)
    one.pass_on(lambda: one.a.send(b"x"))
    taken: list[bytes] = []

    def take() -> bool:
        taken.extend(message.payload for message in one.engine.try_receive_many(10))
        return bool(taken)

    wait_until(take, "the other group's message comes", DEADLINE_S)
    assert taken == [b"x"]
    assert one.engine.host._own_thread.is_alive()


def test_who_waits_for_a_group_that_fails_is_told(two: list[Pair]) -> None:
    one, broken = two
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    follower = Receiver(broken)
    wait_until(follows(broken), "it follows")
    fail_in_a_turn(broken)
    broken.pass_on(lambda: broken.a.send(b"x"))
    # The message was read before its group failed, and is not lost.
    assert follower.result() in ([GroupClosedError], [b"x"])
    one.pass_on(lambda: one.a.send(b"x"))
    assert leader.result() == [b"x"]


# -- leaving ---------------------------------------------------------------------------------------


def test_who_leads_for_one_group_goes_on_when_another_is_left(two: list[Pair]) -> None:
    one, other = two
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    follower = Receiver(other)
    wait_until(follows(other), "it follows")
    other.engine.stop()
    assert follower.result() == [GroupClosedError]
    one.pass_on(lambda: one.a.send(b"x"))
    assert leader.result() == [b"x"]


def test_what_a_left_group_had_ready_concerns_nobody(two: list[Pair]) -> None:
    """A thread may have been told of its sockets just before they were closed."""
    one, other = two
    filenos = list(other.heard.filenos())
    other.engine.stop()
    host = one.engine.host
    with host.lock:
        host._turns.read_in(host.clock.now_ns(), filenos, False)
    one.pass_on(lambda: one.a.send(b"x"))
    assert one.engine.receive(DEADLINE_S).payload == b"x"


def test_the_last_group_that_is_left_ends_the_host(two: list[Pair]) -> None:
    one, other = two
    host = one.engine.host
    one.engine.start()
    other.engine.start()
    one.engine.stop()
    one.engine.stop()  # harmless
    assert host._own_thread.is_alive()
    assert not host._inlets._leaders.closed
    other.engine.stop()
    assert not host._own_thread.is_alive()
    assert host._inlets._leaders.closed


# -- applications without a thread -----------------------------------------------------------------


def test_a_leader_tells_an_application_that_waits_without_a_thread(two: list[Pair]) -> None:
    one, unthreaded = two
    called = threading.Event()
    unthreaded.engine.notify(called.set)
    unthreaded.engine.seat.wanted = True
    leader = Receiver(one)
    wait_until(leads(one), "it leads")
    called.clear()
    unthreaded.engine.seat.wanted = True
    unthreaded.pass_on(lambda: unthreaded.a.send(b"x"))
    assert called.wait(DEADLINE_S)
    assert payloads(unthreaded.b) == [b"x"]
    one.pass_on(lambda: one.a.send(b"x"))
    assert leader.result() == [b"x"]


def test_the_engines_thread_reads_for_those_without_one_when_nobody_leads(
    two: list[Pair],
) -> None:
    """Although the other group's application was here, and may be back: its place is kept, but
    not for long.
    """
    one, unthreaded = two
    unthreaded.engine.notify(lambda: None)
    one.engine.start()
    host = one.engine.host
    for _ in range(20):
        with pytest.raises(TimeoutError):
            one.engine.receive(0.002)
        later_ns = host.clock.now_ns() + KEPT_NS
        assert not host._is_near(later_ns)
    unthreaded.pass_on(lambda: unthreaded.a.send(b"x"))
    wait_until(lambda: unthreaded.b.waiting > 0, "it is read", DEADLINE_S)
    unthreaded.engine.stop()
    with pytest.raises(TimeoutError):
        one.engine.receive(0.002)
    assert host._unthreaded == 0


def test_a_host_that_is_started_knows_of_those_who_come_later() -> None:
    with ExitStack() as stack:
        host = Host()
        first = Pair(host)
        stack.callback(first.close)
        first.engine.start()
        time.sleep(0.01)
        later = Pair(host)
        stack.callback(later.close)
        later.engine.start()
        later.world.network.seen.clear()
        wait_until(lambda: "note" in later.kinds(later.b), "it says hello", DEADLINE_S)
