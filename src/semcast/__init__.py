"""semcast: semantically reliable multicast.

Every member of a group gets every message that still matters; one slow member slows nobody
down, because a message that a later one replaces may be dropped from any queue in which it
still waits. What is never replaced is never lost.

The parts, in the order of a message's journey: `semcast.obsolescence` (which message replaces
which), `semcast.protocol` (buffers that purge), `semcast.wire` (frames and sealing), and
`semcast.model` (what to expect of all that, in closed form). `join` is the door to live groups
for asyncio, and `federate` that to several groups with one order; `semcast.blocking` has both
for threads.
"""

from typing import TYPE_CHECKING

from semcast._version import __version__

if TYPE_CHECKING:
    from semcast.live.aio import Group, join
    from semcast.live.aio_site import Site, federate
    from semcast.live.arguments import Settings
    from semcast.live.config import GroupConfig
    from semcast.wire.message import Message

__all__ = [
    "Group", "GroupConfig", "Message", "Settings", "Site", "__version__", "federate", "join",
]  # fmt: skip

_HOMES = {
    "Group": "semcast.live.aio",
    "GroupConfig": "semcast.live.config",
    "Message": "semcast.wire.message",
    "Settings": "semcast.live.arguments",
    "Site": "semcast.live.aio_site",
    "federate": "semcast.live.aio_site",
    "join": "semcast.live.aio",
}


def __getattr__(name: str) -> object:
    """Load what is asked for: `import semcast` alone opens no door to sockets or threads."""
    if name not in _HOMES:
        raise AttributeError(f"module 'semcast' has no attribute {name!r}")
    import importlib

    found: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = found
    return found
