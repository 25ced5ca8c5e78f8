"""Groups and federations without asyncio: `semcast.blocking.join` and `semcast.blocking.federate`;
see `semcast.live.blocking` and `semcast.live.blocking_site`.
"""

from semcast.live.blocking import Group, join
from semcast.live.blocking_site import Site, federate

__all__ = ["Group", "Site", "federate", "join"]
