"""semcast: semantically reliable multicast.

Every member of a group gets every message that still matters; one slow member slows nobody
down, because a message that a later one replaces may be dropped from any queue in which it
still waits. What is never replaced is never lost.

The parts, in the order of a message's journey: `semcast.obsolescence` (which message replaces
which), `semcast.protocol` (buffers that purge), `semcast.wire` (frames and sealing), and
`semcast.model` (what to expect of all that, in closed form).
"""

from semcast._version import __version__

__all__ = ["__version__"]
