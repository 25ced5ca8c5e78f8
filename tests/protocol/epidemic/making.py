"""Small gossip groups by hand: messages, members, and an observer that remembers."""

import random

from semcast.ids import Source
from semcast.protocol.config import MemberConfig
from semcast.protocol.epidemic.config import GossipConfig
from semcast.protocol.epidemic.copies import Spread
from semcast.protocol.epidemic.member import EpidemicMember
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.wire.message import Message

SECOND = 1_000_000_000
LINK_BYTES_S = 1_000.0
# Each copy keeps its link busy for a tenth of a second.
SLOW = GossipConfig(fanout=2, link_bytes_s=LINK_BYTES_S, copy_bytes=100)


def bid(rank: int, sender: int = 1, seq: int = 1, key: bytes = b"k") -> Message:
    """A ranked message: a higher rank replaces a lower one, whoever sent it."""
    return Message(Source(sender, 1), seq, key + b"!", len(key), 0, rank, True)


def plain(seq: int, sender: int = 1) -> Message:
    """A message that nothing replaces."""
    return Message(Source(sender, 1), seq, b"plain")


def spread(message: Message, relayed: int = 0) -> Spread:
    return Spread(message, relayed, b"frames")


class Remembering(Observer):
    """What a member reported, as short texts."""

    def __init__(self) -> None:
        super().__init__()
        self.told: list[str] = []

    def message(self, event: str, message: Message, where: str, cover: Message | None) -> None:
        by = "" if cover is None else f" by {cover.source.sender}#{cover.seq}"
        place = f" from {where}" if where else ""
        self.told.append(f"{event} {message.source.sender}#{message.seq}{place}{by}")

    def progress(
        self, event: str, source: Source, seq: int, by_source: Source | None, by_seq: int
    ) -> None:
        by = "" if by_source is None else f" by {by_source.sender}#{by_seq}"
        self.told.append(f"{event} {source.sender}#{seq}{by}")


def member(
    number: int = 0,
    members: int = 4,
    gossip: GossipConfig = SLOW,
    observer: Observer | None = None,
    config: MemberConfig | None = None,
    joining: bool = False,
) -> EpidemicMember:
    view = View.first(list(range(members)), 0)
    return EpidemicMember(
        config or MemberConfig(),
        Source(number, 1),
        view,
        random.Random(number),
        observer,
        joining,
        gossip,
    )
