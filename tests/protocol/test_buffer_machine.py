"""Every policy does what the naive model does, step by step; its rules are in `naive.py`."""

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test
from tests.protocol.machine import BufferMachine

from semcast.protocol import Overflow, Purging
from semcast.testing import buffer_configs

POLICIES = {
    "off": (Purging.OFF, Overflow.REFUSE),
    "eager": (Purging.EAGER, Overflow.REFUSE),
    "lazy": (Purging.LAZY, Overflow.REFUSE),
    "watermark": (Purging.WATERMARK, Overflow.REFUSE),
    "random": (Purging.OFF, Overflow.RANDOM),
    "drop-new": (Purging.OFF, Overflow.DROP_NEW),
    "eager, then random": (Purging.EAGER, Overflow.RANDOM),
    "lazy, then random": (Purging.LAZY, Overflow.RANDOM),
    "watermark, then random": (Purging.WATERMARK, Overflow.RANDOM),
    "eager, then drop-new": (Purging.EAGER, Overflow.DROP_NEW),
}


@pytest.mark.parametrize("policy", POLICIES)
def test_the_buffer_does_what_the_naive_model_does(policy: str) -> None:
    """With and without a guard, in order and late, tagged and raw. SRM §4.3, PSRM §3.1"""
    purging, overflow = POLICIES[policy]

    class Machine(BufferMachine):
        configs = buffer_configs(purging, overflow)

    run_state_machine_as_test(
        Machine, settings=settings(max_examples=60, stateful_step_count=40, deadline=None)
    )
