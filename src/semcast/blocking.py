"""Groups without asyncio: `semcast.blocking.join`; see `semcast.live.blocking`."""

from semcast.live.blocking import Group, join

__all__ = ["Group", "join"]
