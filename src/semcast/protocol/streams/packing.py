"""Packing: a member's own messages that are to be sent in, datagrams of them out.

As many as the bandwidth allows, each with votes on board if any wait for a ride. What was purged
before it was sent is nowhere: others are told so before they ask for it.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import EVERYBODY
from semcast.protocol.config import MemberConfig
from semcast.protocol.outbox import ROWS_MAX, Outbox
from semcast.protocol.stability.detection import Detection
from semcast.protocol.streams.answers import Answers
from semcast.protocol.streams.pacer import Pacer
from semcast.protocol.streams.sender import Sender
from semcast.wire.families.repair import Covered


@final
class Packing:
    """What one member sends of its own."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        answers: Answers,
        detection: Detection,
        outbox: Outbox,
    ) -> None:
        self._paced: Final = config.bandwidth_bytes_s > 0
        self._pacer: Final = Pacer(config.bandwidth_bytes_s)
        self._sender: Final = sender
        self._answers: Final = answers
        self._detection: Final = detection
        self._outbox: Final = outbox
        self._packed_ns: i64 = 0

    @property
    def ready(self) -> bool:
        """Whether messages wait to be sent, and might have been sent when last packed."""
        return self._sender.unsent and (not self._paced or self._pacer.ready(self._packed_ns))

    def next_ns(self) -> i64:
        """When the next message may be sent; there is one."""
        return self._pacer.next_ns()

    def pack(self, now_ns: i64, data_max: i64) -> None:
        """Send what may be sent, in about so many datagrams at the most."""
        self._packed_ns = now_ns
        # What others asked for is older than what is new, and they wait for it.
        self._outbox.close()
        if not self._paced:
            for frames in self._sender.frames_to_send(data_max):
                self._outbox.datagram(EVERYBODY, self._detection.board(frames))
        else:
            while self._sender.unsent and self._pacer.ready(now_ns):
                for frames in self._sender.frames_to_send(1):
                    frames = self._detection.board(frames)
                    self._pacer.spend(len(frames), now_ns)
                    self._outbox.datagram(EVERYBODY, frames)
        if self._sender.passed_over:
            self._tell_passed_over()
        # Only what has left: others would ask for what they hear of.
        self._detection.has(self._sender.source, self._sender.packed, now_ns)

    def _tell_passed_over(self) -> None:
        me = self._sender.source
        covers = []
        for seq in self._sender.take_passed_over():
            by_source, by_seq = self._answers.cover(me, seq) or (me, seq)
            covers.append((seq, by_source, by_seq))
        for at in range(0, len(covers), ROWS_MAX):
            self._outbox.frame(EVERYBODY, Covered(me, covers[at : at + ROWS_MAX]))
