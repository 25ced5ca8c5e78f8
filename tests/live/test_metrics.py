"""Metrics: all of `stats()` is there, under names with units; a port that serves only that."""

import re
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from http.client import HTTPConnection

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.live.company import joined, wait_until
from tests.live.processes import SECRET, new_group

import semcast.blocking
from semcast.errors import ConfigError, TransportError
from semcast.live.insight import metrics, metrics_server
from semcast.live.insight.metrics import METRICS, Histogram, Metric, Samples, in_units, named
from semcast.live.insight.metrics_server import MemberCollector, MetricsServer

NAMES = ["a", "b"]
# A line of the text format, version 0.0.4.
LINE = re.compile(
    r'(# (TYPE|HELP) semcast_\w+ .+|semcast_\w+\{\w+="[^"]*"(,\w+="([^"\\\n]|\\.)*")*\} \S+)'
)


class Counting:
    """A member as whoever publishes sees it."""

    def __init__(self, stats: Mapping[str, float], group: str = "g", member: str = "m") -> None:
        self.group, self.member = group, member
        self.samples: Samples | None = None
        self._stats = stats

    def stats(self) -> Mapping[str, float]:
        return self._stats


def page(stats: Mapping[str, float], group: str = "g", member: str = "m") -> str:
    registry = CollectorRegistry()
    registry.register(MemberCollector(Counting(stats, group, member)))
    return generate_latest(registry).decode()


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def fetch(port: int, path: str = "/metrics") -> str:
    # Whatever proxy the environment has is not for this.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def values(text: str) -> dict[str, float]:
    return {
        line.rpartition(" ")[0]: float(line.rpartition(" ")[2])
        for line in text.splitlines()
        if not line.startswith("#")
    }


def test_everything_in_stats_is_served_by_name_and_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "SAMPLED_TURNS", 1)
    port = free_port()
    group_name = new_group()
    with joined(NAMES, a={"metrics_port": port}, group=group_name) as group:
        for number in range(50):
            group["b"].send(b"%d" % number, replaces="k")
        group["b"].drain(60)
        group["b"].send(b"last")
        while group["a"].receive(timeout=60).payload != b"last":
            pass
        text = fetch(port)
        stats = group["a"].stats()
    assert all(LINE.fullmatch(line) for line in text.splitlines())
    labels = f'group="{group_name}",member="a"'
    found = values(text)
    for key in stats:
        metric = named(key)
        own = "".join(f',{name}="{value}"' for name, value in metric.label.items())
        assert f"{metric.name}{{{labels}{own}}}" in found
        assert f"# HELP {metric.name} {metric.meaning}" in text
    assert found[f"semcast_delivered_messages_total{{{labels}}}"] == stats["delivered"]
    purged = f'semcast_purged_messages_total{{{labels},where="delivery"}}'
    assert found[purged] == stats["purged_delivery"] > 0
    assert found[f"semcast_turn_seconds_count{{{labels}}}"] > 0
    assert found[f"semcast_turn_datagrams_count{{{labels}}}"] > 0
    assert found[f"semcast_delivery_age_seconds_count{{{labels}}}"] > 0
    with pytest.raises(urllib.error.URLError):
        fetch(port)  # whoever has left serves nothing


def test_every_name_says_its_unit() -> None:
    counted = (
        "messages|datagrams|bytes|calls|full|errors|large|events|naks|times|seconds|rounds|trees"
    )
    measured = "messages|seconds|pages|bytes|sources|keys"
    # Counts of members, and what is so or not.
    whole = [
        "semcast_members", "semcast_readers", "semcast_patrons", "semcast_multicast_transport",
        "semcast_state_pending", "semcast_state_incomplete",
    ]  # fmt: skip
    for metric in METRICS.values():
        units = f"({counted})_total" if metric.is_counter else f"({measured})"
        assert re.fullmatch(rf"semcast_\w+_{units}", metric.name) or metric.name in whole


def test_every_metric_says_what_it_means_in_words() -> None:
    for metric in (*METRICS.values(), named("refused_tag")):
        assert len(metric.meaning.split()) >= 2
    help_lines = [line for line in page(dict.fromkeys(METRICS, 0)).splitlines() if "# HELP" in line]
    assert len(help_lines) == len({metric.name for metric in METRICS.values()})


def test_what_was_refused_is_labelled_by_its_reason() -> None:
    assert named("refused_tag") == Metric(
        "semcast_refused_datagrams_total", "Datagrams dropped unread", {"reason": "tag"}
    )


@pytest.mark.parametrize("stability", ["gossip", "s_coordp"])
def test_every_key_of_stats_is_known_to_be_a_counter_or_a_gauge(stability: str) -> None:
    """Also what appears only when the group has begun: OpenTelemetry is told of it before."""
    settings = {} if stability == "gossip" else {"stability_tree": "measured"}
    with joined(NAMES, stability=stability, **settings) as group:
        stats = group["a"].stats()
    assert ("stability_rounds" in stats) == (stability != "gossip")
    for key in stats:
        assert key in METRICS or key.startswith("refused_"), key


def test_times_without_room_are_counted_and_served() -> None:
    small = {"window_messages": 4, "delivery_messages": 4, "deliver_own": False}
    with joined(NAMES, **small) as group:
        with suppress(TimeoutError):
            while True:
                group["a"].send(b"that nobody takes", timeout=0.05)
        first, second = group["a"].stats(), group["a"].stats()
    assert first["blocked_times"] >= 1
    assert 0 < first["blocked_ms"] < second["blocked_ms"]
    text = page(first)
    assert "# TYPE semcast_blocked_times_total counter" in text
    assert "# TYPE semcast_blocked_seconds_total counter" in text
    assert values(text)['semcast_blocked_seconds_total{group="g",member="m"}'] == pytest.approx(
        first["blocked_ms"] / 1e3
    )
    reasons = 'semcast_refused_datagrams_total{group="g",member="m",reason="notes"}'
    assert values(text)[reasons] == 0


def test_each_metric_has_one_type_before_its_rows() -> None:
    stats = {"purged_delivery": 1, "refused_tag": 2, "purged_retransmit": 3, "refused_seen": 4}
    lines = page(stats).splitlines()
    types = [line for line in lines if line.startswith("# TYPE")]
    assert types == [
        "# TYPE semcast_purged_messages_total counter",
        "# TYPE semcast_refused_datagrams_total counter",
    ]
    assert len(lines) == 8


def test_labels_are_escaped() -> None:
    text = page({"multicast": 1}, 'a "b"\\', "c\nd")
    assert text.endswith('{group="a \\"b\\"\\\\",member="c\\nd"} 1.0\n')


def test_times_are_told_in_seconds() -> None:
    assert in_units("behind_ms", 1500.0) == 1.5
    assert in_units("stability_round_us", 250_000) == 0.25
    assert in_units("members", 3) == 3
    text = page({"behind_ms": 1500.0})
    assert 'semcast_behind_seconds{group="g",member="m"} 1.5' in text


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert histogram.counts == [2, 1, 1]
    assert histogram.sum == 12.0


def test_a_taken_port_is_one_line_and_nothing_is_left_running() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(TransportError, match=f"metrics on 127.0.0.1 port {port}") as refused:
            semcast.blocking.join(
                new_group(), secret=SECRET, size=2, interface="lo", metrics_port=port
            )
    assert "\n" not in str(refused.value)


def test_without_prometheus_client_a_port_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "semcast.live.insight.metrics_server")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(ConfigError, match=r"pip install 'semcast\[metrics\]'") as refused:
        semcast.blocking.join(new_group(), secret=SECRET, size=2, interface="lo", metrics_port=1)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1"])
def test_a_host_that_is_not_ours_is_one_line(host: str) -> None:
    with pytest.raises(TransportError, match="cannot serve metrics"):
        MetricsServer(host, 0, MemberCollector(Counting({})))


@pytest.fixture
def server() -> Iterator[MetricsServer]:
    found = MetricsServer("127.0.0.1", 0, MemberCollector(Counting({"members": 2})))
    found.start()
    yield found
    found.close()


SERVED = 'semcast_members{group="g",member="m"} 2.0'


def test_nothing_but_get_is_served(server: MetricsServer) -> None:
    assert SERVED in fetch(server.port)
    assert SERVED in fetch(server.port, "/metrics?a=b")
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("POST", "/metrics")
    assert connection.getresponse().status == 501
    connection.close()


def test_a_client_that_says_nothing_does_not_keep_others_out_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server, "REQUEST_S", 0.1)
    server = MetricsServer("127.0.0.1", 0, MemberCollector(Counting({"members": 2})))
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            wait_until(lambda: SERVED in fetch(server.port))
    finally:
        server.close()
