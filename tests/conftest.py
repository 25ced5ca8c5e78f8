"""Signals and Hypothesis for everybody: the same every time, whoever starts the tests.

`HYPOTHESIS_PROFILE=random` draws new examples instead, to look for what the fixed ones miss.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# What a parent ignores or blocks (a background job of a shell ignores Ctrl-C, nohup a hang-up) all
# its children ignore or block too. Tests send these signals to processes that they start, and wait
# for their ends.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)


def _default_signals() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


_default_signals()

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET
)
settings.register_profile("random", deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
