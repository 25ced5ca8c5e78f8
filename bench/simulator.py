"""`python -m bench.simulator`: our scheduler against SimPy on the same model, in one run.

The model is that of `bench.ring`: processes in a ring which wait, send to the next and wait again.
SimPy's side is written as its users write it, a generator for each process, and as lean as it goes:
a message is a timeout with a callback, without a store. Ours runs three times: scheduler and
handlers compiled together (as all of semcast's own models are), the compiled scheduler with
handlers left interpreted (as a user's script has it), and everything interpreted. What is compiled
is built here, from the files as they are, with the flags of setup.py.

Each figure is the best of several rounds in processes of their own, in processor time, so that
other work on the machine counts for little. Every process must have received the same number of
messages in all of them. JSON goes to standard output, a table to standard error.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from pathlib import Path

import simpy
from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench import ring

ROOT = Path(__file__).resolve().parent.parent
SIZES = (10, 100, 1000)
ROUNDS = 5
EVENTS = 200_000
MEAN_WAIT_NS = ring.STEP_NS * (ring.MASK + 1) // 2
SIMPY = "simpy"
COMPILED = "compiled"
USER = "handlers_interpreted"
INTERPRETED = "all_interpreted"
NAMES = {
    SIMPY: "SimPy",
    COMPILED: "compiled",
    USER: "own handlers",
    INTERPRETED: "interpreted",
}
COMPILED_FILES = ["semcast/ids.py", "semcast/sim/scheduler.py", "bench/ring.py"]
# What the scheduler is held to.
RATIO_MIN = 4.0
GROWTH_MAX = 2.5
BUILD = f"""
from setuptools import setup
from mypyc.build import mypycify
extensions = mypycify({COMPILED_FILES!r}, opt_level="3", debug_level="0")
for extension in extensions:
    extension.extra_compile_args.append("-fno-semantic-interposition")
setup(name="bench", packages=[], ext_modules=extensions, script_args=["build_ext", "--inplace"])
"""


def run_simpy(processes: int, until_ns: int) -> list[int]:
    """The model of bench.ring in SimPy: how much each process received."""
    environment = simpy.Environment()
    received = [0] * processes

    def arrive(event: simpy.Event) -> None:
        received[event.value] += 1  # type: ignore[index]  # it is never None here

    def process(state: int, following: int) -> Generator[simpy.Event, None, None]:
        while True:
            state = (state * ring.MULTIPLIER + ring.INCREMENT) & ring.MASK
            yield environment.timeout(1 + state * ring.STEP_NS)
            environment.timeout(ring.LATENCY_NS, following).callbacks.append(arrive)

    for number in range(processes):
        environment.process(process(number, (number + 1) % processes))
    # SimPy stops before what is due at this time, we stop after it.
    environment.run(until=until_ns + 1)
    return received


def measure(side: str) -> dict[str, dict[str, object]]:
    """One round of one side, in this process: for each size, seconds and what was received."""
    found: dict[str, dict[str, object]] = {}
    for processes in SIZES:
        until_ns = EVENTS * MEAN_WAIT_NS // (2 * processes)
        started = time.process_time()
        if side == "simpy":
            received = run_simpy(processes, until_ns)
        else:
            _, received = ring.run(processes, until_ns)
        seconds = time.process_time() - started
        found[str(processes)] = {"seconds": seconds, "received": received}
    found["build"] = {
        "scheduler": not str(sys.modules["semcast.sim.scheduler"].__file__).endswith(".py"),
        "handlers": not str(ring.__file__).endswith(".py"),
    }
    return found


def build(where: Path) -> dict[str, Path]:
    """Compile the model and the scheduler; gives the folder that each side runs in."""
    compiled, user = where / "compiled", where / "user"
    skip = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src" / "semcast", compiled / "semcast", ignore=skip)
    shutil.copytree(ROOT / "bench", compiled / "bench", ignore=skip)
    shutil.copytree(compiled, where / "interpreted")
    done = subprocess.run(
        [sys.executable, "-c", BUILD], cwd=compiled, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        sys.exit(f"bench: compiling failed:\n{done.stderr[-2000:]}")
    shutil.copytree(compiled, user)
    for extension in (user / "bench").glob("ring.*.so"):
        extension.unlink()
    interpreted = where / "interpreted"
    return {SIMPY: interpreted, COMPILED: compiled, USER: user, INTERPRETED: interpreted}


def in_process(name: str, folder: Path) -> dict[str, dict[str, object]]:
    """One round of one side in a process of its own."""
    side = "simpy" if name == SIMPY else "ring"
    run = subprocess.run(
        [sys.executable, "-m", "bench.simulator", "--measure", side],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, object]] = json.loads(run.stdout)
    expected = {"scheduler": name in (COMPILED, USER), "handlers": name == COMPILED}
    if name != SIMPY and found["build"] != expected:
        sys.exit(f"bench: {name} ran with {found['build']} compiled where it should be {expected}")
    return found


def best_ns(rounds: list[dict[str, dict[str, dict[str, object]]]]) -> dict[str, dict[str, float]]:
    """Nanoseconds per event of each side and size; checks that all sides did the same."""
    best: dict[str, dict[str, float]] = {}
    for results in rounds:
        for name, found in results.items():
            for size in map(str, SIZES):
                received = found[size]["received"]
                if received != rounds[0][SIMPY][size]["received"]:
                    sys.exit(f"bench: {name} received otherwise than SimPy with {size} processes")
                assert isinstance(received, list)
                # A timeout and an arrival for each message, less those on the way at the end.
                cost_ns = float(str(found[size]["seconds"])) * 1e9 / (2 * sum(received))
                sizes = best.setdefault(name, {})
                sizes[size] = min(cost_ns, sizes.get(size, cost_ns))
    return best


def show(console: Console, best: dict[str, dict[str, float]]) -> None:
    title = f"ns per event by number of processes (times SimPy's speed), best of {ROUNDS}"
    table = Table(title=title, title_justify="left")
    table.add_column("")
    for size in SIZES:
        table.add_column(f"{size:,}", justify="right")
    table.add_column("10 to 1,000", justify="right")
    for name, costs in best.items():
        cells = [f"{costs[s]:,.0f} ({best[SIMPY][s] / costs[s]:.1f}×)" for s in map(str, SIZES)]
        table.add_row(NAMES[name], *cells, f"{costs['1000'] / costs['10']:.2f}×")
    console.print(table)


def main() -> None:
    if sys.argv[1:2] == ["--measure"]:
        print(json.dumps(measure(sys.argv[2])))
        return
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as where:
        console.print("compiling the scheduler and the model ...")
        folders = build(Path(where))
        rounds = [
            {name: in_process(name, folder) for name, folder in folders.items()}
            for _ in track(range(ROUNDS), "measuring", console=console, transient=True)
        ]
    best = best_ns(rounds)
    show(console, best)
    ours, theirs = best[COMPILED], best[SIMPY]
    report = {
        "simpy": simpy.__version__,
        "python": platform.python_version(),
        "events": EVENTS,
        "rounds": ROUNDS,
        "event_ns": best,
        "events_s": {n: {s: round(1e9 / c) for s, c in cs.items()} for n, cs in best.items()},
        "compiled_times_simpy_at_1000": theirs["1000"] / ours["1000"],
        "compiled_times_simpy_at_1000_min": RATIO_MIN,
        "compiled_growth_10_to_1000": ours["1000"] / ours["10"],
        "compiled_growth_10_to_1000_max": GROWTH_MAX,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
