"""Properties of chance: how often something held of how often it could. Tallies in, findings out.

Such a property says nothing of one message, and all of a run together decide it. Kernels tell what
they counted in their group; `summed` adds up and asks whether the share can be as large as it
should be. It is too low only if its whole confidence interval is, and nothing is said of a run in
which little was counted: there even that interval often misses.
"""

import math
from collections.abc import Iterable
from typing import Final

from semcast.check.kernel import Finding

# The least share that must hold, and of how many it is asked.
KEPT_SHARE: Final = 0.95
COUNTED_MIN: Final = 20
Z95: Final = 1.959964
_MESSAGES_MAX: Final = 5


def wilson(good: int, all_of: int) -> tuple[float | None, float | None]:
    """The 95% confidence interval of a share of which so many were seen (Wilson's)."""
    if not all_of:
        return None, None
    share, square = good / all_of, Z95**2
    middle = share + square / (2 * all_of)
    width = Z95 * math.sqrt(share * (1 - share) / all_of + square / (4 * all_of**2))
    scale = 1 + square / all_of
    return max((middle - width) / scale, 0.0), min((middle + width) / scale, 1.0)


def summed(found: Iterable[Finding]) -> list[Finding]:
    """Findings in; those without a tally out, and one for each run and property whose share is too
    low. It is about the first messages of which the property does not hold, by node and number.
    """
    kept: list[Finding] = []
    tallies: dict[tuple[int, str | None], list[Finding]] = {}
    for one in found:
        if one.tally is None:
            kept.append(one)
        else:
            tallies.setdefault((one.run_no, one.property), []).append(one)
    for some in tallies.values():
        good = sum(one.tally[0] for one in some if one.tally)
        all_of = sum(one.tally[1] for one in some if one.tally)
        low, high = wilson(good, all_of)
        if all_of < COUNTED_MIN or low is None or high is None:
            continue
        if high < KEPT_SHARE:
            kept.append(_too_low(some, good, all_of, low, high))
    return kept


def _too_low(some: list[Finding], good: int, all_of: int, low: float, high: float) -> Finding:
    failed = sorted((one for one in some if one.messages), key=lambda one: one.n)
    messages = [message for one in failed for message in one.messages or ()]
    first = failed[0]
    text = (
        f"{good} of {all_of} {first.text}: {good / all_of:.1%}, with 95% confidence from "
        f"{low:.1%} to {high:.1%}; {KEPT_SHARE:.0%} is the least"
    )
    return first._replace(messages=messages[:_MESSAGES_MAX], text=text, tally=None)
