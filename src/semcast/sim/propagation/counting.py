"""Counts messages between sites as PROP §4 does: frames of datagrams in, counts by site out.

A record on the lane of sources or of the tree is one message of the paper: a multicast message on
its way, or a phase of the two-phase protocol. Acknowledgements, null messages, flow control and
whatever is sent again are not counted. On a broadcast medium what goes to several sites at once is
one transmission (PROP §4.2). Knows nothing of what records mean.
"""

from typing import Final

from librt.strings import read_i32_le, read_i64_le

from semcast.protocol.outbox import Outgoing
from semcast.protocol.propagation.lanes import SOURCE, TREE
from semcast.wire.families.propagation import BEGINS, PIECE, PIECE_HEAD_BYTES
from semcast.wire.frames import FRAME_HEAD_BYTES

_LANE_SHIFT: Final = 3


class RecordCounter:
    """Counts for a whole federation."""

    def __init__(self, sites: int) -> None:
        self.sent: Final = [0] * sites
        self.received: Final = [0] * sites
        self.transmissions = 0
        # Datagrams that a site could make no sense of.
        self.refused = 0
        # By sender, receiver, their lives and lane: the last number that was counted.
        self._sent_up_to: Final[dict[tuple[int, ...], int]] = {}

    def sends(self, site: int, life: int, datagrams: list[Outgoing]) -> None:
        """A site sends these at one instant."""
        contents: set[bytes] = set()
        for outgoing in datagrams:
            for lane, to_life, number, begins, data in _pieces(outgoing.frames):
                name = (site, life, outgoing.to, to_life, lane)
                if number > self._sent_up_to.get(name, 0):
                    self._sent_up_to[name] = number
                    if begins:
                        self.sent[site] += 1
                        self.received[outgoing.to] += 1
                        contents.add(data)
        self.transmissions += len(contents)

    @property
    def records(self) -> int:
        """All messages between sites."""
        return sum(self.sent)

    def load(self, site: int) -> int:
        """What a site has sent and what was sent to it (PROP §4.1)."""
        return self.sent[site] + self.received[site]


def _pieces(frames: bytes) -> list[tuple[int, int, int, bool, bytes]]:
    """The pieces on the two lanes that count: lane, life, number, whether it begins a record, and
    what is in it.
    """
    found: list[tuple[int, int, int, bool, bytes]] = []
    at = 0
    while at < len(frames):
        head = int(read_i32_le(frames, at)) & 0xFFFFFFFF
        flags, body = (head >> 8) & 0xFF, at + FRAME_HEAD_BYTES
        end = body + (head >> 16)
        lane = flags >> _LANE_SHIFT & 3
        if head & 0xFF == PIECE and lane in (SOURCE, TREE):
            life, number = int(read_i64_le(frames, body)), int(read_i64_le(frames, body + 8))
            data = frames[body + PIECE_HEAD_BYTES : end]
            found.append((lane, life, number, bool(flags & BEGINS), data))
        at = end
    return found
