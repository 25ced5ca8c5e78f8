"""`python -m bench.peers`: install the peers, run everything in turns, print tables and JSON."""

import argparse
import contextlib
import os
import platform
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.page import write_between
from bench.peers import environment
from bench.peers.api import ALL, LATENCY, SLOW_READER, THROUGHPUT
from bench.peers.case import slow_reader_s
from bench.peers.judge import requirements
from bench.peers.payload import KEYS
from bench.peers.plan import (
    ADAPTERS,
    RATES,
    ROUNDS,
    SECONDS,
    SHARES,
    SIZES_BYTES,
    Row,
    Step,
    cases_of,
    entries,
    perform,
    steps_of,
)
from bench.peers.show import BEGIN, show, to_json, to_markdown
from bench.peers.trial import Facts, Trial

_WIDTH = 170
_ROUNDS_MAX = 100
_SECONDS_MAX = 3_600.0
# A run with so many takes two minutes and a half.
_KEYS_MAX = 100_000


_LONGER = (
    "; longer with many keys, so that each is sent twice and the slow reader can take each once: "
    f"{slow_reader_s(20_000, SECONDS[SLOW_READER]):g} for 20000"
)


def _arguments(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m bench.peers", description=__doc__)
    add = parser.add_argument
    add("--only", default="", help="peers or variants, with commas: zmq,semcast,KEEP_LAST")
    add("--workload", default=",".join(ALL), help=f"of {', '.join(ALL)}; with commas")
    add("--size", type=int, action="append", help=f"bytes, for throughput: {SIZES_BYTES}")
    add("--rate", type=int, action="append", help=f"messages a second, for latency: {RATES}")
    add("--share", type=float, action="append", help=f"never replaced, slow reader: {SHARES}")
    add("--keys", action="append", help=f"how many, slow reader; with commas: {KEYS}")
    add("--seconds", type=float, help=f"length of a run: {_defaults(SECONDS)}{_LONGER}")
    add("--rounds", type=int, help=f"the best of so many counts: {_defaults(ROUNDS)}")
    add("--json", type=Path, help="save the JSON here too")
    add("--markdown", type=Path, help="put the tables into this page: docs/peers.md")
    add("--no-install", action="store_true", help="use .venv-peers as it is")
    chosen = parser.parse_args(words)
    _check(parser, chosen)
    return chosen


def _check(parser: argparse.ArgumentParser, chosen: argparse.Namespace) -> None:
    unknown = [word for word in chosen.workload.split(",") if word not in ALL]
    if unknown:
        parser.error(f"no workload is called {unknown[0]!r}; there are {', '.join(ALL)}")
    if chosen.seconds is not None and not 0 < chosen.seconds <= _SECONDS_MAX:
        parser.error(f"--seconds is {chosen.seconds:g}; choose up to {_SECONDS_MAX:g}")
    if chosen.rounds is not None and not 1 <= chosen.rounds <= _ROUNDS_MAX:
        parser.error(f"--rounds is {chosen.rounds}; choose 1 to {_ROUNDS_MAX}")
    if any(not 20 <= size <= 60_000 for size in chosen.size or ()):
        parser.error("--size must be 20 to 60000 bytes: a message carries its number and time")
    if any(not 1 <= rate <= 1_000_000 for rate in chosen.rate or ()):
        parser.error("--rate must be 1 to 1000000 messages a second")
    if any(not 0 <= share <= 1 for share in chosen.share or ()):
        parser.error("--share must be 0 to 1")
    try:
        _keys_of(chosen)
    except ValueError as error:
        parser.error(str(error))
    for path in (chosen.json, chosen.markdown):
        # Found out now, and not after half an hour.
        if path is not None and (path.is_dir() or not path.absolute().parent.is_dir()):
            parser.error(f"{path} cannot be written: name a file in a folder that is there")


def _keys_of(chosen: argparse.Namespace) -> list[int]:
    """The numbers of keys, each once, as they were asked for."""
    found: dict[int, None] = {}
    for word in ",".join(chosen.keys or [str(KEYS)]).split(","):
        try:
            count = int(word)
        except ValueError:
            count = 0
        if not 1 <= count <= _KEYS_MAX:
            text = f"--keys has {word[:20]!r}; choose 1 to {_KEYS_MAX}, with commas: 50,2000"
            raise ValueError(text)
        found[count] = None
    return list(found)


def _defaults(values: dict[str, Any]) -> str:
    return ", ".join(f"{values[name]:g} for {name}" for name in (THROUGHPUT, LATENCY, SLOW_READER))


def _perform(console: Console, steps: list[Step], unavailable: dict[str, str]) -> None:
    def run(row: Row) -> Facts:
        entry = row.entry
        python = str(environment.PYTHON)
        return Trial(python, entry.module, entry.peer, entry.variant, row.case).run()

    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=console, transient=True) as progress:
        task = progress.add_task("", total=len(steps))
        done = -1

        def before(step: Step) -> None:
            nonlocal done
            done += 1
            row = step.row
            text = f"{row.case.name}: {row.entry.variant.name}, round {step.round + 1}"
            progress.update(task, completed=done, description=text)

        perform(steps, run, unavailable, before)


def _about() -> dict[str, Any]:
    return {
        "machine": {
            "cores": os.cpu_count(),
            "load_before": os.getloadavg()[0],
            "system": platform.platform(),
            "python": platform.python_version(),
        },
        "semcast_build": environment.semcast_build(),
        "versions": environment.versions([*environment.pinned(), "semcast"]),
    }


def _given(words: list[str] | None) -> list[str]:
    """What was asked for, but not where to save it."""
    given = list(sys.argv[1:] if words is None else words)
    for option in ("--json", "--markdown"):
        if option in given:
            at = given.index(option)
            del given[at : at + 2]
    return given


def main(words: list[str] | None = None) -> int:
    chosen = _arguments(words)
    # Where there is no terminal to fit into, the tables are as wide as they like to be.
    console = Console(stderr=True, width=None if sys.stderr.isatty() else _WIDTH)
    try:
        who = entries(ADAPTERS, [word for word in chosen.only.split(",") if word])
    except ValueError as error:
        print(f"bench.peers: {error}", file=sys.stderr)
        return 2
    unavailable: dict[str, str] = {}
    if chosen.no_install and not environment.PYTHON.exists():
        print("bench.peers: no .venv-peers yet: leave --no-install out", file=sys.stderr)
        return 2
    if not chosen.no_install:
        peers = {entry.peer.name: entry.peer for entry in who}
        try:
            unavailable = environment.prepare(peers.values(), console.print)
        except subprocess.CalledProcessError:
            text = "bench.peers: .venv-peers cannot be made: apt-get install python3-venv"
            print(text, file=sys.stderr)
            return 1
    work = cases_of(
        chosen.workload.split(","),
        chosen.size or SIZES_BYTES,
        chosen.rate or RATES,
        chosen.share or SHARES,
        chosen.seconds,
        _keys_of(chosen),
    )
    steps = steps_of(work, who, chosen.rounds)
    about = {"command": shlex.join(["python", "-m", "bench.peers", *_given(words)]), **_about()}
    if about["semcast_build"] != "compiled":
        text = f"semcast is {about['semcast_build']}, so its figures say little: run make setup"
        console.print(text, style="yellow")
    # Whoever has waited long enough still gets what was measured so far.
    with contextlib.suppress(KeyboardInterrupt):
        _perform(console, steps, unavailable)
    rows = list({id(step.row): step.row for step in steps}.values())
    required = requirements(rows)
    show(console, rows, required)
    text = to_json(rows, required, about)
    print(text)
    if chosen.json:
        chosen.json.write_text(text + "\n")
    if chosen.markdown:
        write_between(chosen.markdown, BEGIN, to_markdown(rows, required, about))
    return 0


if __name__ == "__main__":
    sys.exit(main())
