"""`python -m bench.gossip_sizes`: gossip in groups of 50 to a million, as a table and a plot.

The round model runs every size, without overload and with twice the load that links carry. Members
of the real protocol run event by event where that is possible, as the same group without overload,
so that both stand side by side. Each run has a process of its own. The table goes to standard
output; `--write docs/design/epidemic-scale.md` puts it there, with the plot beside it.
"""

import argparse
import gc
import resource
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.page import mark_of, write_between
from semcast.model.epidemic import Epidemic, run
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings
from semcast.sim.epidemic.world import GossipWorld
from semcast.sim.surroundings import Faults, Ideal
from semcast.sim.traffic import Chains

ROUND_S: Final = 0.1
COPY_BYTES: Final = 100
MODEL: Final = "model"
EVENTS: Final = "events"
IDLE: Final = "no overload"
TWICE: Final = "twice the load"
COMMAND: Final = "python -m bench.gossip_sizes"


@dataclass(frozen=True)
class Task:
    """One group, by the model or event by event."""

    by: str
    load: str
    policy: str
    members: int

    def settings(self) -> Epidemic:
        """What runs, as the model has it."""
        if self.load == TWICE:
            rounds = 20 if self.members < 1_000_000 else 10
            return Epidemic(self.members, policy=self.policy, measured_rounds=rounds)
        return Epidemic(
            self.members,
            links=min(64, self.members - 1),
            rate_msg_round=0.8,
            related_ratio=0.0,
            settle_rounds=16,
            measured_rounds=20,
            policy=self.policy,
        )

    def scenario(self) -> GossipScenario:
        """The same group as members of the real protocol, of which all know all."""
        settings = self.settings()
        return GossipScenario(
            members=self.members,
            duration_s=ROUND_S * settings.rounds,
            warm_up_s=ROUND_S * settings.settling,
            cool_down_s=ROUND_S * settings.settling,
            traffic=Chains(rate_msg_s=settings.rate_msg_round / ROUND_S, ratio=0.0),
            # A link carries a copy in a round, and the copy takes that round to arrive.
            network=Ideal(latency_us=ROUND_S * 1e6),
            faults=Faults(loss=settings.loss),
            gossip=GossipSettings(
                fanout=settings.fanout,
                rounds=settings.relays_max,
                buffer_messages=settings.buffer_messages,
                copy_bytes=COPY_BYTES,
                link_kbit_s=COPY_BYTES * 8 / ROUND_S / 1e3,
            ),
        )


@dataclass(frozen=True)
class Point:
    """What came of a group."""

    task: Task
    atomic_share: float
    receivers_share: float
    latency_mean_rounds: float
    # Copies that a member sends for each message that anybody multicasts.
    load_copies: float
    cpu_s: float
    memory_mb: int

    def line(self) -> str:
        """A row of the table."""
        task = self.task
        return (
            f"| {task.members:,} | {task.load}, {task.policy} | {task.by} "
            f"| {self.atomic_share:.2f} | {self.receivers_share:.4f} "
            f"| {self.latency_mean_rounds:.2f} | {self.load_copies:.2f} "
            f"| {self.cpu_s:.1f} s, {self.memory_mb} MB |"
        )


HEAD: Final = (
    "| members | load, policy | by | atomic | members reached | latency, mean, rounds "
    "| copies that a member sends for each message | took |\n|---|---|---|---|---|---|---|---|\n"
)


def measured(task: Task) -> Point:
    """One run, in this process."""
    gc.disable()
    began_s = time.process_time()
    figures = _by_events(task) if task.by == EVENTS else _by_model(task)
    cpu_s = time.process_time() - began_s
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return Point(task, *figures, cpu_s, memory_mb)


def _by_model(task: Task) -> tuple[float, float, float, float]:
    settings = task.settings()
    found = run(settings)
    return (
        found.atomic_share or 0.0,
        found.receivers_share_mean or 0.0,
        found.latency_mean_rounds or 0.0,
        found.load_mean_copies_round / settings.rate_msg_round,
    )


def _by_events(task: Task) -> tuple[float, float, float, float]:
    world = GossipWorld(task.scenario(), 1)
    found = world.run()
    return (
        found.atomic_share or 0.0,
        (found.receivers_mean or 0.0) / task.members,
        (found.latency_mean_ms or 0.0) / 1000 / ROUND_S,
        int(world.meter.copies) / task.members / max(found.sent, 1),
    )


def svg(points: Sequence[Point], path: Path) -> None:
    """Atomicity, latency and load over the size of the group, drawn with Matplotlib."""
    import matplotlib as mpl

    mpl.use("svg")
    # The same figures give the same file, and text stays text.
    mpl.rcParams.update({"svg.hashsalt": "semcast", "svg.fonttype": "none", "font.size": 8})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(9.5, 3.0), layout="constrained")
    rows = (
        ("atomic_share", "messages that are atomic"),
        ("latency_mean_rounds", "latency, mean, rounds"),
        ("load_copies", "copies for each message"),
    )
    kinds = list(dict.fromkeys((one.task.by, one.task.load, one.task.policy) for one in points))
    for axis, (name, title) in zip(axes, rows, strict=True):
        for by, load, policy in kinds:
            those = [
                one
                for one in points
                if (one.task.by, one.task.load, one.task.policy) == (by, load, policy)
            ]
            axis.plot(
                [one.task.members for one in those],
                [getattr(one, name) for one in those],
                marker="x" if by == EVENTS else ".",
                linestyle="none" if by == EVENTS else "-",
                label=f"{load}, {policy} ({by})",
            )
        axis.set(xscale="log", xlabel="members", title=title)
        axis.set_ylim(bottom=0)
    axes[0].legend(fontsize=6)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def tasks_of(words: argparse.Namespace) -> list[Task]:
    """All runs, the smallest groups first."""

    def sizes(text: str) -> list[int]:
        return [int(one) for one in text.split(",") if one]

    found = [Task(EVENTS, IDLE, "eager", size) for size in sizes(words.events)]
    found += [Task(MODEL, IDLE, "eager", size) for size in sizes(words.idle)]
    found += [Task(MODEL, TWICE, "eager", size) for size in sizes(words.eager)]
    found += [Task(MODEL, TWICE, "random", size) for size in sizes(words.random)]
    return found


def main(words: list[str] | None = None) -> int:
    """Run all groups, print the table, and write page and plot if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--events", default="50,500,2000,10000", help="sizes, event by event")
    parser.add_argument("--idle", default="50,500,2000,10000,100000,1000000")
    parser.add_argument("--eager", default="50,500,5000,50000,1000000")
    parser.add_argument("--random", default="50,500,5000,50000")
    parser.add_argument("--write", type=Path, help="a page; the plot goes beside it")
    chosen = parser.parse_args(words)
    points = []
    sys.stdout.write(HEAD)
    pool = ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with pool as workers:
        for point in workers.map(measured, tasks_of(chosen)):
            points.append(point)
            print(point.line(), flush=True)
    if chosen.write is not None:
        plot = chosen.write.with_suffix(".svg")
        svg(points, plot)
        text = f"![Atomicity, latency and load against members]({plot.name})\n\n{HEAD}"
        text += "\n".join(one.line() for one in points)
        write_between(chosen.write, mark_of(f"{COMMAND} --write {chosen.write}"), text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
