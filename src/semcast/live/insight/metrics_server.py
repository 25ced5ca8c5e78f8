"""A port for Prometheus: what a member counts goes in; answers to requests come out.

`prometheus_client` writes the text. A thread of the server answers one request after the other, and
none for longer than a few seconds. What the metrics mean is in `metrics`.
"""

import threading
from collections.abc import Iterator
from http.server import HTTPServer
from typing import Final

from semcast.errors import ConfigError
from semcast.live.insight.metrics import Histogram, Observed, in_units, named
from semcast.live.sockets.refusal import refused

try:
    from prometheus_client import CollectorRegistry, MetricsHandler, core
    from prometheus_client.registry import Collector
except ImportError as error:
    raise ConfigError(
        "metrics_port needs prometheus_client, which is not installed; "
        "pip install 'semcast[metrics]'"
    ) from error

# A client that says nothing holds others up for no longer than this.
REQUEST_S: Final = 5.0


class MemberCollector(Collector):
    """All numbers of one member, whenever Prometheus asks."""

    def __init__(self, member: Observed) -> None:
        self._member: Final = member
        self._common: Final = {"group": member.group, "member": member.member}

    def collect(self) -> Iterator[core.Metric]:
        """One family for each name; what is in a family differs in a label of its own."""
        families: dict[str, core.CounterMetricFamily | core.GaugeMetricFamily] = {}
        for key, value in self._member.stats().items():
            metric = named(key)
            labels = self._common | metric.label
            if metric.name not in families:
                kind = core.CounterMetricFamily if metric.is_counter else core.GaugeMetricFamily
                families[metric.name] = kind(metric.name, metric.meaning, labels=[*labels])
            families[metric.name].add_metric([*labels.values()], in_units(key, value))
        yield from families.values()
        samples = self._member.samples
        for name, meaning, histogram in samples.all() if samples is not None else ():
            yield self._histogram(name, meaning, histogram)

    def _histogram(self, name: str, meaning: str, histogram: Histogram) -> core.Metric:
        family = core.HistogramMetricFamily(name, meaning, labels=[*self._common])
        up_to, buckets = 0, []
        for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
            up_to += count
            buckets.append((str(bound), float(up_to)))
        family.add_metric([*self._common.values()], buckets, histogram.sum)
        return family


class MetricsServer:
    """Answers GET, one request after the other, from a thread of its own."""

    def __init__(self, host: str, port: int, collector: Collector) -> None:
        """Port 0 is one that the system chooses; see `port`."""
        registry = CollectorRegistry()
        registry.register(collector)
        handler = type("Handler", (MetricsHandler,), {"registry": registry, "timeout": REQUEST_S})
        try:
            self._server: Final = HTTPServer((host, port), handler)
        except (OSError, OverflowError) as error:
            reason = error if isinstance(error, OSError) else OSError(str(error))
            raise refused(f"cannot serve metrics on {host} port {port}", reason) from None
        self.port: Final = int(self._server.server_address[1])
        self._thread: Final = threading.Thread(
            target=self._server.serve_forever, name=f"semcast metrics {self.port}", daemon=True
        )

    def start(self) -> None:
        """Answer from now on."""
        self._thread.start()

    def close(self) -> None:
        """Answer no more."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
