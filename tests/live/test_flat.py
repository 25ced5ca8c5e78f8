"""Whether memory is flat: noise, warming up and a single step are, a leak is not."""

import random

import pytest
from tests.live.flat import Memory

BASE_KB = 40_000


def memory(seconds: int, leak_kb_s: float, step_kb: int = 0) -> Memory:
    """A process that warms up for a fifth of the time, and is never quite still."""
    stream = random.Random(f"memory/{seconds}/{leak_kb_s}")
    found = Memory()
    for at_s in range(0, seconds, 2):
        warm = min(1.0, 5 * at_s / seconds)
        step = step_kb if at_s > 0.8 * seconds else 0
        noise = stream.gauss(0, 200)
        found.note(at_s, round(BASE_KB * warm + leak_kb_s * at_s + step + noise))
    return found


@pytest.mark.parametrize("seconds", [60, 1800])
def test_noise_and_warming_up_and_a_small_step_are_flat(seconds: int) -> None:
    assert memory(seconds, leak_kb_s=0).flat
    assert memory(seconds, leak_kb_s=0, step_kb=500).flat


def test_a_leak_of_eight_bytes_a_message_is_found_in_half_an_hour() -> None:
    assert not memory(1800, leak_kb_s=400 * 8 / 1024).flat


def test_a_leak_of_half_a_kilobyte_a_message_is_found_in_a_minute() -> None:
    assert not memory(60, leak_kb_s=400 * 512 / 1024).flat


def test_too_few_samples_are_no_verdict() -> None:
    with pytest.raises(AssertionError, match="too few"):
        _ = memory(20, leak_kb_s=0).flat
