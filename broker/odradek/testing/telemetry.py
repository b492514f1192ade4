"""The metrics that clients have pushed to a cluster of a test (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odradek.net.cluster import RunningCluster
    from odradek.node.telemetry.sink import Push

__all__ = ["matches", "pushes"]


def pushes(cluster: RunningCluster) -> list[Push]:
    """What every broker that runs has taken, oldest first. Raises RuntimeError where none takes any."""
    nodes = [driver.node for driver in cluster.drivers.values()]
    if not any(node.config.odradek_telemetry for node in nodes):
        raise RuntimeError('Metrics of clients are taken only with config={"odradek.telemetry": True}.')
    taken = [push for node in nodes if node.has_telemetry for push in node.telemetry.pushes]
    return sorted(taken, key=lambda push: push.at_ms)


def matches(push: Push, metric: str, client_id: str | None, terminating: bool | None) -> bool:
    """Whether a push has a metric whose name begins so, of this client, as its last or not."""
    return (
        client_id in (None, push.client_id)
        and terminating in (None, push.terminating)
        and (not metric or any(each.name.startswith(metric) for each in push.metrics))
    )
