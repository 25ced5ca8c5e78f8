"""OpenTelemetry, where it is installed: every member's counters as observable instruments.

Instruments are made once for a process. When they are read they ask all members that exist, and
samples for histograms are recorded, in the thread that reads. Without the package nothing happens.
"""

import importlib
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from types import ModuleType
from typing import Any, Final

from semcast.live.insight.metrics import METRICS, Observed, Samples, in_units, named

# Samples of each histogram that wait to be read; older ones are forgotten.
SAMPLES_MAX: Final = 4096

_members: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
_made: Final[set[str]] = set()
# Instruments that take values, by name.
_histograms: Final[dict[str, Any]] = {}


def collects() -> bool:
    """Whether metrics are collected in this process: the API without the SDK does nothing."""
    return "opentelemetry.sdk.metrics" in sys.modules


def watch(member: Observed) -> bool:
    """Publish this member from now on; False if OpenTelemetry is not installed."""
    try:
        api = importlib.import_module("opentelemetry.metrics")
    except ImportError:
        return False
    meter = api.get_meter("semcast")
    if member.samples is not None:
        for name, text, histogram in member.samples.all():
            histogram.newest = deque(maxlen=SAMPLES_MAX)
            if name not in _histograms:
                _histograms[name] = meter.create_histogram(
                    name, description=text, explicit_bucket_boundaries_advisory=histogram.bounds
                )
    _members.add(member)
    # A member that is still looking for the others has few of them yet.
    for metric in map(named, (*METRICS, *member.stats())):
        name = metric.name
        if name not in _made:
            _made.add(name)
            kind = "counter" if metric.is_counter else "gauge"
            make = getattr(meter, f"create_observable_{kind}")
            name_there, read = name.removesuffix("_total"), _reader(api, name)
            make(name_there, callbacks=[read], description=metric.meaning)
    return True


def _reader(api: ModuleType, wanted: str) -> Callable[[object], Iterable[object]]:
    def read(_: object) -> Iterable[object]:
        for member in list(_members):
            common = {"group": member.group, "member": member.member}
            _record(member.samples, common)
            for key, value in member.stats().items():
                metric = named(key)
                if metric.name == wanted:
                    yield api.Observation(in_units(key, value), common | metric.label)

    return read


def _record(samples: Samples | None, attributes: Mapping[str, str]) -> None:
    """Record all samples that wait; the instrument that is read first does it for all."""
    for name, _, histogram in samples.all() if samples is not None else ():
        newest = histogram.newest
        with suppress(IndexError):  # somebody else may read at the same time
            while newest:
                _histograms[name].record(newest.popleft(), attributes)
