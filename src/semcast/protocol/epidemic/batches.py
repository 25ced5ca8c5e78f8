"""Datagrams in the making: copies for one target go into one datagram while they fit."""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import Source
from semcast.protocol.epidemic.link import Link
from semcast.protocol.outbox import Outgoing
from semcast.wire.encode import FrameWriter
from semcast.wire.families.epidemic import Stamp
from semcast.wire.frames import FRAME_HEAD_BYTES
from semcast.wire.header import HEADER_BYTES, TAG_BYTES
from semcast.wire.limits import IP_UDP_BYTES, Limits

# What a datagram has beside frames.
_AROUND_BYTES: Final = HEADER_BYTES + TAG_BYTES + IP_UDP_BYTES
# A stamp and its head: room for them is kept in every datagram.
STAMP_BYTES: Final = FRAME_HEAD_BYTES + 4


@final
class Batches:
    """The datagrams that go with the next call of `take`."""

    def __init__(self, me: Source, limits: Limits, copy_bytes: i64) -> None:
        self._room: Final[i64] = limits.frames_bytes_max
        self._copy_bytes: Final[i64] = copy_bytes
        self._writer: Final = FrameWriter(me, limits.frames_bytes_max)
        # By target, in the order of first use.
        self._open: Final[dict[int, Outgoing]] = {}
        self._ready: list[Outgoing] = []

    def __len__(self) -> int:
        return len(self._open) + len(self._ready)

    def add(self, link: Link, frames: bytes, now_ns: i64) -> None:
        """Frames go over a link that takes them."""
        to = link.to
        batch = self._open.get(to)
        size: i64 = len(frames)
        if batch is not None:
            if len(batch.frames) + size <= self._room:
                batch.frames += frames
                link.grew(self._copy_bytes or size, now_ns)
                return
            self._ready.append(batch)
        stamp = link.stamp()
        if stamp > 0:
            self._writer.add(Stamp(stamp))
            frames = self._writer.take() + frames
        self._open[to] = Outgoing(to, frames)
        link.sent(self._copy_bytes or _AROUND_BYTES + len(frames), now_ns)

    def take(self) -> list[Outgoing]:
        """All of them."""
        if not self._open:
            return []
        found = self._ready
        found.extend(self._open.values())
        self._open.clear()
        self._ready = []
        return found
