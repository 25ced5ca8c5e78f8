"""Why a query ended: Spark's pages of stack traces in, one line out."""

import re
from typing import Final

# Python's last line of a traceback, if the error is one of ours.
_OURS: Final = re.compile(r"^semcast\.errors\.\w+: (.+?)(?: SQLSTATE.*)?$", re.MULTILINE)


def reason(error: BaseException) -> str:
    """What our own code said in a process of Spark's; else the first line of what Spark says."""
    text = str(error)
    ours = _OURS.findall(text)
    if ours:
        return str(ours[0])
    return text.strip().partition("\n")[0] or type(error).__name__
