"""What the harness tells a worker while it runs, and how the worker answers.

JSON, one object a line, over the worker's standard input and output. A thread reads, so that a
worker that is blocked in a peer's call still hears the harness; when the harness is gone, so is
the worker.
"""

import json
import os
import sys
import threading
import time
from typing import IO, Any

GO, STOP, FINISH = "go", "stop", "finish"


class Orders:
    """The worker's end."""

    def __init__(self) -> None:
        # Some libraries print. Their lines go to standard error, ours keep the pipe.
        self._out: IO[str] = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)
        self.go = threading.Event()
        self.finish = threading.Event()
        # How many messages the sender sent, once it has stopped; when it stopped, and when that
        # was heard.
        self.sent: int | None = None
        self.stopped_ns: int | None = None
        self.sent_ns = 0

    def spec(self) -> dict[str, Any]:
        """The first line says what to do; from then on a thread listens."""
        spec: dict[str, Any] = json.loads(sys.stdin.readline())
        threading.Thread(target=self._listen, daemon=True).start()
        return spec

    def say(self, event: str, **facts: Any) -> None:
        self._out.write(json.dumps({"event": event, **facts}) + "\n")
        self._out.flush()

    def _listen(self) -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if order["do"] == GO:
                self.go.set()
            elif order["do"] == STOP:
                self.sent_ns = time.monotonic_ns()
                self.stopped_ns = order["stopped_ns"]
                self.sent = order["sent"]
            else:
                self.finish.set()
        os._exit(1)
