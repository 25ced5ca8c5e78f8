"""`python -m bench`: the hot path compiled and interpreted, in one run, side by side.

The machine may be noisy: both builds run in turn, several times, and the best of each counts.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

ROUNDS = 4
ROOT = Path(__file__).resolve().parent.parent
MESSAGES = {"compiled": 200_000, "interpreted": 20_000}
ROWS = {
    "send_ns": "number + tag + retain + encode",
    "receive_ns": "decode + insert + purge + take",
    "insert_purge_40_ns": "insert + purge, 40 waiting",
    "insert_purge_100000_ns": "insert + purge, 100,000 waiting",
    "take_1_of_10_ns": "insert + purge, a reader takes 1 of 10",
    "by_key_slow_ns": 'the same, order "key"',
}
# How many keys there may be, compiled: the same as `take_1_of_10_ns`, over so many.
MANY_KEYS = (10_000, 1_000_000)
# What a bare prototype of the same path took, compiled, on a machine of the same kind.
PROTOTYPE_NS = {"send_ns": 480, "receive_ns": 90}


def measure(build: str) -> dict[str, float]:
    """One run of bench.hot_path in a process of its own."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    if build == "interpreted":
        environment["PYTHONPATH"] = str(ROOT / "src")
    run = subprocess.run(
        [sys.executable, "-m", "bench.hot_path", str(MESSAGES[build])],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    result = json.loads(run.stdout)
    if result["build"] != build:
        sys.exit(f"bench: semcast is {result['build']} where it should be {build}: run make setup")
    return {row: float(value) for row, value in result.items() if row != "build"}


def main() -> None:
    best: dict[str, dict[str, float]] = {build: {} for build in MESSAGES}
    for _ in track(range(ROUNDS), "measuring", console=Console(stderr=True), transient=True):
        for build, found in best.items():
            for row, value in measure(build).items():
                found[row] = min(value, found.get(row, value))
    compiled, interpreted = best["compiled"], best["interpreted"]
    if "--json" in sys.argv:
        print(json.dumps(best, indent=2))
        return
    table = Table(title="ns per message, replaced by key: 64 bytes, 50 keys", title_justify="left")
    for name in ("", "compiled", "interpreted", "ratio", "by bitmap", "bare prototype"):
        table.add_column(name, justify="right" if name else "left")
    for row, text in ROWS.items():
        prototype = f"{PROTOTYPE_NS[row]}" if row in PROTOTYPE_NS else ""
        ratio = interpreted[row] / compiled[row]
        bitmap = compiled[row.replace("_ns", "_bitmap_ns")]
        table.add_row(
            text,
            f"{compiled[row]:.0f}",
            f"{interpreted[row]:.0f}",
            f"{ratio:.1f}×",
            f"{bitmap:.0f}",
            prototype,
        )
    console = Console()
    console.print(table)
    growth = compiled["insert_purge_100000_ns"] / compiled["insert_purge_40_ns"]
    console.print(f"100,000 messages waiting cost {growth:.2f}× what 40 waiting do, compiled.")
    for keys in MANY_KEYS:
        growth = compiled[f"take_1_of_10_of_{keys}_keys_ns"] / compiled["take_1_of_10_ns"]
        console.print(f"{keys:,} keys cost {growth:.2f}× what 50 do, where 1 of 10 is taken.")


if __name__ == "__main__":
    main()
