"""One receiver of three is perturbed in the three ways of SRM Figures 1 and 8: what do others get?

Real sessions on a network in memory, in virtual time, so that rates are the protocol's and not the
machine's: a sends 200 messages a second, b is as fast as it can, c is perturbed. Traffic, buffers
and periods are those of SRM §6.1: half of all messages replace others, in five keys, so that the
distance to the one replaced has the distribution (3) with r = 0.5 and d = 5. S-RM, with purging
and without. `test_perturbed_hosts.py` has the same on real links; `pytest -s` shows the rates.
"""

import random
from dataclasses import dataclass

from tests.live.fake_world import SECRET, World

from semcast.errors import WindowFullError
from semcast.live.sockets.address import Address
from semcast.testing import FakeMember, FakeNetwork

MS = 1_000_000
GAP_NS = 5 * MS
TICK_NS = 1 * MS
OFFERED_MSG_S = 1000 * MS // GAP_NS
# Longer than it takes to fill all buffers: the rate before that is the sender's own.
SETTLING_TICKS = 1500
MEASURED_TICKS = 3000
BUFFER = 40
SETTINGS = {
    "reliability": "group", "k": 32, "gossip_period_ms": 30.0, "gossip_fanout": 3,
    "window_messages": BUFFER, "delivery_messages": BUFFER, "secret": SECRET,
}  # fmt: skip
# What Ethernet, IP and UDP put around a datagram.
AROUND_BYTES = 42


@dataclass(frozen=True)
class Perturbed:
    """What is the matter with c."""

    busy_ms: int = 0
    delay_ms: int = 0
    kbit_s: int = 0
    size: int = 4


class PerturbedNetwork(FakeNetwork):
    """One whose link to the last host takes longer, both ways, or carries less: what waits for a
    narrow link is eight full packets, and the rest is lost.
    """

    perturbed = Perturbed()
    far: Address | None = None
    _free_ns = 0

    def inject(self, source: Address, to: Address, datagram: bytes) -> None:
        if source == to or self.far not in (source, to):
            super().inject(source, to, datagram)
            return
        wait_ns = self.perturbed.delay_ms * MS
        if self.perturbed.kbit_s and to == self.far:
            takes_ns = (len(datagram) + AROUND_BYTES) * 8 * MS // self.perturbed.kbit_s
            self._free_ns = max(self._free_ns, self.now_ns)
            if self._free_ns - self.now_ns > 12_000 * 8 * MS // self.perturbed.kbit_s:
                return
            self._free_ns += takes_ns
            wait_ns += self._free_ns - self.now_ns
        usual = self.delay_ms
        self.delay_ms = (usual[0] + wait_ns / MS, usual[0] + wait_ns / MS)
        super().inject(source, to, datagram)
        self.delay_ms = usual


class Feed:
    """What a sends: at its times, and what had to wait as soon as there is room."""

    def __init__(self, member: FakeMember, size: int) -> None:
        self._member = member
        self._size = size
        self._stream = random.Random("perturbed")
        self._sent = 0
        self._next: tuple[bytes, str | None] | None = None

    def go_on(self, ticks: int) -> None:
        """After so many ticks."""
        while self._sent * GAP_NS <= ticks * TICK_NS:
            if self._next is None:
                marked = self._stream.random() < 0.5
                key = f"k{self._stream.randrange(5)}" if marked else None
                self._next = f"{self._sent}:".ljust(self._size, ".").encode(), key
            try:
                self._member.send(*self._next)
            except WindowFullError:
                return
            self._next = None
            self._sent += 1


def rate(perturbed: Perturbed, purging: bool, seed: int = 1) -> float:
    """Messages a second that b gets; every promise is held against the journal."""
    world = World()
    world.network = network = PerturbedNetwork(seed)
    a, b, c = members = world.gather(purging=purging, **SETTINGS)
    network.perturbed, network.far = perturbed, c.session.transport.address
    feed, got, free_ticks = Feed(a, perturbed.size), 0, 0
    for tick in range(SETTLING_TICKS + MEASURED_TICKS):
        feed.go_on(tick)
        network.run(seconds=TICK_NS / 1e9)
        a.receive_many()
        got += len(b.receive_many()) * (tick >= SETTLING_TICKS)
        if tick >= free_ticks and c.receive_many(1 if perturbed.busy_ms else 1 << 20):
            free_ticks = tick + perturbed.busy_ms
    network.perturbed = Perturbed()
    assert network.run(lambda: rested(members)), "never at rest"
    judge(world, purging)
    return got * 1e9 / (MEASURED_TICKS * TICK_NS)


def rested(members: list[FakeMember]) -> bool:
    for one in members:
        one.receive_many()
    return all(one.stable and not one.waiting for one in members)


def judge(world: World, purging: bool) -> None:
    """Every promise was kept, and there was something to judge each of them by."""
    report = world.check()
    unjudged = {name for name, events in report.judged.items() if events == 0}
    assert unjudged <= ({"State"} if purging else {"State", "Safe Purging"})


def compare(what: str, perturbed: Perturbed) -> tuple[float, float]:
    """Messages a second that b gets: with purging, and without."""
    purged, plain = rate(perturbed, True), rate(perturbed, False)
    print(f"\n{what}: {purged:.0f} messages/s at b with purging, {plain:.0f} without")
    return purged, plain


def test_with_purging_a_slow_application_does_not_slow_others() -> None:
    """It takes longer for a message than lies between two. SRM Figures 1(a) and 8(a)."""
    purged, plain = compare("8 ms for each message", Perturbed(busy_ms=8))
    assert plain < 0.8 * OFFERED_MSG_S
    assert purged > 1.25 * plain
    assert purged > 0.8 * OFFERED_MSG_S


def test_packets_that_take_long_slow_nobody_as_long_as_the_window_covers_it() -> None:
    """A round trip takes 8 of the 40 messages that may be under way. SRM Figures 1(b) and 8(b)."""
    purged, plain = compare("packets 20 ms late", Perturbed(delay_ms=20))
    assert min(purged, plain) > 0.8 * OFFERED_MSG_S


def test_with_purging_the_window_covers_packets_that_take_longer() -> None:
    """A round trip takes 56 messages, and 40 may be under way; of these some are purged at the
    sender before they are stable, which makes room for others. SRM Figures 1(b) and 8(b).
    """
    purged, plain = compare("packets 140 ms late", Perturbed(delay_ms=140))
    assert plain < 0.8 * OFFERED_MSG_S
    assert purged > 1.1 * plain


def test_a_narrow_link_is_used_well_with_purging_and_without() -> None:
    """The link carries 120 messages a second, and the bridge drops the rest. SRM Figures 1(c) and
    8(c) gain by purging there, because what was replaced before it could be repaired need not be
    sent again. Here repair fills the link either way, and the first copies, which go to everybody,
    take what purging saves: neither is ahead over several seeds. So this holds both to the link.
    """
    narrow = Perturbed(kbit_s=1000, size=1000)
    rates = [(rate(narrow, True, seed), rate(narrow, False, seed)) for seed in range(1, 7)]
    purged, plain = (sum(every) / len(rates) for every in zip(*rates, strict=True))
    print(f"\n1,000 kbit/s: {purged:.0f} messages/s at b with purging, {plain:.0f} without")
    assert 60 < plain < 0.8 * OFFERED_MSG_S
    assert purged > max(60, 0.75 * plain)
