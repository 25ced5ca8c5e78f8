"""Waiting longer each time: the first wait, and how often it was in vain, in; the next wait out."""

from mypy_extensions import i64


def backoff_ns(first_ns: i64, times: i64, most_ns: i64) -> i64:
    """Twice as long after each time, but never longer than `most_ns`.

    The first wait is a parameter and no constant: compiled, a constant that is shifted by a native
    integer has 32 bits.
    """
    return min(first_ns << max(0, min(times, 20)), most_ns)
