"""What a buffer says of a message that is inserted."""

import enum


class Verdict(enum.IntEnum):
    """What became of an inserted message."""

    STORED = 0
    FULL = 1  # refused, nothing changed but for purging what was obsolete: back-pressure
    OBSOLETE = 2  # already replaced by a message held here; accounted for as purged
    DROPPED = 3  # lossy policies only
    DUPLICATE = 4  # held here already
