"""`python -m bench.psrm`: the largest rates that keep atomicity, beside those that are expected.

The setting is `examples/scenarios/psrm-largest-rate.toml` [PSRM §4.4, Figure 4]; a row changes some
of it. Rates are means over seeds. One search takes about six runs; `--only "buffer 3"` chooses
rows. Nothing here depends on how fast the machine is. A table in Markdown goes to standard output,
and with `--write` into a page of the docs too.
"""

import argparse
import statistics
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from bench.page import mark_of, refused, write_between
from semcast.sim.epidemic.gossip_scenario import GossipScenario, GossipSettings, PolicyName, Search
from semcast.sim.epidemic.search import largest_rate
from semcast.sim.traffic import Chains

# The expected rates stand on a grid: an interval from 10 to 810 messages/s that was halved until it
# was shorter than 10, as in the paper. Each is the lower end of what was left.
LOW_MSG_S: Final = 10.0
CELL_MSG_S: Final = 6.25
KEPT_SHARE: Final = 0.9


@dataclass(frozen=True)
class Row:
    """One setting, and the rate that an independent simulation gave for it."""

    name: str
    expected_msg_s: float
    policy: PolicyName = "eager"
    buffer_messages: int = 10
    ratio: float = 1.0
    diversity: int = 5
    length: int = 10

    def scenario(self) -> GossipScenario:
        """The setting, and a search on the grid of the scenario's, from below what is expected."""
        expected = round((self.expected_msg_s - LOW_MSG_S) / CELL_MSG_S)
        first = expected * 3 // 4
        cells = 8
        while cells < expected * 0.6:
            cells *= 2
        return GossipScenario(
            traffic=Chains(
                gaps="exponential",
                ratio=self.ratio,
                diversity=self.diversity,
                length=self.length,
            ),
            gossip=GossipSettings(
                policy=self.policy,
                buffer_messages=self.buffer_messages,
                room="each",
                late="link",
            ),
            search=Search(
                low_msg_s=LOW_MSG_S + first * CELL_MSG_S,
                high_msg_s=LOW_MSG_S + (first + cells) * CELL_MSG_S,
                within_msg_s=CELL_MSG_S,
                kept_share=KEPT_SHARE,
            ),
        )


ROWS: Final = (
    Row("buffer 3, eager", 116, buffer_messages=3),
    Row("buffer 3, lazy", 72, "lazy", buffer_messages=3),
    Row("buffer 3, random", 54, "random", buffer_messages=3),
    Row("buffer 10, eager", 210),
    Row("buffer 10, lazy", 122, "lazy"),
    Row("buffer 10, random", 66, "random"),
    Row("chains of 1", 72, length=1),
    Row("chains of 5", 129, length=5),
    Row("chains of 20", 348, length=20),
    Row("ratio 0", 72, ratio=0.0),
    Row("ratio 0.5", 104, ratio=0.5),
    Row("1 chain, buffer 3", 122, buffer_messages=3, diversity=1),
    Row("20 chains, buffer 3", 85, buffer_messages=3, diversity=20),
    Row("100 chains, buffer 3", 54, buffer_messages=3, diversity=100),
)


def searched(task: tuple[Row, int, float]) -> float:
    """The largest rate of a row with one seed; 0 if atomicity is not kept even at the lowest."""
    row, seed, seconds = task
    scenario = row.scenario()
    part = seconds / scenario.duration_s
    brief = replace(
        scenario,
        duration_s=seconds,
        warm_up_s=scenario.warm_up_s * part,
        cool_down_s=scenario.cool_down_s * part,
    )
    return largest_rate(brief, seed).largest_rate_msg_s or 0.0


def line(row: Row, rates: list[float]) -> str:
    """A row of the table."""
    mean = statistics.fmean(rates)
    spread = f"{min(rates):.0f} to {max(rates):.0f}"
    apart = mean / row.expected_msg_s - 1
    return f"| {row.name} | {row.expected_msg_s:g} | {mean:.0f} | {spread} | {apart:+.0%} |"


def table(
    rows: list[Row], seeds: int, seconds: float, workers_max: int, write: Callable[[str], object]
) -> None:
    """Search for all rows, with so many processes, and write each when it is known."""
    ours = "ours" if seeds == 1 else f"ours, mean of {seeds} seeds"
    write(f"| | expected, messages/s | {ours} | from, to | apart |\n|---|---|---|---|---|\n")
    with ProcessPoolExecutor(workers_max or None, get_context("spawn")) as workers:
        tasks = [(row, seed, seconds) for row in rows for seed in range(1, seeds + 1)]
        rates = workers.map(searched, tasks)
        for row in rows:
            write(line(row, [next(rates) for _ in range(seeds)]) + "\n")


def main(words: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=40.0, help="of simulated time")
    parser.add_argument("--workers", type=int, default=0, help="processes; 0: all processors")
    parser.add_argument("--write", type=Path, help="a page of the docs, with marks for the table")
    chosen = parser.parse_args(words)
    rows = [row for row in ROWS if chosen.only in row.name]
    if not rows or chosen.seeds < 1 or chosen.workers < 0:
        parser.error("no row has such a name, or no seed, or fewer than no workers")
    if chosen.only and chosen.write is not None:
        parser.error("a page gets all rows: leave out --only, or --write")
    mark = mark_of(f"python -m bench.psrm --write {chosen.write}")
    if chosen.write is not None and refused(chosen.write, mark):
        parser.error(refused(chosen.write, mark))
    lines: list[str] = []

    def write(text: str) -> None:
        lines.append(text)
        print(text, end="", flush=True)

    table(rows, chosen.seeds, chosen.seconds, chosen.workers, write)
    if chosen.write is not None:
        write_between(chosen.write, mark, "".join(lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
