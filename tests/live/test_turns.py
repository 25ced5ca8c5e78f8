"""Turns: messages before whatever else is due, and what is due not forgotten for it."""

import threading
import time
from collections.abc import Iterator

import pytest
from tests.live.fake_world import World, payloads
from tests.live.pair import MANY, Pair

from semcast.errors import GroupClosedError
from semcast.live.host.timing import AWAY_LONG_NS, CALM_NS, PAUSE_NS, SOON_NS
from semcast.live.host.waiting import Action
from semcast.wire.message import Message

TRIES = 300
DEADLINE_S = 30.0


@pytest.fixture
def pair() -> Iterator[Pair]:
    made = Pair()
    yield made
    made.close()


def test_a_message_is_sent_before_whatever_else_is_due(pair: Pair) -> None:
    pair.world.network.seen.clear()
    pair.engine.try_send(b"x", None)
    found = pair.kinds(pair.b)
    assert found[0] == "frames"
    assert "note" in found, "a hello was due, too"


def test_the_engine_does_what_a_sender_that_pauses_leaves_to_it(pair: Pair) -> None:
    pair.world.network.seen.clear()
    pair.engine.start()
    until_s = time.monotonic() + DEADLINE_S
    while "note" not in pair.kinds(pair.b) and time.monotonic() < until_s:
        time.sleep(2 * PAUSE_NS / 1e9)
        pair.engine.try_send(b"goes on", None)
    assert "note" in pair.kinds(pair.b)


def receive_with_a_note(pair: Pair, number: int, away_s: float) -> bool:
    """A hello and a message of a's arrive in one go after b has waited. Whether the hello is read
    already when b has the message, to which it comes after so many seconds elsewhere.
    """
    before_ns = pair.heard_of_a_ns()
    datagrams = pair.sent(lambda: pair.hello_and(b"%d" % number))
    with pytest.raises(TimeoutError):
        pair.engine.receive(0.001)
    pair.arrive(datagrams)
    if away_s:
        time.sleep(away_s)
    message = pair.engine.receive(DEADLINE_S)
    assert message.payload == b"%d" % number
    return pair.heard_of_a_ns() > before_ns


def test_who_comes_back_soon_has_a_message_before_what_else_came_is_read(pair: Pair) -> None:
    """On a busy machine it is not always soon back; but it is now and then."""
    assert not all(receive_with_a_note(pair, number, 0.0) for number in range(TRIES))
    before_ns = pair.heard_of_a_ns()
    with pytest.raises(TimeoutError):
        pair.engine.receive(0.01)
    assert pair.b.session.next_deadline_ns() > before_ns, "it is read when there is time"


def test_who_stays_away_leaves_nothing_undone(pair: Pair) -> None:
    away_s = 4 * SOON_NS / 1e9
    assert all(receive_with_a_note(pair, number, away_s) for number in range(20))


def test_what_is_due_is_done_though_the_application_does_not_come_back(pair: Pair) -> None:
    """The engine's thread sees to it."""
    pair.engine.start()
    for number in range(TRIES):
        if not receive_with_a_note(pair, number, 0.0):
            break
    waited_s = 0.0
    while pair.b.session.next_deadline_ns() == 0 and waited_s < DEADLINE_S:
        time.sleep(0.01)
        waited_s += 0.01
    assert pair.b.session.next_deadline_ns() > 0


def test_a_note_between_messages_holds_none_of_them_up(pair: Pair) -> None:
    """Notes are read after the messages that came with them, and are not lost."""
    b, before_ns = pair.b, pair.heard_of_a_ns()
    pair.pass_on(lambda: pair.hello_and(b"x"))
    now_ns = pair.engine.clock.now_ns()
    b.session.on_readable(now_ns)
    assert payloads(b) == [b"x"]
    assert pair.heard_of_a_ns() == before_ns
    assert b.session.next_deadline_ns() <= now_ns
    b.session.on_timer(now_ns)
    assert pair.heard_of_a_ns() == now_ns


def test_notes_that_wait_are_few(pair: Pair) -> None:
    for _ in range(200):
        pair.pass_on(pair.say_hello)
    now_ns = pair.engine.clock.now_ns()
    while pair.b.session.on_readable(now_ns) > 0:
        pass
    assert len(pair.b.session._notes) < 64
    assert pair.heard_of_a_ns() == now_ns


def test_a_sender_that_goes_on_reads_the_sockets_now_and_then(pair: Pair) -> None:
    """And so needs no other thread to do it, which would be in its way."""
    pair.pass_on(pair.send_many)
    for _ in range(TRIES):
        pair.engine.try_send(b"own", None)
    assert [one for one in payloads(pair.b) if one != b"own"] == MANY


def test_a_sender_that_pauses_leaves_the_sockets_to_the_engine(pair: Pair) -> None:
    """Its messages are just being received, perhaps on the same processor."""
    pair.pass_on(pair.send_many)
    for _ in range(10):
        time.sleep(2 * PAUSE_NS / 1e9)
        pair.engine.try_send(b"own", None)
    assert set(payloads(pair.b)) == {b"own"}
    pair.engine.start()
    found: list[bytes] = []
    until_s = time.monotonic() + DEADLINE_S
    while found != MANY and time.monotonic() < until_s:
        time.sleep(2 * PAUSE_NS / 1e9)
        pair.engine.try_send(b"own", None)
        taken = [one.payload for one in pair.engine.try_receive_many(TRIES)]
        found += [one for one in taken if one != b"own"]
    assert found == MANY


def test_who_waits_without_a_thread_leaves_the_sockets_to_the_engine_all_the_time(
    pair: Pair,
) -> None:
    """A look now and then would not do: nobody else reads them."""
    pair.engine.notify(lambda: None)
    for _ in range(10):
        time.sleep(2 * PAUSE_NS / 1e9)
        pair.engine.try_send(b"own", None)
    away_ns = pair.engine.host._attention.away_ns(pair.engine.clock.now_ns())
    assert away_ns > AWAY_LONG_NS, "it was never here"


def test_who_waited_has_a_datagram_before_the_next_is_looked_for(pair: Pair) -> None:
    """And who finds some there at once reads all of them: it is behind. On a busy machine even that
    takes a while now and then.
    """
    with pytest.raises(TimeoutError):
        pair.engine.receive(0.01)
    datagrams = pair.sent(pair.send_many)

    def arrive() -> None:
        pair.heard.calm.clear()
        while pair.engine.host._place.leader is None:
            time.sleep(0.0001)
        time.sleep(10 * CALM_NS / 1e9)
        pair.arrive(datagrams)

    sender = threading.Thread(target=arrive, daemon=True)
    sender.start()
    taken = [pair.engine.receive(DEADLINE_S).payload for _ in MANY]
    sender.join()
    assert taken == MANY
    first = pair.heard.calm.index(True)
    assert not all(pair.heard.calm[first + 1 :])


def test_a_receiver_that_is_slow_reads_all_that_came_meanwhile(pair: Pair) -> None:
    """What stays in the sockets cannot be purged, and would grow old there."""
    pair.pass_on(pair.send_many)
    assert pair.engine.receive(DEADLINE_S).payload == MANY[0]
    assert payloads(pair.b) == MANY[1:]


def test_the_engine_reads_for_a_sender_that_sends_no_more(pair: Pair) -> None:
    pair.engine.start()
    pair.engine.try_send(b"x", None)
    pair.pass_on(lambda: pair.a.send(b"for b"))
    # Neither of these calls reads the sockets itself.
    own = pair.engine.try_receive()
    assert own is not None
    assert own.payload == b"x"
    waited_s = 0.0
    taken: list[Message] = []
    while not taken and waited_s < DEADLINE_S:
        time.sleep(0.001)
        waited_s += 0.001
        taken = pair.engine.try_receive_many(1)
    assert [one.payload for one in taken] == [b"for b"]


def is_closed(pair: Pair) -> bool:
    return pair.engine.host._inlets._leaders.closed


def test_leaving_closes_nothing_that_somebody_is_about_to_wait_for(pair: Pair) -> None:
    host, seat = pair.engine.host, pair.engine.seat
    now_ns = pair.engine.clock.now_ns()
    # A thread that has let go of the lock, and comes to wait only after the group was left.
    assert host._place.ask(seat, False, now_ns) is Action.LEAD
    pair.engine.stop()
    assert not is_closed(pair)
    with host.lock:
        host._lead(seat, now_ns, now_ns + int(DEADLINE_S * 1e9))
    assert is_closed(pair)
    waited_ns = int(pair.engine.clock.now_ns() - now_ns)
    assert waited_ns < DEADLINE_S * 1e9 / 2, "it was woken"


def test_who_waits_is_told_when_another_thread_leaves(pair: Pair) -> None:
    pair.engine.start()
    found: list[Exception] = []

    def receive() -> None:
        try:
            pair.engine.receive(DEADLINE_S)
        except Exception as error:
            found.append(error)

    waiting = threading.Thread(target=receive, daemon=True)
    waiting.start()
    while pair.engine.host._place.leader is None:
        time.sleep(0.0001)
    pair.engine.stop()
    waiting.join(DEADLINE_S)
    assert [type(error) for error in found] == [GroupClosedError]
    assert is_closed(pair)


def test_members_do_not_answer_each_others_gossip_for_ever() -> None:
    """Three members, and 10,000 messages in a second: there is always something to tell."""
    world = World(delay_ms=(0.05, 0.2))
    members = world.gather(deliver_own=False)
    network = world.network
    network.run(seconds=1.0)
    before = sum(one.session.transport.counters["datagrams_out"] for one in members)
    for _ in range(10_000):
        members[0].send(b"x")
        network.run(seconds=0.0001)
        for one in members[1:]:
            one.receive_many()
    sent = sum(one.session.transport.counters["datagrams_out"] for one in members) - before
    others = sent - 10_000
    # Of each member a vector every 120 ms, perhaps one for who has not heard of it 30 ms later, and
    # a hello every 500 ms.
    assert 3 * 8 <= others <= 3 * (2 * 9 + 3)
