"""Rides: frames that may wait in, datagrams that go out anyway with them on board out (STAB §7).

A frame waits for a short while for a datagram of messages that has room for it; if none comes it is
sent by itself. It names the member that it is for, so that it may ride on a multicast.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER, Source
from semcast.wire.encode import FrameWriter
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits


@final
class Rides:
    """Frames of one member that wait."""

    def __init__(self, me: Source, limits: Limits, wait_ns: i64) -> None:
        """Without `wait_ns` nothing waits."""
        self._wait_ns: Final[i64] = wait_ns
        self._room: Final[i64] = limits.frames_bytes_max
        self._writer: Final = FrameWriter(me, limits.frames_bytes_max)
        # In the order in which frames came: when to send each alone, to whom, the frame, its bytes.
        self._waiting: list[tuple[int, int, ControlFrame, bytes]] = []

    def wait(self, to: int, frame: ControlFrame, now_ns: i64) -> bool:
        """Whether a frame may wait; it is then held here. One that fits no datagram may not."""
        if self._wait_ns == 0 or not self._writer.add(frame):
            return False
        self._waiting.append((int(now_ns + self._wait_ns), to, frame, self._writer.take()))
        return True

    def board(self, frames: bytes) -> bytes:
        """A datagram that goes to everybody, with as many frames as it has room for."""
        if not self._waiting:
            return frames
        left = []
        for waiting in self._waiting:
            if len(frames) + len(waiting[3]) <= self._room:
                frames += waiting[3]
            else:
                left.append(waiting)
        self._waiting = left
        return frames

    def overdue(self, now_ns: i64) -> list[tuple[int, ControlFrame]]:
        """Frames that have waited long enough."""
        due = [(to, frame) for until_ns, to, frame, _ in self._waiting if until_ns <= now_ns]
        if due:
            self._waiting = [one for one in self._waiting if one[0] > now_ns]
        return due

    def next_deadline_ns(self) -> i64:
        """When some frame has waited long enough."""
        return self._waiting[0][0] if self._waiting else NEVER
