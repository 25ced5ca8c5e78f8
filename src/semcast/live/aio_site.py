"""A site of a federation for asyncio: it sends to, and receives from, several groups.

    async with semcast.federate("bank", groups=("alpha", "beta"), secret=key) as site: ...

Messages of all groups come in one order, which agrees with that of every other site.
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Unpack

from semcast.live.aio import Joining, Recipient
from semcast.live.arguments import Names, Settings
from semcast.live.config import GroupConfig
from semcast.live.hooks import Undo
from semcast.live.site import SiteFace, federation_of
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.interest import Only


class Site(Recipient, SiteFace):
    """A site of a federation, for one event loop.

    Examples are for `python -m asyncio`, which knows `await`; their `site` is that of `federate`.
    """

    async def send(self, group: str, payload: bytes, replaces: Replaces = None) -> int:
        """Send to a group, of which this site need not be a member; waits while there is no room.
        Returns the message's number: a site numbers its messages to all groups together.

        `replaces` says which waiting messages of this site to this group it makes obsolete: a key,
        or see `semcast.obsolescence`. If it is cancelled, nothing was sent.

        >>> await site.send("alpha", b"101.25", replaces="AAPL")
        1
        """
        return await self._send(payload, replaces, group)

    def send_nowait(self, group: str, payload: bytes, replaces: Replaces = None) -> int:
        """The same, but WindowFullError if there is no room now.

        >>> site.send_nowait("alpha", b"trade 17")
        1
        """
        return self._engine.try_send(payload, replaces, group).seq

    async def send_many(
        self,
        group: str,
        payloads: Sequence[bytes],
        replaces: Sequence[Replaces] | None = None,
    ) -> int:
        """Send all of these to one group, in order: the fast way. Returns how many were sent.

        >>> await site.send_many("beta", [b"101.25", b"17.5"], replaces=["AAPL", "IBM"])
        2
        """
        return await self._send_many(payloads, replaces, group)

    async def change(self, groups: Names) -> None:
        """Be a member of these groups from now on, and wait until that is so.

        >>> await site.change(groups=("beta", "gamma"))
        >>> site.groups
        ('beta', 'gamma')
        """
        await self._until(partial(self._has_groups, self._want(groups)))


def federate(
    federation: str,
    *,
    config: GroupConfig | str | os.PathLike[str] | None = None,
    only: Only = None,
    undo: Undo | None = None,
    **settings: Unpack[Settings],
) -> Joining[Site]:
    """Take a place in a federation of groups, or begin it; awaited, or entered, it waits until this
    site is in. With `sites` it waits until all of these are.

    `groups` are those that the site is a member of; settings are those of `GroupConfig`. `undo` is
    called, between two messages, with messages that this site has received and must undo, the last
    one first, since it was away and the others have gone on without it.

    >>> import semcast
    >>> alone = {"transport": "unicast", "host": "127.0.0.1"}  # needs no network
    >>> key = "sixteen bytes or more"
    >>> site = await semcast.federate("bank", groups=("alpha",), name="a", secret=key, **alone)
    >>> await site.send("alpha", b"101.25", replaces="AAPL")
    1
    >>> message = await site.receive()
    >>> message.group, message.payload
    ('alpha', b'101.25')
    >>> await site.leave()
    True
    """
    return Joining(Site, *federation_of(federation, config, only, undo, settings))
