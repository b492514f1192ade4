"""`/metrics` for Prometheus: the metrics of every broker of the process, read at each request (docs/metrics.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Metric, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from odradek.cli.usage import UsageError

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster

__all__ = ["BrokerNumbers", "MetricsPage"]


ELSEWHERE = (
    "verification_time_ms_sum",
    "throttles_total",
    "throttle_time_ms_total",
    "dead_letters_total",
    "dead_letter_produces_total",
    "dead_letter_produces_failed_total",
)
"""Totals of metrics that the page has with more labels."""


class BrokerNumbers(Collector):
    """The metrics of the brokers of a cluster."""

    def __init__(self, cluster: Callable[[], RunningCluster]) -> None:
        self._cluster = cluster

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        times = HistogramMetricFamily(
            "odradek_verification_time_ms", "How long the questions to transaction coordinators took", labels=["broker"]
        )
        labels = ["broker", "quota", "user", "client_id"]
        throttles = CounterMetricFamily("odradek_throttles", "How often clients had to wait", labels=labels)
        waited = CounterMetricFamily("odradek_throttle_time_ms", "How long clients had to wait", labels=labels)
        labels = ["broker", "group"]
        letters = CounterMetricFamily("odradek_dead_letters", "Records written to dead letter queues", labels=labels)
        produces = CounterMetricFamily(
            "odradek_dead_letter_produces", "Produce requests to dead letter queues", labels=labels
        )
        failed = CounterMetricFamily(
            "odradek_dead_letter_produces_failed", "Produce requests to dead letter queues that failed", labels=labels
        )
        for node_id, driver in self._cluster().drivers.items():
            metrics = driver.node.metrics
            numbers = metrics.snapshot()
            for name, value in numbers.items():
                kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
                family = families.get(name)
                if family is None:
                    family = families[name] = kind(f"odradek_{name}", name.replace("_", " "), labels=["broker"])
                family.add_metric([str(node_id)], value)
            buckets = [(_bound(bound), count) for bound, count in metrics.verification_time_buckets()]
            times.add_metric([str(node_id)], buckets, sum_value=numbers["verification_time_ms_sum"])
            for quota, user, client_id, count, total_ms in metrics.throttles():
                throttles.add_metric([str(node_id), quota, user, client_id], count)
                waited.add_metric([str(node_id), quota, user, client_id], total_ms)
            for group_id, counts in driver.node.counters.dead_letters.items():
                letters.add_metric([str(node_id), group_id], counts.records)
                produces.add_metric([str(node_id), group_id], counts.produces)
                failed.add_metric([str(node_id), group_id], counts.failed_produces)
        for name in ELSEWHERE:
            families.pop(name, None)
        yield from families.values()
        yield times
        yield throttles
        yield waited
        yield letters
        yield produces
        yield failed


def _bound(milliseconds: float) -> str:
    return "+Inf" if milliseconds == float("inf") else str(milliseconds)


class MetricsPage:
    """The HTTP server of the page, on a thread of its own, until it is closed."""

    def __init__(self, numbers: Collector, *, host: str, port: int) -> None:
        registry = CollectorRegistry()
        registry.register(numbers)
        try:
            self._server, self._thread = start_http_server(port, addr=host, registry=registry)
        except OSError as error:
            raise UsageError(f"Cannot serve metrics on {host}:{port}: {error.strerror}.") from error

    @property
    def port(self) -> int:
        return int(self._server.server_port)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
