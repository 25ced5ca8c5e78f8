"""One receiver of three is perturbed in the three ways of SRM Figures 1 and 8: what do others get?

Hosts on a bridge: a sends 200 messages a second, b is as fast as it can, c is perturbed. Traffic,
buffers and periods are those of SRM §6.1: half of all messages replace others, in five keys, so
that the distance to the one replaced has the distribution (3) with r = 0.5 and d = 5. S-RM, with
purging and without. Rates are compared with each other only. `pytest -s` shows them.
"""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.live.groups import new_group, wait_until
from tests.live.journals import leave_all
from tests.live.material import Way
from tests.live.namespace import lan
from tests.live.test_namespaces import Hosts

from semcast.check import check_all
from semcast.journal import read_journal

pytest.importorskip("pyarrow")
GAP_S = 0.005
# Longer than it takes to fill all buffers: the rate before that is the sender's own.
SETTLING_S = 1.5
MEASURED_S = 3.0
BUFFER = 40


class Bench:
    """Three processes that come together in one group after another, and what was measured."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self._folder = folder
        self.offered = self._rate("nothing", purging=False)
        # What c was perturbed by, and the rates with purging and without.
        self.rates: dict[str, tuple[float, float]] = {}

    def compare(self, what: str, busy_s: float = 0.0, size: int = 4) -> tuple[float, float]:
        """Messages a second that b gets: with purging, and without."""
        purged = self._rate(what, True, busy_s, size)
        plain = self._rate(what, False, busy_s, size)
        self.rates[what] = purged, plain
        return purged, plain

    def _rate(self, what: str, purging: bool, busy_s: float = 0.0, size: int = 4) -> float:
        hosts, folder = self.hosts, self._folder / f"{what}, {purging}"
        hosts.meet(group=new_group(), purging=purging, record=str(folder))
        for node in hosts:
            node.call("collect", busy_s=busy_s if node.name == "c" else 0.0)
        hosts["a"].call("traffic", count=1_000_000, keys=5, marked=0.5, size=size, gap_s=GAP_S)
        time.sleep(SETTLING_S)
        began_s, before = time.monotonic(), hosts["b"].call("count", sender="a")
        time.sleep(MEASURED_S)
        got = hosts["b"].call("count", sender="a") - before
        rate: float = got / (time.monotonic() - began_s)
        hosts["a"].call("stop_sending")
        wait_until(lambda: not hosts["a"].call("sending"), "a is silent")
        leave_all(hosts)
        judge(folder, purging)
        return rate

    def __str__(self) -> str:
        lines = [f"\n{'messages/s at b, c has':26}{'purging':>10}{'plain':>10}"]
        lines.append(f"{'nothing in its way':26}{'':10}{self.offered:10.1f}")
        for what, (purged, plain) in self.rates.items():
            lines.append(f"{what:26}{purged:10.1f}{plain:10.1f}")
        return "\n".join(lines)


def judge(folder: Path, purging: bool) -> None:
    """Every promise was kept, and there was something to judge each of them by."""
    journal = read_journal(folder)
    report = check_all(journal)
    assert report.ok, str(report)
    unjudged = {name for name, events in report.judged.items() if events == 0}
    assert unjudged == set()
    purged = next((one for one in journal if one.event == "purge"), None)
    assert (purged is not None) == purging


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    settings = {
        "reliability": "group", "k": 32, "gossip_period_ms": 30.0, "gossip_fanout": 3,
        "window_messages": BUFFER, "delivery_messages": BUFFER, "path_mtu_bytes": 1500,
    }  # fmt: skip
    way = Way("multicast", ipv6=False)
    with lan("abc") as network, closing(Hosts(network, way, **settings)) as hosts:
        for host in network.hosts:
            hosts.spawn(host)
        built = Bench(hosts, tmp_path_factory.mktemp("perturbed"))
        yield built
        print(built)


def test_with_purging_a_slow_application_does_not_slow_others(bench: Bench) -> None:
    """It takes longer for a message than lies between two. SRM Figures 1(a) and 8(a)."""
    purged, plain = bench.compare("8 ms for each message", busy_s=0.008)
    assert plain < 0.8 * bench.offered
    assert purged > 1.25 * plain
    assert purged > 0.8 * bench.offered


def test_packets_that_take_long_slow_nobody_as_long_as_the_window_covers_it(bench: Bench) -> None:
    """A round trip takes 8 of the 40 messages that may be under way. SRM Figures 1(b) and 8(b)."""
    with bench.hosts.network.delay("c", ms=20):
        purged, plain = bench.compare("packets 20 ms late")
    assert min(purged, plain) > 0.8 * bench.offered


def test_with_purging_the_window_covers_packets_that_take_longer(bench: Bench) -> None:
    """A round trip takes 48 messages, and 40 may be under way; of these some are purged at the
    sender before they are stable, which makes room for others. SRM Figures 1(b) and 8(b).
    """
    with bench.hosts.network.delay("c", ms=120):
        purged, plain = bench.compare("packets 120 ms late")
    assert plain < 0.8 * bench.offered
    assert purged > 1.2 * plain


def test_with_purging_others_get_more_when_a_link_is_narrow(bench: Bench) -> None:
    """The link carries half of what is sent, and the bridge drops the rest: what was replaced
    before it could be repaired need not be sent again. SRM Figures 1(c) and 8(c).

    A bridge that held a whole window for c would drop nothing, and there would be nothing to gain:
    what is on its way can no longer be purged.
    """
    with bench.hosts.network.narrow("c", kbit=1000):
        purged, plain = bench.compare("a link of 1,000 kbit/s", size=1000)
    assert plain < 0.8 * bench.offered
    assert purged > 1.3 * plain
