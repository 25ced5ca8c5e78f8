"""Who is slow, and who is put out for it: whatever the members' clocks say, in virtual time."""

from collections.abc import Callable

import pytest
from tests.live.fake_world import World

from semcast.errors import WindowFullError
from semcast.live.health import Event, Health
from semcast.protocol.figures import WINDOW_NS
from semcast.testing import FakeMember

HOUR_NS = 3600 * 10**9
SLOW_MS = 500.0
# b takes what waits as often as this.
TAKE_NS = 200_000_000
SKEWS = pytest.mark.parametrize("ahead_ns", [-HOUR_NS, 0, HOUR_NS], ids=["behind", "same", "ahead"])


class Watched:
    """A group whose member a sends, b takes messages soon, and c when it is told to."""

    def __init__(self, ahead_ns: int, c_ahead_ns: int = 0, **settings: object) -> None:
        self.world = World()
        settings = {"slow_after_ms": SLOW_MS, "deliver_own": False} | settings
        clocks = {"a": ahead_ns, "b": 0, "c": c_ahead_ns}
        self.a, self.b, self.c = members = [
            self.world.join(name, ahead_ns=clocks[name], **settings) for name in "abc"
        ]
        assert self.world.network.run(lambda: all(one.complete for one in members))
        self._take_ns = 0
        self.taken = dict.fromkeys(members, 0)
        self.healths = {one: self._health(one) for one in members}

    def _health(self, member: FakeMember) -> Health:
        return Health(member.session, lambda: self.taken[member], lambda _: None)

    def take(self, member: FakeMember) -> None:
        self.taken[member] += len(member.receive_many())

    def run(self, seconds: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Time goes on; b takes what came, and everybody looks after its health."""

        def look() -> bool:
            if self.b.now_ns >= self._take_ns:
                self._take_ns = self.b.now_ns + TAKE_NS
                self.take(self.b)
            for member, health in self.healths.items():
                health.on_turn(member.now_ns)
            return until()

        return self.world.network.run(look, seconds)

    def send_for(self, seconds: float, reader: FakeMember | None = None) -> None:
        """A message each 30 ms, which a reader may take as it comes."""
        for number in range(round(seconds / 0.03)):
            self.a.send(b"%d" % number)
            self.run(0.03)
            if reader is not None:
                self.take(reader)

    def fill(self) -> None:
        """Send until there is no room, and none comes either."""
        refused = 0
        while refused < 5:
            try:
                self.a.send(b"one of many")
                refused = 0
            except WindowFullError:
                refused += 1
            self.run(0.05)

    def events(self, kind: str, at: FakeMember) -> list[Event]:
        return [event for event in self.healths[at].events if event.kind == kind]


@SKEWS
def test_a_slow_reader_is_reported_and_a_quick_one_is_not_whatever_the_clocks(
    ahead_ns: int,
) -> None:
    group = Watched(ahead_ns)
    group.send_for(2.0)
    for at in (group.a, group.b):
        (event,) = group.events("slow", at)
        assert event.member == "c"
        # Told by c with a hello, which may be half a second old.
        assert SLOW_MS < event.behind_ms < SLOW_MS + 1000
    assert not group.events("slow", group.c)


@SKEWS
def test_ages_are_right_also_when_the_first_window_is_long_over(ahead_ns: int) -> None:
    group = Watched(ahead_ns)
    group.send_for(3 * WINDOW_NS / 1e9, reader=group.c)
    for at in group.healths:
        assert not group.events("slow", at)
    group.send_for(2.0)
    (event,) = group.events("slow", group.a)
    assert event.member == "c"
    assert SLOW_MS < event.behind_ms < SLOW_MS + 1000
    # A sender that rests is not forgotten: what it sent gets older.
    group.run(3 * WINDOW_NS / 1e9)
    behind_ms = group.healths[group.a].views()[-1].behind_ms
    assert 3 * WINDOW_NS / 1e6 < behind_ms < 4 * WINDOW_NS / 1e6


def test_a_slow_event_says_who_since_when_how_far_behind_and_which_share_was_replaced() -> None:
    group = Watched(HOUR_NS)
    group.a.send(b"never replaced")
    sent_ns = group.a.now_ns
    for number in range(30):
        group.a.send(b"%d" % number, replaces="key")
    group.run(0.05)
    assert group.c.waiting == 2
    group.run(2.0)
    (event,) = group.events("slow", group.a)
    assert (event.kind, event.member) == ("slow", "c")
    # As it was when c last said so: up to one hello ago.
    assert abs(event.since_ns - sent_ns) < 600e6
    assert event.since_ns == event.time_ns - round(event.behind_ms * 1e6)
    assert event.behind_messages == 2
    assert event.purge_ratio == 1.0  # 29 of 29 that are dealt with: c has taken nothing
    assert "100%" in event.text
    group.take(group.c)
    group.run(1.0)
    (recovered,) = group.events("recovered", group.a)
    assert recovered.since_ns == event.since_ns
    (view,) = [one for one in group.healths[group.a].views() if one.name == "c"]
    assert view.purge_ratio == pytest.approx(29 / 31)


SMALL = {"window_messages": 8, "delivery_messages": 8}


@SKEWS
def test_a_slow_reader_that_lives_is_put_out_if_the_configuration_says_so(ahead_ns: int) -> None:
    group = Watched(ahead_ns, evict_after_s=3.0, **SMALL)
    group.fill()
    group.run(2.5)
    assert [event.member for event in group.events("slow", group.a)] == ["c"]
    assert not group.events("evicted", group.a), "not before its time is over"
    assert group.run(2.0, lambda: bool(group.events("evicted", group.a)))
    group.run(1.0)
    for at in (group.a, group.b):
        assert [event.member for event in group.events("evicted", at)] == ["c"]
    assert not group.events("silent", group.a), "c was alive"
    assert group.c.session.ended is not None
    group.a.send(b"there is room again")


@SKEWS
def test_a_slow_reader_is_waited_for_by_default(ahead_ns: int) -> None:
    group = Watched(ahead_ns, **SMALL)
    group.fill()
    group.run(30.0)
    assert group.events("slow", group.a)
    assert group.events("blocked", group.a)
    for at in group.healths:
        assert not group.events("evicted", at)
    group.take(group.c)
    group.run(5.0)
    group.a.send(b"there is room again")


@SKEWS
def test_a_slow_reader_that_is_in_nobodys_way_stays(ahead_ns: int) -> None:
    group = Watched(ahead_ns, evict_after_s=1.0)
    group.a.send(b"one")
    group.run(10.0)
    assert [event.member for event in group.events("slow", group.a)] == ["c"]
    assert not group.events("evicted", group.a)


@SKEWS
def test_who_keeps_up_is_not_put_out_whatever_the_clocks(ahead_ns: int) -> None:
    """While a is blocked because of c, b always has something of c's that it has not taken yet."""
    group = Watched(0, c_ahead_ns=ahead_ns, evict_after_s=3.0, **SMALL)
    group.fill()
    for _ in range(500):
        if group.c.session.ended is not None:
            break
        group.c.send(b"new", replaces="key")
        group.run(0.03)
        group.take(group.a)
    group.run(5.0)
    for at in (group.a, group.b):
        assert [event.member for event in group.events("evicted", at)] == ["c"]
        assert "b" not in [event.member for event in group.events("slow", at)]
