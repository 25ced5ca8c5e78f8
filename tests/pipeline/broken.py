"""Journals of broken variants (`tests/sim/mutants.py`), each of a case that is known to break it.

As a script, inside a patched copy of the package: `broken.py SEED STABILITY FOLDER RUN` runs a case
of the explorer and writes its journal. Seed 0 stands for a small scope, searched until something
breaks.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).parents[2] / "src" / "semcast"
# By mutant, in the order of the table there. A case in which the group never comes to rest will do:
# it lacks what it should have in the end. None: trackers alone break, and write no journal.
_BY_GOSSIP: Final = (2, 17, 0, 7, 1, 12, 5, 8, 2, 1, 30, 5, 1, 39, 167, 6, 6)
CASES: Final[tuple[tuple[int, str] | None, ...]] = (
    *((seed, "gossip") for seed in _BY_GOSSIP),
    (917, "coordp"),
    None,
    None,
    (2, "train"),
    (1, "fulldist"),
    None,
    (3, "s_coordp"),
)


def write_journals(folder: Path, scratch: Path) -> list[str]:
    """Write a journal of each broken variant below `folder`; the names of the runs."""
    from tests.sim.mutants import MUTANTS

    work = partial(_write_one, folder, scratch)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = enumerate(zip(MUTANTS, CASES, strict=True))
        broken = [(number, mutant, case) for number, (mutant, case) in jobs if case is not None]
        return list(pool.map(lambda job: work(*job), broken))


def _write_one(folder: Path, scratch: Path, number: int, mutant: Any, case: tuple[int, str]) -> str:
    package = scratch / f"mutant-{number}" / "semcast"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for patch in mutant.patches:
        patch.apply(package)
    run = f"mutant {number}: {mutant.name}"
    done = subprocess.run(
        [sys.executable, __file__, str(case[0]), case[1], str(folder), run],
        env={
            **os.environ,
            "PYTHONPATH": f"{package.parent}{os.pathsep}{SOURCE.parents[1]}",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return run


def main(seed: int, stability: Any, folder: str, run: str) -> None:
    """Run the case and write its journal."""
    from semcast.journal import Journal, write_journal

    found = _explored(seed, stability) if seed else _exhausted()
    journal = Journal(replace(found.header, run=run))
    for event in found:
        journal.append(event)
    write_journal(journal, folder)


def _explored(seed: int, stability: Any) -> Any:
    from semcast.sim.cases import case
    from semcast.sim.world import run

    scenario = case(seed, stability)
    return run(scenario, scenario.seed).journal


def _exhausted() -> Any:
    """The journal that was judged last before something broke."""
    from semcast.sim import exhaust as room
    from semcast.sim.scope import Scope, relations

    judged: list[Any] = []

    def watched(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def watch(journal: Any) -> Any:
            judged[:] = [journal]
            return check(journal)

        return watch

    for name in ("check_safety", "check_all"):
        setattr(room, name, watched(getattr(room, name)))
    if room.exhaust(Scope(relations(3)[1], ticks=1, losses=2), seconds=120.0).violations:
        return judged[0]
    raise LookupError("nothing was caught")


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
