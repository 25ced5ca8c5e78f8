"""Journals of broken variants (`tests/sim/mutants.py`), each of a case that is known to break it.

As a script, inside a patched copy of the package: `broken.py SEED STABILITY FOLDER RUN` runs a case
of the explorer and writes its journal.
"""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

SOURCE: Final = Path(__file__).parents[2] / "src" / "semcast"
# By mutant, a case of the explorer that breaks it, and its stability protocol. A case in which the
# group never comes to rest will do: it lacks what it should have in the end. None: what breaks
# writes no journal (trackers alone), or shows in none (a group that is only too slow). "relays" in
# the place of a protocol: a case of a group that gossips. Variants without a line here are judged
# elsewhere (federations: `test_federations.py`).
CASES: Final[dict[str, tuple[int, str] | None]] = {
    "no safety guard: what an unsafe message covers is purged (SRM §4.3: m1, m2, m3)": (
        5,
        "gossip",
    ),
    "safety with one vote too few": (17, "gossip"),
    "what waits is purged by an unsafe cover": (5, "gossip"),
    "an unmarked message is purged": (7, "gossip"),
    "by key: keys of one length are the same": (28, "gossip"),
    "by key: several keys replace whatever shares one with them": (39, "gossip"),
    "by key: a message that has left is still found by its key": None,
    "off by one in the bitmap": (10, "gossip"),
    "a cover is forgotten: who asks for a purged message is never answered": (5, "gossip"),
    "a message is delivered twice": (4, "gossip"),
    "FIFO order broken: a message is handed on although an earlier one may come": (8, "gossip"),
    "stability with one vote too few: messages are released too early": (0, "gossip"),
    "votes for what was only heard of": (5, "gossip"),
    "stale incarnation mixed in: lives of a sender are one source": (30, "gossip"),
    "a full buffer drops instead of refusing": (10, "gossip"),
    "a request is never repeated": (6, "gossip"),
    "a member leaves although others lack what it took": (83, "gossip"),
    "a member that leaves does not ask those who are there, because somebody is silent": (
        240,
        "gossip",
    ),
    "what waits here for an earlier message is not sent to others who lack it": None,
    "what is missing is asked for half a second later, a few messages at a time": None,
    "in place: a message that is never replaced goes before the last one": (39, "gossip"),
    "in place: a value has its turn before an older one of its key": (167, "gossip"),
    "in place: a value does not wait for an older message about several keys": (10, "gossip"),
    "in place: a message about several keys does not wait for older ones": (24, "gossip"),
    "in place: a value of a former life comes last": (1180, "gossip"),
    "rounds: votes of another epoch count, and so do those of a former life": None,
    "rounds: nobody minds that somebody has begun another life": None,
    "rounds: a newcomer votes at once instead of abstaining": None,
    "rounds: one ends although a vote is missing": (7, "fulldist"),
    "rounds: a vote that comes twice counts twice": None,
    "rounds: who waits in vain does not ask again": (113, "s_coordp"),
    "frames of another view are counted": None,
    "gossip: a member that came back votes at once": (30, "gossip"),
    "rounds: a member that came back votes at once on every source": (41, "train"),
    "a life ends before those before it": None,
    "lives that are over are still listened to": None,
    "rounds: a column is given away before what was said of it has left": None,
    "rounds: a result says nothing of what its teller has just joined": None,
    "lives that have ended are never forgotten": None,
    "views: a minority installs a view": None,
    "views: in an even split either half decides": None,
    "views: a vote of the last view counts": None,
    "views: an acceptor forgets its promise": None,
    "views: a proposer ignores the value that a promise carries": None,
    "views: a proposer takes up the oldest value that a promise carries": None,
    "views: a decision is learned from one vote": None,
    "open: a newcomer begins a stream one message late": None,
    "open: a member that was put out goes on as if nothing had happened": None,
    "open: a patron does not wait for its readers": None,
    "open: the state ends one message before the stream begins": None,
    "open: what is live does not wait for the state": None,
    "open: what nobody received of one that was put out is not sent again": None,
    "open: one that was put out sends again what others have received": None,
    "open: what two had of each other when they were put out comes to them again": None,
    "open: how far a life got is told before all have got equally far": None,
    "feeds: a dead reader is never forgotten": None,
    "feeds: a stream begins one message late": None,
    "gossip: what was purged is passed on all the same": None,
    "gossip: a copy that is not taken any more purges others": None,
    "gossip: a message purges others before it has come": None,
    "gossip: what comes out of order is delivered twice": None,
    "gossip: what makes room is called replaced": None,
    "gossip: nobody passes on what came from others": None,
    "gossip: after another view, what came before is delivered again": (4, "relays"),
    "gossip: what lazy purging drops is passed on all the same": (1, "relays"),
    "gossip: what was given up is not told": None,
}


def write_journals(folder: Path, scratch: Path) -> list[str]:
    """Write a journal of each broken variant below `folder`; the names of the runs."""
    from tests.sim.mutants import MUTANTS

    work = partial(_write_one, folder, scratch)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [(number, mutant, CASES.get(mutant.name)) for number, mutant in enumerate(MUTANTS)]
        broken = [(number, mutant, case) for number, mutant, case in jobs if case is not None]
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

    found = _explored(seed, stability)
    journal = Journal(replace(found.header, run=run))
    for event in found:
        journal.append(event)
    write_journal(journal, folder)


def _explored(seed: int, stability: Any) -> Any:
    from semcast.sim.epidemic.world import GossipWorld
    from semcast.sim.exploring.cases import case
    from semcast.sim.exploring.gossip_cases import gossip_case
    from semcast.sim.world import run

    if stability == "relays":
        world = GossipWorld(gossip_case(seed), seed, journal=True)
        world.run()
        return world.journal
    scenario = case(seed, stability)
    return run(scenario, scenario.seed).journal


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
