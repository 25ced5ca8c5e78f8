"""OpenTelemetry itself: a live group is read as whoever collects its metrics would read it."""

import importlib
from typing import Any

import pytest
from tests.live.company import joined

from semcast.live.insight import metrics, telemetry

sdk = pytest.importorskip("opentelemetry.sdk.metrics", reason="opentelemetry-sdk is not installed")


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What collects in memory; nobody else's provider is touched."""
    reader = importlib.import_module("opentelemetry.sdk.metrics.export").InMemoryMetricReader()
    provider = sdk.MeterProvider([reader])
    api = importlib.import_module("opentelemetry.metrics")
    monkeypatch.setattr(api, "get_meter", provider.get_meter)
    monkeypatch.setattr(telemetry, "_made", set())
    monkeypatch.setattr(telemetry, "_histograms", {})
    monkeypatch.setattr(metrics, "SAMPLED_TURNS", 1)
    yield reader
    provider.shutdown()


def points_of(reader: Any, group: str) -> dict[tuple[str, str], Any]:
    """By metric and member, the last point, without those of other groups."""
    return {
        (metric.name, point.attributes["member"]): (type(metric.data).__name__, point)
        for resource in reader.get_metrics_data().resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
        if point.attributes["group"] == group
    }


def test_a_live_group_is_told_with_its_rounds_and_histograms(reader: Any) -> None:
    with joined(["a", "b"], stability="s_coordp") as group:
        for number in range(20):
            group["a"].send(b"%d" % number)
        for _ in range(20):
            group["b"].receive(timeout=60)
        group["a"].drain(60)
        name = group["a"].config.group
        first, second = points_of(reader, name), points_of(reader, name)
    kind, point = first["semcast_sent_messages", "a"]
    assert (kind, point.value) == ("Sum", 20)
    assert first["semcast_stability_rounds", "a"][1].value > 0
    assert first["semcast_behind_seconds", "b"][0] == "Gauge"
    for histogram in ("delivery_age_seconds", "turn_seconds", "turn_datagrams"):
        kind, point = first[f"semcast_{histogram}", "b"]
        assert kind == "Histogram"
        assert point.count > 0
        assert second[f"semcast_{histogram}", "b"][1].count >= point.count
    assert point.explicit_bounds == metrics._BATCH
