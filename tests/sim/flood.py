"""Another kind of member: it says each message once, to everybody, and never again.

Unreliable and without order, but a machine like any other: worlds drive it as they drive `Member`.
"""

from collections import deque
from typing import Final

from semcast.errors import GroupClosedError, WindowFullError
from semcast.ids import EVERYBODY, SEQ_MAX, Randomness, Source
from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.machine import Machine
from semcast.protocol.membership.view import View
from semcast.protocol.observer import Observer
from semcast.protocol.outbox import Outgoing
from semcast.wire.decode import Decoder
from semcast.wire.encode import FrameWriter
from semcast.wire.message import Message

# Messages that wait to be sent at most.
WINDOW: Final = 4


class Flood(Machine):
    """One process that floods."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        random: Randomness,  # noqa: ARG002
        observer: Observer | None = None,
        joining: bool = False,  # noqa: ARG002
    ) -> None:
        super().__init__(config, me)
        self._view = view
        self._observer: Final = observer
        self._seq = 0
        self._out: list[Message] = []
        self._waiting: Final[deque[Message]] = deque()
        self._seen: Final[set[tuple[Source, int]]] = set()
        self._leaving = False
        if observer is not None:
            observer.view(view)

    # -- the application ---------------------------------------------------------------------------

    def multicast(self, payload: bytes, replaces: Replaces, now_ns: int) -> Message:  # noqa: ARG002
        if self._leaving:
            raise GroupClosedError("it leaves")
        if not self.can_multicast(len(payload)):
            raise WindowFullError("too much to say", len(self._out), WINDOW)
        self._seq += 1
        message = Message(self.me, self._seq, payload, 0, 0, 0, False, now_ns)
        self._out.append(message)
        self._tell("multicast", message)
        return message

    def can_multicast(self, payload_bytes: int = 0) -> bool:  # noqa: ARG002
        return len(self._out) < WINDOW

    @property
    def sent(self) -> int:
        return self._seq

    @property
    def blocked(self) -> bool:
        return False

    def blocked_ns(self, now_ns: int) -> int:  # noqa: ARG002
        return 0

    def all_stable(self) -> bool:
        return not self._out

    def take(self, messages_max: int, now_ns: int) -> list[Message]:  # noqa: ARG002
        taken: list[Message] = []
        while self._waiting and len(taken) < messages_max:
            taken.append(self._waiting.popleft())
            self._tell("deliver", taken[-1])
        return taken

    def take_one(self, now_ns: int) -> Message | None:
        taken = self.take(1, now_ns)
        return taken[0] if taken else None

    def deliverable(self) -> int:
        return len(self._waiting)

    def oldest(self) -> Message | None:
        return self._waiting[0] if self._waiting else None

    def age_ns(self, message: Message, now_ns: int) -> int:
        return now_ns - int(message.sent_ns)

    def cover_of(self, source: Source, seq: int) -> tuple[Source, int] | None:  # noqa: ARG002
        return None

    # -- the network -------------------------------------------------------------------------------

    def receive(self, frames: bytes, source: Source, now_ns: int) -> None:  # noqa: ARG002
        for message in Decoder().decode(frames, source).messages:
            name = (message.source, int(message.seq))
            if name not in self._seen and self._view.is_present(message.source.sender):
                self._seen.add(name)
                self._waiting.append(message)
                self._tell("receive", message)

    def datagrams(self, now_ns: int, data_max: int = SEQ_MAX) -> list[Outgoing]:  # noqa: ARG002
        said, self._out = self._out, []
        found = []
        for message in said:
            writer = FrameWriter(self.me, self.config.limits.frames_bytes_max)
            assert writer.add_message(message)
            found.append(Outgoing(EVERYBODY, writer.take()))
        return found

    @property
    def unsent(self) -> bool:
        return bool(self._out)

    def next_deadline_ns(self) -> int:
        return SEQ_MAX

    def on_timer(self, now_ns: int) -> None:
        """Nothing is ever due."""

    # -- the group ---------------------------------------------------------------------------------

    @property
    def view(self) -> View:
        return self._view

    def remove(self, sender: int, now_ns: int) -> None:  # noqa: ARG002
        self._view = self._view.without(sender)
        if self._observer is not None:
            self._observer.view(self._view)

    def begin_leaving(self, now_ns: int) -> None:  # noqa: ARG002
        self._leaving = True

    @property
    def leaving(self) -> bool:
        return self._leaving

    def settled(self, silent: list[int]) -> bool:  # noqa: ARG002
        return not self._out

    def may_leave(self, silent: list[int], now_ns: int) -> bool:  # noqa: ARG002
        return not self._out

    def stats(self) -> dict[str, int]:
        """What worlds ask for: whether anything is held."""
        return {
            "multicast": self._seq,
            "delivery_held": len(self._waiting),
            "retained_held": len(self._out),
            "early_held": 0,
        }

    def _tell(self, event: str, message: Message) -> None:
        if self._observer is not None:
            self._observer.message(event, message, "", None)
