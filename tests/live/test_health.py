"""Who is slow, and who is put out for it: whatever the members' clocks say, in virtual time."""

import logging
from collections.abc import Callable

import pytest
from tests.live.fake_world import World

from semcast.errors import WindowFullError
from semcast.live.meeting.health import Event, Health
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
        # What is logged: by whom, at which level, and what.
        self.logged: list[tuple[str, str, Event]] = []
        self.healths = {one: self._health(one) for one in members}

    def _health(self, member: FakeMember) -> Health:
        def log(event: Event, level: int) -> None:
            self.logged.append((member.session.config.name, logging.getLevelName(level), event))

        return Health(member.session, lambda: self.taken[member], lambda _: None, log)

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
    # 29 of 31 that came, although c has dealt with no others yet.
    assert event.purge_ratio == pytest.approx(29 / 31)
    assert "94%" in event.text
    group.take(group.c)
    group.run(1.0)
    (recovered,) = group.events("recovered", group.a)
    assert recovered.since_ns == event.since_ns
    (view,) = [one for one in group.healths[group.a].views() if one.name == "c"]
    assert view.purge_ratio == pytest.approx(29 / 31)


def test_a_slow_event_counts_what_waits_among_what_came() -> None:
    """Of twenty messages one is replaced, and some find no room in the buffer."""
    group = Watched(0, delivery_messages=8, window_messages=64)
    for number in range(20):
        group.a.send(b"%d" % number, replaces="key" if number in (3, 4) else None)
    group.run(3.0)
    (event,) = group.events("slow", group.a)
    assert event.purge_ratio == pytest.approx(1 / 20)
    assert " 5% of what came" in event.text


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
    assert not group.events("suspected", group.a), "c was alive"
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


# -- who waits in drain ----------------------------------------------------------------------------


def test_a_silent_member_that_only_a_drain_waits_for_is_put_out() -> None:
    group = Watched(0, evict_after_s=3.0)
    group.world.network.unplugged.add(group.c.session.transport.address[0])
    group.a.send(b"one")
    group.run(30.0)
    assert [event.member for event in group.events("suspected", group.a)] == ["c"]
    assert not group.events("evicted", group.a), "nobody waits"
    group.a.session.drains = 1
    group.run(2.5)
    assert not group.a.stable
    assert not group.events("evicted", group.a), "nobody waits for that long"
    assert group.run(30.0, lambda: group.a.stable)
    group.run(1.0)
    assert [event.member for event in group.events("evicted", group.a)] == ["c"]


def test_a_slow_member_without_room_that_only_a_drain_waits_for_is_put_out() -> None:
    group = Watched(0, evict_after_s=3.0, delivery_messages=8, window_messages=64)
    for number in range(20):
        group.a.send(b"%d" % number)
    group.a.session.drains = 1
    assert group.run(60.0, lambda: group.a.stable)
    group.run(1.0)
    assert not group.events("blocked", group.a)
    assert [event.member for event in group.events("evicted", group.a)] == ["c"]
    assert not group.events("suspected", group.a), "c was alive"


def test_a_slow_member_that_has_everything_is_in_no_drains_way() -> None:
    group = Watched(0, evict_after_s=1.0)
    group.world.network.unplugged.add(group.b.session.transport.address[0])
    group.a.send(b"one")
    group.a.session.drains = 1
    assert group.run(60.0, lambda: group.a.stable)
    group.run(1.0)
    assert [event.member for event in group.events("evicted", group.a)] == ["b"]
    assert [event.member for event in group.events("slow", group.a)] == ["c"]


# -- what is logged --------------------------------------------------------------------------------


def warned(group: Watched) -> list[tuple[str, str]]:
    """Who warned of whom."""
    return [(who, event.member) for who, level, event in group.logged if level == "WARNING"]


def test_a_slow_member_is_logged_once_a_minute_by_one_member_of_the_group() -> None:
    group = Watched(0)
    group.a.send(b"one")
    group.run(30.0)
    assert group.events("slow", group.a)
    assert group.events("slow", group.b)
    assert warned(group) == [("a", "c")]
    group.run(130.0)
    assert warned(group) == 3 * [("a", "c")]
    assert len(group.events("slow", group.a)) == 1, "a state that goes on is no news"
    group.take(group.c)
    group.run(5.0)
    told = [(who, level) for who, level, event in group.logged if event.kind == "recovered"]
    assert sorted(told) == [("a", "INFO"), ("b", "DEBUG")]


def test_a_member_that_is_slow_again_and_again_is_logged_once_a_minute() -> None:
    group = Watched(0)
    for _ in range(20):
        group.a.send(b"one")
        group.run(2.0)
        group.take(group.c)
        group.run(1.0)
    group.run(1.0)  # a hello takes half a second to say that it keeps up again
    assert len(group.events("slow", group.a)) == len(group.events("recovered", group.a)) == 20
    assert warned(group) == [("a", "c")]
    # It does not stay unsaid for ever if it is slow for good.
    group.a.send(b"one")
    group.run(30.0)
    assert warned(group) == 2 * [("a", "c")]


def test_another_member_logs_who_is_slow_when_the_first_is_gone() -> None:
    group = Watched(0)
    group.a.send(b"one")
    group.run(5.0)
    group.b.send(b"two")
    group.world.network.unplugged.add(group.a.session.transport.address[0])
    group.run(30.0)
    assert [one for one in warned(group) if one[1] == "c" and one[0] != "a"] == [("b", "c")]


def test_a_slow_member_that_falls_silent_is_not_logged_as_slow_any_more() -> None:
    group = Watched(0)
    group.a.send(b"one")
    group.run(5.0)
    group.world.network.unplugged.add(group.c.session.transport.address[0])
    group.run(130.0)
    kinds = [event.kind for who, _, event in group.logged if (who, event.member) == ("a", "c")]
    assert kinds == ["slow", "suspected"]
