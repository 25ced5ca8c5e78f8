"""What a user calls a trace in; what it is out: files, a trace in a lake, or a run's journal.

Nothing is read but names and first bytes, and no Spark is needed: a mistake is reported at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias
from urllib.parse import unquote

from semcast.errors import InputError
from semcast.journal import runs_in
from semcast.pipeline.ingest.inputs import TraceFile, TraceOptions, find_files
from semcast.pipeline.ingest.journals import is_journal
from semcast.pipeline.ingest.lake import Lake, is_lake


@dataclass(frozen=True)
class Files:
    """Trace files that are read as one trace, in this order."""

    name: str
    files: Sequence[TraceFile]
    options: TraceOptions


@dataclass(frozen=True)
class Ingested:
    """A trace that `semcast ingest` put into a lake."""

    name: str
    lake: Lake


@dataclass(frozen=True)
class Run:
    """The journal of one run."""

    name: str
    directory: Path


Found: TypeAlias = Files | Ingested | Run


def find_traffic(
    given: str | Path, options: TraceOptions | None = None, choice: str | None = None
) -> Found:
    """Find out what a user means; `choice` names one of several traces of a lake, or runs."""
    path = Path(given)
    if path.name.startswith("trace=") and is_lake(path.parent.parent):
        return _ingested(Lake(path.parent.parent), choice or unquote(path.name[len("trace=") :]))
    if is_lake(path):
        return _ingested(Lake(path), choice)
    if is_journal(path / "journals"):
        path = path / "journals"
    if is_journal(path):
        if path.name.startswith("run="):
            path, choice = path.parent, choice or unquote(path.name[len("run=") :])
        return Run(_chosen(path, "run", runs_in(path), choice), path)
    if choice is not None:
        raise InputError(f"{given}: a single trace, so {choice!r} cannot be chosen from it")
    options = options or TraceOptions()
    files = find_files([given], options)
    return Files(path.name if len(files) == 1 else str(given), files, options)


def _ingested(lake: Lake, choice: str | None) -> Ingested:
    name = _chosen(lake.root, "trace", lake.trace_names(), choice)
    if not any(lake.trace_folder(name).glob("source=*/*.parquet")):
        raise InputError(f"{lake.root}: no messages in trace {name!r}")
    return Ingested(name, lake)


def _chosen(path: Path, what: str, names: Sequence[str], choice: str | None) -> str:
    if choice is None and len(names) == 1:
        return names[0]
    if choice is None or choice not in names:
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        found = f"no {what} {choice!r} in it" if choice else f"it has {len(names)} {what}s"
        raise InputError(f"{path}: {found}; choose one by --only: {shown}")
    return choice
