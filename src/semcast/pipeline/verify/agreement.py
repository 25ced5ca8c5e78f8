"""Agreement (SRM Figure 3), as `check.agreement` has it."""

from pyspark.sql import DataFrame

from semcast.check.agreement import PROPERTY as PROPERTY
from semcast.pipeline.verify.frames import Frames
from semcast.pipeline.verify.owed import of_property


def violations(frames: Frames) -> DataFrame:
    """Stage: who lacks what it should have, when everything has come to rest."""
    return of_property(frames, PROPERTY)
