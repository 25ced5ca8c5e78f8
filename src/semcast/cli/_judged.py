"""What every simulated run ends with: its journal, and a verdict in words and as JSON."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from semcast.cli._output import print_json, print_words

if TYPE_CHECKING:
    from semcast.check import Report
    from semcast.journal import Journal

VIOLATION: Final = 1
VIOLATIONS_SHOWN_MAX: Final = 10
# Is told which share of a run is done; None where nobody looks.
Show: TypeAlias = Callable[[float], None] | None


@dataclass(frozen=True)
class Asked:
    """What a user asked of a run, beside its scenario."""

    # What its journal calls the run.
    name: str
    seed: int
    # Where to write the journal.
    folder: Path | None
    check: bool
    as_json: bool

    @property
    def keeps_journal(self) -> bool:
        """Whether the run has to keep one."""
        return self.check or self.folder is not None


def told(
    asked: Asked,
    journal: "Journal | None",
    judge: "Callable[[Journal], Report]",
    keys: Callable[[], Mapping[str, object]],
    show: "Callable[[Report | None], None]",
) -> int:
    """What becomes of a run that is over: its journal is written and judged, as far as that was
    asked for, and it is told to programs by its keys, or shown to people. Returns the exit code.
    """
    written, report = kept_in(asked.folder, journal), None
    if asked.check:
        assert journal is not None, "a run keeps a journal if it is to be checked"
        report = judge(journal)
    if asked.as_json:
        print_json({**keys(), **as_keys(report, written)})
    else:
        show(report)
        print_where(written)
    return exit_code(report)


def judged(journal: "Journal", quiescent: bool) -> "Report":
    """Everything, if the run came to rest; else only what holds at every moment."""
    from semcast.check import check_all, check_safety

    return check_all(journal) if quiescent else check_safety(journal)


def kept_in(folder: Path | None, journal: "Journal | None") -> Path | None:
    """Write the journal of a run below this folder, if one was given; says where it is."""
    if folder is None:
        return None
    from semcast.journal import write_journal

    assert journal is not None, "a run keeps a journal if it is to be written"
    return write_journal(journal, folder)


def exit_code(report: "Report | None") -> int:
    """1 if a promise was broken."""
    return 0 if report is None or report.ok else VIOLATION


def as_keys(report: "Report | None", written: Path | None) -> Mapping[str, object]:
    """The last keys of the JSON of a run."""
    return {
        "journal_file": None if written is None else str(written),
        "checked": None if report is None else report.judged,
        "violations": None if report is None else [str(one) for one in report.violations],
    }


def not_at_rest(what: str, ended_s: float) -> str:
    """What to say of a run that was cut short."""
    return (
        f"The {what} had not come to rest when the run ended at {ended_s:g} s; raise drain_s if it "
        "should have."
    )


def verdict(report: "Report | None") -> list[str]:
    """What the checkers found, in sentences."""
    if report is None:
        return ["Nothing was checked."]
    if report.ok:
        return [f"Checked, and kept: {', '.join(report.judged)}."]
    count = len(report.violations)
    shown = [str(one) for one in report.violations[:VIOLATIONS_SHOWN_MAX]]
    return ["VIOLATED once:" if count == 1 else f"VIOLATED {count} times:", *shown]


def print_where(written: Path | None) -> None:
    """Say where the journal is, if it was written."""
    if written is not None:
        print_words(f"Journal: {written}")
