"""The proof is worth something only if it finds what is wrong: every broken variant is caught.

Each mutant (`tests/sim/mutants.py`) is a patched copy of the package that runs in a process of its
own. A patch whose text is not found fails too, so that mutants stay in step with the code.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.sim import hunts
from tests.sim.federation_mutants import FEDERATION_MUTANTS
from tests.sim.mutants import MUTANTS
from tests.sim.variant import Mutant, Patch

SOURCE = Path(__file__).parents[2] / "src" / "semcast"
NOTE = Path(__file__).parents[2] / "docs" / "design" / "proof.md"
Hunted = Callable[[Mutant], "subprocess.CompletedProcess[str]"]


def command(mutant: Mutant, folder: Path, first: int) -> tuple[list[str], dict[str, str]]:
    """Make a patched copy; the program that hunts in it comes out, and its environment."""
    package = folder / "semcast"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for patch in mutant.patches:
        patch.apply(package)
    words = [mutant.hunt, str(first), str(mutant.hunt_max), mutant.breaks]
    changed = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return [sys.executable, hunts.__file__, *words], os.environ | changed


def hunt(mutant: Mutant, folder: Path) -> "subprocess.CompletedProcess[str]":
    """Run the search in a patched copy."""
    words, environment = command(mutant, folder, mutant.first)
    return subprocess.run(
        words, env=environment, capture_output=True, text=True, timeout=900, check=False
    )


@pytest.fixture(scope="module")
def hunted(tmp_path_factory: pytest.TempPathFactory) -> Hunted:
    """All hunts, begun at once, as many at a time as there are processors."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        begun: dict[str, Future[subprocess.CompletedProcess[str]]] = {
            mutant.name: pool.submit(hunt, mutant, tmp_path_factory.mktemp("mutant"))
            for mutant in MUTANTS
        }
    return lambda mutant: begun[mutant.name].result()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_broken_variant_is_caught(mutant: Mutant, hunted: Hunted) -> None:
    found = hunted(mutant)
    assert found.returncode == hunts.CAUGHT, found.stdout + found.stderr
    assert "Traceback" not in found.stderr, found.stderr


def test_without_the_guard_it_is_the_run_of_m1_m2_m3_that_is_caught(hunted: Hunted) -> None:
    """The sender purges m1 for m3, which nobody else has: if it died, so would m3. SRM §4.3."""
    assert "p0.1 purges p0.1#1 from retransmission for p0.1#3" in hunted(MUTANTS[0]).stdout


def test_a_patch_that_finds_nothing_to_change_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("unchanged")
    with pytest.raises(LookupError, match="0 times"):
        Patch("file.py", "gone", "new").apply(tmp_path)


def test_without_any_change_nothing_is_caught(tmp_path: Path) -> None:
    """What catches the mutants says nothing of the code as it is."""
    for name, bound, breaks in (
        ("exhaust", 200, ""), ("gossip", 3, ""), ("gossip", 6, "Atomicity"),
        ("relays", 10, ""),
    ):  # fmt: skip
        unchanged = Mutant("unchanged", name, (), bound=bound, breaks=breaks)
        assert hunt(unchanged, tmp_path / f"{name}{breaks}").returncode == hunts.SURVIVED


@pytest.mark.parametrize("mutant", FEDERATION_MUTANTS, ids=lambda mutant: mutant.name)
def test_a_variant_of_federations_has_its_row_in_the_note(mutant: Mutant) -> None:
    """With the property that it breaks, if one is asked for."""
    rows = [line for line in NOTE.read_text().splitlines() if line.startswith(f"| {mutant.name} |")]
    assert len(rows) == 1
    assert rows[0].endswith(f"{mutant.breaks} |")
