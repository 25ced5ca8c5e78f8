"""Bursts of sends: when each was accepted goes in; whether to send now or to gather more comes out.

A send by itself leaves at once. Sends that follow each other closely are gathered into full
datagrams: by the sender itself while it goes on, by the engine's thread for the tail.
"""

from typing import Final, final

from mypy_extensions import i64

_MS: Final = 1_000_000
# Sends that follow each other this closely are a burst, once there are so many of them; what is
# unsent is at most so old and so large, as long as it goes on, and is sent this soon when it ends.
BURST_NS: Final = 20_000
BURST_BEGINS: Final = 8
BURST_AGE_NS: Final = 1 * _MS
BURST_SENDS: Final = 32
BURST_PAUSE_NS: Final = 200_000
BURST_BYTES: Final = 60_000
TAIL_NS: Final = 1 * _MS

# What to do about what was just accepted.
ALONE: Final[i64] = 0  # send it, and then be out of the way of those who are to receive it
ENOUGH: Final[i64] = 1  # send what was gathered; the application goes on
GATHER: Final[i64] = 2  # wait for more


@final
class Burst:
    """How an application sends, and what is unsent because of it."""

    def __init__(self) -> None:
        self.unsent_bytes: i64 = 0
        # When the application was last done with a send.
        self._sent_ns: i64 = 0
        self._flushed_ns: i64 = 0
        self._length: i64 = 0

    @property
    def goes_on(self) -> bool:
        """Whether the last send was one of many."""
        return self._length >= BURST_BEGINS

    def accepted(self, size_bytes: i64, now_ns: i64) -> i64:
        """So much was accepted: ALONE, ENOUGH or GATHER."""
        self.unsent_bytes += size_bytes
        pause_ns = now_ns - self._sent_ns
        if pause_ns > BURST_NS and (self._length < BURST_SENDS or pause_ns > BURST_PAUSE_NS):
            self._length = 0
            return ALONE
        # A burst goes on over a pause or two: the processor is not ours alone.
        self._length = self._length // 2 if pause_ns > BURST_NS else self._length + 1
        if self._length < BURST_BEGINS:
            # One that was held up and sends two or three at once is no burst: none has to wait.
            return ALONE
        full = self.unsent_bytes > BURST_BYTES or now_ns - self._flushed_ns > BURST_AGE_NS
        return ENOUGH if full else GATHER

    def done(self, now_ns: i64) -> None:
        """The send is over: what it took is no pause of the application's."""
        self._sent_ns = now_ns

    def flushed(self, now_ns: i64) -> None:
        """All that was accepted has been sent."""
        self.unsent_bytes = 0
        self._flushed_ns = now_ns
