"""On an overloaded machine, `Watch` accuses far fewer healthy members than a time-out does."""

from bench.detection import MACHINES, Trial, of_timeout, of_watch
from bench.watchers import MS_NS, SECOND_NS

from semcast.protocol.membership.waits import WatchConfig

TIMES, _, ALWAYS = MACHINES
HALF_AN_HOUR_NS = 1_800 * SECOND_NS


def test_where_closed_ports_are_told_at_most_a_fiftieth_are_accused_at_the_same_speed() -> None:
    """docs/design/membership.md has the figures. The time-out here is slower than `Watch`."""
    for machine in (TIMES, ALWAYS):
        watch = Trial(machine, of_watch(WatchConfig()), "bench", True).run(HALF_AN_HOUR_NS)
        timeout = of_timeout(WatchConfig(), 500 * MS_NS)
        fixed = Trial(machine, timeout, "bench", False).run(HALF_AN_HOUR_NS)
        assert watch.detection_ms_p50 < fixed.detection_ms_p50
        assert watch.undetected == 0
        assert watch.accused * 50 <= fixed.accused


def test_by_silence_alone_far_fewer_are_accused_where_overload_comes_and_goes() -> None:
    watch = Trial(TIMES, of_watch(WatchConfig()), "silence", False).run(HALF_AN_HOUR_NS)
    timeout = of_timeout(WatchConfig(), int((watch.detection_ms_p50 + 125) * MS_NS))
    fixed = Trial(TIMES, timeout, "silence", False).run(HALF_AN_HOUR_NS)
    assert fixed.accused > 20
    assert watch.accused * 8 <= fixed.accused
