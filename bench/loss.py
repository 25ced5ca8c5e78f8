"""`python -m bench.loss`: what loss costs, and how far runs spread; semcast and pyzmq in one run.

Everything happens on the loopback of a network namespace of its own, in which nftables drops that
share of all packets at random. The second table has no injected loss: with many receivers on few
processors sockets overflow by themselves, and the question is whether repair catches up.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.network import cannot_lose, lose, own_loopback
from bench.peers import environment
from bench.peers.api import THROUGHPUT, UnavailableError
from bench.peers.case import Case, throughput
from bench.peers.outcome import Figures, figures
from bench.peers.plan import Entry, entries
from bench.peers.trial import Trial, TrialError

_ADAPTERS = ("bench.peers.adapters.semcast", "bench.peers.adapters.zeromq")
# What is compared: name in the table, adapter's variant.
SENDER, GROUP, PEER = "semcast unsealed", "semcast unsealed, group", "zmq NODROP"
VARIANTS = (SENDER, GROUP, PEER)
LOSSES = (0.0, 0.1, 1.0, 5.0)
RECEIVERS = (2, 4, 8, 16)
# Processor time a message, at the most, against that without loss.
CPU_FACTOR_MAX = 3.0


@dataclass
class Cell:
    """The rounds of one variant under one condition."""

    loss_percent: float
    receivers: int
    variant: str
    rounds: list[Figures] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    # Datagrams that found a receiver's socket full, in all rounds.
    overflowed: int = 0

    def rates(self) -> list[float]:
        return [float(found["delivered_per_s"]) for found in self.rounds]

    @property
    def median(self) -> float:
        return statistics.median(self.rates()) if self.rounds else 0.0

    @property
    def best(self) -> float:
        return max(self.rates(), default=0.0)

    @property
    def worst(self) -> float:
        return min(self.rates(), default=0.0)

    @property
    def cpu_s(self) -> float:
        """Processor seconds a million messages, of all processes; the median of the rounds."""
        every = [float(found["cpu_s_per_million"]) for found in self.rounds]
        return statistics.median(every) if every else 0.0

    @property
    def lost(self) -> float:
        return max((float(found["lost_share"]) for found in self.rounds), default=0.0)

    @property
    def stuck(self) -> int:
        """Rounds below half of the median, and those that failed."""
        return sum(rate < self.median / 2 for rate in self.rates()) + len(self.failures)

    def to_json(self) -> dict[str, Any]:
        return {
            "variant": self.variant,
            "loss_percent": self.loss_percent,
            "receivers": self.receivers,
            "delivered_per_s": self.rates(),
            "delivered_per_s_median": self.median,
            "cpu_s_per_million_median": self.cpu_s,
            "lost_share_max": self.lost,
            "rounds_below_half_of_median": self.stuck,
            "overflowed_datagrams": self.overflowed,
            "failures": self.failures,
        }


def main(words: list[str] | None = None) -> int:
    chosen = _arguments(words)
    reason = cannot_lose()
    if reason:
        print(f"bench.loss skipped: {reason}")
        return 0
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 140)
    who = {entry.variant.name: entry for entry in entries(_ADAPTERS) if _fits(entry)}
    if not chosen.no_install:
        missing = environment.prepare((entry.peer for entry in who.values()), console.print)
        for peer, why in missing.items():
            console.print(f"{peer}: {why}", style="yellow")
    if environment.semcast_build() != "compiled":
        console.print("semcast is not compiled, so its figures say little: run make setup")
    own_loopback()
    losses = [Cell(loss, 2, name) for loss in chosen.loss or LOSSES for name in who]
    spread = [Cell(0.0, n, SENDER) for n in chosen.receivers or RECEIVERS]
    steps = [cell for _ in range(chosen.rounds) for cell in losses]
    steps += [cell for _ in range(chosen.runs) for cell in spread]
    try:
        for cell in track(steps, "runs", console=console, transient=True):
            _run(cell, who[cell.variant], chosen.seconds)
    except KeyboardInterrupt:
        pass  # whoever has waited long enough still gets what was measured so far
    _show(console, losses, spread)
    text = json.dumps({"cells": [cell.to_json() for cell in losses + spread]}, indent=1)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    else:
        print(text)
    return 0


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.loss", description=__doc__)
    add = parser.add_argument
    add("--loss", type=float, action="append", help=f"per cent of packets: {LOSSES}")
    add("--receivers", type=int, action="append", help=f"for the spread: {RECEIVERS}")
    add("--seconds", type=float, default=2.0, help="length of a run: 2")
    add("--rounds", type=int, default=3, help="runs for each loss: 3")
    add("--runs", type=int, default=20, help="runs for the spread: 20; 0: no spread")
    add("--json", type=Path, help="save the JSON here instead of printing it")
    add("--no-install", action="store_true", help="use .venv-peers as it is")
    chosen = parser.parse_args(words)
    if any(not 0 <= loss < 100 for loss in chosen.loss or ()):
        parser.error("--loss goes from 0 to less than 100 per cent")
    if any(not 1 <= count <= 64 for count in chosen.receivers or ()):
        parser.error("--receivers goes from 1 to 64")
    if not 0 < chosen.seconds <= 60 or chosen.rounds < 0 or chosen.runs < 0:
        parser.error("--seconds goes up to 60; --rounds and --runs are not negative")
    return chosen


def _fits(entry: Entry) -> bool:
    return entry.variant.name in VARIANTS and THROUGHPUT in entry.variant.workloads


# -- the network -----------------------------------------------------------------------------------


def _overflowed() -> int:
    """How many datagrams the sockets of this namespace had no room for, since it was made."""
    lines = Path("/proc/net/snmp").read_text().splitlines()
    names, values = (line.split() for line in lines if line.startswith("Udp:"))
    return int(values[names.index("RcvbufErrors")])


def _run(cell: Cell, entry: Entry, seconds: float) -> None:
    case: Case = throughput(64, seconds, cell.receivers)
    lose(cell.loss_percent)
    before = _overflowed()
    try:
        facts = Trial(str(environment.PYTHON), entry.module, entry.peer, entry.variant, case).run()
        cell.rounds.append(figures(case, facts))
    except (TrialError, UnavailableError) as error:
        cell.failures.append(str(error))
    finally:
        lose(0)
        cell.overflowed += _overflowed() - before


# -- tables ----------------------------------------------------------------------------------------


def _show(console: Console, losses: list[Cell], spread: list[Cell]) -> None:
    if any(cell.rounds or cell.failures for cell in losses):
        console.print(_loss_table(losses))
    if any(cell.rounds or cell.failures for cell in spread):
        console.print(_spread_table(spread))
    for cell in losses + spread:
        for failure in cell.failures:
            console.print(f"{cell.variant}, {cell.loss_percent:g}%: {failure}", style="red")


def _loss_table(cells: list[Cell]) -> Table:
    table = Table(title="64 B, two receivers: messages/s at the slower one")
    for name in ("loss", "variant", "median", "best", "worst", "× pyzmq, medians",
                 "× pyzmq's best", "CPU s a million", "× CPU without loss", "lost"):  # fmt: skip
        table.add_column(name, justify="right")
    by_name = {(cell.loss_percent, cell.variant): cell for cell in cells}
    for cell in cells:
        peer = by_name.get((cell.loss_percent, PEER))
        calm = by_name.get((0.0, cell.variant))
        table.add_row(
            f"{cell.loss_percent:g}%",
            cell.variant,
            _k(cell.median),
            _k(cell.best),
            _k(cell.worst),
            _ratio(cell.median, peer.median if peer else 0.0),
            _ratio(cell.median, peer.best if peer else 0.0),
            f"{cell.cpu_s:.2f}",
            _ratio(cell.cpu_s, calm.cpu_s if calm else 0.0),
            f"{cell.lost:.2%}" if cell.lost else "0",
        )
    return table


def _spread_table(cells: Iterable[Cell]) -> Table:
    table = Table(title="64 B, no injected loss, many receivers: messages/s at the slowest one")
    for name in ("receivers", "runs", "median", "best", "worst", "below half of the median",
                 "overflowed datagrams"):  # fmt: skip
        table.add_column(name, justify="right")
    for cell in cells:
        table.add_row(
            str(cell.receivers),
            str(len(cell.rounds)),
            _k(cell.median),
            _k(cell.best),
            _k(cell.worst),
            str(cell.stuck),
            f"{cell.overflowed:,}",
        )
    return table


def _k(rate: float) -> str:
    return f"{rate / 1000:,.0f}k"


def _ratio(value: float, to: float) -> str:
    return f"{value / to:.2f}×" if to else ""


if __name__ == "__main__":
    sys.exit(main())
