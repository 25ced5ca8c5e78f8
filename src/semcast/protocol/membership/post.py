"""Post: control frames and their destinations in, until they are packed into datagrams."""

from typing import final

from semcast.protocol.membership.parcels import Parcel
from semcast.protocol.outbox import Outbox
from semcast.wire.frames import ControlFrame


@final
class Post:
    """Frames that wait for the next datagrams. Nothing waits longer than that."""

    def __init__(self) -> None:
        self._frames: list[tuple[int, ControlFrame]] = []

    def send(self, to: int, frame: ControlFrame) -> None:
        """To one member, or to EVERYBODY."""
        self._frames.append((to, frame))

    def parts(self, to: int, parcel: Parcel, first: int, last: int) -> None:
        """Some parts of a parcel."""
        for index in range(first, min(last + 1, int(parcel.count))):
            self._frames.append((to, parcel.part(index)))

    def pack(self, outbox: Outbox) -> None:
        """Into datagrams, in the order in which it was said."""
        if self._frames:
            for to, frame in self._frames:
                outbox.frame(to, frame)
            self._frames.clear()
