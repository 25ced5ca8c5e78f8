"""Samples of a process's memory in; whether it stays flat out.

Two samples say little: what is resident moves by some hundred KB from one moment to the next, and
a pool that is filled once is no leak. A leak goes on. So a straight line is laid through all
samples of the second half of a run, when pools are filled, and what it rises by from that half's
beginning to its end must be a small share of what the process has.
"""

import statistics
from dataclasses import dataclass, field

# In half a run. At 400 messages a second for 15 minutes, 8 bytes a message are 2,800 KB.
RISE_SHARE_MAX = 0.03
# Steps of an allocator; a process that runs for only a minute is warming up all the time.
RISE_KB_MAX = 2048.0
SAMPLES_MIN = 8


@dataclass
class Memory:
    """The samples of one process, and the share by which they may rise."""

    rise_share_max: float = RISE_SHARE_MAX
    at_s: list[float] = field(default_factory=list)
    kb: list[int] = field(default_factory=list)

    def note(self, at_s: float, kb: int) -> None:
        self.at_s.append(at_s)
        self.kb.append(kb)

    def rise_kb(self) -> float:
        """By how much the line through the second half of the time rises."""
        half_s = (self.at_s[0] + self.at_s[-1]) / 2
        late = [(at, kb) for at, kb in zip(self.at_s, self.kb, strict=True) if at >= half_s]
        assert len(late) >= SAMPLES_MIN, f"{len(late)} samples are too few to judge memory by"
        slope = statistics.linear_regression(*zip(*late, strict=True)).slope
        return slope * (self.at_s[-1] - half_s)

    def rise_kb_max(self) -> float:
        return max(RISE_KB_MAX, self.rise_share_max * statistics.median(self.kb))

    @property
    def flat(self) -> bool:
        return self.rise_kb() <= self.rise_kb_max()
