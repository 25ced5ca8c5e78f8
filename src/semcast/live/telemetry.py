"""OpenTelemetry, where it is installed: every member's counters as observable instruments.

Instruments are made once for a process, and ask all members that there are when they are read; a
member that is gone is told no more. Without the package nothing happens here.
"""

import importlib
import weakref
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final, Protocol

from semcast.live.metrics import COUNTERS, GAUGES, in_units, named


class Observed(Protocol):
    """What is asked of a member."""

    @property
    def group(self) -> str: ...
    @property
    def member(self) -> str: ...
    def stats(self) -> Mapping[str, float]: ...


_members: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_made: Final[set[str]] = set()


def watch(member: Observed) -> bool:
    """Tell of this member from now on; False if OpenTelemetry is not installed."""
    try:
        api = importlib.import_module("opentelemetry.metrics")
    except ImportError:
        return False
    _members.add(member)
    meter = api.get_meter("semcast")
    # A member that is still looking for the others has few of them yet.
    for key in (*COUNTERS, *GAUGES, *member.stats()):
        name, _, kind = named(key)
        if name not in _made:
            _made.add(name)
            make = (
                meter.create_observable_counter
                if kind == "counter"
                else meter.create_observable_gauge
            )
            make(name.removesuffix("_total"), callbacks=[_reader(api, name)])
    return True


def _reader(api: ModuleType, wanted: str) -> Callable[[object], Iterable[object]]:
    def read(_: object) -> Iterable[object]:
        for member in list(_members):
            for key, value in member.stats().items():
                name, labels, _ = named(key)
                if name == wanted:
                    label, _, given = labels.partition("=")
                    attributes = {"group": member.group, "member": member.member}
                    if label:
                        attributes[label] = given.strip('"')
                    yield api.Observation(in_units(key, value), attributes)

    return read
