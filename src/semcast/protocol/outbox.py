"""The outbox: frames for various destinations in, datagrams out, as few as they fit into."""

from typing import Final, final

from mypy_extensions import mypyc_attr

from semcast.errors import MessageTooLargeError
from semcast.ids import EVERYBODY, Source
from semcast.wire.encode import FrameWriter
from semcast.wire.fragment import fragments_of
from semcast.wire.frames import ControlFrame
from semcast.wire.limits import Limits
from semcast.wire.message import Message

# How many ranges or covers go into one frame; the smallest datagram has room for them.
ROWS_MAX: Final = 12


@final
@mypyc_attr(acyclic=True)
class Outgoing:
    """One datagram: frames to be sealed and sent."""

    def __init__(self, to: int, frames: bytes) -> None:
        # The sender id of one member, or EVERYBODY (but this one).
        self.to = to
        self.frames = frames

    def __repr__(self) -> str:
        return f"<Outgoing {len(self.frames)} B to {'all' if self.to == EVERYBODY else self.to}>"


@final
class Outbox:
    """Collects what is to be sent until somebody takes it."""

    def __init__(self, me: Source, limits: Limits) -> None:
        self._me: Final = me
        self._limits: Final = limits
        self._writers: Final[dict[int, FrameWriter]] = {}
        # Destinations with something to send, in the order of first use, so that the same run
        # always sends in the same order.
        self._waiting: Final[dict[int, None]] = {}
        self._ready: list[Outgoing] = []

    def take(self) -> list[Outgoing]:
        """All datagrams; the outbox is then empty."""
        self.close()
        ready, self._ready = self._ready, []
        return ready

    def close(self) -> None:
        """Finish the datagrams begun so far, so that they leave before whatever comes later."""
        if self._waiting:
            for to in self._waiting:
                self._flush(to, self._writers[to])
                if to != EVERYBODY:
                    # A large group has many others, and each is rarely written to.
                    del self._writers[to]
            self._waiting.clear()

    def datagram(self, to: int, frames: bytes) -> None:
        """Frames that fill a datagram by themselves."""
        self._ready.append(Outgoing(to, frames))

    def message(self, to: int, message: Message) -> None:
        """A message, whole or in fragments."""
        writer = self._writer(to)
        if writer.add_message(message):
            return
        self._flush(to, writer)
        if writer.add_message(message):
            return
        for fragment in fragments_of(message, self._limits):
            self.frame(to, fragment)

    def frame(self, to: int, frame: ControlFrame) -> None:
        """A control frame. Lists in it are kept short by whoever makes it."""
        writer = self._writer(to)
        if writer.add(frame):
            return
        self._flush(to, writer)
        if not writer.add(frame):
            raise MessageTooLargeError(frame.size_bytes(), self._limits.frames_bytes_max)

    def _writer(self, to: int) -> FrameWriter:
        writer = self._writers.get(to)
        if writer is None:
            writer = FrameWriter(self._me, self._limits.frames_bytes_max)
            self._writers[to] = writer
        self._waiting[to] = None
        return writer

    def _flush(self, to: int, writer: FrameWriter) -> None:
        if len(writer) > 0:
            self._ready.append(Outgoing(to, writer.take()))
