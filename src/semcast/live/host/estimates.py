"""Estimates: when applications call and when messages come goes in; how they are likely to go on
comes out.

These are numbers and no states: `waiting` decides who waits at the sockets, and asks these whether
an application is near, and when a reader's next message is expected. All times are arguments.
"""

from typing import Final, final

from mypy_extensions import i64

from semcast.live.host import timing
from semcast.live.host.clock import FOREVER

# What a sender does about what it has just been given to send.
ALONE: Final[i64] = 0  # send it, and then be out of the way of those who are to receive it
ENOUGH: Final[i64] = 1  # send what was gathered; the application goes on
GATHER: Final[i64] = 2  # wait for more


@final
class Burst:
    """Whether an application sends one message after the other, and what is unsent because of it.

    A send by itself leaves at once. Sends that follow each other closely are gathered into full
    datagrams: by the sender while the burst goes on, by the engine's thread when it has ended.
    """

    def __init__(self) -> None:
        self.unsent_bytes: i64 = 0
        # When the application's last send was over.
        self._sent_ns: i64 = 0
        self._flushed_ns: i64 = 0
        self._length: i64 = 0

    @property
    def goes_on(self) -> bool:
        """Whether the last send was one of many."""
        return self._length >= timing.BURST_BEGINS_SENDS

    def accepted(self, size_bytes: i64, now_ns: i64) -> i64:
        """The member accepted so much for sending. Returns ALONE, ENOUGH or GATHER."""
        self.unsent_bytes += size_bytes
        pause_ns = now_ns - self._sent_ns
        short = pause_ns <= timing.BURST_NS
        if not short and (
            self._length < timing.BURST_LASTS_SENDS or pause_ns > timing.BURST_PAUSE_NS_MAX
        ):
            self._length = 0
            return ALONE
        self._length = self._length + 1 if short else self._length // 2
        if self._length < timing.BURST_BEGINS_SENDS:
            # An application that was held up and then sends two or three at once is no burst, and
            # none of them has to wait.
            return ALONE
        full = (
            self.unsent_bytes > timing.BURST_BYTES_MAX
            or now_ns - self._flushed_ns > timing.BURST_AGE_NS_MAX
        )
        return ENOUGH if full else GATHER

    def done(self, now_ns: i64) -> None:
        """The send is over. The time it took is not a pause of the application's."""
        self._sent_ns = now_ns

    def flushed(self, now_ns: i64) -> None:
        """Everything that was accepted has been sent."""
        self.unsent_bytes = 0
        self._flushed_ns = now_ns


@final
class Attention:
    """How long applications may stay away before the engine's thread looks whether they still read
    the sockets.

    A look takes a processor from somebody, and one that falls on a passing message delays it. So an
    application that never stays away is checked more and more rarely, as far as the sockets have
    room for what may come meanwhile; and if it comes at regular times, looks fall halfway between.
    """

    def __init__(self, room_bytes: i64 = timing.ROOM_BYTES_MAX) -> None:
        # How long applications may stay away as things are.
        self.allowed_ns: i64 = timing.AWAY_USUAL_NS
        self._room_bytes: i64 = room_bytes // timing.ROOM_PARTS
        # When an application was last here; when one last came after a pause, and how long that was
        # after the time before.
        self._here_ns: i64 = -FOREVER
        self._came_ns: i64 = -FOREVER
        self._period_ns: i64 = 0
        self._looked_ns: i64 = 0
        self._came_bytes: i64 = 0

    def fit(self, room_bytes: i64) -> None:
        """Some socket has no more room than this."""
        self._room_bytes = min(self._room_bytes, room_bytes // timing.ROOM_PARTS)

    def came(self, now_ns: i64) -> bool:
        """An application is here again. Returns whether it paused before."""
        pause = now_ns - self._here_ns >= timing.PAUSE_NS
        if pause:
            self._period_ns = now_ns - self._came_ns
            self._came_ns = now_ns
        self._here_ns = now_ns
        return pause

    def stays(self, now_ns: i64) -> None:
        """An application is still here."""
        self._here_ns = now_ns

    def away_ns(self, now_ns: i64) -> i64:
        """For how long no application has been here."""
        return now_ns - self._here_ns

    def look_ns(self, now_ns: i64, waits: bool) -> i64:
        """When to look next; `waits` if an application is here now, and waits for a message."""
        due_ns = self.allowed_ns + (now_ns if waits else self._here_ns)
        period_ns = self._period_ns
        if timing.PAUSE_NS <= period_ns <= self.allowed_ns:
            due_ns -= (due_ns - self._came_ns) % period_ns
            due_ns += period_ns // 2
            if due_ns <= now_ns:
                due_ns += period_ns
        return due_ns

    def looked(self, now_ns: i64, attentive: bool, busy: bool, came_bytes: i64) -> None:
        """The engine's thread looked, and found whether an application is never long away, and
        whether it sends as much as it can; `came_bytes` is all that has come to the sockets.
        """
        elapsed_ns = min(now_ns - self._looked_ns, timing.LOOK_NS_MAX)
        room_ns = elapsed_ns * self._room_bytes // max(came_bytes - self._came_bytes, 1)
        self._looked_ns, self._came_bytes = now_ns, came_bytes
        wanted_ns: i64 = (
            min(2 * self.allowed_ns, timing.AWAY_LONG_NS) if attentive else timing.AWAY_USUAL_NS
        )
        self.allowed_ns = (
            timing.AWAY_BUSY_NS if busy else max(timing.AWAY_BUSY_NS, min(wanted_ns, room_ns))
        )


@final
class Confidence:
    """Whether to rely on the next guess, by how the last ones turned out."""

    def __init__(self) -> None:
        self._worth: i64 = 0

    @property
    def enough(self) -> bool:
        """Whether the next guess is likely to be right."""
        return self._worth >= timing.GUESS_WORTH_MAX // 2

    @property
    def none(self) -> bool:
        """Whether the last guesses were worth nothing."""
        return self._worth == 0

    def learn(self, right: bool) -> None:
        """A guess turned out to be right or wrong."""
        if right:
            self._worth = min(self._worth + 1, timing.GUESS_WORTH_MAX)
        else:
            self._worth = max(self._worth - timing.GUESS_WRONG_COSTS, 0)


@final
class Rhythm:
    """When the next message is expected, where messages come at regular times: ticks of a game,
    samples, quotes once a millisecond.

    Single messages may be up to `within_ns` early or late, or less if they are quick.
    """

    def __init__(self, within_ns: i64) -> None:
        self._within_ns: Final[i64] = within_ns
        self._confidence: Final = Confidence()
        self._came_ns: i64 = -FOREVER
        self._period_ns: i64 = FOREVER
        self._due_ns: i64 = 0

    def came(self, now_ns: i64) -> None:
        """A message came."""
        apart_ns = now_ns - self._came_ns
        self._came_ns = now_ns
        if self._is_beat():
            # Beats without a message are no mistake: the message may have been replaced.
            missed = max(now_ns - self._due_ns + self._period_ns // 2, 0) // self._period_ns
            late_ns = now_ns - self._due_ns - missed * self._period_ns
            within_ns = min(self._within_ns, self._period_ns // timing.PERIOD_CHANCE_PARTS)
            right = -within_ns <= late_ns <= within_ns
            self._confidence.learn(right)
            if right:
                self._period_ns += late_ns // (timing.PERIOD_PARTS * (missed + 1))
                self._due_ns = now_ns - late_ns + late_ns // timing.PHASE_PARTS + self._period_ns
            elif late_ns > 0:
                self._due_ns = now_ns - late_ns + self._period_ns
        if self._confidence.none or not self._is_beat():
            self._period_ns = apart_ns
            self._due_ns = now_ns + apart_ns

    def _is_beat(self) -> bool:
        return 2 * self._within_ns < self._period_ns <= timing.PERIOD_NS_MAX

    def next_ns(self, now_ns: i64) -> i64:
        """When the next message is expected, if it is not long due; FOREVER if nobody knows."""
        if not self._confidence.enough or not self._is_beat():
            return FOREVER
        late_ns = now_ns - self._within_ns - self._due_ns
        if late_ns <= 0:
            return self._due_ns
        return self._due_ns + (late_ns // self._period_ns + 1) * self._period_ns


@final
class Wakefulness:
    """From when on a reader that waits should be awake, which it may be for `awake_ns` of a wait.

    To fall asleep and be woken takes longer than to receive a message, above all where a hypervisor
    takes away a processor that has nothing to do. So where messages mostly come soon, or at regular
    times, the reader stays awake, or wakes up in time, and watches the sockets.
    """

    def __init__(self, awake_ns: i64) -> None:
        self.awake_ns: Final[i64] = awake_ns
        self._soon: Final = Confidence()
        self._rhythm: Final = Rhythm(awake_ns // 2)

    def came(self, wait_ns: i64, now_ns: i64) -> None:
        """A message came after so long a wait."""
        if self.awake_ns == 0:
            return  # the reader may never be awake, so there is no use in learning when
        self._soon.learn(wait_ns <= self.awake_ns)
        self._rhythm.came(now_ns)

    def begins_ns(self, now_ns: i64) -> i64:
        """From when on it pays to be awake in a wait that begins now; FOREVER if it does not."""
        if self._soon.enough:
            return now_ns
        next_ns = self._rhythm.next_ns(now_ns)
        return max(now_ns, next_ns - self.awake_ns) if next_ns < FOREVER else FOREVER
