"""SRM §5.2 in small: one sender, one slow receiver, a buffer that purges eagerly in between.

Traffic and periods in, the rate that the sender was allowed out. Read as in SRM §5.1: the
receiver takes the head and is then busy; the message it works on is no longer in the buffer and
cannot be purged. A sender that is blocked stores its message the instant room appears and goes
on one period later. Time is in integer microseconds.
"""

import random
from dataclasses import dataclass


@dataclass(frozen=True)
class Run:
    """What one simulation measured, after the buffer had time to fill."""

    sender_rate_msg_s: float
    purged_share: float


def simulate(
    *,
    r: float,
    d: int,
    buffer_messages: int,
    sender_period_us: int,
    receiver_period_us: int,
    messages: int,
    seed: int,
) -> Run:
    stream = random.Random(f"{seed}/slow-receiver")
    queue: list[int | None] = []  # chain of each waiting message; None is never replaced
    now_us, free_at_us, purged, warm_up = 0, 0, 0, messages // 5
    measured_from_us = 0

    def serve(until_us: int) -> None:
        """Let the receiver take what it has time for."""
        nonlocal free_at_us
        while queue and free_at_us <= until_us:
            queue.pop(0)
            free_at_us += receiver_period_us
        if not queue:
            free_at_us = max(free_at_us, until_us)

    for number in range(messages):
        if number == warm_up:
            measured_from_us, purged = now_us, 0
        chain = stream.randrange(d) if stream.random() < r else None
        serve(now_us)
        if chain is not None and chain in queue:
            queue.remove(chain)
            purged += 1
        if len(queue) == buffer_messages:
            now_us = free_at_us  # blocked until the receiver takes the next
            serve(now_us)
        queue.append(chain)
        now_us += sender_period_us
    sent = messages - warm_up
    return Run(sent * 1e6 / (now_us - measured_from_us), purged / sent)
