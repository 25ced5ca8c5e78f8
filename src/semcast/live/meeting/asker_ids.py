"""The ids of those who ask a group questions: numbers in, sender ids out.

They are no members. Their ids are few and the same everywhere, so that they leave room for members
where replays are watched for, and so that members expect them.
"""

import hashlib
from functools import lru_cache
from typing import Final

from semcast.ids import ID_MAX

# Two that draw the same at one moment disturb each other until the next draw.
ASKERS: Final = 256


def asker_id(number: int) -> int:
    """The sender id of the asker who has drawn this number, from 0 to ASKERS - 1."""
    label = f"semcast asker {number}".encode()
    return int.from_bytes(hashlib.sha256(label).digest()[:8], "little") & ID_MAX


@lru_cache(maxsize=1)
def asker_ids() -> frozenset[int]:
    """All of them."""
    return frozenset(asker_id(number) for number in range(ASKERS))
