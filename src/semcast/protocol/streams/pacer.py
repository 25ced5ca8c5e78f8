"""Pacing: an optional upper bound on the bandwidth of multicast (SRM §5.3)."""

from typing import Final, final

from mypy_extensions import i64

_SECOND_NS: Final = 1_000_000_000


@final
class Pacer:
    """A token bucket that may go into debt by one datagram. A rate of 0 never holds anything up."""

    def __init__(self, bytes_s: i64) -> None:
        self._bytes_s: Final[i64] = bytes_s
        # What was sent is paid for up to here.
        self._paid_ns: i64 = 0

    def ready(self, now_ns: i64) -> bool:
        """Whether a datagram may be sent now."""
        return self._bytes_s == 0 or self._paid_ns <= now_ns

    def spend(self, size_bytes: i64, now_ns: i64) -> None:
        """A datagram of this size was sent."""
        if self._bytes_s > 0:
            start = max(self._paid_ns, now_ns)
            self._paid_ns = start + size_bytes * _SECOND_NS // self._bytes_s

    def next_ns(self) -> i64:
        """When the next datagram may be sent."""
        return self._paid_ns
