"""When whoever waits is awake, and what it leaves to others: in a time of the test's own."""

from contextlib import closing
from functools import partial

import pytest
from tests.live.pair import LOOK_NS, MS, Pair, Script

from semcast.live.host.timing import LATE_NS, PAUSE_NS

DEADLINE_S = 30.0
REGULAR_NS = 30 * MS
MESSAGES = 40


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(monkeypatch)


def receive_at(pair: Pair, script: Script, times_ns: list[int]) -> None:
    """Messages of a's come at these times, and b waits for one after the other."""
    for number, at_ns in enumerate(times_ns):
        datagrams = pair.sent(partial(pair.a.send, b"%d" % number))
        script.comes(at_ns, partial(pair.arrive, datagrams))
    for number in range(len(times_ns)):
        assert pair.engine.receive(DEADLINE_S).payload == b"%d" % number


@pytest.mark.parametrize("spin_us", [0, 10_000])
def test_where_messages_come_soon_the_receiver_stays_awake_unless_told_not_to(
    spin_us: int, script: Script
) -> None:
    """Within 10 ms is soon here, and these are 5 ms apart."""
    with closing(Pair(spin_us=spin_us)) as pair:
        receive_at(pair, script, [number * 5 * MS for number in range(1, MESSAGES)])
    if spin_us:
        assert all(script.seen_awake[MESSAGES // 2 :])
    else:
        assert script.let_others == 0


def test_nobody_stays_awake_for_longer_than_said(script: Script) -> None:
    """Messages came soon, so the next one is watched for; but then none comes for a second."""
    spin_ns = MS
    with closing(Pair(spin_us=spin_ns // 1000)) as pair:
        receive_at(pair, script, [number * spin_ns // 2 for number in range(1, MESSAGES)])
        before = script.let_others
        with pytest.raises(TimeoutError):
            pair.engine.receive(1.0)
    # It watches anew after each turn that is due meanwhile, and those are few.
    awake_ns = 2 * LOOK_NS * (script.let_others - before)
    assert spin_ns // 2 < awake_ns < 1000 * MS // 4


@pytest.mark.parametrize("high", [False, True])
def test_who_waits_for_regular_messages_wakes_up_in_time(high: bool, script: Script) -> None:
    """Messages are longer apart than it may stay awake. With descriptors that `select` does not
    know there is no sleep that is short enough, and all messages come nevertheless.
    """
    spin_ns = REGULAR_NS // 3
    script.high = high
    with closing(Pair(spin_us=spin_ns // 1000)) as pair:
        receive_at(pair, script, [number * REGULAR_NS for number in range(1, MESSAGES)])
    if not high:
        assert all(script.seen_awake[MESSAGES // 2 :])
        # Each time it looks once and lets others go first once.
        assert 2 * LOOK_NS * script.let_others < MESSAGES * spin_ns, "it slept until shortly before"


def test_who_waits_for_messages_that_come_at_random_sleeps(script: Script) -> None:
    times_ns = [number * REGULAR_NS + number**3 * 7919 % REGULAR_NS for number in range(MESSAGES)]
    with closing(Pair(spin_us=100)) as pair:
        receive_at(pair, script, sorted(times_ns))
    assert script.let_others == 0


@pytest.mark.parametrize(
    ("overdue_ns", "sent"), [(0, ["frames"]), (LATE_NS, ["frames", "note"])], ids=["due", "late"]
)
def test_who_pauses_between_sends_leaves_to_the_engine_what_is_due_but_not_what_is_late(
    overdue_ns: int, sent: list[str], script: Script
) -> None:
    """The sender would do it just when the receivers need the processors."""
    with closing(Pair()) as pair:
        pair.engine.try_send(b"first", None)
        script.sleep(2 * PAUSE_NS)
        pair.world.network.seen.clear()
        pair.b.session._hello_ns = int(pair.engine.clock.now_ns()) - overdue_ns
        pair.engine.try_send(b"second", None)
        assert pair.kinds(pair.b) == sent
