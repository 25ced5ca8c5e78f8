"""The journals of a group that goes on: a folder in, the violations that are really there out.

Members write their journals every tenth of a second and not at once, so what one of them has
reported may refer to what another has not written yet. A violation counts when a later look finds
it again. Reads everything each time, so only journals of a bounded size; larger ones are for
`verify`.
"""

import contextlib
import os
from pathlib import Path
from typing import Final

from semcast.check import check_safety
from semcast.check.violation import Violation
from semcast.errors import InputError
from semcast.journal import read_journal, runs_in
from semcast.journal.rows import folder_of

BYTES_MAX: Final = 64 << 20

_Identity = tuple[str, str, tuple[object, ...]]


class JournalTail:
    """Looks again and again at the newest run in a folder."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder} is no folder; give the one that the members record into")
        self._folder: Final = folder
        self._suspected: set[_Identity] = set()
        self._reported: Final[set[_Identity]] = set()
        self.events = 0
        self.run = ""
        # Why nothing is judged, if so.
        self.note = "nothing was recorded yet"

    def look(self) -> list[str]:
        """Violations that were there at the last look too, and were not reported before."""
        run = self._newest()
        if not run:
            return []
        if run != self.run:
            self.run, self._suspected = run, set()
        try:
            journal = read_journal(self._folder, run)
        except InputError as error:
            self.note = str(
                error
            )  # a log was finished while we looked, and its final file replaced it
            return []
        self.events, self.note = len(journal.events), ""
        found = {_identity(one): one for one in check_safety(journal).violations}
        sure = [key for key in found if key in self._suspected and key not in self._reported]
        self._suspected = set(found)
        self._reported.update(sure)
        return [str(found[key]) for key in sure]

    def _newest(self) -> str:
        """The run that was written to last, unless it is too large."""
        sizes: dict[str, tuple[float, int]] = {}
        for run in runs_in(self._folder):
            files = _stats(folder_of(self._folder, run))
            if files:
                sizes[run] = (max(one.st_mtime for one in files), sum(one.st_size for one in files))
        if not sizes:
            return ""
        run = max(sizes, key=lambda name: sizes[name])
        if sizes[run][1] > BYTES_MAX:
            self.note = (
                f"run {run} has {sizes[run][1]} bytes, more than {BYTES_MAX}: "
                f"`semcast verify {self._folder}` can judge it"
            )
            return ""
        return run


def _stats(folder: Path) -> list[os.stat_result]:
    """Of its files; one that is finished and replaced while we look is passed over."""
    found = []
    for path in folder.glob("*"):
        with contextlib.suppress(FileNotFoundError):
            found.append(path.stat())
    return found


def _identity(one: Violation) -> _Identity:
    return one.property, one.node, one.messages
