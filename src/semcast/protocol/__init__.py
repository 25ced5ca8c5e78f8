"""Everything a member does, sans-IO: facts and a time go in, effects come out.

So far the purging buffer; sender, receiver, repair, stability and the member itself build on it.
"""

from semcast.protocol.buffer import PurgingBuffer
from semcast.protocol.guard import CoverGuard, SafeUpTo
from semcast.protocol.policy import BufferConfig, Overflow, Purging
from semcast.protocol.purged import Purged, Reason
from semcast.protocol.verdict import Verdict

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
