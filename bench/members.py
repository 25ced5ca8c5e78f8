"""Processes of a benchmark, a member each, which are told what to do and answer over a pipe."""

import multiprocessing
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

DEADLINE_S: Final = 120.0
_ENDS_S: Final = 30.0


@contextmanager
def processes(
    member: Callable[..., None], arguments: Iterable[tuple[Any, ...]]
) -> Iterator[list[Connection]]:
    """Start a process for each of these arguments, which `member` gets after its end of a pipe.
    They end by themselves; if something goes wrong, they are killed.
    """
    context = multiprocessing.get_context("spawn")
    pipes, started = [], []
    try:
        for given in arguments:
            ours, theirs = context.Pipe()
            process = context.Process(target=member, args=(theirs, *given))
            process.start()
            theirs.close()
            pipes.append(ours)
            started.append(process)
        yield pipes
        for process in started:
            process.join(_ENDS_S)
    finally:
        for process in started:
            if process.is_alive():
                process.kill()


def hear(pipe: Connection, more_s: float = 0.0) -> Any:
    """The next answer of a process; so much later than usual, if it has something to do first."""
    if not pipe.poll(DEADLINE_S + more_s):
        raise TimeoutError("a member does not answer")
    return pipe.recv()
