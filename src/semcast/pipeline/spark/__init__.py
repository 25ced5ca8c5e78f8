"""Spark itself: sessions, how far a job is, and what went wrong with it, in one line.

Importing this package needs no pyspark, so that `require_spark` can say that it is missing.
"""


def require_spark() -> None:
    """Raise PipelineError if pyspark is not installed. Call it before importing what needs it."""
    import semcast.pipeline.spark.session  # noqa: F401
