"""Metrics: all of `stats()` is there, under names with units; a port that serves only that."""

import re
import socket
import urllib.error
import urllib.request
from contextlib import suppress
from http.client import HTTPConnection

import pytest
from tests.live.company import joined, wait_until
from tests.live.processes import SECRET, new_group

import semcast.blocking
from semcast.errors import TransportError
from semcast.live import metrics, metrics_server
from semcast.live.metrics import COUNTERS, GAUGES, Histogram, exposition, named
from semcast.live.metrics_server import MetricsServer

NAMES = ["a", "b"]
# A line of the text format, version 0.0.4.
LINE = re.compile(
    r'(# (TYPE|HELP) semcast_\w+ .+|semcast_\w+\{\w+="[^"]*"(,\w+="([^"\\\n]|\\.)*")*\} \S+)'
)


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
        name, own, _ = named(key)
        assert f"{name}{{{labels}{',' if own else ''}{own}}}" in found
    assert found[f"semcast_delivered_messages_total{{{labels}}}"] == stats["delivered"]
    purged = f'semcast_purged_messages_total{{{labels},where="delivery"}}'
    assert found[purged] == stats["purged_delivery"] > 0
    assert found[f"semcast_turn_seconds_count{{{labels}}}"] > 0
    assert found[f"semcast_turn_datagrams_count{{{labels}}}"] > 0
    assert found[f"semcast_delivery_age_seconds_count{{{labels}}}"] > 0
    with pytest.raises(urllib.error.URLError):
        fetch(port)  # whoever has left serves nothing


def test_every_name_says_its_unit() -> None:
    for name, _ in COUNTERS.values():
        assert re.fullmatch(
            r"semcast_\w+_(messages|datagrams|bytes|calls|full|errors|large|events|naks|times|seconds"
            r"|rounds|trees)_total",
            name,
        )
    for name in GAUGES.values():
        assert re.fullmatch(
            r"semcast_\w+_(messages|seconds|pages|bytes|sources)", name
        ) or name in (
            "semcast_members",
            "semcast_multicast_transport",
        )
    assert named("refused_tag") == ("semcast_refused_datagrams_total", 'reason="tag"', "counter")


@pytest.mark.parametrize("stability", ["gossip", "s_coordp"])
def test_every_key_of_stats_is_known_to_be_a_counter_or_a_gauge(stability: str) -> None:
    """Also what appears only when the group has begun: OpenTelemetry is told of it before."""
    settings = {} if stability == "gossip" else {"stability_tree": "measured"}
    with joined(NAMES, stability=stability, **settings) as group:
        stats = group["a"].stats()
    assert ("stability_rounds" in stats) == (stability != "gossip")
    for key in stats:
        assert key in COUNTERS or key in GAUGES or key.startswith("refused_"), key


def test_times_without_room_are_counted_and_served() -> None:
    small = {"window_messages": 4, "delivery_messages": 4, "deliver_own": False}
    with joined(NAMES, **small) as group:
        with suppress(TimeoutError):
            while True:
                group["a"].send(b"that nobody takes", timeout=0.05)
        first, second = group["a"].stats(), group["a"].stats()
    assert first["blocked_times"] >= 1
    assert 0 < first["blocked_ms"] < second["blocked_ms"]
    text = exposition("g", "m", first, None)
    assert "# TYPE semcast_blocked_times_total counter" in text
    assert "# TYPE semcast_blocked_seconds_total counter" in text
    assert values(text)['semcast_blocked_seconds_total{group="g",member="m"}'] == pytest.approx(
        first["blocked_ms"] / 1e3
    )
    reasons = 'semcast_refused_datagrams_total{group="g",member="m",reason="notes"}'
    assert values(text)[reasons] == 0


def test_each_metric_has_one_type_before_its_rows() -> None:
    stats = {"purged_delivery": 1, "refused_tag": 2, "purged_retransmit": 3, "refused_seen": 4}
    lines = exposition("g", "m", stats, None).splitlines()
    types = [line for line in lines if line.startswith("# TYPE")]
    assert types == [
        "# TYPE semcast_purged_messages_total counter",
        "# TYPE semcast_refused_datagrams_total counter",
    ]
    assert len(lines) == 6


def test_labels_are_escaped() -> None:
    text = exposition('a "b"\\', "c\nd", {"multicast": 1}, None)
    assert text.endswith('{group="a \\"b\\"\\\\",member="c\\nd"} 1\n')


def test_times_are_told_in_seconds() -> None:
    assert 'semcast_behind_seconds{group="g",member="m"} 1.5' in exposition(
        "g", "m", {"behind_ms": 1500.0}, None
    )
    assert 'semcast_stability_round_seconds{group="g",member="m"} 0.25' in exposition(
        "g", "m", {"stability_round_us": 250_000}, None
    )


def test_a_histogram_counts_up_to_its_bounds() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 9.0):
        histogram.add(value)
    assert histogram.counts == [2, 1, 1]
    assert histogram.count == 4
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


@pytest.mark.parametrize("host", ["no such host", "192.0.2.1"])
def test_a_host_that_is_not_ours_is_one_line(host: str) -> None:
    with pytest.raises(TransportError, match="cannot serve metrics"):
        MetricsServer(host, 0, lambda: "")


def test_only_get_metrics_is_served() -> None:
    server = MetricsServer("127.0.0.1", 0, lambda: "semcast_x 1\n")
    server.start()
    try:
        assert fetch(server.port) == "semcast_x 1\n"
        assert fetch(server.port, "/metrics?a=b") == "semcast_x 1\n"
        for method, path, status in (("GET", "/", 404), ("POST", "/metrics", 501)):
            connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request(method, path)
            assert connection.getresponse().status == status
            connection.close()
    finally:
        server.close()


def test_a_client_that_says_nothing_does_not_keep_others_out_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server._Handler, "timeout", 0.1)
    server = MetricsServer("127.0.0.1", 0, lambda: "semcast_x 1\n")
    server.start()
    try:
        with socket.create_connection(("127.0.0.1", server.port)):
            wait_until(lambda: fetch(server.port) == "semcast_x 1\n")
    finally:
        server.close()
