"""Room for this member's own messages, and the bound on all that it holds (SRM §5.3).

What the buffers of a member hold goes in; whether one more own message may be multicast comes out,
and how many messages may still wait for the application. Room in the window itself is the business
of the retransmission buffer.

Why a total makes nobody wait for ever: of each source a member keeps no more than a share
(`MemberConfig.window`), for others and until earlier ones come, and all shares are half of the
total. So when the application has taken what waits for it, there is room for anybody's message.
Messages that come early are not asked whether there is room: theirs is set aside.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.errors import WindowFullError
from semcast.ids import Source
from semcast.protocol.config import LIVES_MAX, MemberConfig
from semcast.protocol.membership.view import View
from semcast.protocol.queue.buffer import PurgingBuffer
from semcast.protocol.streams.inbound import Inbound


@final
class OwnRoom:
    """What one member may still hold."""

    def __init__(
        self,
        config: MemberConfig,
        me: Source,
        view: View,
        waiting: PurgingBuffer,
        retained: PurgingBuffer,
        inbounds: dict[Source, Inbound],
    ) -> None:
        self._config: Final = config
        self._total: Final[i64] = config.total_messages
        # For what waits for earlier messages, of all sources.
        members = len(view.members)
        self._early_max: Final[i64] = config.window(members) * LIVES_MAX * members
        # Of a message that it multicasts, a member holds so many copies at first.
        self._copies: Final[i64] = 2 if config.deliver_own else 1
        self._me: Final = me
        self._waiting: Final = waiting
        self._retained: Final = retained
        self._inbounds: Final = inbounds

    def lacking(self, size_bytes: i64) -> WindowFullError | None:
        """Why one more own message of this size cannot be held; None if it can."""
        if self._config.deliver_own:
            own = self._inbounds[self._me]
            if not own.room_for(size_bytes):
                return WindowFullError(
                    f"{own.waiting} own messages wait for this member's application to take them; "
                    "take them, or set deliver_own to false",
                    own.waiting,
                    self._config.window_messages,
                )
        if self._total > 0 and self._kept() + self._waiting.held + self._copies > self._total:
            return WindowFullError(
                f"{self._waiting.held} messages wait for this member's application, and with those "
                f"kept for others there are total_messages={self._total}; take some, or raise it",
                self._waiting.held,
                self._config.total_messages,
            )
        return None

    def narrow(self, keep: bool) -> bool:
        """Let no more wait for the application than the total allows, if there is one; `keep`: what
        comes next is kept for others as well. Says whether there is a total.
        """
        if self._total > 0:
            self._waiting.narrow(self._total - self._kept() - (1 if keep else 0))
        return self._total > 0

    def _kept(self) -> i64:
        """The room that is not for the application: what is kept for others, and what may come
        early.
        """
        return self._retained.held + self._early_max
