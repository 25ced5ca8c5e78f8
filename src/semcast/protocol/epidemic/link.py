"""Admission control of one link: what was sent, and what arrived, in; when the next may go, out.

The lower tier of PSRM Figure 1 is a network that loses little because no link is given more than it
carries. A *share* of a known bandwidth is the model of PSRM §4.2; where the bandwidth is not known,
a *window* finds it as TCP does (the paper names both, §3.1). Knows nothing of messages.
"""

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from semcast.ids import NEVER

_SECOND_NS: Final = 1_000_000_000
_MS: Final = 1_000_000
_U32: Final = 1 << 32
# Of a window: datagrams under way at first, at the least and at the most.
WINDOW_FIRST: Final = 4.0
WINDOW_MIN: Final = 1.0
WINDOW_MAX: Final = 256.0
# Losses below this are the network's own, and gossip makes up for them.
LOSS_MAX: Final = 0.1
_ROUND_TRIP_FIRST_NS: Final = 50 * _MS
_WAIT_MIN_NS: Final = 20 * _MS


class Link(ABC):
    """Says when the next datagram may go."""

    def __init__(self) -> None:
        # Whom it leads to; `Links` says so.
        self.to: int = 0
        # From then on the link takes another datagram.
        self.free_ns: i64 = 0
        # Whether a message waits for it, and when it is looked at then; `Links` says so.
        self.awaited = False
        self.look_ns: i64 = NEVER

    def idle(self, now_ns: i64) -> bool:
        """Whether nothing waits for it, and it takes a datagram now."""
        return not self.awaited and self.free_ns <= now_ns

    @abstractmethod
    def sent(self, size_bytes: i64, now_ns: i64) -> None:
        """A datagram of this size goes now."""

    def grew(self, size_bytes: i64, now_ns: i64) -> None:  # noqa: B027
        """The last datagram, which did not go yet, takes so much more."""

    def stamp(self) -> i64:
        """The number that the next datagram has to bear; 0 if it needs none."""
        return 0

    def heard(self, number: i64, count: i64, now_ns: i64) -> None:  # noqa: B027
        """The other side has heard stamps up to `number`, and `count` of them."""


@final
class StaticShare(Link):
    """A fixed share of a bandwidth (PSRM §4.2)."""

    def __init__(self, bytes_s: float) -> None:
        super().__init__()
        # In picoseconds, so that compiled and interpreted runs agree to the nanosecond.
        self._byte_ps: Final[i64] = max(round(1e12 / bytes_s), 1)

    def sent(self, size_bytes: i64, now_ns: i64) -> None:
        begun_ns = max(self.free_ns, now_ns)
        self.free_ns = begun_ns + (size_bytes * self._byte_ps + 500) // 1000

    def grew(self, size_bytes: i64, now_ns: i64) -> None:
        self.sent(size_bytes, now_ns)


@final
class AdaptiveWindow(Link):
    """So many datagrams may be under way: more while all goes well, half after losses.

    What is not heard of within a few round trips counts as lost, so that a link to somebody who is
    gone takes a datagram now and then, and no more.
    """

    def __init__(self) -> None:
        super().__init__()
        self.window = WINDOW_FIRST
        self.round_trip_ns: i64 = _ROUND_TRIP_FIRST_NS
        self._sent: i64 = 0
        self._heard: i64 = 0
        self._count: i64 = 0
        self._loss = 0.0
        # After a cut, what was under way then says nothing about the new window.
        self._cut: i64 = 0
        # One datagram at a time is timed.
        self._timed: i64 = 0
        self._timed_ns: i64 = 0
        self._last_ns: i64 = 0

    def stamp(self) -> i64:
        return (self._sent + 1) % _U32

    def sent(self, size_bytes: i64, now_ns: i64) -> None:  # noqa: ARG002
        if not self._is_open() and self.free_ns <= now_ns:
            # Nothing was heard in time: all that was under way is lost.
            self._heard = self._sent
            self._cut_window()
        self._sent += 1
        self._last_ns = now_ns
        if self._timed <= self._heard:
            self._timed = self._sent
            self._timed_ns = now_ns
        self._open()

    def heard(self, number: i64, count: i64, now_ns: i64) -> None:
        behind: i64 = (self._sent - number) % _U32
        if behind >= _U32 // 2:
            self._continue_from(self._sent + _U32 - behind, count)
            return
        number = self._sent - behind
        newly = number - self._heard
        if newly <= 0:
            return
        came = (count - self._count) % _U32
        if came > newly:
            # The other side has begun to count anew.
            came = newly
        self._count = count
        self._heard = number
        lost = float(newly - came) / float(newly)
        self._loss += (lost - self._loss) * min(1.0, float(newly) / 32.0)
        if self._timed <= number:
            self.round_trip_ns += (now_ns - self._timed_ns - self.round_trip_ns) // 8
        if self._loss > LOSS_MAX and number > self._cut:
            self._cut_window()
        elif self._loss <= LOSS_MAX:
            self.window = min(self.window + float(newly) / self.window, WINDOW_MAX)
        self._open()

    def _continue_from(self, number: i64, count: i64) -> None:
        """The other side has heard of more than was sent here: it goes on counting what came before
        this end forgot the link and made it anew. So this end takes up its numbers.
        """
        self._sent = self._heard = self._timed = number
        self._count = count
        self._open()

    def _cut_window(self) -> None:
        self.window = max(self.window / 2, WINDOW_MIN)
        self._cut = self._sent
        self._loss = 0.0

    def _open(self) -> None:
        """Say when the next may go."""
        if self._is_open():
            self.free_ns = 0
        else:
            self.free_ns = self._last_ns + max(4 * self.round_trip_ns, _WAIT_MIN_NS)

    def _is_open(self) -> bool:
        return float(self._sent - self._heard) < self.window
