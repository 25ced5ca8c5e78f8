"""Round after round under traffic: how often rounds begin, and what that buys (STAB §6).

All senders send at the same rate, in step. A message reaches each member after a while, or is
missed and comes later; what a member has is always without gaps. The root begins rounds when the
library's own `Trigger` says so, or at a fixed pace; if as many messages wait as the window holds,
senders stop. Messages themselves use neither links nor processors here: only control messages do.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final, final

import numpy as np
from mypy_extensions import i64
from numpy.typing import NDArray

from semcast.protocol.stability.rounds.shape import Shape
from semcast.protocol.stability.rounds.tracker import RoundTracker
from semcast.protocol.stability.rounds.trigger import Trigger
from semcast.sim.scheduler import Handler
from semcast.sim.stability.parties import make_trackers
from semcast.sim.stability.round_scenario import StabilityScenario, Traffic
from semcast.sim.stability.world import World, make_shape, usual_ms


@dataclass(frozen=True)
class PacedOutcome:
    """What was measured at the root, over the whole run."""

    protocol: str
    members: int
    senders: int
    period_ms: float  # 0: the trigger
    messages_sent: int  # by each sender
    rounds: int
    control_messages_s: float  # on all hops
    control_bytes_s: float
    # From when the root sends a message until it knows that everybody has it.
    time_to_stable_mean_ms: float | None
    time_to_stable_max_ms: float | None
    waiting_max_messages: int
    blocked_share: float  # of the time


def run(
    scenario: StabilityScenario, seed: int, progress: Callable[[float], None] | None = None
) -> PacedOutcome:
    """Run the traffic of a scenario; the same settings and seed give the same outcome."""
    traffic = scenario.traffic
    assert traffic is not None
    if scenario.links.loss > 0 and scenario.timeout_ms == 0:
        scenario = replace(scenario, timeout_ms=2 * usual_ms(scenario, seed))
    shape = make_shape(scenario, seed)
    scenario = replace(scenario, senders=min(scenario.senders or shape.members, shape.members))
    nothing = np.zeros(scenario.senders, np.int64)
    trackers = make_trackers(scenario, shape, [nothing])
    return PacedWorld(scenario, traffic, shape, trackers, seed).run_traffic(progress)


@final
class Data:
    """What each member has of each sender at any time."""

    def __init__(self, traffic: Traffic, members: int, senders: int, seed: int) -> None:
        self.sent_ns: Final[list[int]] = []
        self._latency_ns: Final = round(traffic.latency_ms * 1e6)
        self._repair_ns: Final = round(traffic.repair_ms * 1e6)
        self._loss: Final = traffic.loss
        self._members: Final = members
        self._senders: Final = senders
        self._random: Final = np.random.default_rng([seed, 0xDA7A])
        # By member: number, sender and time of repair of what it missed.
        self._missed: Final[dict[int, list[tuple[int, int, int]]]] = {}
        self._reached = 0  # messages that were sent a latency ago

    @property
    def sent(self) -> int:
        return len(self.sent_ns)

    def send(self, now_ns: int) -> None:
        """Every sender sends a message."""
        self.sent_ns.append(now_ns)
        if self._loss == 0:
            return
        copies = self._members * self._senders
        back_ns = now_ns + self._latency_ns + self._repair_ns
        for copy in self._random.integers(0, copies, self._random.binomial(copies, self._loss)):
            member, sender = divmod(int(copy), self._senders)
            if member != sender:
                self._missed.setdefault(member, []).append((self.sent, sender, back_ns))

    def has(self, member: int, now_ns: int) -> NDArray[np.int64]:
        """Up to which message of each sender a member has everything. Times never go back."""
        while self._reached < self.sent and (
            self.sent_ns[self._reached] + self._latency_ns <= now_ns
        ):
            self._reached += 1
        found = np.full(self._senders, self._reached, np.int64)
        if member < self._senders:
            found[member] = self.sent
        missed = self._missed.get(member)
        if missed:
            missed[:] = [one for one in missed if one[2] > now_ns]
            for number, sender, _ in missed:
                found[sender] = min(int(found[sender]), number - 1)
        return found


@final
class PacedWorld(World):
    """Rounds that begin when the trigger says so."""

    def __init__(
        self,
        scenario: StabilityScenario,
        traffic: Traffic,
        shape: Shape,
        trackers: list[RoundTracker],
        seed: int,
    ) -> None:
        super().__init__(scenario, shape, trackers, seed)
        self._scenario: Final = scenario
        self._traffic: Final = traffic
        self._trackers: Final = trackers
        self._data: Final = Data(traffic, shape.members, scenario.senders, seed)
        self._gap_ns: Final = max(1, round(1e9 / traffic.rate_msg_s))
        self._trigger: Final = Trigger(
            traffic.window_messages, round(traffic.bound_ms * 1e6), round(traffic.period_ms * 1e6)
        )
        self._tick: Final[i64] = self.scheduler.add(_Tick(self))
        self._phase: Final = random.Random(f"{seed}/phase").random()
        self._began: tuple[int, int] | None = None  # agreed and sent when the round began
        self._sent_before = 0
        self._rounds = 0
        self._released = 0
        self._took_ns: Final[list[int]] = []
        self._waiting_max = 0
        self._blocked_ticks = 0
        self._ticks = 0

    def run_traffic(self, progress: Callable[[float], None] | None) -> PacedOutcome:
        end_ns = round(self._traffic.duration_s * 1e9)
        self.scheduler.at(round(self._phase * self._gap_ns), self._tick)
        for part in range(1, 101):
            self.scheduler.run(end_ns * part // 100)
            if progress is not None:
                progress(part / 100)
        seconds = self._traffic.duration_s
        took_ms = [took_ns / 1e6 for took_ns in self._took_ns]
        return PacedOutcome(
            protocol=self._scenario.protocol,
            members=len(self._trackers),
            senders=self._scenario.senders,
            period_ms=self._traffic.period_ms,
            messages_sent=self._data.sent,
            rounds=self._rounds,
            control_messages_s=int(self.fabric.hops) / seconds,
            control_bytes_s=int(self.fabric.hop_bytes) / seconds,
            time_to_stable_mean_ms=fmean(took_ms) if took_ms else None,
            time_to_stable_max_ms=max(took_ms) if took_ms else None,
            waiting_max_messages=self._waiting_max,
            blocked_share=self._blocked_ticks / max(1, self._ticks),
        )

    def tick(self) -> None:
        """It is time for a message of each sender, if there is room for it."""
        now_ns = self.scheduler.now_ns
        self._ticks += 1
        if self._waiting() < self._traffic.window_messages:
            self._data.send(now_ns)
            self._waiting_max = max(self._waiting_max, self._waiting())
        else:
            self._blocked_ticks += 1
        self._look()
        self.scheduler.at(now_ns + self._gap_ns, self._tick)

    def arrive(self, node: i64, message: i64) -> None:
        member = self._members[node]
        self._trackers[member].own = self._data.has(member, self.scheduler.now_ns)
        super().arrive(node, message)
        if member == 0:
            self._settle()

    def wake(self, member: int) -> None:
        self._trackers[member].own = self._data.has(member, self.scheduler.now_ns)
        super().wake(member)
        if member == 0:
            self._settle()

    def _waiting(self) -> int:
        """The most messages of a sender that wait to become stable, as far as the root knows."""
        return self._data.sent - int(self._trackers[0].agreed.min())

    def _settle(self) -> None:
        """See what a round has brought, and whether another is due."""
        now_ns = self.scheduler.now_ns
        root = self._trackers[0]
        agreed = int(root.agreed[0])
        self._took_ns.extend(now_ns - at for at in self._data.sent_ns[self._released : agreed])
        self._released = agreed
        if self._began is not None and not root.under_way():
            self._trigger.ended(int(root.agreed.min()) - self._began[0])
            self._began = None
        self._look()

    def _look(self) -> None:
        root = self._trackers[0]
        now_ns = self.scheduler.now_ns
        waiting = self._waiting()
        if root.under_way():
            return
        # A full window is urgent, as for a live member, because nobody can send.
        news = self._data.sent > self._sent_before
        full = waiting >= self._traffic.window_messages
        if not self._trigger.due(waiting, news, root.timeouts.round_ns, now_ns) and not full:
            return
        self._trigger.began(waiting, self._data.sent - self._sent_before, now_ns)
        self._sent_before = self._data.sent
        self._began = int(root.agreed.min()), self._data.sent
        self._rounds += 1
        root.own = self._data.has(0, now_ns)
        root.start(now_ns)
        self._after(0)


@final
class _Tick(Handler):
    def __init__(self, world: PacedWorld) -> None:
        self._world: Final = world

    def fire(self, argument: i64) -> None:  # noqa: ARG002
        self._world.tick()
