"""Whole groups in this process, on loopback; whoever is joined here leaves here."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.live.processes import DEADLINE_S, SECRET, new_group

import semcast.blocking
from semcast.live.blocking import Group


@contextmanager
def joined(names: list[str], **settings: Any) -> Iterator[dict[str, Group]]:
    """Members by name; `settings` may hold settings of single ones under their names."""
    own = {name: settings.pop(name, {}) for name in names}
    given: dict[str, Any] = {
        "group": new_group(), "secret": SECRET, "members": names, "interface": "lo",
        "transport": "multicast", "join_timeout_s": DEADLINE_S,
    } | settings  # fmt: skip
    if given["secret"] is None:
        given["insecure"] = True
    group: dict[str, Group] = {}
    with ThreadPoolExecutor(len(names)) as pool:
        waiting = {
            name: pool.submit(semcast.blocking.join, name=name, **(given | own[name]))
            for name in names
        }
        try:
            for name, one in waiting.items():
                group[name] = one.result(DEADLINE_S)
            yield group
        finally:
            for one in waiting.values():
                if one.exception(DEADLINE_S) is None:
                    one.result().leave(0)


def wait_until(ready: Callable[[], object]) -> None:
    """Fails if it is not so before a deadline."""
    until_s = time.monotonic() + DEADLINE_S
    while not ready():
        assert time.monotonic() < until_s
        time.sleep(0.005)
