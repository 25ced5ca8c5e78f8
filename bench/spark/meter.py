"""Jobs in; how long each took, and how much memory the JVM and Python workers had meanwhile.

A job within a job, such as a frame that several share, is a line of its own: its time and memory
are not counted for the outer one. Memory is the sum of resident sets, read from /proc every fifth
of a second; pages that forked workers share are counted for each of them.
"""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")
_SAMPLE_S: Final = 0.2
_JVM: Final = "java"
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Peak:
    """The most that was resident at once."""

    jvm_bytes: int = 0
    python_bytes: int = 0

    def see(self, jvm_bytes: int, python_bytes: int) -> None:
        self.jvm_bytes = max(self.jvm_bytes, jvm_bytes)
        self.python_bytes = max(self.python_bytes, python_bytes)


@dataclass
class Line:
    """One job, measured; or why it was not. `shared` says that it serves several others."""

    job: str
    shared: bool = False
    seconds: float = 0.0
    peak: Peak = field(default_factory=Peak)
    # What came of it, for people to see that the answer makes sense.
    found: str = ""
    skipped: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Budget:
    """How long a job may be expected to take, by its name, and when everything must be over."""

    expected_s: Mapping[str, float] = field(default_factory=dict)
    # Of time.monotonic, which is the same for all processes of a machine.
    deadline_s: float | None = None

    def refusal(self, job: str) -> str:
        """Why there is no time for this job; empty if there is."""
        if self.deadline_s is None:
            return ""
        left_s = self.deadline_s - time.monotonic()
        if left_s <= 0:
            return "the time is up"
        expected_s = self.expected_s.get(job, 0.0)
        if expected_s > left_s:
            return f"about {expected_s:.0f} s, and {left_s:.0f} s are left"
        return ""


class Meter:
    """Times jobs one by one and tells `report` of each. Close it: it samples memory in a thread."""

    def __init__(self, report: Callable[[Line], None], budget: Budget | None = None) -> None:
        self._report: Final = report
        self._budget: Final = budget or Budget()
        # From the outermost job to the one that runs, with the seconds of jobs within it.
        self._running: Final[list[tuple[Line, list[float]]]] = []
        self._lock: Final = threading.Lock()
        self._closed: Final = threading.Event()
        self._sampler: Final = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()

    def close(self) -> None:
        self._closed.set()
        self._sampler.join()

    def time(
        self,
        job: str,
        action: Callable[[], T],
        *,
        shared: bool = False,
        found: Callable[[T], str] = lambda _: "",
    ) -> T | None:
        """Run it and report it; None if there was no time for it."""
        line = Line(job, shared)
        # What runs inside a job is part of what that one needs, and runs in any case.
        line.skipped = "" if self._running else self._budget.refusal(job)
        if line.skipped:
            self._report(line)
            return None
        inner: list[float] = []
        with self._lock:
            self._running.append((line, inner))
        self._see()
        started_s = time.perf_counter()
        try:
            result = action()
            took_s = time.perf_counter() - started_s
            self._see()
        finally:
            with self._lock:
                self._running.pop()
        line.seconds = took_s - sum(inner)
        line.found = found(result)
        if self._running:
            self._running[-1][1].append(took_s)
        self._report(line)
        return result

    def _sample(self) -> None:
        while not self._closed.wait(_SAMPLE_S):
            self._see()

    def _see(self) -> None:
        if not self._running:
            return
        jvm_bytes, python_bytes = resident_below(os.getpid())
        with self._lock:
            if self._running:
                self._running[-1][0].peak.see(jvm_bytes, python_bytes)


def resident_below(pid: int) -> tuple[int, int]:
    """Bytes that JVMs and other processes started by this one, or by those, have in memory."""
    children: dict[int, list[tuple[int, str, int]]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            found = _process(folder)
            if found is not None:
                parent, name, resident_bytes = found
                children.setdefault(parent, []).append((int(folder.name), name, resident_bytes))
    jvm_bytes = python_bytes = 0
    below = [pid]
    while below:
        for child, name, resident_bytes in children.get(below.pop(), ()):
            below.append(child)
            if name == _JVM:
                jvm_bytes += resident_bytes
            else:
                python_bytes += resident_bytes
    return jvm_bytes, python_bytes


def _process(folder: Path) -> tuple[int, str, int] | None:
    """Its parent, name and resident bytes; None if it has gone."""
    try:
        text = (folder / "stat").read_text()
    except OSError:
        return None
    # The name is in parentheses and may contain any character, these too.
    name, _, rest = text.partition("(")[2].rpartition(")")
    words = rest.split()
    return int(words[1]), name, int(words[21]) * _PAGE_BYTES
