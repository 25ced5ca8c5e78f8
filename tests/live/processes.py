"""Members in processes of their own, for tests; every process that is started here is ended."""

import json
import os
import select
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

DEADLINE_S = 90.0
SECRET = "a secret that only tests have 123"


class Member:
    """One process; see `worker`."""

    def __init__(self, **settings: Any) -> None:
        self.name = settings["name"]
        command = [sys.executable, "-m", "tests.live.worker", json.dumps(settings)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._rest = b""

    def wait_joined(self) -> None:
        assert self._answer() == {"joined": self.name}

    def do(self, what: str, **order: Any) -> Any:
        """One order, and its answer."""
        self.begin(what, **order)
        return self._answer()["done"]

    def begin(self, what: str, **order: Any) -> None:
        """An order whose answer is fetched by `end`."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"do": what, **order}).encode() + b"\n")
        self.process.stdin.flush()

    def end(self) -> Any:
        return self._answer()["done"]

    def kill(self) -> None:
        """SIGKILL: no time for any last words."""
        self.process.kill()
        self.process.wait(DEADLINE_S)

    def close(self) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait(DEADLINE_S)
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        until_s = time.monotonic() + DEADLINE_S
        while b"\n" not in self._rest:
            left_s = until_s - time.monotonic()
            assert left_s > 0, f"{self.name} says nothing"
            if select.select([self.process.stdout], [], [], left_s)[0]:
                more = os.read(self.process.stdout.fileno(), 1 << 20)
                assert more, f"{self.name} ended with {self.process.wait(DEADLINE_S)}"
                self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)


def _close(group: dict[str, Member]) -> None:
    for one in group.values():
        one.close()


def new_group() -> str:
    """A group that nobody else on this machine is in."""
    return f"test-{uuid.uuid4()}"


@contextmanager
def members(names: list[str], **settings: Any) -> Iterator[dict[str, Member]]:
    """A whole group, on loopback; whoever is put into the dictionary is closed as well."""
    given: dict[str, Any] = {
        "group": new_group(), "secret": SECRET, "members": names, "interface": "lo",
        "transport": "multicast", "join_timeout_s": DEADLINE_S,
    } | settings  # fmt: skip
    if given["secret"] is None:
        given |= {"insecure": True}
    found: dict[str, Member] = {}
    with ExitStack() as stack:
        stack.callback(_close, found)
        for name in names:
            found[name] = Member(**given, name=name)
        for one in found.values():
            one.wait_joined()
        yield found
