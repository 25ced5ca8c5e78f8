"""What goes to the executors: whole, the same every time, importable where it is unpacked."""

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import semcast
import semcast.ids
from semcast.pipeline.spark.ship import SPARE, Shipment, add_to_settings, pack


def _unpacked(shipment: Shipment, beside: Path) -> None:
    """As Spark does it."""
    for archive in shipment.archives:
        path, _, name = archive.partition("#")
        with tarfile.open(path) as packed:
            packed.extractall(beside / name, filter="data")
    for file in shipment.files:
        shutil.copy(file, beside)


def test_the_same_files_make_the_same_bytes(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        pack(folder)
    first, second = ({path.name: path.read_bytes() for path in f.iterdir()} for f in folders)
    assert first == second
    assert len(first) == 3


def test_all_of_the_package_goes_and_is_enough_for_the_simulator(tmp_path: Path) -> None:
    beside = tmp_path / "executor"
    beside.mkdir()
    _unpacked(pack(tmp_path), beside)
    root = Path(semcast.__file__ or "").parent
    for path in root.rglob("*.py"):
        assert (beside / "semcast" / path.relative_to(root)).read_bytes() == path.read_bytes()
    assert not list(beside.rglob("__pycache__"))
    program = (
        f"import sys; sys.path.insert(0, {str(beside)!r})\n"
        "import semcast.pipeline, semcast.sim.world, cryptography\n"
        "print(semcast.__file__); print(semcast.ids.__file__); print(cryptography.__file__)"
    )
    # -S -E: without anything that is installed here.
    command = [sys.executable, "-S", "-E", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    package, ids, sealing = map(Path, done.stdout.split())
    assert package == beside / "semcast" / "__init__.py"
    assert sealing.is_relative_to(beside / SPARE)
    assert ids.suffix == Path(sys.modules["semcast.ids"].__file__ or "").suffix


def test_what_a_user_ships_as_well_goes_along() -> None:
    settings = {"spark.archives": "/other.tar.gz#other"}
    add_to_settings(Shipment(("/a.tar.gz#a", "/b.tar.gz#b"), ("/c.py",)), settings)
    assert settings == {
        "spark.archives": "/a.tar.gz#a,/b.tar.gz#b,/other.tar.gz#other",
        "spark.files": "/c.py",
    }
