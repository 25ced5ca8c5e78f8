"""Accepting: a payload and what it replaces in; a message, numbered and kept for others, out.

What is common to a message that the application multicasts and to one that a member sends again
for its former life. Knows nothing of why there is no room.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.obsolescence.tagger import Replaces
from semcast.protocol.config import MemberConfig
from semcast.protocol.observer import Observer
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.queue.purged import observe_arrival
from semcast.protocol.stability.detection import Detection
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.message import Message

# Room for a key beside a payload.
KEY_BYTES: Final = 255


@final
class Accepting:
    """One member's own messages, as they come."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        retained: PurgingBuffer,
        answers: Answers,
        intake: Intake,
        detection: Detection,
        observer: Observer | None,
    ) -> None:
        self._deliver_own: Final = config.deliver_own
        self._sender: Final = sender
        self._retained: Final = retained
        self._answers: Final = answers
        self._intake: Final = intake
        self._detection: Final = detection
        self._observer: Final = observer

    def accept(self, payload: bytes, replaces: Replaces, now_ns: i64) -> Message:
        """Take a message, or raise and change nothing; WindowFullError if there is no room."""
        lacking = self._intake.room.lacking(len(payload) + KEY_BYTES)
        if lacking is not None:
            raise lacking
        message = self._sender.multicast(payload, replaces, now_ns)
        if self._observer is not None or self._retained.recorded:
            purged = self._retained.drain_purged()
            self._answers.note_purged(purged)
            if self._observer is not None:
                observe_arrival(self._observer, "multicast", message, purged)
        self._detection.count_bytes(len(message.body))
        if self._deliver_own:
            self._intake.on_messages([message], now_ns)
        return message
