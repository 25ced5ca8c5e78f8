"""What left a buffer without being taken: which message, why, and what covers it."""

import enum
from typing import final

from semcast.wire.message import Message


class Reason(enum.StrEnum):
    """Why a message left a buffer without being taken."""

    REPLACED = "replaced"  # a message that replaces it came later
    LATE = "late"  # it came when the message that replaces it was already there
    RANDOM = "random"  # lossy: it made room for another
    OVERFLOW = "overflow"  # lossy: there was no room for it


@final
class Purged:
    """One message that a buffer purged (`cover` says by what) or, if lossy, dropped."""

    def __init__(self, place: str, reason: Reason, message: Message, cover: Message | None) -> None:
        self.place = place
        self.reason = reason
        self.message = message
        self.cover = cover

    def __repr__(self) -> str:
        by = "" if self.cover is None else f" by {self.cover!r}"
        return f"<Purged {self.reason} from {self.place}: {self.message!r}{by}>"
