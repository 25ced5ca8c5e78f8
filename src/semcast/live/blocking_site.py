"""A site of a federation for threads: every call waits until it is done, or until its timeout.

with semcast.blocking.federate("bank", groups=("alpha", "beta"), secret=key) as site:
    site.send("alpha", b"101.25", replaces="AAPL")
    for message in site:
        print(message.group, message.sender, message.payload)
"""

import os
from collections.abc import Sequence
from functools import partial
from typing import Unpack

from semcast.live.arguments import Names, Settings
from semcast.live.blocking import Recipient
from semcast.live.config import GroupConfig
from semcast.live.group import as_batch
from semcast.live.hooks import Undo
from semcast.live.meeting import joining
from semcast.live.site import SiteFace, federation_of
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.interest import Only


class Site(Recipient, SiteFace):
    """A site of a federation. All methods may be called from several threads.

    The examples' `site` is that of `federate`.
    """

    def send(
        self, group: str, payload: bytes, replaces: Replaces = None, timeout: float | None = None
    ) -> int:
        """Send to a group, of which this site need not be a member; waits while there is no room.
        Returns the message's number: a site numbers its messages to all groups together.

        `replaces` says which waiting messages of this site to this group it makes obsolete: a key,
        or see `semcast.obsolescence`.

        >>> site.send("alpha", b"101.25", replaces="AAPL")
        1
        """
        return self._engine.send(payload, replaces, timeout, group).seq

    def send_nowait(self, group: str, payload: bytes, replaces: Replaces = None) -> int:
        """The same, but WindowFullError if there is no room now.

        >>> site.send_nowait("alpha", b"trade 17")
        1
        """
        return self._engine.try_send(payload, replaces, group).seq

    def send_many(
        self,
        group: str,
        payloads: Sequence[bytes],
        replaces: Sequence[Replaces] | None = None,
        timeout: float | None = None,
    ) -> int:
        """Send all of these to one group, in order: the fast way. Returns how many were sent: fewer
        than given only when the timeout was reached.

        >>> site.send_many("beta", [b"101.25", b"17.5"], replaces=["AAPL", "IBM"], timeout=9.0)
        2
        """
        listed, marks = as_batch(payloads, replaces)
        return self._engine.send_many(listed, marks, timeout, group)

    def change(self, groups: Names, timeout: float | None = None) -> None:
        """Be a member of these groups from now on, and wait until that is so; TimeoutError if it is
        not in time, though it may be later.

        >>> site.change(groups=("beta", "gamma"), timeout=9.0)
        >>> site.groups
        ('beta', 'gamma')
        """
        wanted = self._want(groups)
        if not self._engine.wait_for(partial(self._has_groups, wanted), timeout):
            raise TimeoutError(f"not in {', '.join(wanted) or 'no group'} yet")


def federate(
    federation: str,
    *,
    config: GroupConfig | str | os.PathLike[str] | None = None,
    only: Only = None,
    undo: Undo | None = None,
    **settings: Unpack[Settings],
) -> Site:
    """Take a place in a federation of groups, or begin it, and wait until this site is in. With
    `sites`, wait until all of these are.

    `groups` are those that the site is a member of; settings are those of `GroupConfig`. `undo` is
    called, between two messages, with messages that this site has received and must undo, the last
    one first, since it was away and the others have gone on without it.

    >>> import semcast.blocking
    >>> alone = {"transport": "unicast", "host": "127.0.0.1"}  # needs no network
    >>> key = "sixteen bytes or more"
    >>> site = semcast.blocking.federate("bank", groups=["alpha"], name="a", secret=key, **alone)
    >>> site.send("alpha", b"101.25", replaces="AAPL")
    1
    >>> message = site.receive()
    >>> message.group, message.payload
    ('alpha', b'101.25')
    >>> site.leave()
    True
    """
    chosen, hooks = federation_of(federation, config, only, undo, settings)
    site = Site(chosen, hooks=hooks)
    joining.wait_complete(site._engine)
    return site
