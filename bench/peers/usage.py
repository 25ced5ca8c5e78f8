"""What a process used: processor time, memory over time, and percentiles of what it saw. Linux."""

import os
import resource
from collections.abc import Sequence
from pathlib import Path

_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_S = os.sysconf("SC_CLK_TCK")
_SAMPLE_NS = 500_000_000


def cpu_s() -> float:
    """User and system time of this process, all its threads."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def cpu_s_of(pid: int) -> float:
    """The same of another process; 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0.0
    # The name in brackets may hold anything, so count from behind it: fields 14 and 15.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_S


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES


class MemoryLog:
    """Resident memory, sampled twice a second by whoever calls `tick` often enough."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self._next_ns = 0

    def tick(self, now_ns: int) -> None:
        if now_ns >= self._next_ns:
            self._next_ns = now_ns + _SAMPLE_NS
            self.samples.append(rss_bytes())

    def end(self) -> list[int]:
        self.samples.append(rss_bytes())
        return self.samples


def percentile(values: Sequence[int], share: float) -> float | None:
    """The nearest-rank percentile; None of nothing."""
    if not values:
        return None
    ordered = sorted(values)
    return float(ordered[min(len(ordered) - 1, int(share * len(ordered)))])
