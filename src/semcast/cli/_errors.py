"""How a command ends: whatever it raised in, an exit code out, and one line for the user.

The only place where exceptions become text, so that no command needs to think about it.
"""

import os
import sys
from collections.abc import Callable
from typing import Final

import typer

from semcast.cli._program import spelled
from semcast.errors import SemcastError

BAD_INPUT: Final = 2
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it
PIPE_CLOSED: Final = 141  # 128 + SIGPIPE: the reader had enough, as with `| head`


def exit_code_of(command: Callable[[], object]) -> int:
    """Run the command to its end; only our own bugs get out as exceptions."""
    try:
        result = command()
        sys.stdout.flush()
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        return _pipe_closed()
    except SystemExit as end:  # typer leaves this way after completing a word, and on a closed pipe
        if isinstance(end.__context__, BrokenPipeError):
            return _pipe_closed()
        return end.code if isinstance(end.code, int) else 0
    except SemcastError as error:
        return _complain(str(error))
    except OSError as error:
        return _complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except Exception as error:
        # Usage errors of click, which some versions of typer carry inside and some import, so
        # that only their method distinguishes them from our bugs.
        format_message = getattr(error, "format_message", None)
        if format_message is None:
            raise
        return _complain(format_message())
    return result if isinstance(result, int) else 0


def _complain(text: str) -> int:
    one_line = " ".join(text.split())
    print(f"semcast: {spelled(one_line)}", file=sys.stderr)
    return BAD_INPUT


def _pipe_closed() -> int:
    # Python flushes stdout once more at exit and would complain there: give it somewhere to go.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return PIPE_CLOSED
