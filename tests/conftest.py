"""Environment, signals and Hypothesis for everybody: the same, whoever starts the tests and where.

`HYPOTHESIS_PROFILE=random` draws new examples instead, to look for what the fixed ones miss.
"""

import os
import signal

from hypothesis import HealthCheck, settings

# What a parent ignores or blocks (a background job of a shell ignores Ctrl-C, nohup a hang-up) all
# its children ignore or block too. Tests send these signals to processes that they start, and wait
# for their ends.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
# Some of these make output coloured or of another width, the others are settings of what is tested.
_VARIABLES = {
    "CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES",
    "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE", "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS",
}  # fmt: skip
_PREFIXES = ("HADOOP_", "PYSPARK_", "SEMCAST_", "SPARK_")


def _clean_environment() -> None:
    for name in list(os.environ):
        if name in _VARIABLES or name.startswith(_PREFIXES):
            del os.environ[name]


def _default_signals() -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) == signal.SIG_IGN:
            is_ctrl_c = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_ctrl_c else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


_clean_environment()
_default_signals()

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET
)
settings.register_profile("random", deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
