"""The same on hosts of their own: a sends as fast as it can, b takes all, c is perturbed.

`test_perturbed.py` says at which rates, in virtual time. Here the links, the clocks and the engines
are real, and nothing is asserted that a busy machine could change: how far a gets while c stands
still, whether anything was purged where it must be, and that every promise was kept. `pytest -s`
shows at which rates b got everything on this machine.
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
BUFFER = 40
MESSAGES = 400
# Of each eight messages that a has sent, the slow application takes five.
TAKEN, OF = 5, 8


class Bench:
    """Three processes that come together in one group after another."""

    def __init__(self, hosts: Hosts, folder: Path) -> None:
        self.hosts = hosts
        self._folder = folder
        self._runs = 0

    def begin(self, purging: bool, size: int = 4, count: int = MESSAGES) -> Path:
        """A group in which a sends; says where its journal is."""
        self._runs += 1
        folder = self._folder / f"{self._runs}"
        self.hosts.meet(group=new_group(), purging=purging, record=str(folder))
        for name in "ab":
            self.hosts[name].call("collect")
        self.hosts["a"].call("traffic", count=count, keys=5, marked=0.5, size=size)
        return folder

    def end(self, folder: Path, purging: bool) -> None:
        """All take what is left and leave; every promise is held against the journal."""
        self.hosts["c"].call("collect")
        wait_until(lambda: not self.hosts["a"].call("sending"), "a is silent")
        leave_all(self.hosts)
        judge(folder, purging)

    def stat(self, host: str, name: str) -> int:
        return int(self.hosts[host].call("stats")[name])

    def purged(self, host: str, where: str, purging: bool, size: int = 4) -> int:
        """How many were purged there, of all that a sent while c took whatever came."""
        folder, began_s = self.begin(purging, size), time.monotonic()
        self.hosts["c"].call("collect")
        wait_until(lambda: not self.hosts["a"].call("sending"), "a has sent all")
        rate_msg_s = MESSAGES / (time.monotonic() - began_s)
        print(f"{'purging' if purging else 'plain'}: a sent {rate_msg_s:.1f} messages/s")
        found = self.stat(host, where)
        self.end(folder, purging)
        return found


def judge(folder: Path, purging: bool) -> None:
    """Every promise was kept, and there was something to judge each of them by."""
    journal = read_journal(folder)
    report = check_all(journal)
    assert report.ok, str(report)
    unjudged = {name for name, events in report.judged.items() if events == 0}
    assert unjudged <= {"State"}
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
        yield Bench(hosts, tmp_path_factory.mktemp("perturbed"))


@pytest.mark.parametrize("purging", [True, False])
def test_with_purging_a_slow_application_does_not_hold_the_sender_up(
    bench: Bench, purging: bool
) -> None:
    """It takes five messages for each eight that were sent, whenever that is. What is waiting for
    it, at the sender and at its own, is never more than two buffers. SRM Figures 1(a) and 8(a).
    """
    folder = bench.begin(purging, count=1_000_000)
    c, taken = bench.hosts["c"], 0

    def go_on() -> int:
        nonlocal taken
        sent = bench.stat("a", "multicast")
        owed = sent * TAKEN // OF - taken
        if owed > 0:
            taken += len(c.call("receive", count=owed, timeout=0.1))
        return sent

    bound = 2 * BUFFER * OF // (OF - TAKEN)
    if purging:
        wait_until(lambda: go_on() > 5 * bound, "a goes on and on")
    else:
        wait_until(lambda: go_on() > 2 * BUFFER, "both buffers are full")
        for _ in range(50):
            assert go_on() <= bound + 1
    bench.hosts["a"].start("stop_sending")
    c.call("collect")
    bench.hosts["a"].finish()
    bench.end(folder, purging)


@pytest.mark.parametrize("late_ms", [20, 120])
def test_where_packets_take_long_the_window_makes_room_by_purging(
    bench: Bench, late_ms: int
) -> None:
    """Some are purged at the sender before they are stable. SRM Figures 1(b) and 8(b)."""
    with bench.hosts.network.delay("c", ms=late_ms):
        assert bench.purged("a", "purged_retransmit", purging=True) > 0
        assert bench.purged("a", "purged_retransmit", purging=False) == 0


def test_where_a_link_is_narrow_what_was_replaced_is_not_repaired(bench: Bench) -> None:
    """The bridge drops what the link does not carry. SRM Figures 1(c) and 8(c)."""
    with bench.hosts.network.narrow("c", kbit=1000):
        assert bench.purged("a", "purged_retransmit", purging=True, size=1000) > 0
        assert bench.purged("a", "purged_retransmit", purging=False, size=1000) == 0
