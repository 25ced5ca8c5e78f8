"""What Spark raised in, one line out: the cause that a person can act on, without the traces."""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from semcast.errors import PipelineError, SemcastError

_WORDS_MAX: Final = 400  # characters of a cause that are shown
# The last line of a Python traceback: "semcast.errors.InputError: quotes.csv: no heading".
_RAISED: Final = re.compile(r"^(?P<name>[A-Za-z_][\w.]*): (?P<text>.+)$", re.MULTILINE)
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_HINTS: Final = {
    "OutOfMemoryError": "give Spark more memory: --conf spark.driver.memory=…, "
    "and on a cluster spark.executor.memory",
    "Cannot run program": "Python is elsewhere on the workers: --conf spark.pyspark.python=…",
    "PYTHON_VERSION_MISMATCH": "the workers need the driver's version of Python: "
    "--conf spark.pyspark.python=…",
    "No space left on device": "Spark ran out of room for shuffles: --conf spark.local.dir=…",
}


def is_sparks(error: BaseException) -> bool:
    """Whether Spark raised it, rather than the code that used Spark."""
    return isinstance(error, PySparkException | Py4JError)


def explained(label: str, error: BaseException, log: str | None = None) -> SemcastError:
    """The same failure as an error of ours, in one line."""
    if isinstance(error, Py4JNetworkError):
        text = "Spark's Java process is gone; it may have run out of memory"
    else:
        text = cause(str(error.java_exception if isinstance(error, Py4JJavaError) else error))
    hint = next((advice for sign, advice in _HINTS.items() if sign in str(error)), None)
    parts = [f"{label}: {text}", hint, f"Spark's log: {log}" if log else None]
    return PipelineError("; ".join(filter(None, parts)))


def cause(text: str) -> str:
    """The innermost reason: the exception of a Python task, else the first line of Spark's text."""
    python, traceback, _ = text.partition("Traceback (most recent call last)")
    if traceback:
        raised = _python_exception(text[len(python) :])
        if raised is not None:
            return raised
    first = next((line for line in text.splitlines() if line.strip()), "no reason given")
    return _SQLSTATE.sub("", first.strip())[:_WORDS_MAX]


def _python_exception(traceback: str) -> str | None:
    """Of a task's traceback: what was raised; our own errors by their text alone."""
    # The JVM's own trace follows after a blank line, and its lines look like Python's.
    python = traceback.split("\n\n", 1)[0]
    raised = list(_RAISED.finditer(python))
    if not raised:
        return None
    name, text = raised[-1].group("name", "text")
    name = name.rpartition(".")[2] if not name.startswith("semcast.errors.") else ""
    return (f"{name}: {text}" if name else text)[:_WORDS_MAX]
