"""When to gossip: what happened in, the time of the next vector out.

A member gossips every period as long as there is something to agree on, at once when many messages
have come, and ever less often in a group at rest. While messages keep coming it may wait for a few
periods, because the next message shows by its number that one was lost. The last one has none after
it, so a vector goes out a period after it. A member that hears others gossip does so too, so that
all agree at once; but not again and again, or members would answer each other for ever. Knows
nothing of what vectors say, or to whom they go.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER
from semcast.protocol.config import MemberConfig

# A group at rest gossips ever less often, down to this many periods apart. Whoever lacks something
# does not rest, and whoever hears of it answers; so this is only for what nobody has thought of.
_REST_PERIODS_MAX: Final = 512
# With gossip on demand, a member also gossips each time an eighth of a window's bytes has come.
_VECTORS_PER_WINDOW: Final = 8
# A member that gossiped lately joins in with others only if it has got at least this part (a
# quarter) of the messages that would make it gossip without delay.
_WORTH_SENDING_PART: Final = 4


@final
class GossipPace:
    """When one member sends its next vector."""

    def __init__(self, config: MemberConfig) -> None:
        self.next_ns: i64 = 0
        self._period_ns: Final[i64] = config.gossip_period_ns
        self._stretch: Final[i64] = config.gossip_stretch
        # Until when the next vector may be put off, by the first message since the last vector.
        # `_put_off_ns` is the time that was chosen so, to see whether another was chosen since.
        self._latest_ns: i64 = -1
        self._put_off_ns: i64 = -1
        self._window_bytes: Final[i64] = config.window_bytes
        # Messages that came since the last vector; at `new_messages_max` one goes out at once.
        self.new_messages: i64 = 0
        self.new_bytes: i64 = 0
        self.new_messages_max: Final[i64] = config.gossip_messages
        self._rest_periods: i64 = 1
        self._sent_ns: i64 = 0
        # While this member has no room it sends its votes again after this time, which doubles each
        # time: a vote may have been lost, and nobody would know.
        self._wait_first_ns: Final[i64] = min(config.nak_delay_ns, config.gossip_period_ns)
        self._wait_ns: i64 = self._wait_first_ns
        self._waits_until_ns: i64 = NEVER
        # How soon votes go again to another member that has no room. This doubles too, as long as
        # they say nothing new.
        self._again_ns: i64 = self._wait_first_ns

    def due_ns(self) -> i64:
        """When the next vector goes out."""
        return min(self.next_ns, self._waits_until_ns)

    def no_room(self, now_ns: i64) -> None:
        """From now on this member has no room to send until votes come."""
        if self._waits_until_ns == NEVER:
            self._wait_ns = self._wait_first_ns
            self._waits_until_ns = max(now_ns, self._sent_ns) + self._wait_ns

    def room(self) -> None:
        """It can send again."""
        self._waits_until_ns = NEVER

    def somebody_waits(self, now_ns: i64) -> None:
        """Another member has no room and may have missed our votes, so they go out again.

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
        """Another member has not heard what is agreed: this is no time to rest."""
        self._rest_periods = 1
        self.next_ns = min(self.next_ns, now_ns + self._period_ns)

    def somebody_gossips(self, now_ns: i64) -> None:
        """Others wait for votes or have sent theirs: gossip at once, if there is enough new."""
        much = self.new_messages * _WORTH_SENDING_PART >= self.new_messages_max
        if self.new_messages > 0 and (much or now_ns - self._sent_ns >= self._period_ns):
            self.next_ns = now_ns

    def begin(self) -> None:
        """A vector is about to go out."""
        if self.new_messages > 0:
            self._again_ns = self._wait_first_ns
        else:
            self._again_ns = min(2 * self._again_ns, self._period_ns)
        self.new_messages = 0
        self.new_bytes = 0
        self._latest_ns = -1

    def done(self, all_agreed: bool, now_ns: i64) -> None:
        """A vector went out; if all is agreed, the next one has more time."""
        self._sent_ns = now_ns
        self._rest_periods = min(2 * self._rest_periods, _REST_PERIODS_MAX) if all_agreed else 1
        self.next_ns = self._put_off_ns = now_ns + self._rest_periods * self._period_ns
        if self._waits_until_ns != NEVER:
            self._wait_ns = min(2 * self._wait_ns, self._period_ns)
            self._waits_until_ns = now_ns + self._wait_ns
