"""Leaving: what a member has taken and what others have in; whether it may go, out.

A member that leaves takes its copies along, so it waits until all others who stay have what it
sent and, in S-RM, what it took: then nothing rests on it any more (`settled`). f + 1 copies would
not do. They may be those of members who leave as well, and the f crashes that are survived would
still be to come.

What it has to wait for is fixed when it begins to leave. Of what is multicast later it delivers
nothing, and its safety votes say nothing, so that traffic which never ends does not keep it. It
still tries to get the messages that it has heard of by then and lacks, and all messages of a sender
that is gone or silent and so sends no more, because members that leave together should not differ.
Perhaps nobody has these any more, so it gives up when nothing has come for a while (`may_leave`).
Knows nothing of how votes travel.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import SEQ_MAX
from semcast.protocol.config import MemberConfig
from semcast.protocol.membership.view import NO_ORIGIN
from semcast.protocol.order import Order
from semcast.protocol.stability.detection import Detection
from semcast.protocol.streams.intake import Intake
from semcast.protocol.streams.sender import Sender
from semcast.wire.message import Message

# If none of the missing messages came for so long, nobody has them: requests are repeated at least
# every second, each time to another member, of which some may lack them and some may be silent.
QUIET_NS: Final = 8_000_000_000


@final
class Departure:
    """How one member leaves."""

    def __init__(
        self,
        config: MemberConfig,
        sender: Sender,
        intake: Intake,
        order: Order,
        detection: Detection,
        now_ns: i64,
    ) -> None:
        self._config: Final = config
        self._sender: Final = sender
        self._intake: Final = intake
        self._order: Final = order
        self._detection: Final = detection
        detection.begin_leaving()
        # By source, the last message that is still delivered: the newest that was known when this
        # member began to leave, or while its sender was gone or silent. INV-LIMIT: never falls.
        self._limits: Final = {
            source: int(inbound.newest) for source, inbound in intake.inbounds.items()
        }
        self._came: i64 = -1
        self._came_ns: i64 = now_ns
        # When to ask `may_leave` again at the latest.
        self.look_ns: i64 = SEQ_MAX

    # -- whether it may go -------------------------------------------------------------------------

    def settled(self, silent: list[int]) -> bool:
        """Whether all others have what this member sent and, in S-RM, what it took.

        `silent` are members that nothing is heard of. In S-RM up to f of them are taken to have
        crashed, as long as anybody else is there: those who stay have what the silent may lack.
        """
        detection, me = self._detection, self._sender.source
        if not self._intake.others:
            return True
        detection.excuse(self._excused(silent))
        self._raise_limits(silent)
        if not detection.held(me, self._sender.seq):
            return False
        if self._config.group_reliable:
            for source, inbound in self._intake.inbounds.items():
                took = min(inbound.next - 1, self._limits.get(source, 0))
                if source != me and not detection.held(source, took):
                    return False
        return True

    def may_leave(self, silent: list[int], now_ns: i64) -> bool:
        """Whether it is settled, and has all that it can get of what it had heard of."""
        settled = self.settled(silent)
        came, behind = self._progress()
        if came != self._came:
            self._came = came
            self._came_ns = now_ns
        quiet_ns = self._came_ns + QUIET_NS
        complete = not behind or quiet_ns <= now_ns or not self._intake.others
        self.look_ns = SEQ_MAX if complete else quiet_ns
        return settled and complete

    def _progress(self) -> tuple[i64, bool]:
        """How much has come, and whether anything is missing."""
        came: i64 = 0
        behind = False
        if self._config.group_reliable:
            for source, inbound in self._intake.inbounds.items():
                came += inbound.next
                # A message that is here and finds no room is not missing: the application that
                # should make room takes nothing more.
                limit = min(self._limits.get(source, 0), inbound.newest)
                if inbound.next <= limit and inbound.head() is None:
                    behind = True
        return came, behind

    def _raise_limits(self, silent: list[int]) -> None:
        for source, inbound in self._intake.inbounds.items():
            sender = int(source.sender)
            if sender in silent or sender not in self._intake.others:
                self._limits[source] = max(self._limits.get(source, 0), int(inbound.newest))

    def _excused(self, silent: list[int]) -> list[int]:
        """The silent members that this one does not wait for: never all, nor more than f."""
        others = self._intake.others
        excused = [sender for sender in silent if sender in others]
        view = self._intake.view
        f = self._config.f if view.origin == NO_ORIGIN else view.f
        if not self._config.group_reliable or len(excused) > f:
            return []
        return [] if len(excused) == len(others) else excused

    # -- the last messages -------------------------------------------------------------------------

    def deliverable(self) -> bool:
        """Whether the application may still take the message whose turn it is."""
        message = self._order.peek()
        if message is None:
            return False
        return message.state or message.seq <= self._limits.get(message.source, 0)

    def take(self, messages_max: i64, now_ns: i64) -> list[Message]:
        """The application takes what it may."""
        taken: list[Message] = []
        while len(taken) < messages_max and self.deliverable():
            message = self._intake.take_one(now_ns)
            assert message is not None, "it was there"
            taken.append(message)
        return taken
