"""The package on its way to the executors: what is installed here in, archives and files out.

Spark unpacks each archive into a folder of its name beside the executor, puts files there as they
are, and has that place on Python's path. So compiled modules load; from a zip among the pyFiles
they would not, and tasks would run interpreted even where semcast is installed. Workers of another
platform pass over the compiled modules and take the source of the same files. What goes:

    semcast/, <hash>__mypyc….so   the package, compiled where this process has it compiled
    librt/, mypy_extensions.py    what compiled modules need, of the version they were built with
    semcast-spare/                cryptography, for workers without it: `semcast.pipeline` puts this
                                  folder at the end of the path, after what is installed there

Whatever else tasks import (pyarrow, pandas), Spark itself asks of its workers.
"""

import gzip
import importlib.util
import tarfile
from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

SPARE: Final = "semcast-spare"
_PACKAGES: Final = ("semcast", "librt")
_MODULES: Final = ("mypy_extensions",)
_SPARE: Final = ("cryptography", "_cffi_backend")


@dataclass(frozen=True)
class Shipment:
    """What every executor gets."""

    archives: tuple[str, ...]  # path#name: unpacked into a folder of that name
    files: tuple[str, ...]


def pack(folder: Path) -> Shipment:
    """Write the archives into the folder; the same files make the same bytes."""
    contents = {name: dict(_package(name)) for name in _PACKAGES}
    contents[SPARE] = {
        f"{name}/{path}" if path else file.name: file
        for name in _SPARE
        for path, file in (*_package(name), *(("", file) for file in _module(name)))
    }
    archives = [_write(folder / f"{name}.tar.gz", files) for name, files in contents.items()]
    files = [file for name in _MODULES for file in _module(name)] + _groups()
    return Shipment(
        tuple(f"{path}#{name}" for path, name in zip(archives, contents, strict=True)),
        tuple(map(str, files)),
    )


def add_to_settings(shipment: Shipment, settings: MutableMapping[str, str]) -> None:
    """Have a cluster that is started with these settings bring it, beside what the user ships."""
    for key, ours in (("spark.archives", shipment.archives), ("spark.files", shipment.files)):
        settings[key] = ",".join([*ours, *filter(None, [settings.get(key)])])


def add_to_session(shipment: Shipment, spark: SparkSession) -> None:
    """Have a Connect server bring it to its executors, for this session alone."""
    spark.addArtifacts(*shipment.archives, archive=True)
    spark.addArtifacts(*shipment.files, file=True)


def _write(target: Path, files: dict[str, Path]) -> Path:
    # Compressing harder would save a third of the bytes and cost more than sending them.
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", compresslevel=1, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in sorted(files.items()):
            info = tarfile.TarInfo(name)
            info.size = path.stat().st_size
            info.mode = 0o644
            with path.open("rb") as content:
                archive.addfile(info, content)
    return target


def _package(name: str) -> Iterator[tuple[str, Path]]:
    """All files of a package, by their path in it; nothing if it is not here."""
    spec = importlib.util.find_spec(name)
    for folder in _folders(spec.submodule_search_locations if spec else None):
        for path in folder.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(folder).as_posix(), path


def _folders(locations: Iterable[str] | None) -> list[Path]:
    return [Path(location) for location in locations or ()]


def _module(name: str) -> list[Path]:
    """The file of a module that is no package; nothing if it is not here."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.submodule_search_locations is not None or spec.origin is None:
        return []
    return [Path(spec.origin)]


def _groups() -> list[Path]:
    """The modules beside the package in which mypyc puts what it compiled."""
    spec = importlib.util.find_spec("semcast")
    assert spec is not None
    assert spec.origin is not None
    found = sorted(Path(spec.origin).parents[1].glob("*__mypyc*.so"))
    try:
        files = distribution("semcast").files or []
    except PackageNotFoundError:
        return found
    installed = {Path(str(file.locate())).resolve() for file in files}
    # Beside an installed package lie those of other packages too; beside a build tree only ours.
    return [path for path in found if path.resolve() in installed] or found
