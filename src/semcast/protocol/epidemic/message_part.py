"""Message parts: parts of a gossip member that learn of every message which comes, first or again.

The member tells them once it has dealt with the message itself. What they miss or find out goes
back through what `attach` gave them. Repair by pulling and the tree are such parts.
"""

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.epidemic.delivery import Delivery
from semcast.protocol.epidemic.inbox import Inbox
from semcast.protocol.part import Part
from semcast.wire.message import Message


class MessagePart(Part):
    """A part that may follow messages; this one does not."""

    def follows(self) -> bool:
        """Whether to call `on_message` and `on_copy`."""
        return False

    def attach(self, inbox: Inbox, delivery: Delivery) -> None:
        """What came so far, and where to say what covers something that did not."""

    def on_message(self, message: Message, hops: i64, came_from: i64, now_ns: i64) -> None:
        """A message came for the first time, `hops` times relayed; or is this member's own, and
        `came_from` is EVERYBODY.
        """

    def on_copy(self, source: Source, seq: i64, hops: i64, came_from: i64, now_ns: i64) -> None:
        """A message came again."""
