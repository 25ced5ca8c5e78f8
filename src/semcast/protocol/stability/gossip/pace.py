"""When to gossip: what happened in, the time of the next vector out.

Every period as long as there is something to tell, at once when much has come, and ever less often
in a group at rest. While messages keep coming it may be put off for a few periods: what was lost
shows by itself, in the gap before the next one; but a period after the last message it is told, as
the last may be what was lost. Those who hear others tell do so too, so that all agree at once; but
not again and again, or they would answer each other for ever. Knows nothing of what is told, or to
whom.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.protocol.config import MemberConfig

# A group at rest gossips ever less often, down to this many periods apart.
_REST_PERIODS_MAX: Final = 32
# With gossip on demand, windows are acknowledged in eighths of their bytes too.
_VECTORS_PER_WINDOW: Final = 8
# Those who have told lately tell again with others only if so large a part has come of what would
# make them tell without delay.
_WORTH_SENDING_PART: Final = 4


@final
class GossipPace:
    """One member's pace."""

    def __init__(self, config: MemberConfig) -> None:
        self.next_ns: i64 = 0
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._stretch: Final[i64] = config.gossip_stretch
        # How long it may be put off, by what came first since others were told; and the time that
        # was chosen so, unless somebody has chosen another since.
        self._latest_ns: i64 = -1
        self._put_off_ns: i64 = -1
        self._window_bytes: Final[i64] = config.window_bytes
        # Messages that came since others were told; at so many they are told without delay.
        self.new_messages: i64 = 0
        self.new_bytes: i64 = 0
        self.new_messages_max: Final[i64] = config.gossip_messages
        self._rest_periods: i64 = 1
        self._sent_ns: i64 = 0
        # While this member has no room, others are told again so soon, each time later: a vote may
        # have been lost, and nobody would know.
        self._wait_first_ns: Final[i64] = min(config.nak_delay_ns, config.gossip_period_ns)
        self._wait_ns: i64 = self._wait_first_ns
        self._waits_until_ns: i64 = NEVER
        # How soon somebody else who has no room is told again; likewise each time later, as long as
        # there is nothing new to tell.
        self._again_ns: i64 = self._wait_first_ns

    def due_ns(self) -> i64:
        """When others are to be told."""
        return min(self.next_ns, self._waits_until_ns)

    def no_room(self, now_ns: i64) -> None:
        """There is no room to send until votes come."""
        if self._waits_until_ns == NEVER:
            self._wait_ns = self._wait_first_ns
            self._waits_until_ns = max(now_ns, self._sent_ns) + self._wait_ns

    def room(self) -> None:
        """It can send again."""
        self._waits_until_ns = NEVER

    def somebody_waits(self, now_ns: i64) -> None:
        """Somebody has no room, and may not have heard what it was told: tell it again.

        Members that all lack room answer each other, so without the pause growing they would fill
        a narrow link with votes that say the same, and what could give them room would queue there.
        """
        self.next_ns = min(self.next_ns, max(now_ns, self._sent_ns + self._again_ns))

    def news(self, more: i64, now_ns: i64) -> None:
        """So many more messages have come."""
        self._rest_periods = 1
        soon_ns = now_ns + self._period_ns
        if self.new_messages_max > 0:
            self.new_messages += more
            if (
                self.new_messages >= self.new_messages_max
                or self.new_bytes * _VECTORS_PER_WINDOW >= self._window_bytes
            ):
                soon_ns = now_ns
        if self._stretch > 1 and soon_ns > now_ns:
            if self._latest_ns < 0:
                self._latest_ns = now_ns + self._stretch * self._period_ns
            soon_ns = min(soon_ns, self._latest_ns)
            if self.next_ns == self._put_off_ns:
                self.next_ns = soon_ns
            self._put_off_ns = soon_ns
        if self.next_ns > soon_ns:
            self.next_ns = soon_ns

    def somebody_is_behind(self, now_ns: i64) -> None:
        """Somebody has not heard what is agreed: this is no time to rest."""
        self._rest_periods = 1
        self.next_ns = min(self.next_ns, now_ns + self._period_ns)

    def somebody_gossips(self, now_ns: i64) -> None:
        """Somebody waits for votes, or has sent its own: tell at once, if that is worth it."""
        much = self.new_messages * _WORTH_SENDING_PART >= self.new_messages_max
        if self.new_messages > 0 and (much or now_ns - self._sent_ns >= self._period_ns):
            self.next_ns = now_ns

    def begin(self) -> None:
        """Others are told now."""
        if self.new_messages > 0:
            self._again_ns = self._wait_first_ns
        else:
            self._again_ns = min(2 * self._again_ns, self._period_ns)
        self.new_messages = 0
        self.new_bytes = 0
        self._latest_ns = -1

    def done(self, all_agreed: bool, now_ns: i64) -> None:
        """Others were told; if all is agreed there is nothing more to tell."""
        self._sent_ns = now_ns
        self._rest_periods = min(2 * self._rest_periods, _REST_PERIODS_MAX) if all_agreed else 1
        self.next_ns = self._put_off_ns = now_ns + self._rest_periods * self._period_ns
        if self._waits_until_ns != NEVER:
            self._wait_ns = min(2 * self._wait_ns, self._period_ns)
            self._waits_until_ns = now_ns + self._wait_ns
