"""`python -m bench.group`: what a large simulated group costs, in processor time and in memory.

The group is `examples/scenarios/group-64.toml`: 64 members, S-RM, one slow receiver, 100 messages a
second for 60 virtual seconds, with the compiled package that is installed. It runs without the
journal, and with the journal and every checker. For the memory, the same group runs for a few
virtual seconds at several sizes, buffers as they are: by how much the peak rises while the group
runs, divided by its members, is what a member takes. Memory that is linear in the members gives the
same at every size; what a member keeps for each of the others makes it rise with them.

Every run has a process of its own; times are processor time. JSON goes to standard output, a table
to standard error.
"""

import json
import os
import platform
import resource
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from semcast import ids
from semcast.check import check_all
from semcast.sim.scenario import ProtocolScenario, load
from semcast.sim.world import run

ROOT = Path(__file__).resolve().parent.parent
SCENARIO = ROOT / "examples" / "scenarios" / "group-64.toml"
MEMBERS = 64
SIZES = (16, 32, 64, 128)
# Long enough for all buffers to be as full as they get: the slow one is full after a second.
MEMORY_S = 5
# From one size to the next, memory per member may rise so much and still be called linear.
GROWTH_MAX = 1.5
# As `ru_maxrss` counts: in kilobytes, but on macOS in bytes.
RSS_UNIT_BYTES = 1 if sys.platform == "darwin" else 1024


def measure(members: int, duration_s: int, journal: bool) -> dict[str, object]:
    """One run in this process."""
    changes = [
        f"members={members}",
        f"consumers.0.members=[{members - 1}]",
        f"duration_s={duration_s}",
        "warm_up_s=1",
    ]
    scenario = load(SCENARIO, changes)
    assert isinstance(scenario, ProtocolScenario)
    before_bytes, before_s = peak_rss_bytes(), time.process_time()
    outcome = run(scenario, scenario.seed, journal)
    ran_s = time.process_time()
    if outcome.journal is not None:
        report = check_all(outcome.journal)
        if not report.ok:
            sys.exit(f"bench: the group breaks a promise: {report.violations[0]}")
    if not outcome.quiescent:
        sys.exit(f"bench: the group did not come to rest within {outcome.ended_s:g} s")
    return {
        "run_s": ran_s - before_s,
        "check_s": time.process_time() - ran_s,
        "events": outcome.events,
        "journal_events": None if outcome.journal is None else len(outcome.journal),
        "sent_rate_msg_s": outcome.sent_rate_msg_s,
        "peak_rss_bytes": peak_rss_bytes(),
        "member_bytes": (peak_rss_bytes() - before_bytes) / members,
        "compiled": not str(ids.__file__).endswith(".py"),
    }


def peak_rss_bytes() -> int:
    """The most memory that this process ever had."""
    status = Path("/proc/self/status")
    if status.exists():
        # Here `ru_maxrss` will not do: a process inherits it from the one that started it.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RSS_UNIT_BYTES


def in_process(members: int, duration_s: int, journal: bool) -> dict[str, float]:
    """One run in a process of its own, with the package that is installed."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    arguments = ["--measure", str(members), str(duration_s), str(int(journal))]
    done = subprocess.run(
        [sys.executable, "-m", "bench.group", *arguments],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"bench: the run with {members} members failed, see above")
    found: dict[str, float] = json.loads(done.stdout)
    if not found["compiled"]:
        sys.exit("bench: semcast is interpreted where it should be compiled: run make setup")
    return found


def show(console: Console, plain: dict[str, float], judged: dict[str, float]) -> None:
    title = f"{MEMBERS} members, S-RM, one slow receiver, 60 virtual seconds"
    table = Table(title=title, title_justify="left")
    for name in ("", "running", "checking", "peak memory"):
        table.add_column(name, justify="right" if name else "left")
    for name, found in (("no journal", plain), ("journal and checkers", judged)):
        table.add_row(
            name,
            f"{found['run_s']:.1f} s",
            f"{found['check_s']:.1f} s" if found["journal_events"] else "",
            f"{found['peak_rss_bytes'] / 1e6:,.0f} MB",
        )
    console.print(table)


def show_memory(console: Console, sized: dict[int, dict[str, float]], growth: float) -> None:
    title = f"Memory by size of the group, no journal, {MEMORY_S} virtual seconds"
    table = Table(title=title, title_justify="left")
    for name in ("members", "peak memory", "for each member"):
        table.add_column(name, justify="right")
    for size, found in sized.items():
        peak, each = found["peak_rss_bytes"] / 1e6, found["member_bytes"] / 1e3
        table.add_row(f"{size}", f"{peak:,.1f} MB", f"{each:,.0f} kB")
    console.print(table)
    verdict = "linear" if growth <= GROWTH_MAX else "NOT linear"
    console.print(
        f"Twice the members take up to {growth:.2f} times as much each: {verdict} "
        f"(up to {GROWTH_MAX:g})."
    )


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        members, duration_s, journal = map(int, sys.argv[2:5])
        print(json.dumps(measure(members, duration_s, bool(journal))))
        return
    console = Console(stderr=True)
    runs = [(MEMBERS, 60, False), (MEMBERS, 60, True), *((n, MEMORY_S, False) for n in SIZES)]
    plain, judged, *rest = [
        in_process(*one)
        for one in track(runs, "simulating a group", console=console, transient=True)
    ]
    sized = dict(zip(SIZES, rest, strict=True))
    costs = [sized[size]["member_bytes"] for size in SIZES]
    growth = max(more / fewer for fewer, more in pairwise(costs))
    show(console, plain, judged)
    show_memory(console, sized, growth)
    report = {
        "python": platform.python_version(),
        "scenario": SCENARIO.name,
        "no_journal": plain,
        "journal_and_checkers": judged,
        "peak_rss_bytes": {size: found["peak_rss_bytes"] for size, found in sized.items()},
        "member_bytes": dict(zip(SIZES, costs, strict=True)),
        "member_bytes_growth": growth,
        "member_bytes_growth_max": GROWTH_MAX,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
