"""Healthy members accused on an overloaded machine: `Watch` beside a fixed time-out.

Run as `python -m bench.detection` (`--hours 1 --seed 1`). Eight members in virtual time share one
machine, which is overloaded again and again: processes wait for a processor, are stopped for a
while one by one or all together, and datagrams are lost. A quarter of the members is starved more
than the others. Now and then a member is killed, and how long it takes until somebody accuses it is
measured. The time-out of the detector to compare with is found by trying, so that it has the same
median; it sends the same heartbeats to the same watchers, and reads what has come before it
accuses. What counts is how many times a living member is accused, also one that was stopped.

`Watch` runs twice: as where nothing comes back from a dead process (its machine died, too), and as
where the system tells senders that the port of a dead process is closed (`Watch.refused`).
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from bench.watchers import MS_NS, SECOND_NS, Detector, FixedTimeout, Network, Watching
from semcast.ids import Source
from semcast.protocol.membership.view import View
from semcast.protocol.membership.waits import WatchConfig

MEMBERS = 8
CRASH_EVERY_NS = 40 * SECOND_NS
DEAD_FOR_NS = 20 * SECOND_NS
Maker = Callable[[Source, View, str], Detector]


@dataclass(frozen=True)
class Overload:
    """What a machine does to the processes on it."""

    name: str
    # How long it is calm, and overloaded, in the mean. 0: always overloaded.
    calm_ns: int
    loaded_ns: int
    # While it is overloaded: how long a process waits for a processor in the mean, how often one is
    # stopped, and all of them; how much more often the starved ones are.
    wait_ns: int = 20 * MS_NS
    stops_every_ns: int = 10 * SECOND_NS
    all_stop_every_ns: int = 30 * SECOND_NS
    starved: int = 3
    # How long a stop lasts: at least, and at most; most are short (Pareto).
    stop_ns_min: int = 100 * MS_NS
    stop_ns_max: int = 4 * SECOND_NS
    shape: float = 1.2
    loss: float = 0.01


MACHINES = (
    Overload("overloaded at times", 240 * SECOND_NS, 60 * SECOND_NS),
    Overload("overloaded half of the time", 60 * SECOND_NS, 60 * SECOND_NS),
    Overload("always overloaded", 0, 60 * SECOND_NS),
)


class Machine:
    """Makes the members of one network late."""

    def __init__(self, overload: Overload, network: Network) -> None:
        self._overload = overload
        self._network = network
        self._random = network.random
        self.loaded = False
        network.lateness_ns = self._lateness_ns
        network.loss = overload.loss
        self._turn()
        starved = MEMBERS // 4
        for sender in range(MEMBERS):
            often = overload.starved if sender < starved else 1
            self._stops([sender], overload.stops_every_ns // often)
        self._stops(list(range(MEMBERS)), overload.all_stop_every_ns)

    def _turn(self) -> None:
        """From calm to overloaded, or back."""
        self.loaded = not self.loaded or self._overload.calm_ns == 0
        mean_ns = self._overload.loaded_ns if self.loaded else self._overload.calm_ns
        self._network.at(self._network.now_ns + self._drawn_ns(mean_ns), self._turn)

    def _drawn_ns(self, mean_ns: int) -> int:
        return int(self._random.expovariate(1 / mean_ns))

    def _lateness_ns(self, sender: int) -> int:  # noqa: ARG002
        return self._drawn_ns(self._overload.wait_ns if self.loaded else MS_NS // 2)

    def _stops(self, who: list[int], every_ns: int) -> None:
        """Stop these together, again and again."""

        def stop() -> None:
            if self.loaded:
                most, least = self._overload.stop_ns_max, self._overload.stop_ns_min
                for_ns = min(most, int(least * self._random.paretovariate(self._overload.shape)))
                for sender in who:
                    self._network.stop(sender, for_ns)
            self._network.at(self._network.now_ns + self._drawn_ns(every_ns), stop)

        self._network.at(self._network.now_ns + self._drawn_ns(every_ns), stop)


@dataclass(frozen=True)
class Found:
    """What a detector did."""

    accused_per_hour: float
    accused: int
    # Of these, how many ran when they were accused; the others were stopped just then.
    ran: int
    detection_ms_p50: float
    detection_ms_p99: float
    undetected: int
    datagrams_per_s: float


class Trial:
    """One run of one detector on one machine."""

    def __init__(self, overload: Overload, make: Maker, seed: str, refuses: bool) -> None:
        self._network = Network(seed)
        self._network.refuses = refuses
        self._view = View.first(list(range(MEMBERS)), 1)
        self._make = make
        self._seed = seed
        self._crashes: list[tuple[int, int]] = []
        self._lives = 0
        for sender in range(MEMBERS):
            self._begin(sender)
        Machine(overload, self._network)

    def _begin(self, sender: int) -> None:
        self._lives += 1
        me = Source(sender, 1)
        self._network.add(self._make(me, self._view, f"{self._seed}/{self._lives}"), me)

    def run(self, for_ns: int) -> Found:
        network = self._network
        network.run_for(10 * SECOND_NS)
        while network.now_ns < for_ns:
            network.run_for(network.random.randrange(CRASH_EVERY_NS))
            sender = network.random.randrange(MEMBERS)
            network.crash(sender)
            self._crashes.append((network.now_ns, sender))
            network.run_for(DEAD_FOR_NS)
            self._begin(sender)
            network.run_for(CRASH_EVERY_NS // 2)
        return self._found()

    def _found(self) -> Found:
        network = self._network
        wrong, ran, took_ms, undetected = 0, 0, [], 0
        for at_ns, sender in self._crashes:
            found = [
                when - at_ns
                for when, _, whom, accused in network.changes
                if whom == sender and accused and at_ns <= when <= at_ns + DEAD_FOR_NS
            ]
            undetected += not found
            took_ms += [min(found) / MS_NS] if found else []
        for (when, _, whom, accused), whom_ran in zip(network.changes, network.ran, strict=True):
            dead = any(
                whom == sender and at_ns <= when <= at_ns + DEAD_FOR_NS + SECOND_NS
                for at_ns, sender in self._crashes
            )
            wrong += accused and not dead
            ran += accused and not dead and whom_ran
        took_ms.sort()
        hours = network.now_ns / SECOND_NS / 3600
        sent = sum(network.sent.values())
        return Found(
            wrong / hours / MEMBERS,
            wrong,
            ran,
            median(took_ms),
            took_ms[len(took_ms) * 99 // 100],
            undetected,
            sent / MEMBERS / network.now_ns * SECOND_NS,
        )


def of_watch(config: WatchConfig) -> Maker:
    return lambda me, view, seed: Watching(me, view, config, seed)


def of_timeout(config: WatchConfig, timeout_ns: int) -> Maker:
    return lambda me, view, _: FixedTimeout(me, view, config, timeout_ns)


def same_median(overload: Overload, target_ms: float, for_ns: int, seed: str) -> tuple[int, Found]:
    """The time-out that takes as long, in the median, as the other detector did."""
    config = WatchConfig()
    timeout_ns = int(target_ms * MS_NS)
    found = None
    for _ in range(4):
        found = Trial(overload, of_timeout(config, timeout_ns), seed, refuses=False).run(for_ns)
        off_ms = target_ms - found.detection_ms_p50
        if abs(off_ms) < 0.01 * target_ms:
            break
        timeout_ns += int(off_ms * MS_NS)
    assert found is not None
    return timeout_ns, found


def compare(overload: Overload, refuses: bool, for_ns: int, seed: str) -> list[str]:
    """Three lines of the table: `Watch`, the time-out with the same median, and their ratio."""
    watch = Trial(overload, of_watch(WatchConfig()), seed, refuses).run(for_ns)
    timeout_ns, fixed = same_median(overload, watch.detection_ms_p50, for_ns, seed)
    name = "Watch, told of closed ports" if refuses else "Watch"
    lines = [
        f"{overload.name:28} {detector:28} {found.accused:8,} {found.ran:8,} "
        f"{found.accused_per_hour:12.2f} {found.detection_ms_p50:7,.0f} "
        f"{found.detection_ms_p99:7,.0f} {found.undetected:10} {found.datagrams_per_s:12.1f}"
        for detector, found in ((name, watch), (f"time-out of {timeout_ns // MS_NS:,} ms", fixed))
    ]
    share = f"{watch.accused / fixed.accused:.4f}" if fixed.accused else "none by either"
    if watch.accused and not fixed.accused:
        share = "only by Watch"
    return [*lines, f"{'':28} {'ratio':28} {share:>8}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=1.0, help="of virtual time, for each run")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    if asked.hours <= 0:
        parser.error("--hours is above 0")
    for_ns = int(asked.hours * 3600 * SECOND_NS)
    print(
        f"{'machine':28} {'detector':28} {'healthy':>8} {'of them':>8} {'per member':>12} "
        f"{'crash to accused':>15} {'crashes':>9} {'datagrams':>12}"
    )
    print(
        f"{'':57} {'accused':>8} {'running':>8} {'and hour':>12} {'p50 ms':>7} {'p99 ms':>7} "
        f"{'not found':>10} {'/member·s':>12}"
    )
    for overload in MACHINES:
        for refuses in (False, True):
            seed = f"{asked.seed}/{overload.name}"
            print("\n".join(compare(overload, refuses, for_ns, seed)), flush=True)


if __name__ == "__main__":
    main()
