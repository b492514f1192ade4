"""The metrics that clients have pushed to a cluster (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from odradek.control.messages.state import MetricView, PushView

if TYPE_CHECKING:
    from odradek.broker import Node
    from odradek.net.cluster import RunningCluster
    from odradek.telemetry.sink import Metric, Push

__all__ = ["matches", "push_count", "push_view", "pushes"]


def pushes(cluster: RunningCluster) -> list[tuple[int, Push]]:
    """The pushes of every broker, oldest first, with the broker. Raises RuntimeError if no broker accepts any."""
    nodes = _taking(cluster)
    taken = [(node.node_id, push) for node in nodes if node.has_telemetry for push in node.telemetry.pushes]
    return sorted(taken, key=lambda each: each[1].at_ms)


def push_count(cluster: RunningCluster) -> int:
    """The number of accepted pushes, including those that are no longer stored. Raises as `pushes` does."""
    return sum(node.counters.telemetry_pushes for node in _taking(cluster))


def _taking(cluster: RunningCluster) -> list[Node]:
    nodes = [driver.node for driver in cluster.drivers.values()]
    if not any(node.config.odradek_telemetry for node in nodes):
        raise RuntimeError("Metrics of clients are taken only with odradek.telemetry=true in the configuration.")
    return nodes


def matches(push: Push, metric: str, client_id: str | None, terminating: bool | None) -> bool:
    """Whether a push is of this client, has a metric with this prefix, and is the client's last one or not."""
    return (
        client_id in (None, push.client_id)
        and terminating in (None, push.terminating)
        and (not metric or any(each.name.startswith(metric) for each in push.metrics))
    )


def push_view(broker: int, push: Push, metric: str = "") -> PushView:
    """A push for the hub, with the metrics that have this prefix."""
    return PushView(
        broker=broker,
        at_ms=push.at_ms,
        client_instance_id=push.client_instance_id,
        client_id=push.client_id,
        client_software_name=push.client_software_name,
        client_software_version=push.client_software_version,
        subscription_id=push.subscription_id,
        terminating=push.terminating,
        compression=push.compression,
        compressed_bytes=push.compressed_bytes,
        labels=dict(push.content.labels),
        metrics=[_metric_view(each) for each in push.metrics if each.name.startswith(metric)],
    )


def _metric_view(metric: Metric) -> MetricView:
    return MetricView(
        name=metric.name,
        kind=metric.kind,
        value=metric.value,
        count=metric.count,
        attributes=dict(metric.attributes),
    )
