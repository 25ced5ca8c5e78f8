"""Everything a member does, sans-IO: facts and a time go in, effects come out.

member.py    the router: data straight through, control frames to parts
queue/       the purging buffer, in which what is obsolete may be dropped
streams/     messages from the sender to everybody's queue: packing, gaps, repair
membership/  views: who is in the group, and how one leaves it
stability/   who has which messages: what may be forgotten, what survives crashes
order/       what waits for the application, and whose turn it is
"""

from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.guard import CoverGuard, SafeUpTo
from semcast.protocol.queue.policy import BufferConfig, Overflow, Purging
from semcast.protocol.queue.purged import Purged, Reason
from semcast.protocol.queue.verdict import Verdict

__all__ = [
    "BufferConfig",
    "CoverGuard",
    "Overflow",
    "Purged",
    "Purging",
    "PurgingBuffer",
    "Reason",
    "SafeUpTo",
    "Verdict",
]
