"""Commands one after the other in one process: `python -m tests.pipeline.cluster_commands JSON`.

JSON is a list of lists of words. Prints a list of what each command returned and said. They share
a JVM, which saves the seconds of its start; each has a session of its own.
"""

import contextlib
import io
import json
import sys

from semcast.cli import main


def told(words: list[str]) -> tuple[int, str]:
    """The exit code of a command, and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        code = main(words)
    return code, out.getvalue()


if __name__ == "__main__":
    print(json.dumps([told(words) for words in json.loads(sys.argv[1])]))
