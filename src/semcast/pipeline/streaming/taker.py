"""The member behind a stream: a configuration and a spool in, a thread that fills it.

Joins, takes what is delivered, and writes it down. When the spool is full it stops taking: messages
then wait, replaceable, in the member's own buffer, as with every slow reader. Knows nothing of
Spark.
"""

import contextlib
import threading
import time
from typing import Final

from semcast.errors import GroupClosedError
from semcast.live.blocking import Group
from semcast.live.config import GroupConfig, changed
from semcast.live.meeting import joining
from semcast.pipeline.streaming.spool import Spool

MESSAGES_MAX: Final = 1024
_PATIENCE_S: Final = 0.1
# On leaving: for taking what is still waiting here, and for the thread to end.
_LAST_S: Final = 1.0
_JOIN_S: Final = 10.0


class Taker:
    """One member and its thread."""

    def __init__(self, config: GroupConfig, spool: Spool) -> None:
        # In an open group nobody waits for a stream: it comes and goes as any reader.
        self._config: Final = changed(config, role="reader") if config.is_open else config
        self._spool: Final = spool
        # Why the thread has ended, if nobody asked it to.
        self.failure: BaseException | None = None
        self._stopping: Final = threading.Event()
        self._group: Group | None = None
        self._thread: Final = threading.Thread(
            target=self._run, name=f"semcast spool {config.group}", daemon=True
        )

    def start(self) -> None:
        """Join and begin to take; if that fails, `raise_failure` raises the error later."""
        self._thread.start()

    def stop(self) -> None:
        """Take what waits, leave, and end. Harmless when repeated, or if it never began."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_JOIN_S)

    def raise_failure(self) -> None:
        """Raise what ended the thread, if anything did."""
        if self.failure is not None:
            raise self.failure

    def _run(self) -> None:
        try:
            group = Group(self._config)
            try:
                self._wait_complete(group)
                self._take_all(group)
            finally:
                group.leave(0.0)
        except BaseException as error:
            if not self._stopping.is_set():
                self.failure = error

    def _wait_complete(self, group: Group) -> None:
        """As `joining.wait_complete`, but hears it when it is to stop."""
        engine = group._engine
        until_s = time.monotonic() + self._config.join_timeout_s
        while not engine.wait_for(lambda: engine.session.inside, _PATIENCE_S):
            if self._stopping.is_set():
                raise GroupClosedError("stopped while joining")
            if time.monotonic() >= until_s:
                raise joining.incomplete(engine.session)

    def _take_all(self, group: Group) -> None:
        while not self._stopping.is_set():
            if self._spool.wait_room(_PATIENCE_S):
                with contextlib.suppress(TimeoutError):
                    self._take(group, _PATIENCE_S)
        until_s = time.monotonic() + _LAST_S
        with contextlib.suppress(TimeoutError):
            while time.monotonic() < until_s and self._spool.wait_room(0.0):
                self._take(group, 0.0)

    def _take(self, group: Group, timeout_s: float) -> None:
        messages = group.receive_many(MESSAGES_MAX, timeout_s)
        self._spool.append(messages, time.time_ns())
