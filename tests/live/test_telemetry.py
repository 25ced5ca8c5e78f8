"""OpenTelemetry, with a stand-in for it: instruments once, and values of those who are there."""

import gc
import sys
import weakref
from collections.abc import Callable, Iterable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from semcast.live.insight import telemetry


class Member:
    def __init__(self, member: str, **stats: float) -> None:
        self.group, self.member = "g", member
        self.samples = None
        self._stats = stats

    def stats(self) -> dict[str, float]:
        return self._stats


class Meter:
    def __init__(self) -> None:
        self.made: dict[str, tuple[str, Callable[[object], Iterable[Any]]]] = {}

    def create_observable_counter(self, name: str, callbacks: list[Any], description: str) -> None:
        assert description
        assert name not in self.made
        self.made[name] = ("counter", callbacks[0])

    def create_observable_gauge(self, name: str, callbacks: list[Any], description: str) -> None:
        assert description
        assert name not in self.made
        self.made[name] = ("gauge", callbacks[0])


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    found = Meter()
    api = ModuleType("opentelemetry.metrics")
    api.get_meter = lambda _: found  # type: ignore[attr-defined]
    api.Observation = lambda value, attributes: SimpleNamespace(  # type: ignore[attr-defined]
        value=value, attributes=attributes
    )
    monkeypatch.setitem(sys.modules, "opentelemetry", ModuleType("opentelemetry"))
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", api)
    # Members of other tests may still be there, and are observed by what is there for real.
    monkeypatch.setattr(telemetry, "_members", weakref.WeakSet())
    monkeypatch.setattr(telemetry, "_made", set())
    monkeypatch.setattr(telemetry, "_histograms", {})
    return found


def test_every_member_is_observed_through_one_instrument(meter: Meter) -> None:
    one = Member("a", multicast=3, refused_tag=1, refused_seen=2, behind_ms=1500)
    two = Member("b", multicast=4)
    assert telemetry.watch(one)
    assert telemetry.watch(two)
    kind, read = meter.made["semcast_sent_messages"]
    assert kind == "counter"
    seen = {found.attributes["member"]: found.value for found in read(None)}
    assert seen.items() >= {"a": 3, "b": 4}.items()
    kind, read = meter.made["semcast_behind_seconds"]
    assert (kind, [found.value for found in read(None)]) == ("gauge", [1.5])
    reasons = {
        one.attributes["reason"]: one.value
        for one in meter.made["semcast_refused_datagrams"][1](None)
    }
    assert reasons == {"tag": 1, "seen": 2}


def test_what_a_member_counts_later_is_observed_too(meter: Meter) -> None:
    early = Member("early")
    telemetry.watch(early)
    early._stats |= {"delivered": 7, "stability_rounds": 8, "stability_round_us": 9_000_000}
    for name, kind, value in (
        ("semcast_delivered_messages", "counter", 7),
        ("semcast_stability_rounds", "counter", 8),
        ("semcast_stability_round_seconds", "gauge", 9),
    ):
        made, read = meter.made[name]
        seen = {found.attributes["member"]: found.value for found in read(None)}
        assert (made, seen["early"]) == (kind, value)


def test_a_member_that_is_gone_is_observed_no_more(meter: Meter) -> None:
    one = Member("gone", multicast=3)
    telemetry.watch(one)
    _, read = meter.made["semcast_sent_messages"]
    assert any(found.attributes["member"] == "gone" for found in read(None))
    del one
    gc.collect()
    assert not any(found.attributes["member"] == "gone" for found in read(None))


def test_without_the_package_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.metrics", None)
    assert not telemetry.watch(Member("a", multicast=1))
