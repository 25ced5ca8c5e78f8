"""A network in memory whose members share a few processors: whatever they send and take costs time.

On a busy machine what each of a crowd says to all others is what keeps it busy, so a crowd that
speaks at its own pace, whatever that costs, may never come together.
"""

from typing import Final

from semcast.testing import FakeMember, FakeNetwork
from semcast.testing.network import FakeTransport

_TICK_NS: Final = 1_000


class BusyNetwork(FakeNetwork):
    """Everybody on it waits for a processor; who has waited longest is next."""

    def __init__(self, seed: int, datagram_us: float, processors: int = 2) -> None:
        """`datagram_us`: what each datagram costs its sender, and each of those who take it."""
        super().__init__(seed)
        self._datagram_ns: Final = round(datagram_us * 1_000)
        self._free_ns: Final = [0] * processors
        self._ran_ns: Final[dict[FakeMember, int]] = {}

    def _step(self, end_ns: int) -> None:
        ready = [one for one in self.members if one.running and self._wants_ns(one) <= self.now_ns]
        at = self._free_ns.index(min(self._free_ns))
        if ready and self._free_ns[at] <= self.now_ns:
            member = min(ready, key=lambda one: self._ran_ns.get(one, 0))
            before = self._moved(member)
            member.turn()
            moved = self._moved(member) - before
            self._ran_ns[member] = self.now_ns
            self._free_ns[at] = self.now_ns + (1 + moved) * self._datagram_ns
            return
        wanted = [self._wants_ns(one) for one in self.members if one.running]
        soonest = [self._free_ns[at] if ready else min(wanted, default=end_ns)]
        soonest += [flying[0] for flying in self._flying[:1]]
        self.now_ns = min(max(self.now_ns + _TICK_NS, min(soonest)), end_ns)
        self._deliver()

    def _wants_ns(self, member: FakeMember) -> int:
        transport = member.session.transport
        assert isinstance(transport, FakeTransport)
        return self.now_ns if transport.waiting else member.next_deadline_ns()

    def _moved(self, member: FakeMember) -> int:
        counters = member.session.transport.counters
        return counters["datagrams_in"] + counters["datagrams_out"]
