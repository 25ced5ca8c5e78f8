"""Hypothesis for everybody: the same examples every time, whatever else the machine does.

`HYPOTHESIS_PROFILE=random` draws new examples instead, to look for what the fixed ones miss.
"""

import os

from hypothesis import HealthCheck, settings

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
settings.register_profile(
    "fixed", deadline=None, derandomize=True, database=None, suppress_health_check=_QUIET
)
settings.register_profile("random", deadline=None, suppress_health_check=_QUIET)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
